// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion control and buffers of a socket: set as configured for its peer, then read back.
//!
//! The receive window a connection can ever offer is fixed when it opens, by the scale in its
//! SYN, so a buffer for an opened connection is set before `connect`. Accepted connections only
//! receive requests here; theirs is set when they come.
//!
//! The congestion control of accepted connections is that of their listener, as far as one will do.
//! A connection that began with one that paces (BBR, often the system's) is paced by the kernel's
//! timers to its end, whatever is set on it later, and that costs it speed where paths are short.
//!
//! A route's `congctl` comes before what a socket was told, so that is told again once the connection
//! is open; with `lock` the route has the last word ([`congestion`]).

use crate::{
    config::{Config, Hop},
    kernel::{self, Spacing},
    observe::status::Side,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::{io::Errno, net::sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
    sync::Weak,
};
use tokio::net::TcpListener;
use units::{Bytes, Duration, Rate};

mod congestion;
pub(crate) use congestion::Overruled;

/// Why a hop's settings cannot be had on this host.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The kernel lacks the congestion control.
    #[error(
        "[[hop]] peer = \"{peer}\": this kernel has no congestion control \"{name}\"; it has: \
         {available} (longhaul's own come with `longhaul cc load`, others may come as modules, as \
         in `modprobe tcp_bic`)"
    )]
    Unknown {
        /// The hop.
        peer: String,
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The congestion control is there, but not for this user.
    #[error(
        "[[hop]] peer = \"{peer}\": congestion control \"{name}\" needs CAP_NET_ADMIN, or to be \
         listed in net.ipv4.tcp_allowed_congestion_control"
    )]
    Forbidden {
        /// The hop.
        peer: String,
        /// What was asked for.
        name: String,
    },
    /// There is no Multipath TCP.
    #[error(
        "[[hop]] peer = \"{peer}\": this kernel has no Multipath TCP, or it is switched off \
         (sysctl net.mptcp.enabled): {error}"
    )]
    Paths {
        /// The hop.
        peer: String,
        /// What the system said.
        error: io::Error,
    },
    /// Something else.
    #[error("cannot try the socket settings of [[hop]] peer = \"{peer}\": {error}")]
    Io {
        /// The hop.
        peer: String,
        /// What the system said.
        error: io::Error,
    },
}

/// Tries each hop's congestion control on a socket, so that a depot which cannot do as it is
/// told does not start.
pub(crate) fn check(hops: &[Hop]) -> Result<(), TuneError> {
    for hop in hops {
        let peer = hop.peer.to_string();
        if hop.mptcp {
            let protocol = Some(socket2::Protocol::MPTCP);
            Socket::new(Domain::IPV4, Type::STREAM, protocol)
                .map_err(|error| TuneError::Paths { peer: peer.clone(), error })?;
        }
        let Some(name) = &hop.congestion else { continue };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)
            .map_err(|error| TuneError::Io { peer: peer.clone(), error })?;
        match sockopt::set_tcp_congestion(&socket, name) {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                let available =
                    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                        .unwrap_or_default();
                let (name, available) = (name.clone(), available.trim().to_owned());
                return Err(TuneError::Unknown { peer, name, available });
            }
            Err(Errno::PERM) => return Err(TuneError::Forbidden { peer, name: name.clone() }),
            Err(error) => return Err(TuneError::Io { peer, error: error.into() }),
        }
    }
    Ok(())
}

/// Gives listeners for clients the congestion control that most of what they accept is to have, or
/// the system's again.
pub(crate) fn listeners(listeners: &[Weak<TcpListener>], config: &Config) {
    for listener in listeners.iter().filter_map(Weak::upgrade) {
        if let Err(error) = listening(&*listener, config) {
            tracing::warn!(%error, "cannot set the congestion control of a listener");
        }
    }
}

fn listening(listener: impl AsFd, config: &Config) -> io::Result<()> {
    let socket = SockRef::from(&listener);
    let is_v6 = socket.domain()? == Domain::IPV6;
    // Handed over by others, one may take both.
    let takes_both = is_v6 && !socket.only_v6().unwrap_or(false);
    let takes = |net: &IpNet| takes_both || is_v6 == matches!(net, IpNet::V6(_));
    let wanted = match common_congestion(config, takes) {
        Some(name) => name.to_owned(),
        None => sockopt::tcp_congestion(Socket::new(Domain::IPV4, Type::STREAM, None)?)?,
    };
    // What was set once no longer follows the system's, so nothing is set without need.
    if sockopt::tcp_congestion(&listener)? != wanted {
        sockopt::set_tcp_congestion(&listener, &wanted)?;
    }
    Ok(())
}

