// SPDX-License-Identifier: GPL-2.0-or-later
//! Socket options of a connection: what is set before it opens, and what is changed while it is open.
//!
//! The receive window that a connection can ever offer is fixed when it opens, by the scale in its
//! SYN. So a buffer for a connection that is dialled is set before `connect`.

use crate::tcp::info::{
    SocketPacing, choose_port_late, is_mptcp_socket, set_window_clamp, unfix_sndbuf,
};
use ipnet::IpNet;
use rustix::{io::Errno, net::sockopt};
use socket2::{SockRef, TcpKeepalive};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};
use units::Bytes;

/// When a silent peer is probed first. Middleboxes forget connections after a few minutes.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// How far apart further probes are.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// How many probes go unanswered before the connection is given up.
const PROBES: u32 = 3;

/// Socket options for connections with one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopOptions<'a> {
    /// The network of peers that these options are for: log lines name it.
    pub network: Option<IpNet>,
    /// The address of this host that connections leave by. `None`: the kernel chooses. It reaches peers of its own
    /// family alone.
    pub source: Option<IpAddr>,
    /// `SO_MARK`, by which rules of this host tell its connections apart. It needs `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
    /// The congestion control. `None`: the system's, or the one of the route.
    pub congestion: Option<&'a str>,
    /// `SO_SNDBUF`. `None`: the kernel tunes it.
    pub sndbuf: Option<Bytes>,
    /// `SO_RCVBUF`. `None`: the kernel tunes it.
    pub rcvbuf: Option<Bytes>,
    /// `TCP_NOTSENT_LOWAT`. `None`: the system's.
    pub notsent_lowat: Option<Bytes>,
    /// Whether to connect by Multipath TCP.
    pub mptcp: bool,
    /// How TCP spaces what it sends, if no rate is set for the transfer.
    pub spacing: SocketPacing,
    /// Whether buffers that are not set here may be raised beyond the kernel's own tuning.
    pub raise_buffers: bool,
    /// Whether TCP probes a peer from which nothing has come for a minute (`SO_KEEPALIVE`): so middleboxes
    /// remember the connection, and a peer that is gone is noticed.
    pub keepalive: bool,
    /// `TCP_USER_TIMEOUT`: how long sent bytes may stay unacknowledged.
    pub user_timeout: Duration,
}

impl HopOptions<'_> {
    /// Whether connections to an address can leave by the source address.
    pub fn reaches(&self, peer: IpAddr) -> bool {
        self.source.is_none_or(|source| source.is_ipv4() == peer.to_canonical().is_ipv4())
    }

    /// Sets the options on a socket that is not connected yet, except for the source address: [`bind_source`] sets that.
    ///
    /// # Errors
    /// The kernel refuses one of them.
    pub fn before_connect(&self, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd();
        self.set_all_but_congestion(socket)?;
        self.congestion.map_or(Ok(()), |name| Ok(sockopt::set_tcp_congestion(socket, name)?))
    }

    /// Sets the options on a connection that was accepted, except for its congestion control:
    /// [`Overruled::settle`](crate::tcp::congestion::Overruled::settle) sets that.
    ///
    /// # Errors
    /// The kernel refuses one of them.
    pub fn after_accept(&self, socket: impl AsFd) -> io::Result<()> {
        self.set_all_but_congestion(socket.as_fd())
    }

    fn set_all_but_congestion(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(mark) = self.mark {
            SockRef::from(&socket).set_mark(mark)?;
        }
        if self.keepalive {
            keep_alive(socket)?;
        }
        // A relay has nothing to gain from waiting for more bytes before it sends some.
        sockopt::set_tcp_nodelay(socket, true)?;
        match sockopt::set_tcp_user_timeout(socket, millis(self.user_timeout)) {
            // Multipath TCP has none; then only the relay's own timers notice a peer that is gone.
            Err(Errno::NOPROTOOPT) if is_mptcp_socket(socket) => {}
            result => result?,
        }
        // The forced variants go beyond net.core.[rw]mem_max and need CAP_NET_ADMIN; without it the
        // kernel cuts the size to that limit, which shows in what is read back.
        if let Some(size) = self.sndbuf.map(bytes) {
            sockopt::set_socket_send_buffer_size_force(socket, size)
                .or_else(|_| sockopt::set_socket_send_buffer_size(socket, size))?;
        }
        if let Some(size) = self.rcvbuf.map(bytes) {
            sockopt::set_socket_recv_buffer_size_force(socket, size)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, size))?;
        }
        self.notsent_lowat.map_or(Ok(()), |unsent| keep_unsent(socket, unsent))
    }
}

impl Default for HopOptions<'_> {
    /// The system's own options, and a minute for the peer to acknowledge what was sent.
    fn default() -> Self {
        Self {
            network: None,
            source: None,
            mark: None,
            congestion: None,
            sndbuf: None,
            rcvbuf: None,
            notsent_lowat: None,
            mptcp: false,
            spacing: SocketPacing::Free,
            raise_buffers: true,
            keepalive: false,
            user_timeout: Duration::from_secs(60),
        }
    }
}

