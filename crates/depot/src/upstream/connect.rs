// SPDX-License-Identifier: GPL-2.0-or-later
//! Connecting to the next hop: admit it, find it, try its addresses.

use super::Resolver;
use crate::{
    admission::{Grant, Objection, Verdict},
    config::Config,
    exchange::reset_on_close,
    observe::status::Side,
    settings::Settings,
    stream::Stream,
    tls, tune,
};
use http::StatusCode;
use rustix::io::Errno;
use session::{
    Authority, Fetch, Host, Scheme,
    message::{Fault, ProxyError},
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{
    net::TcpSocket,
    time::{Instant, timeout},
};

/// Connects to the next hop within the time for it.
///
/// The fault says why not: 403 where the rules forbid it, 502 where it cannot be reached, 500 or 503
/// where this host is at fault.
pub(crate) async fn connect(
    fetch: &Fetch,
    grant: Grant,
    settings: &Settings,
    resolver: Resolver<'_>,
) -> Result<Stream, Fault> {
    let (next, config) = (&fetch.next, &settings.config);
    let verdict = config.allow.upstream(next, grant);
    if verdict == Verdict::Refused {
        return Err(not_open(next, "it is not listed", None));
    }
    let deadline = Instant::now() + Duration::from(config.timeouts.connect);
    let resolved = resolver.addresses(next, deadline).await?;
    let addresses =
        config.allow.addresses(verdict, resolved.into_iter()).map_err(
            |objection| match objection {
                Objection::Rules(reason, ip) => not_open(next, &reason, ip),
                Objection::Unjudged(errno) => {
                    let reason =
                        format!("the addresses of upstream {next} cannot be judged: {errno}");
                    own_fault(&reason, &errno.into())
                }
            },
        )?;

    let mut fault = None;
    for (tried, address) in addresses.iter().enumerate() {
        // An address that does not answer must leave time for the others.
        let share = (deadline - Instant::now()) / (addresses.len() - tried) as u32;
        let attempt = timeout(share, connect_to(fetch, *address, settings)).await;
        let late = |_| Err(unreachable(next, *address, &io::ErrorKind::TimedOut.into()));
        match attempt.unwrap_or_else(late) {
            Ok(stream) => return Ok(stream),
            Err(why) => fault = Some(why),
        }
    }
    Err(fault.unwrap_or_else(|| not_open(next, "it has no address", None)))
}

/// The rules do not let this depot connect there.
fn not_open(next: &Authority, why: &str, ip: Option<IpAddr>) -> Fault {
    let fault = Fault::new(
        StatusCode::FORBIDDEN,
        ProxyError::DestinationIpProhibited,
        format!("this depot is not open for upstream {next}: {why}"),
    );
    fault.with_detail(ip)
}

/// Why a name has no address: no fault of the name's where this host cannot look it up.
pub(super) fn unresolved(next: &Authority, error: &io::Error) -> Fault {
    // A resolver that cannot open its files may only say that there is no such name. Without a
    // descriptor there was nothing to be found, or to be connected with.
    let scarcity = || Socket::new(Domain::IPV4, Type::DGRAM, None).err().filter(is_scarcity);
    let scarce = if is_scarcity(error) { None } else { scarcity() };
    let why = scarce.as_ref().unwrap_or(error);
    if is_scarcity(why) {
        return own_fault(&format!("cannot look up the name of upstream {next}: {why}"), why);
    }
    let reason = format!("the name of upstream {next} does not resolve: {why}");
    Fault::new(StatusCode::BAD_GATEWAY, ProxyError::DnsError, reason)
}

/// A connection to an address of the next hop that was admitted.
pub(crate) async fn connect_to(
    fetch: &Fetch,
    address: SocketAddr,
    settings: &Settings,
) -> Result<Stream, Fault> {
    let (next, config) = (&fetch.next, &settings.config);
    let not_set_up = |error: io::Error| {
        own_fault(&format!("cannot set up a connection to {next}: {error}"), &error)
            .with_detail(address_of(next, address))
    };
    let socket = socket_for(address, config).map_err(not_set_up)?;
    let connected = socket.connect(address).await;
    let stream = connected.map_err(|error| unreachable(next, address, &error))?;
    // Given up on the way, it is to be reset: a depot that is asked can tell a reset from a
    // client that has only shut its sending side, and frees its part of the chain at once.
    reset_on_close(&stream, true);
    let settled = tune::settle_congestion(
        &stream,
        (address.ip(), Side::Upstream),
        config,
        &settings.overruled,
    );
    settled.map_err(not_set_up)?;
    if fetch.scheme == Scheme::Http {
        return Ok(Stream::new(stream, address));
    }
    settings.tls.connect(stream, address, &next.host).await.map_err(|error| {
        let reason = format!("TLS with upstream {next} failed: {error}");
        let fault = Fault::new(StatusCode::BAD_GATEWAY, tls::error_type(&error), reason);
        fault.with_detail(address_of(next, address))
    })
}

/// What this host is at fault for: 503 where it has run out of something and may have it again, else 500.
pub(super) fn own_fault(reason: &str, error: &io::Error) -> Fault {
    if is_scarcity(error) {
        return Fault::new(StatusCode::SERVICE_UNAVAILABLE, ProxyError::ProxyInternalError, reason);
    }
    Fault::internal(reason)
}

/// Whether this host has run out of something.
fn is_scarcity(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::QuotaExceeded {
        return true;
    }
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    scarce.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A socket with the settings for this peer.
fn socket_for(address: SocketAddr, config: &Config) -> io::Result<TcpSocket> {
    let mptcp = config.hop(address.ip()).is_some_and(|hop| hop.mptcp);
    let protocol = mptcp.then_some(Protocol::MPTCP);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    tune::connecting(&socket, address.ip(), config)?;
    Ok(socket)
}

/// The next hop cannot be reached, and why.
fn unreachable(next: &Authority, address: SocketAddr, error: &io::Error) -> Fault {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let (kind, what) = match error.kind() {
        ConnectionRefused => (ProxyError::ConnectionRefused, "refused the connection".into()),
        TimedOut => (ProxyError::ConnectionTimeout, "did not take the connection in time".into()),
        HostUnreachable | NetworkUnreachable => {
            (ProxyError::DestinationIpUnroutable, format!("cannot be reached: {error}"))
        }
        _ => (ProxyError::ConnectionTerminated, format!("failed: {error}")),
    };
    let reason = format!("upstream {next} {what}");
    Fault::new(StatusCode::BAD_GATEWAY, kind, reason).with_detail(address_of(next, address))
}

/// The address that a name led to: for the log, clients need not know how the network inside is laid out.
fn address_of(next: &Authority, address: SocketAddr) -> Option<SocketAddr> {
    matches!(next.host, Host::Name(_)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tls::Tls, trust::Trust, upstream::Names};
    use session::{Route, Step};

    #[tokio::test]
    async fn socket_settings_that_fail_are_the_depots_own_fault() {
        let text = "allow.local = true\nallow.upstreams = [\"127.0.0.0/8:*\"]\n\
                    [[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"warp\"";
        let config = Config::from_toml(text, "test").unwrap();
        // Unchecked: what was there at the start may be gone later.
        let tls = Tls::new(&config.tls).unwrap();
        let settings = Settings::of(config, Trust::default(), tls);
        let route: Route = "/lh1/fetch/-/http:127.0.0.1:1/".parse().unwrap();
        let Step::Fetch(fetch) = route.step() else { panic!("a fetch leads nobody") };
        let names = Names::default();
        let resolver = Resolver { names: &names, client: "127.0.0.1".parse().unwrap() };
        let fault = connect(&fetch, Grant::Rules, &settings, resolver).await.unwrap_err();
        assert_eq!(fault.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(fault.error, ProxyError::ProxyInternalError);
    }
}
