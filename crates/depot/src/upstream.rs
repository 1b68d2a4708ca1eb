// SPDX-License-Identifier: GPL-2.0-or-later
//! The next hop: admit it, find it, connect to it, ask it, read its head.

use crate::{
    admission::Verdict,
    config::Config,
    head::{self, HeadError},
    relay, tune,
};
use http::StatusCode;
use session::{
    Authority, Fetch, Host, Scheme,
    message::{Fault, ProxyError, ResponseHead},
};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream, lookup_host},
    time::{Instant, timeout, timeout_at},
};

/// Connects to the next hop within the time for it.
///
/// The fault says why not: 403 where the rules forbid it, 502 where it cannot be reached, 500
/// where this host has no socket for it.
pub(crate) async fn connect(fetch: &Fetch, config: &Config) -> Result<TcpStream, Fault> {
    let next = &fetch.next;
    if fetch.origin.as_ref().is_some_and(|origin| origin.scheme() == Scheme::Https) {
        return Err(Fault::new(
            StatusCode::BAD_GATEWAY,
            ProxyError::TlsProtocolError,
            format!("{next} wants https, which depots do not speak to origins yet: use http"),
        ));
    }
    let verdict = config.allow.upstream(next);
    if verdict == Verdict::Refused {
        return Err(not_open(next, "it is not listed"));
    }
    let deadline = Instant::now() + Duration::from(config.timeouts.connect);
    let resolved = timeout_at(deadline, resolve(next)).await.map_err(|_| {
        let reason = format!("the name of {next} could not be resolved in time");
        Fault::new(StatusCode::BAD_GATEWAY, ProxyError::DnsTimeout, reason)
    })??;
    let addresses = config
        .allow
        .addresses(verdict, resolved.into_iter())
        .map_err(|reason| not_open(next, &reason))?;

    let mut fault = None;
    for (tried, address) in addresses.iter().enumerate() {
        // An address that does not answer must leave time for the others.
        let share = (deadline - Instant::now()) / (addresses.len() - tried) as u32;
        let attempt = timeout(share, connect_to(next, *address, config)).await;
        let late = |_| Err(unreachable(next, *address, &io::ErrorKind::TimedOut.into()));
        match attempt.unwrap_or_else(late) {
            Ok(stream) => return Ok(stream),
            Err(why) => fault = Some(why),
        }
    }
    Err(fault.unwrap_or_else(|| not_open(next, "it has no address")))
}

/// The rules do not let this depot connect there.
fn not_open(next: &Authority, why: &str) -> Fault {
    Fault::new(
        StatusCode::FORBIDDEN,
        ProxyError::DestinationIpProhibited,
        format!("this depot is not open for upstream {next}: {why}"),
    )
}

/// All addresses of a host.
async fn resolve(next: &Authority) -> Result<Vec<SocketAddr>, Fault> {
    match &next.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, next.port)]),
        Host::Name(name) => {
            lookup_host((name.as_str(), next.port)).await.map(Iterator::collect).map_err(|error| {
                let reason = format!("the name of upstream {next} does not resolve: {error}");
                Fault::new(StatusCode::BAD_GATEWAY, ProxyError::DnsError, reason)
            })
        }
    }
}

async fn connect_to(
    next: &Authority,
    address: SocketAddr,
    config: &Config,
) -> Result<TcpStream, Fault> {
    let socket = socket_for(address, config).map_err(|error| {
        Fault::internal(format!("cannot set up a connection to {next} ({address}): {error}"))
    })?;
    let connected = socket.connect(address).await;
    let stream = connected.map_err(|error| unreachable(next, address, &error))?;
    // Given up on the way, it is to be reset: a depot that is asked can tell a reset from a
    // client that has only shut its sending side, and frees its part of the chain at once.
    relay::reset_on_close(&stream, true);
    Ok(stream)
}

/// A socket with the settings for this peer.
fn socket_for(address: SocketAddr, config: &Config) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
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
    let reason = format!("upstream {next} ({address}) {what}");
    Fault::new(StatusCode::BAD_GATEWAY, kind, reason)
}

/// Sends the request and reads the head of the final answer; what came of its body is left in
/// `buffer`. Interim answers (1xx) are dropped: they concern one hop.
pub(crate) async fn ask(
    stream: &mut TcpStream,
    request: &[u8],
    next: &Authority,
    config: &Config,
    buffer: &mut Vec<u8>,
) -> Result<ResponseHead, Fault> {
    let limit = config.limits.head.get() as usize;
    let answer = async {
        stream.write_all(request).await.map_err(HeadError::Io)?;
        loop {
            let head = head::read(stream, buffer, limit, ResponseHead::parse).await?;
            if !head.is_interim() {
                return Ok(head);
            }
        }
    };
    let time = Duration::from(config.timeouts.response_head);
    match timeout(time, answer).await {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(no_answer(next, error)),
        Err(_) => Err(Fault::new(
            StatusCode::GATEWAY_TIMEOUT,
            ProxyError::HttpResponseTimeout,
            format!("upstream {next} did not answer within {} s", time.as_secs_f64()),
        )),
    }
}

/// The next hop took the request and gave no usable answer.
fn no_answer(next: &Authority, error: HeadError) -> Fault {
    let (kind, what) = match error {
        HeadError::Malformed(fault) => return fault,
        HeadError::Closed => (ProxyError::ConnectionTerminated, "closed without an answer".into()),
        HeadError::CutOff => {
            (ProxyError::HttpResponseIncomplete, "closed in the middle of its head".into())
        }
        HeadError::TooLarge => {
            (ProxyError::HttpProtocolError, "sent a head larger than this depot takes".into())
        }
        HeadError::Io(error) => (ProxyError::ConnectionTerminated, format!("failed: {error}")),
    };
    Fault::new(StatusCode::BAD_GATEWAY, kind, format!("upstream {next} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{Route, Step};

    #[tokio::test]
    async fn socket_settings_that_fail_are_the_depots_own_fault() {
        let text = "allow.local = true\nallow.upstreams = [\"127.0.0.0/8:*\"]\n\
                    [[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"warp\"";
        let config = Config::from_toml(text, "test").unwrap();
        let route: Route = "/lh1/fetch/-/http:127.0.0.1:1/".parse().unwrap();
        let Step::Fetch(fetch) = route.step() else { panic!("a fetch leads nobody") };
        let fault = connect(&fetch, &config).await.unwrap_err();
        assert_eq!(fault.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(fault.error, ProxyError::ProxyInternalError);
    }
}
