// SPDX-License-Identifier: GPL-2.0-or-later
//! The TCP sockets of a network namespace: who talks to whom, with which congestion control, window and
//! round trip. Those of programs that know nothing of longhaul are among them.

use crate::{Namespace, TcpInfo, sock_diag::SockDiag, tcp_info::Carried};
use netlink_packet_sock_diag::{
    constants::{TCP_CLOSE_WAIT, TCP_CLOSING, TCP_LAST_ACK},
    inet::{
        ExtensionFlags, InetResponse, StateFlags,
        nlas::{MemInfo, Nla},
    },
};
use std::{io, net::SocketAddr};

/// A TCP socket.
#[derive(Debug, Clone)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
    /// Unique among the kernel's sockets, reused by none.
    pub cookie: u64,
    /// Its number in `/proc/PID/fd`, 0 once no process has it open.
    pub inode: u32,
    /// Whether a process has it open. Otherwise the kernel alone works on its end.
    pub is_open: bool,
    /// Whether the end of what the peer sends has come.
    pub peer_ended: bool,
    /// The congestion control in force.
    pub congestion_control: String,
    /// State of the connection.
    pub info: TcpInfo,
    /// What the send buffer holds, with the kernel's overhead, in bytes.
    pub send_queue_bytes: u64,
    /// Limit of the send buffer in bytes.
    pub sndbuf_bytes: u64,
    /// Limit of the receive buffer in bytes.
    pub rcvbuf_bytes: u64,
}

/// A view into the TCP sockets of one network namespace.
pub struct TcpSockets(SockDiag);

impl TcpSockets {
    /// Opens it in the calling thread's network namespace, whose sockets it shows from then on.
    ///
    /// # Errors
    /// The kernel has no `sock_diag` (`CONFIG_INET_DIAG`), or the process is out of descriptors.
    pub fn open() -> io::Result<Self> {
        SockDiag::open().map(Self)
    }

    /// Opens it in another network namespace.
    ///
    /// # Errors
    /// As [`open`](Self::open), or the namespace can't be entered.
    pub fn open_in(namespace: &Namespace) -> io::Result<Self> {
        namespace.run(Self::open)
    }

    /// Whether a socket listens on that address.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn listens(&mut self, address: SocketAddr) -> io::Result<bool> {
        let listening =
            self.0.tcp(address.is_ipv6(), StateFlags::LISTEN, ExtensionFlags::empty())?;
        Ok(listening.iter().any(|response| {
            let id = &response.header.socket_id;
            SocketAddr::new(id.source_address, id.source_port) == address
        }))
    }

    /// The sockets of IPv4 or IPv6 that are or were connected, without those in TIME-WAIT.
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
        let extensions = ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO;
        let found = self.0.tcp(v6, states, extensions)?;
        Ok(found.into_iter().filter_map(TcpSocket::of).collect())
    }

    /// The socket between two addresses of this machine and of its peer, if there is one.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn between(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<Option<TcpSocket>> {
        let extensions = ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO;
        Ok(self.0.tcp_between(local, peer, extensions)?.and_then(TcpSocket::of))
    }

    /// The congestion control of each socket in whatever state, of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn congestion_controls(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for v6 in [false, true] {
            let found = self.0.tcp(v6, StateFlags::all(), ExtensionFlags::CONG)?;
            names.extend(
                found.into_iter().flat_map(|response| response.nlas).filter_map(|nla| {
                    if let Nla::Congestion(name) = nla { Some(name) } else { None }
                }),
            );
        }
        Ok(names)
    }
}

impl TcpSocket {
    /// What it has carried so far.
    pub fn carried(&self) -> Option<Carried> {
        self.info.carried(self.peer_ended)
    }

    /// None of a socket that was closed while the kernel listed it, and has no state any more.
    fn of(response: InetResponse) -> Option<Self> {
        let id = &response.header.socket_id;
        let (local, peer, cookie) = (
            SocketAddr::new(id.source_address, id.source_port),
            SocketAddr::new(id.destination_address, id.destination_port),
            u64::from_ne_bytes(id.cookie),
        );
        let (mut info, mut memory, mut congestion_control) = (None, None::<MemInfo>, None);
        for nla in response.nlas {
            match nla {
                Nla::TcpInfo(bytes) => info = Some(TcpInfo::of_kernel(&bytes)),
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
            inode: response.header.inode,
            is_open: response.header.inode != 0,
            peer_ended: matches!(
                response.header.state,
                TCP_CLOSE_WAIT | TCP_LAST_ACK | TCP_CLOSING
            ),
            congestion_control: congestion_control?,
            info: info?,
            send_queue_bytes: memory.send_queue.into(),
            sndbuf_bytes: memory.send_queue_max.into(),
            rcvbuf_bytes: memory.receive_queue_max.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn sockets_of_this_process_are_in_the_list() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let _server = listener.accept().unwrap();
        let mut sockets = TcpSockets::open().unwrap();
        assert!(sockets.listens(address).unwrap());
        let own = client.local_addr().unwrap();
        assert!(!sockets.listens(own).unwrap());
        let all = sockets.connections(false).unwrap();
        let found = all.iter().find(|socket| socket.local == own).expect("it is connected");
        assert_eq!(found.peer, address);
        assert!(found.info.cwnd_segments > 0 && found.sndbuf_bytes > 0 && found.rcvbuf_bytes > 0);
        let one = sockets.between(own, address).unwrap().expect("it is connected");
        assert_eq!((one.cookie, one.peer), (found.cookie, address));
        assert!(sockets.between(address, own).unwrap().is_some_and(|other| other.local == address));
        let nobody = "127.0.0.1:9".parse().unwrap();
        assert!(sockets.between(own, nobody).unwrap().is_none());
        let names = sockets.congestion_controls().unwrap();
        assert!(names.contains(&found.congestion_control), "{names:?}");
    }
}