/// Has a socket that is not connected yet leave by an address of this host. The port is chosen when it connects.
///
/// # Errors
/// The address is not this host's (`EADDRNOTAVAIL`).
pub fn bind_source(socket: impl AsFd, source: IpAddr) -> io::Result<()> {
    match choose_port_late(&socket) {
        // Not every kernel has it for Multipath TCP. There a port is taken at once, so fewer connections are possible.
        Err(_) if is_mptcp_socket(&socket) => {}
        result => result?,
    }
    SockRef::from(&socket).bind(&SocketAddr::new(source, 0).into())
}

/// Has TCP probe a peer from which nothing has come for a minute, and give it up after three probes.
///
/// # Errors
/// The kernel refuses.
pub fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    let probes =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    SockRef::from(&socket).set_tcp_keepalive(&probes)
}

/// Sets how much of what is to be sent waits in the kernel.
///
/// # Errors
/// The kernel refuses.
pub fn keep_unsent(socket: impl AsFd, unsent: Bytes) -> io::Result<()> {
    let unsent = u32::try_from(unsent.get()).unwrap_or(u32::MAX);
    SockRef::from(&socket).set_tcp_notsent_lowat(unsent)
}

/// Raises a send buffer to `size` by the kernel's count, or as far as the kernel lets it; with what
/// it has become. From then on the kernel does not tune it.
///
/// # Errors
/// The kernel refuses.
pub fn raise_sndbuf(socket: impl AsFd, size: Bytes) -> io::Result<Bytes> {
    let socket = socket.as_fd();
    let now = sockopt::socket_send_buffer_size(socket)?;
    // The kernel doubles what it is asked for.
    let asked = bytes(size) / 2;
    if sockopt::set_socket_send_buffer_size_force(socket, asked).is_err() {
        let asked = asked.min(most_of("wmem_max")?);
        beyond(now, asked)?;
        sockopt::set_socket_send_buffer_size(socket, asked)?;
    }
    Ok(Bytes::new(sockopt::socket_send_buffer_size(socket)? as u64))
}

/// The same of a receive buffer, and of the window with it.
///
/// # Errors
/// The kernel refuses.
pub fn raise_rcvbuf(socket: impl AsFd, size: Bytes) -> io::Result<Bytes> {
    let socket = socket.as_fd();
    let now = sockopt::socket_recv_buffer_size(socket)?;
    let asked = bytes(size) / 2;
    if sockopt::set_socket_recv_buffer_size_force(socket, asked).is_err() {
        let asked = asked.min(most_of("rmem_max")?);
        beyond(now, asked)?;
        sockopt::set_socket_recv_buffer_size(socket, asked)?;
    }
    let now = sockopt::socket_recv_buffer_size(socket)?;
    // The kernel holds the window to what the buffer has room for; this must not be in its way.
    set_window_clamp(socket, now)?;
    Ok(Bytes::new(now as u64))
}

/// Gives a send buffer that was raised back to the kernel's tuning, which goes on from `size`.
///
/// # Errors
/// The kernel refuses.
pub fn tuned_sndbuf(socket: impl AsFd, size: Bytes) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_send_buffer_size(socket, bytes(size) / 2)?;
    unfix_sndbuf(socket)
}

/// The largest buffer that everybody may ask for.
///
/// # Errors
/// The kernel refuses.
pub fn most_of(name: &str) -> io::Result<usize> {
    let text = host::sysctl::read(&format!("net.core.{name}"))?;
    text.parse().map_err(io::Error::other)
}

/// Whether asking for `asked` bytes gives more than `now`, rather than a smaller size for good.
fn beyond(now: usize, asked: usize) -> io::Result<()> {
    if 2 * asked > now { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn bytes(size: Bytes) -> usize {
    usize::try_from(size.get()).unwrap_or(usize::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Socket, Type};

    fn bound(domain: Domain, protocol: Option<Protocol>, source: &str) -> io::Result<SocketAddr> {
        let socket = Socket::new(domain, Type::STREAM, protocol)?;
        bind_source(&socket, source.parse().unwrap())?;
        Ok(socket.local_addr()?.as_socket().unwrap())
    }

    #[test]
    fn source_takes_no_port_before_the_connection() {
        for (domain, source) in [(Domain::IPV4, "127.0.0.5"), (Domain::IPV6, "::1")] {
            let address = bound(domain, None, source).unwrap();
            assert_eq!((address.ip().to_string().as_str(), address.port()), (source, 0));
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_sources() {
        let error = bound(Domain::IPV4, None, "192.0.2.77").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn source_reaches_its_own_family_alone() {
        let options = |source: &str| HopOptions {
            source: Some(source.parse().unwrap()),
            ..HopOptions::default()
        };
        let reaches = |source, peer: &str| options(source).reaches(peer.parse().unwrap());
        assert!(reaches("192.0.2.1", "198.51.100.1") && reaches("2001:db8::1", "2001:db8::2"));
        assert!(reaches("192.0.2.1", "::ffff:198.51.100.1"));
        assert!(!reaches("192.0.2.1", "2001:db8::2") && !reaches("2001:db8::1", "198.51.100.1"));
        assert!(HopOptions::default().reaches("2001:db8::2".parse().unwrap()));
    }
}
