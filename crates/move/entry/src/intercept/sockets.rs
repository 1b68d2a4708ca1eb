// SPDX-License-Identifier: GPL-2.0-or-later
//! Sockets with rights beyond those of ordinary programs: listeners for connections to any address, and senders of whole
//! packets.

use super::ruleset::{OWN, REPLAYED};
use relay::tcp::{Stream, info::reset_on_close};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::net::TcpListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Listens on a port of loopback, where only TPROXY leads connections of others.
pub(super) fn listen(v6: bool) -> io::Result<TcpListener> {
    let (domain, address) = if v6 {
        (Domain::IPV6, SocketAddr::from((Ipv6Addr::LOCALHOST, 0)))
    } else {
        (Domain::IPV4, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    };
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if v6 {
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    // Accepted connections have it from here, and the servers' ports. Without it, a server on this host could not listen
    // on a port that an intercepted connection leads to.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    // Accepted connections have this from here as well. Otherwise one that is not passed on yet would end in good order, as
    // if it was whole, where this process is killed.
    reset_on_close(&socket, true);
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Sends whole packets of both versions of IP.
#[derive(Debug)]
pub(super) struct PacketSender {
    v4: Socket,
    v6: Option<Socket>,
}

impl PacketSender {
    /// For held SYNs, which then come to the listeners.
    pub(super) fn replaying(v6: bool) -> io::Result<Self> {
        Self::marked(REPLAYED, v6)
    }

    /// For refusals to clients.
    pub(super) fn refusing(v6: bool) -> io::Result<Self> {
        Self::marked(OWN, v6)
    }

    fn marked(mark: u32, v6: bool) -> io::Result<Self> {
        let open = |domain| {
            // Of this protocol, a packet comes with its IP header (ip(7), raw(7)).
            let protocol = Some(Protocol::from(libc::IPPROTO_RAW));
            let socket = Socket::new(domain, Type::RAW.nonblocking(), protocol)?;
            socket.set_mark(mark)?;
            Ok::<_, io::Error>(socket)
        };
        Ok(Self { v4: open(Domain::IPV4)?, v6: v6.then(|| open(Domain::IPV6)).transpose()? })
    }

    /// Sends a packet to its destination.
    pub(super) fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let unsupported = || io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
        let socket =
            if to.is_ipv4() { &self.v4 } else { self.v6.as_ref().ok_or_else(unsupported)? };
        // Raw sockets have no ports; for IPv6 the kernel insists on it.
        socket.send_to(packet, &SocketAddr::new(to.ip(), 0).into()).map(drop)
    }
}

/// An accepted connection, and the address that its client has connected to.
pub(super) async fn accept(listener: &TcpListener) -> io::Result<(Stream, SocketAddr)> {
    let (socket, client) = listener.accept().await?;
    let server = socket.local_addr()?;
    socket.set_nodelay(true)?;
    Ok((Stream::new(socket, client), server))
}
