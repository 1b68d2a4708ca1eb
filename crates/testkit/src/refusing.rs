// SPDX-License-Identifier: GPL-2.0-or-later
//! An address that refuses connections.

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// An address that refuses connections. It stays bound until the process ends, without a listener: a port that is only free may be
/// another test's a moment later.
pub fn refusing_address() -> SocketAddr {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    std::mem::forget(socket);
    address
}
