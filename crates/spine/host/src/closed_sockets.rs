// SPDX-License-Identifier: GPL-2.0-or-later
//! What TCP connections have carried, told by the kernel when it lets go of their sockets (`sock_diag`'s multicast of
//! destroyed sockets, which needs no rights). So a connection of any process can be accounted for without touching it.
//!
//! The notice has the connection's counters but not whether the peer's end, which counts as a byte, is among them. That follows
//! from what the kernel keeps: TIME-WAIT if both ends came, FIN-WAIT-2 if the peer's did not, nothing if the peer ended first.
//! Limits: where the peer's end comes within the moment that it takes to look, or behind a reset in one direction only, a byte
//! too few or too many is counted as received. A process that resets its own connection (`SO_LINGER` 0) clears the counters.

use crate::{
    sock_diag::{self, SockDiag},
    tcp_info::{Carried, TcpInfo},
};
use netlink_packet_sock_diag::{
    constants::TCP_TIME_WAIT,
    inet::{InetResponse, nlas::Nla},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY` of `linux/sock_diag.h`.
const GROUPS: [u32; 2] = [1, 3];
/// For notices that wait to be read: of some thousand sockets, where the system allows it.
const BUFFER: libc::c_int = 4 << 20;

/// A number that no other socket of this machine has, and that tells the kernel's notices apart.
///
/// # Errors
/// It is not a socket.
pub fn socket_cookie(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(socket)?)
}

/// A socket that the kernel has let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedSocket {
    /// What [`socket_cookie`] said of it.
    pub cookie: u64,
    /// `None` if the kernel does not know, since its own process has reset it, or it never was connected.
    pub carried: Option<Carried>,
}

/// Notices of all TCP sockets in the network namespace in which this was opened.
pub struct ClosedSockets {
    notices: Socket,
    /// For the state that the kernel keeps of a connection.
    kept: SockDiag,
    buffer: Vec<u8>,
}

impl AsFd for ClosedSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

impl AsRawFd for ClosedSockets {
    fn as_raw_fd(&self) -> RawFd {
        self.notices.as_raw_fd()
    }
}

impl ClosedSockets {
    /// Begins to listen. [`read`](Self::read) does not wait.
    ///
    /// # Errors
    /// The kernel has no `sock_diag` (`CONFIG_INET_DIAG`), or a sandbox forbids netlink.
    pub fn open() -> io::Result<Self> {
        let kept = SockDiag::open()?;
        let mut notices = Socket::new(NETLINK_SOCK_DIAG)?;
        notices.bind(&SocketAddr::new(0, 0))?;
        notices.set_rx_buf_sz(BUFFER)?;
        notices.set_non_blocking(true)?;
        for group in GROUPS {
            notices.add_membership(group)?;
        }
        Ok(Self { notices, kept, buffer: Vec::new() })
    }

    /// One of the notices that wait, if it is of a wanted socket.
    ///
    /// # Errors
    /// `WouldBlock`: none waits. `ENOBUFS`: notices were lost, since too many came at once.
    pub fn read(&mut self, wanted: impl Fn(u64) -> bool) -> io::Result<Option<ClosedSocket>> {
        let mut notices = Vec::new();
        sock_diag::receive(&self.notices, &mut self.buffer, &mut notices)?;
        let wanted = |notice: &InetResponse| wanted(cookie(notice));
        Ok(notices.into_iter().find(wanted).map(|notice| self.account(&notice)))
    }

    fn account(&mut self, notice: &InetResponse) -> ClosedSocket {
        let bytes = notice.nlas.iter().find_map(|nla| match nla {
            Nla::TcpInfo(bytes) => Some(bytes),
            _ => None,
        });
        let carried = bytes.and_then(|bytes| {
            let info = TcpInfo::of_kernel(bytes);
            info.carried(self.peer_ended(notice, &info))
        });
        ClosedSocket { cookie: cookie(notice), carried }
    }

    fn peer_ended(&mut self, notice: &InetResponse, info: &TcpInfo) -> bool {
        let id = &notice.header.socket_id;
        let local = (id.source_address, id.source_port).into();
        let peer = (id.destination_address, id.destination_port).into();
        match self.kept.tcp_state_between(local, peer) {
            Ok(Some(state)) => state == TCP_TIME_WAIT,
            // Ended in good order on both sides, and not by this one first.
            _ => info.own_end_acked(),
        }
    }
}

fn cookie(notice: &InetResponse) -> u64 {
    u64::from_ne_bytes(notice.header.socket_id.cookie)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    struct Pair {
        notices: ClosedSockets,
        cookie: u64,
        here: TcpStream,
        there: TcpStream,
    }

    impl Pair {
        /// 1000 bytes have gone to the peer, and 5 have come back.
        fn exchanged(address: &str) -> Self {
            let notices = ClosedSockets::open().unwrap();
            let listener = TcpListener::bind(address).unwrap();
            let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut there, _) = listener.accept().unwrap();
            here.write_all(&[1; 1000]).unwrap();
            there.read_exact(&mut [0; 1000]).unwrap();
            there.write_all(&[2; 5]).unwrap();
            here.read_exact(&mut [0; 5]).unwrap();
            Self { notices, cookie: socket_cookie(&here).unwrap(), here, there }
        }
    }

    fn awaited(mut notices: ClosedSockets, cookie: u64) -> Option<Carried> {
        let begun = Instant::now();
        loop {
            match notices.read(|read| read == cookie) {
                Ok(Some(closed)) => return closed.carried,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no notice");
        }
    }

    const ALL: Option<Carried> = Some(Carried { sent: Bytes::new(1000), received: Bytes::new(5) });
    use units::Bytes;

    #[test]
    fn peer_that_ends_first_is_accounted_exactly() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Pair { notices, cookie, mut here, there } = Pair::exchanged(address);
            drop(there);
            assert_eq!(here.read(&mut [0]).unwrap(), 0);
            drop(here);
            assert_eq!(awaited(notices, cookie), ALL, "{address}");
        }
    }

    #[test]
    fn own_end_first_is_accounted_exactly() {
        // The peer has not ended yet.
        let Pair { notices, cookie, here, there } = Pair::exchanged("127.0.0.1:0");
        drop(here);
        assert_eq!(awaited(notices, cookie), ALL);
        drop(there);
        // The peer's end is read.
        let Pair { notices, cookie, mut here, there } = Pair::exchanged("127.0.0.1:0");
        here.shutdown(Shutdown::Write).unwrap();
        drop(there);
        assert_eq!(here.read(&mut [0]).unwrap(), 0);
        drop(here);
        assert_eq!(awaited(notices, cookie), ALL);
    }

    #[test]
    fn own_reset_leaves_nothing_to_account_for() {
        let Pair { notices, cookie, here, there } = Pair::exchanged("127.0.0.1:0");
        rustix::net::sockopt::set_socket_linger(&here, Some(Duration::ZERO)).unwrap();
        drop(here);
        assert_eq!(awaited(notices, cookie), None);
        drop(there);
    }

    #[test]
    fn reset_by_the_peer_keeps_the_counts() {
        let Pair { notices, cookie, mut here, there } = Pair::exchanged("127.0.0.1:0");
        rustix::net::sockopt::set_socket_linger(&there, Some(Duration::ZERO)).unwrap();
        drop(there);
        assert!(here.read(&mut [0]).is_err());
        drop(here);
        assert_eq!(awaited(notices, cookie), ALL);
    }
}
