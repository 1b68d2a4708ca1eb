// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion control and buffers of clients' connections and listeners, as configured for their peers.
//!
//! The congestion control of accepted connections is that of their listener, as far as one will do.
//! A connection that began with one that paces (BBR, often the system's) is paced by the kernel's
//! timers to its end, whatever is set on it later, and that costs it speed where paths are short.
//!
//! A route's `congctl` comes before what a socket was told, so that is told again once the connection
//! is open; with `lock` the route has the last word ([`Overruled`]).

use crate::config::Config;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use relay::{
    Side,
    tcp::{
        congestion::Overruled,
        socket_options::{HopOptions, bind_source, keep_unsent},
    },
};
use rustix::{io::Errno, net::sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use std::{io, net::IpAddr, os::fd::AsFd, sync::Weak};
use tokio::net::TcpListener;

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
        /// The error of the system.
        error: io::Error,
    },
    /// An address that connections are to leave by is not this host's.
    #[error(
        "{setting} is {address}, which connections cannot leave by: {error}. `ip address` lists the addresses of this \
         host"
    )]
    Source {
        /// The setting.
        setting: String,
        /// The address.
        address: IpAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// Something else.
    #[error("cannot try the socket settings of [[hop]] peer = \"{peer}\": {error}")]
    Io {
        /// The hop.
        peer: String,
        /// The error of the system.
        error: io::Error,
    },
}

/// Tries source addresses and each hop's congestion control on sockets, so that a depot which cannot do as it is
/// told does not start.
pub(crate) fn check(config: &Config) -> Result<(), TuneError> {
    check_sources(config)?;
    for hop in &config.hops {
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
                let available = host::sysctl::available_congestion_controls().unwrap_or_default();
                let name = name.clone();
                return Err(TuneError::Unknown { peer, name, available });
            }
            Err(Errno::PERM) => return Err(TuneError::Forbidden { peer, name: name.clone() }),
            Err(error) => return Err(TuneError::Io { peer, error: error.into() }),
        }
    }
    Ok(())
}

/// Only the host's own addresses can be bound.
fn check_sources(config: &Config) -> Result<(), TuneError> {
    for (setting, address) in config.sources() {
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let bound = Socket::new(domain, Type::STREAM, None)
            .and_then(|socket| bind_source(&socket, address));
        bound.map_err(|error| TuneError::Source { setting, address, error })?;
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
    let user_timeout = config.timeouts.tcp_user_of_clients();
    let options = HopOptions { user_timeout, ..config.hop_options(client) };
    options.after_accept(socket)?;
    // Where the socket has it from its listener, the kernel leaves everything as it is.
    overruled.settle(socket, (client, Side::Client), &options)?;
    // Room shows, and the next hop is read from, whenever half of this has been sent, not only
    // when a third of a large send buffer is free. A depot before this one would see a closed
    // window for as long as that takes, and take its own client, which is this depot, for stalled.
    if options.notsent_lowat.is_none() {
        keep_unsent(socket, config.limits.pipe)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::tcp::info::{InForce, Settled};
    use std::net::{TcpListener, TcpStream};

    fn config(text: &str) -> Config {
        Config::from_toml(text, "test").unwrap()
    }

    #[test]
    fn unknown_congestion_control_error_lists_known_ones() {
        let config = config("[[hop]]\npeer = \"10.0.0.0/8\"\ncongestion = \"warp\"");
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains("\"warp\"") && error.contains("10.0.0.0/8"), "{error}");
        assert!(error.contains("reno"), "{error}");
    }

    #[test]
    fn listener_uses_common_settings_of_its_clients() {
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
            // A hop whose peers are not clients.
            (net.to_owned() + &ten("reno") + &hop("192.0.2.1/32", "bbr"), Some("reno"), None),
            (net.to_owned() + &hop("192.0.2.1/32", "bbr"), None, None),
            // One of them has another, or is to have the system's.
            (net.to_owned() + &ten("reno") + &host("bbr"), Some("reno"), None),
            (net.to_owned() + &ten("reno") + &host(""), None, None),
            (net.to_owned() + &host("bbr"), None, None),
            (nets.to_owned() + &ten("reno") + &host("bbr"), Some("reno"), None),
            (nets.to_owned() + &all, Some("reno"), Some("cubic")),
            // With tickets, a client may come from any address.
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
    fn accepted_sockets_inherit_congestion_control() {
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
    fn socket_settings_are_applied_by_peer() {
        let text = "[[hop]]\npeer = \"10.0.0.0/8\"\ncongestion = \"reno\"\nsndbuf = \"64KB\"\nrcvbuf = \"32KB\"";
        let config = config(text);
        check(&config).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let read = || InForce::read(&socket, &Settled::read(&socket));
        let before = read();
        accepted(&socket, "192.0.2.1".parse().unwrap(), &config, &Overruled::default()).unwrap();
        let other = read();
        assert_eq!(other.sndbuf_bytes, before.sndbuf_bytes);
        config.hop_options("10.1.1.1".parse().unwrap()).before_connect(&socket).unwrap();
        let set = read();
        assert_eq!(set.congestion, "reno");
        assert_eq!((set.sndbuf_bytes, set.rcvbuf_bytes), (128 << 10, 64 << 10));
    }
}
