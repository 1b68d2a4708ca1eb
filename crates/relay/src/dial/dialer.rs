// SPDX-License-Identifier: GPL-2.0-or-later
//! Connecting to a peer: resolve its name, try its addresses, make the TLS handshake.

use crate::{
    Side,
    dial::{Class, PeerAddr, PeerHost, Refusal, Resolver, resolver::is_scarcity},
    tcp::{
        Stream,
        congestion::Overruled,
        info::reset_on_close,
        socket_options::HopOptions,
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
    net::TcpSocket,
    time::{Instant, timeout},
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
    /// Whose certificates are trusted. Called for peers that speak TLS alone.
    pub tls: &'a (dyn Fn() -> Arc<ClientConfig> + Sync),
    /// Remembers where a route overrules the congestion control that was asked for.
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
    /// that is left.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn dial(&self, peer: &PeerAddr, hops: &impl Hops) -> Result<Stream, Refusal> {
        hops.admit(peer)?;
        let deadline = Instant::now() + self.time;
        let resolved = self.resolver.addresses(peer, deadline).await?;
        let addresses = hops.addresses(peer, resolved)?;
        let mut refusal = None;
        for (tried, address) in addresses.iter().enumerate() {
            // An address that does not answer must leave time for the others.
            let share = (deadline - Instant::now()) / (addresses.len() - tried) as u32;
            let options = hops.options(address.ip());
            let attempt = timeout(share, self.connector.connect(peer, *address, &options)).await;
            let late = |_| Err(unreachable(peer, *address, &io::ErrorKind::TimedOut.into()));
            match attempt.unwrap_or_else(late) {
                Ok(stream) => return Ok(stream),
                Err(why) => refusal = Some(why),
            }
        }
        Err(refusal.expect("there is an address to try"))
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
        let not_set_up = |error: io::Error| {
            let text = format!("cannot set up a connection to {peer}: {error}");
            Refusal::of_host(text, is_scarcity(&error)).with_detail(address_of(peer, address))
        };
        let socket = socket_for(address, options).map_err(not_set_up)?;
        let connected = socket.connect(address).await;
        let stream = connected.map_err(|error| unreachable(peer, address, &error))?;
        // Given up on the way, it is to be reset: a peer can tell a reset from a client that has
        // only shut its sending side, and frees its part of the chain at once.
        reset_on_close(&stream, true);
        let settled = self.overruled.settle(&stream, (address.ip(), Side::Upstream), options);
        settled.map_err(not_set_up)?;
        if !peer.tls {
            return Ok(Stream::new(stream, address));
        }
        tls::connect((self.tls)(), stream, address, &peer.host).await.map_err(|error| {
            let text = format!("TLS with upstream {peer} failed: {error}");
            Refusal::of_peer(tls::class_of(&error), text).with_detail(address_of(peer, address))
        })
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

/// The peer cannot be reached, and why.
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

/// The address that a name led to.
fn address_of(peer: &PeerAddr, address: SocketAddr) -> Option<SocketAddr> {
    matches!(peer.host, PeerHost::Name(_)).then_some(address)
}
