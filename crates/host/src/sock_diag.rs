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
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::io;

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
        netlink.connect(&SocketAddr::new(0, 0))?;
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
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let request = InetRequest {
            family: if v6 { AF_INET6 } else { AF_INET },
            protocol: IPPROTO_TCP,
            extensions,
            states,
            socket_id: if v6 { SocketId::new_v6() } else { SocketId::new_v4() },
        };
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut packet = vec![0; message.buffer_len()];
        message.serialize(&mut packet);
        self.netlink.send(&packet, 0)?;
        self.collect()
    }

    fn collect(&mut self) -> io::Result<Vec<InetResponse>> {
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"));
        let mut responses = Vec::new();
        loop {
            self.buffer.clear();
            self.buffer.reserve(64 * 1024);
            self.netlink.recv(&mut self.buffer, 0)?;
            let mut rest = &self.buffer[..];
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(damaged)?;
                // Messages are padded to a multiple of four bytes.
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                        responses.push(*response);
                    }
                    NetlinkPayload::Done(_) => return Ok(responses),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }
}