/// The congestion control of the widest network that clients may come from (`takes`), where each
/// client's hop names one: those that are to have another are then set as they come. None where some
/// are to have the system's.
fn common_congestion(config: &Config, takes: impl Fn(&IpNet) -> bool) -> Option<&str> {
    let everybody = [Ipv4Net::default().into(), Ipv6Net::default().into()];
    // With a ticket, anybody may be a client.
    let nets = if config.trust.keys.is_some() { &everybody[..] } else { &config.allow.clients };
    let nets: Vec<&IpNet> = nets.iter().filter(|net| takes(net)).collect();
    let named = |net: &IpNet| config.hop_around(net)?.congestion.as_deref();
    let unnamed_within = |net: &IpNet| {
        config.hops.iter().any(|hop| hop.congestion.is_none() && net.contains(&hop.peer))
    };
    if nets.iter().any(|net| named(net).is_none() || unnamed_within(net)) {
        return None;
    }
    nets.into_iter().min_by_key(|net| net.prefix_len()).and_then(named)
}

/// Applies the settings for `client`, on the side where bodies are sent.
pub(crate) fn accepted(
    socket: impl AsFd,
    client: IpAddr,
    config: &Config,
    overruled: &Overruled,
) -> io::Result<()> {
    let socket = socket.as_fd();
    // Linux counts a closed window as unacknowledged bytes, so that this would also end a slow
    // reader. `relay` tells these apart, and the kernel only stands by in case it cannot.
    apply(socket, client, config, config.timeouts.client_idle.saturating_mul(2))?;
    // Where the socket has it from its listener, the kernel leaves everything as it is.
    settle_congestion(socket, (client, Side::Client), config, overruled)?;
    // Room shows, and the next hop is read from, whenever half of this has been sent, not only
    // when a third of a large send buffer is free. A depot before this one would see a closed
    // window for as long as that takes, and take its own client, which is this depot, for stalled.
    if config.hop(client).and_then(|hop| hop.notsent_lowat).is_none() {
        keep_unsent(socket, config.limits.pipe)?;
    }
    Ok(())
}

/// Applies the settings for `upstream`, to a socket that is not yet connected.
pub(crate) fn connecting(socket: impl AsFd, upstream: IpAddr, config: &Config) -> io::Result<()> {
    let socket = socket.as_fd();
    apply(socket, upstream, config, config.timeouts.tcp_user)?;
    let congestion = config.hop(upstream).and_then(|hop| hop.congestion.as_deref());
    congestion.map_or(Ok(()), |name| Ok(sockopt::set_tcp_congestion(socket, name)?))
}

/// Gives a connection that is open the congestion control that its hop is to have.
pub(crate) fn settle_congestion(
    socket: impl AsFd,
    (peer, side): (IpAddr, Side),
    config: &Config,
    overruled: &Overruled,
) -> io::Result<()> {
    let Some(hop) = config.hop(peer) else { return Ok(()) };
    hop.congestion
        .as_deref()
        .map_or(Ok(()), |name| overruled.settle(socket.as_fd(), (hop.peer, side), name))
}

fn apply(
    socket: BorrowedFd<'_>,
    peer: IpAddr,
    config: &Config,
    user_timeout: Duration,
) -> io::Result<()> {
    // A relay has nothing to gain from waiting for more bytes before it sends some.
    sockopt::set_tcp_nodelay(socket, true)?;
    match sockopt::set_tcp_user_timeout(socket, millis(user_timeout)) {
        // Multipath TCP has none; then only the depot's own timers notice a peer that is gone.
        Err(Errno::NOPROTOOPT) if kernel::is_mptcp_socket(socket) => {}
        result => result?,
    }
    let Some(hop) = config.hop(peer) else { return Ok(()) };
    // The forced variants go beyond net.core.[rw]mem_max and need CAP_NET_ADMIN; without it the
    // kernel cuts the size to that limit, which shows in what is read back.
    if let Some(size) = hop.sndbuf.map(bytes) {
        sockopt::set_socket_send_buffer_size_force(socket, size)
            .or_else(|_| sockopt::set_socket_send_buffer_size(socket, size))?;
    }
    if let Some(size) = hop.rcvbuf.map(bytes) {
        sockopt::set_socket_recv_buffer_size_force(socket, size)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, size))?;
    }
    hop.notsent_lowat.map_or(Ok(()), |unsent| keep_unsent(socket, unsent))
}

