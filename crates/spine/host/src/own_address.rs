// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether an address is this host's own.

use rustix::io::Errno;
use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

/// Whether an address belongs to this host: then the kernel would also send *from* it. The
/// question costs a route look-up and sends nothing; a list of addresses would go stale. Loopback addresses need not be
/// found.
///
/// # Errors
/// It takes a socket, and there is none.
pub fn is_own_address(ip: IpAddr) -> io::Result<bool> {
    let any = match ip {
        IpAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        IpAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    let socket = match UdpSocket::bind(any) {
        Ok(socket) => socket,
        Err(error) => match Errno::from_io_error(&error) {
            // A host without this family has no address of it.
            Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => return Ok(false),
            _ => return Err(error),
        },
    };
    let from = socket.connect((ip, 9)).and_then(|()| socket.local_addr());
    // Without a route there it is not here.
    Ok(from.is_ok_and(|from| from.ip() == ip))
}
