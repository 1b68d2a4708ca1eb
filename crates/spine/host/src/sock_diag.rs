// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's list of TCP sockets as netlink messages (`sock_diag`, what `ss` uses).

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags},
};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use std::{io, net::SocketAddr};

/// A view into one network namespace's sockets.
pub struct SockDiag {
    netlink: Socket,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens it in the calling thread's network namespace, whose sockets it shows from then on.
    ///
    /// # Errors
    /// The kernel has no `sock_diag` (`CONFIG_INET_DIAG`), or is out of descriptors.
    pub fn open() -> io::Result<Self> {
        let mut netlink = Socket::new(NETLINK_SOCK_DIAG)?;
        netlink.bind_auto()?;
        netlink.connect(&netlink_sys::SocketAddr::new(0, 0))?;
        Ok(Self { netlink, buffer: Vec::new() })
    }

    /// The TCP sockets of IPv4 or IPv6 in these states, with what `extensions` asks for.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn tcp(
        &mut self,
        v6: bool,
        states: StateFlags,
        extensions: ExtensionFlags,
    ) -> io::Result<Vec<InetResponse>> {
        let socket_id = if v6 { SocketId::new_v6() } else { SocketId::new_v4() };
        self.ask(NLM_F_DUMP, InetRequest { extensions, ..request(states, socket_id) })?;
        let mut responses = Vec::new();
        while !self.receive(&mut responses)? {}
        Ok(responses)
    }

    /// The state of the TCP socket between two addresses; also of what the kernel keeps of one that has ended.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn tcp_state_between(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<Option<u8>> {
        let found = self.tcp_between(local, peer, ExtensionFlags::empty())?;
        Ok(found.map(|found| found.header.state))
    }

    /// The same, with what `extensions` asks for.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn tcp_between(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        extensions: ExtensionFlags,
    ) -> io::Result<Option<InetResponse>> {
        let id = SocketId {
            source_port: local.port(),
            destination_port: peer.port(),
            source_address: local.ip(),
            destination_address: peer.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        };
        self.ask(0, InetRequest { extensions, ..request(StateFlags::all(), id) })?;
        let mut responses = Vec::new();
        match self.receive(&mut responses) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            // Where there is none between them, the kernel finds one that listens.
            Ok(_) => Ok(responses
                .into_iter()
                .next()
                .filter(|found| found.header.socket_id.destination_port == peer.port())),
        }
    }

    fn ask(&mut self, flags: u16, request: InetRequest) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut packet = vec![0; message.buffer_len()];
        message.serialize(&mut packet);
        self.netlink.send(&packet, 0)?;
        Ok(())
    }

    /// Adds what one datagram has. Whether that ends a list.
    fn receive(&mut self, responses: &mut Vec<InetResponse>) -> io::Result<bool> {
        receive(&self.netlink, &mut self.buffer, responses)
    }
}

/// Matches a socket with any cookie (`INET_DIAG_NOCOOKIE`).
const ANY_COOKIE: [u8; 8] = [0xff; 8];

fn request(states: StateFlags, socket_id: SocketId) -> InetRequest {
    let v6 = socket_id.source_address.is_ipv6();
    InetRequest {
        family: if v6 { AF_INET6 } else { AF_INET },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states,
        socket_id,
    }
}

/// Adds the sockets of one datagram. Whether that ends a list.
pub fn receive(
    netlink: &Socket,
    buffer: &mut Vec<u8>,
    responses: &mut Vec<InetResponse>,
) -> io::Result<bool> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"));
    buffer.clear();
    buffer.reserve(64 * 1024);
    netlink.recv(buffer, 0)?;
    let mut rest = &buffer[..];
    while !rest.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(damaged)?;
        // Messages are padded to a multiple of four bytes.
        let length = (message.header.length as usize).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or_default();
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                responses.push(*response);
            }
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
    }
    Ok(false)
}