/// Sets how much of what is to be sent waits in the kernel.
pub(crate) fn keep_unsent(socket: impl AsFd, unsent: Bytes) -> io::Result<()> {
    let unsent = u32::try_from(unsent.get()).unwrap_or(u32::MAX);
    SockRef::from(&socket).set_tcp_notsent_lowat(unsent)
}

/// Raises a send buffer to `size` by the kernel's count, or as far as the kernel lets it; with what
/// it has become. From then on the kernel does not tune it.
pub(crate) fn raise_sndbuf(socket: impl AsFd, size: Bytes) -> io::Result<Bytes> {
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
pub(crate) fn raise_rcvbuf(socket: impl AsFd, size: Bytes) -> io::Result<Bytes> {
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
    kernel::set_window_clamp(socket, now)?;
    Ok(Bytes::new(now as u64))
}

/// Gives a send buffer that was raised back to the kernel's tuning, which goes on from `size`.
pub(crate) fn tuned_sndbuf(socket: impl AsFd, size: Bytes) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_send_buffer_size(socket, bytes(size) / 2)?;
    kernel::unfix_sndbuf(socket)
}

/// The largest buffer that everybody may ask for.
pub(crate) fn most_of(name: &str) -> io::Result<usize> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))?;
    text.trim().parse().map_err(io::Error::other)
}

