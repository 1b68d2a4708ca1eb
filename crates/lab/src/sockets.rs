// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's view of the TCP sockets of a node (`sock_diag`, what `ss` uses): who talks to whom,
//! with which congestion control, window and round trip. It shows the sockets of programs that
//! know nothing of the lab, which is what proves that they ran as the scenario says.

use host::Namespace;
use kernel::SockDiag;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetResponse, StateFlags,
    nlas::{MemInfo, Nla, TcpInfo},
};
use std::{io, net::SocketAddr};

/// A TCP socket of a node.
#[derive(Debug, Clone)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
    /// Unique among the kernel's sockets, reused by none.
    pub cookie: [u8; 8],
    /// The congestion control in force.
    pub congestion_control: String,
    /// State of the connection; boxed for its size.
    pub info: Box<TcpInfo>,
    /// Limit of the send buffer in bytes.
    pub sndbuf_bytes: u64,
    /// Limit of the receive buffer in bytes.
    pub rcvbuf_bytes: u64,
}

/// A view into one node's sockets.
pub struct SocketView(SockDiag);

impl SocketView {
    /// Opens it inside a node's network namespace.
    ///
    /// # Errors
    /// The kernel has no `sock_diag` (`CONFIG_INET_DIAG`), or is out of descriptors.
    pub fn open(namespace: &Namespace) -> io::Result<Self> {
        namespace.run(SockDiag::open).map(Self)
    }

    /// Whether something listens on that address.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn listens(&mut self, address: SocketAddr) -> io::Result<bool> {
        Ok(self.dump(address.is_ipv6(), StateFlags::LISTEN)?.iter().any(|response| {
            let id = &response.header.socket_id;
            SocketAddr::new(id.source_address, id.source_port) == address
        }))
    }

    /// The sockets that are or were connected, without those in TIME-WAIT.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn connections(&mut self, v6: bool) -> io::Result<Vec<TcpSocket>> {
        let states = StateFlags::ESTABLISHED
            | StateFlags::FIN_WAIT1
            | StateFlags::FIN_WAIT2
            | StateFlags::CLOSE_WAIT
            | StateFlags::LAST_ACK
            | StateFlags::CLOSING;
        Ok(self.dump(v6, states)?.into_iter().filter_map(TcpSocket::of).collect())
    }

    fn dump(&mut self, v6: bool, states: StateFlags) -> io::Result<Vec<InetResponse>> {
        let extensions = ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO;
        self.0.tcp(v6, states, extensions)
    }
}

impl TcpSocket {
    /// None of a socket that was closed while the kernel listed it, and has no state any more.
    fn of(response: InetResponse) -> Option<Self> {
        let id = &response.header.socket_id;
        let (local, peer, cookie) = (
            SocketAddr::new(id.source_address, id.source_port),
            SocketAddr::new(id.destination_address, id.destination_port),
            id.cookie,
        );
        let (mut info, mut memory, mut congestion_control) = (None, None::<MemInfo>, None);
        for nla in response.nlas {
            match nla {
                Nla::TcpInfo(found) => info = Some(Box::new(found)),
                Nla::MemInfo(found) => memory = Some(found),
                Nla::Congestion(found) => congestion_control = Some(found),
                _ => {}
            }
        }
        let memory = memory?;
        Some(Self {
            local,
            peer,
            cookie,
            congestion_control: congestion_control?,
            info: info?,
            sndbuf_bytes: memory.send_queue_max.into(),
            rcvbuf_bytes: memory.receive_queue_max.into(),
        })
    }
}
