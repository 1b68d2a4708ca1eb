// SPDX-License-Identifier: GPL-2.0-or-later
//! Connecting to a peer: resolve its name, try its addresses, make the TLS handshake.

use crate::{
    Side,
    dial::{Class, PeerAddr, PeerHost, Refusal, Resolver, Retry, resolver::is_scarcity},
    tcp::{
        Stream,
        congestion::Overruled,
        info::reset_on_close,
        socket_options::{HopOptions, bind_source},
        tls::{self, ClientConfig},
    },
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout_at},
};

/// Which peers may be connected to, and with which socket options.
pub trait Hops: Sync {
    /// Whether the peer's name may be resolved at all.
    ///
    /// # Errors
    /// The rules do not allow the peer, whatever its addresses.
    fn admit(&self, peer: &PeerAddr) -> Result<(), Refusal>;

    /// Those of the peer's addresses that may be connected to; at least one.
    ///
    /// # Errors
    /// The rules allow none of them, or this host cannot judge them.
    fn addresses(
        &self,
        peer: &PeerAddr,
        resolved: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refusal>;

    /// The socket options for this address.
    fn options(&self, address: IpAddr) -> HopOptions<'_>;
}

/// Every peer may be connected to, with the same options.
impl Hops for HopOptions<'_> {
    fn admit(&self, _: &PeerAddr) -> Result<(), Refusal> {
        Ok(())
    }

    fn addresses(
        &self,
        peer: &PeerAddr,
        resolved: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        if resolved.is_empty() {
            let text = format!("the name of upstream {peer} has no address");
            return Err(Refusal::of_peer(Class::NameUnknown, text));
        }
        Ok(resolved)
    }

    fn options(&self, _: IpAddr) -> HopOptions<'_> {
        *self
    }
}

/// Connects to addresses of peers.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    /// The trusted authorities. Called only for peers that speak TLS.
    pub tls: &'a (dyn Fn() -> Arc<ClientConfig> + Sync),
    /// Remembers where a route overrules the configured congestion control.
    pub overruled: &'a Overruled,
}

/// Connects to peers.
#[derive(Clone, Copy)]
pub struct Dialer<'a> {
    /// Connects to each of their addresses.
    pub connector: Connector<'a>,
    /// Resolves their names.
    pub resolver: Resolver<'a>,
    /// How long all of it may take: the name and every address together.
    pub time: Duration,
}

impl Dialer<'_> {
    /// A connection to a peer. Its addresses are tried in order, each for an equal share of the time
    /// that is left. Those that the source address cannot reach are left out.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn dial(&self, peer: &PeerAddr, hops: &impl Hops) -> Result<Stream, Refusal> {
        hops.admit(peer)?;
        let deadline = Instant::now() + self.time;
        let resolved = self.resolver.addresses(peer, deadline).await?;
        let mut addresses = hops.addresses(peer, resolved)?;
        let first = hops.options(addresses.first().expect("there is an address to try").ip());
        addresses.retain(|address| hops.options(address.ip()).reaches(address.ip()));
        let mut refusal = None;
        for (tried, address) in addresses.iter().enumerate() {
            // An address that does not answer must leave time for the others.
            let now = Instant::now();
            let until = now + (deadline - now) / (addresses.len() - tried) as u32;
            let options = hops.options(address.ip());
            match self.connector.connect_until(until, peer, *address, &options).await {
                Ok(stream) => return Ok(stream),
                Err(why) => refusal = Some(why),
            }
        }
        Err(refusal.unwrap_or_else(|| of_other_family(peer, first.source)))
    }
}