/// Whether asking for so much gives more than there is `now`, rather than less and for good.
fn beyond(now: usize, asked: usize) -> io::Result<()> {
    if 2 * asked > now { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn bytes(size: Bytes) -> usize {
    usize::try_from(size.get()).unwrap_or(usize::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(std::time::Duration::from(time).as_millis()).unwrap_or(u32::MAX)
}

/// What stays as it is until somebody sets it anew.
#[derive(Debug, Clone)]
pub(crate) struct Settled {
    congestion: String,
    notsent_lowat: Option<Bytes>,
    mptcp: bool,
}

impl Settled {
    /// Reads it back, of a connection that stands.
    pub(crate) fn read(socket: impl AsFd) -> Self {
        let socket = socket.as_fd();
        Self {
            congestion: sockopt::tcp_congestion(socket).unwrap_or_default(),
            notsent_lowat: kernel::notsent_lowat(socket)
                .ok()
                .filter(|bytes| *bytes != u32::MAX)
                .map(|bytes| Bytes::new(bytes.into())),
            mptcp: kernel::is_mptcp(socket),
        }
    }
}

/// What is in force on a socket, as the kernel says it. Buffers are the kernel's figures: twice
/// what was asked for, because it counts its own overhead.
#[derive(Debug, Clone, Default)]
pub(crate) struct InForce {
    pub congestion: String,
    pub sndbuf_bytes: usize,
    pub rcvbuf_bytes: usize,
    pub rtt_us: u32,
    pub min_rtt_us: Option<u32>,
    pub retransmits: u32,
    pub cwnd: Bytes,
    pub delivery_rate: Option<Rate>,
    pub spacing: Spacing,
    pub notsent_lowat: Option<Bytes>,
    pub mptcp: bool,
}

impl InForce {
    /// Reads back what is not `settled`; what the kernel does not tell stays empty.
    pub(crate) fn read(socket: impl AsFd, settled: &Settled) -> Self {
        let socket = socket.as_fd();
        let info = kernel::tcp_info(socket).unwrap_or_default();
        let buffers = kernel::buffers(socket).unwrap_or_default();
        let Settled { congestion, notsent_lowat, mptcp } = settled.clone();
        Self {
            congestion,
            sndbuf_bytes: buffers.sndbuf,
            rcvbuf_bytes: buffers.rcvbuf,
            rtt_us: info.rtt_us,
            min_rtt_us: info.min_rtt_us,
            retransmits: info.retransmits,
            cwnd: info.cwnd,
            delivery_rate: info.delivery_rate,
            spacing: info.spacing,
            notsent_lowat,
            mptcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn config(text: &str) -> Config {
        Config::from_toml(text, "test").unwrap()
    }

    #[test]
    fn an_unknown_congestion_control_stops_the_start_and_names_the_others() {
        let config = config("[[hop]]\npeer = \"10.0.0.0/8\"\ncongestion = \"warp\"");
        let error = check(&config.hops).unwrap_err().to_string();
        assert!(error.contains("\"warp\"") && error.contains("10.0.0.0/8"), "{error}");
        assert!(error.contains("reno"), "{error}");
    }

    #[test]
    fn a_listener_has_what_its_clients_have_in_common() {
        let hop = |peer: &str, name: &str| match name {
            "" => format!("[[hop]]\npeer = \"{peer}\"\n"),
            name => format!("[[hop]]\npeer = \"{peer}\"\ncongestion = \"{name}\"\n"),
        };
        let (ten, host) = (|name| hop("10.0.0.0/8", name), |name| hop("10.1.1.1/32", name));
        let all = hop("0.0.0.0/0", "reno") + &hop("::/0", "cubic");
        let net = "allow.clients = [\"10.0.0.0/8\"]\n";
        let nets = "allow.clients = [\"10.1.1.1/32\", \"10.0.0.0/8\", \"2001:db8::/32\"]\n";
        let keys = "trust.keys = \"/keys\"\n";
        for (text, v4, v6) in [
            (net.to_owned(), None, None),
            (net.to_owned() + &ten("reno"), Some("reno"), None),
            (net.to_owned() + &all, Some("reno"), None),
            // A hop of nobody who may be a client.
            (net.to_owned() + &ten("reno") + &hop("192.0.2.1/32", "bbr"), Some("reno"), None),
            (net.to_owned() + &hop("192.0.2.1/32", "bbr"), None, None),
            // One of them has another, or is to have the system's.
            (net.to_owned() + &ten("reno") + &host("bbr"), Some("reno"), None),
            (net.to_owned() + &ten("reno") + &host(""), None, None),
            (net.to_owned() + &host("bbr"), None, None),
            (nets.to_owned() + &ten("reno") + &host("bbr"), Some("reno"), None),
            (nets.to_owned() + &all, Some("reno"), Some("cubic")),
            // Whoever has a ticket may come.
            (net.to_owned() + keys + &ten("reno"), None, None),
            (net.to_owned() + keys + &all, Some("reno"), Some("cubic")),
            (all, None, None),
        ] {
            let config = config(&text);
            let v4_has = common_congestion(&config, |net| matches!(net, IpNet::V4(_)));
            let v6_has = common_congestion(&config, |net| matches!(net, IpNet::V6(_)));
            assert_eq!((v4_has, v6_has), (v4, v6), "{text}");
        }
    }

    #[test]
    fn what_a_listener_accepts_has_its_congestion_control_from_the_start() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let system = sockopt::tcp_congestion(&listener).unwrap();
        let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let all = all.unwrap();
        let other = all.split_whitespace().find(|name| *name != system).expect("another one");
        let hop = format!("[[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"{other}\"");
        for (hop, wanted) in [("", system.as_str()), (&hop, other), ("", &system)] {
            let config = config(&format!("allow.clients = [\"127.0.0.0/8\"]\n{hop}"));
            listening(&listener, &config).unwrap();
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            assert_eq!(sockopt::tcp_congestion(&accepted).unwrap(), wanted);
        }
    }

    #[test]
    fn settings_are_applied_by_peer_and_read_back() {
        let text = "[[hop]]\npeer = \"10.0.0.0/8\"\ncongestion = \"reno\"\nsndbuf = \"64KB\"\nrcvbuf = \"32KB\"";
        let config = config(text);
        check(&config.hops).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let read = || InForce::read(&socket, &Settled::read(&socket));
        let before = read();
        accepted(&socket, "192.0.2.1".parse().unwrap(), &config, &Overruled::default()).unwrap();
        let other = read();
        assert_eq!(other.sndbuf_bytes, before.sndbuf_bytes);
        connecting(&socket, "10.1.1.1".parse().unwrap(), &config).unwrap();
        let set = read();
        assert_eq!(set.congestion, "reno");
        assert_eq!((set.sndbuf_bytes, set.rcvbuf_bytes), (128 << 10, 64 << 10));
    }
}