impl Connector<'_> {
    /// A connection to one address of a peer.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(
        &self,
        peer: &PeerAddr,
        address: SocketAddr,
        options: &HopOptions<'_>,
    ) -> Result<Stream, Refusal> {
        let tcp = self.open(peer, address, options).await?;
        self.secure(tcp, peer, address).await
    }

    /// The same with a deadline. The refusal says which step was not done in time.
    async fn connect_until(
        &self,
        until: Instant,
        peer: &PeerAddr,
        address: SocketAddr,
        options: &HopOptions<'_>,
    ) -> Result<Stream, Refusal> {
        let opened = timeout_at(until, self.open(peer, address, options)).await;
        let late = |_| Err(unreachable(peer, address, &io::ErrorKind::TimedOut.into()));
        let tcp = opened.unwrap_or_else(late)?;
        let secured = timeout_at(until, self.secure(tcp, peer, address)).await;
        let late = |_| Err(not_secured(peer, address, &io::ErrorKind::TimedOut.into()));
        secured.unwrap_or_else(late)
    }

    /// A TCP connection to one address of a peer.
    async fn open(
        &self,
        peer: &PeerAddr,
        address: SocketAddr,
        options: &HopOptions<'_>,
    ) -> Result<TcpStream, Refusal> {
        let not_set_up = |error: io::Error| {
            let text = format!("cannot set up a connection to {peer}: {error}");
            Refusal::of_host(text, is_scarcity(&error)).with_detail(address_of(peer, address))
        };
        if !options.reaches(address.ip()) {
            return Err(of_other_family(peer, options.source));
        }
        let socket = socket_for(address, options).map_err(not_set_up)?;
        if let Some(source) = options.source {
            leave_by(&socket, source, address).map_err(|error| not_bound(peer, source, &error))?;
        }
        let connected = socket.connect(address).await;
        let stream = connected.map_err(|error| unreachable(peer, address, &error))?;
        // Given up on the way, it is to be reset: a peer can tell a reset from a client that has
        // only shut its sending side, and frees its part of the chain at once.
        reset_on_close(&stream, true);
        let settled = self.overruled.settle(&stream, (address.ip(), Side::Upstream), options);
        settled.map_err(not_set_up)?;
        Ok(stream)
    }

    /// Puts TLS above a connection, if the peer speaks it.
    async fn secure(
        &self,
        tcp: TcpStream,
        peer: &PeerAddr,
        address: SocketAddr,
    ) -> Result<Stream, Refusal> {
        if !peer.tls {
            return Ok(Stream::new(tcp, address));
        }
        let secured = tls::connect((self.tls)(), tcp, address, &peer.host).await;
        secured.map_err(|error| not_secured(peer, address, &error))
    }
}

/// A socket with the options for this address.
fn socket_for(address: SocketAddr, options: &HopOptions<'_>) -> io::Result<TcpSocket> {
    let protocol = options.mptcp.then_some(Protocol::MPTCP);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    options.before_connect(&socket)?;
    Ok(socket)
}

/// Binds a socket for a connection to `peer` to this source address.
fn leave_by(socket: &TcpSocket, source: IpAddr, peer: SocketAddr) -> io::Result<()> {
    let source = match source {
        // An IPv6 socket to an IPv4 peer.
        IpAddr::V4(ip) if peer.is_ipv6() => ip.to_ipv6_mapped().into(),
        source => source,
    };
    bind_source(socket, source)
}

/// No address of the peer is of the source address's family.
fn of_other_family(peer: &PeerAddr, source: Option<IpAddr>) -> Refusal {
    let family = if source.is_some_and(|ip| ip.is_ipv4()) { "IPv4" } else { "IPv6" };
    let text = format!(
        "cannot connect to {peer}: connections leave by an {family} source address, and it has none of that family"
    );
    let of_source = source.map(|ip| format!("source {ip}"));
    // Another peer may have one.
    Refusal { retry: Retry::Elsewhere, ..Refusal::of_host(text, false) }.with_detail(of_source)
}

/// The source address cannot be used.
fn not_bound(peer: &PeerAddr, source: IpAddr, error: &io::Error) -> Refusal {
    let why = match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this host does not have the source address that is set for it".to_owned()
        }
        _ => format!("the source address that is set for it: {error}"),
    };
    let text = format!("cannot set up a connection to {peer}: {why}");
    Refusal::of_host(text, is_scarcity(error)).with_detail(Some(format!("source {source}")))
}

/// The refusal for a failed TLS handshake.
fn not_secured(peer: &PeerAddr, address: SocketAddr, error: &io::Error) -> Refusal {
    let text = format!("TLS with upstream {peer} failed: {}", tls::cause_of(error));
    Refusal::of_peer(tls::class_of(error), text).with_detail(address_of(peer, address))
}

/// The refusal for a peer that cannot be reached.
fn unreachable(peer: &PeerAddr, address: SocketAddr, error: &io::Error) -> Refusal {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let (class, what) = match error.kind() {
        ConnectionRefused => (Class::ConnectionRefused, "refused the connection".into()),
        TimedOut => (Class::ConnectionTimeout, "did not take the connection in time".into()),
        HostUnreachable | NetworkUnreachable => {
            (Class::Unroutable, format!("cannot be reached: {error}"))
        }
        _ => (Class::ConnectionFailed, format!("failed: {error}")),
    };
    let text = format!("upstream {peer} {what}");
    Refusal::of_peer(class, text).with_detail(address_of(peer, address))
}

/// The address that a name resolved to.
fn address_of(peer: &PeerAddr, address: SocketAddr) -> Option<SocketAddr> {
    matches!(peer.host, PeerHost::Name(_)).then_some(address)
}
