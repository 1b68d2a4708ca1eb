// SPDX-License-Identifier: GPL-2.0-or-later
//! Asking a depot whether it is alive.
//!
//! It is asked how full it is, which depots tell their clients alone: to a stranger they say 403, by a head with
//! their own `Proxy-Status`. Either is a sign of life. One that is full, or is being stopped, says 503. One that says
//! 400 speaks TLS on a port that clients are to ask without.

use bytes::BytesMut;
use http::{StatusCode, header};
use relay::{
    dial::{Names, PeerAddr, Resolver},
    tcp::{
        Stream, read_head,
        tls::{self, ClientConfig},
    },
};
use session::{
    DepotAddress, Scheme,
    message::{
        PROXY_STATUS, ResponseHead,
        load::{LOAD, Load, MAX_LOAD_BODY},
    },
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// The client for which names are looked up: this host.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether a depot that takes requests tells this host how full it is; the text says why it takes none.
pub(super) async fn ask(
    depot: &DepotAddress,
    tls: Arc<ClientConfig>,
    names: &Names,
    time: Duration,
) -> Result<bool, String> {
    let (authority, is_tls) = (&depot.authority, depot.scheme == Scheme::Https);
    let peer = PeerAddr::new(&authority.host.to_string(), authority.port, is_tls);
    let resolver = Resolver { names, client: OWN };
    let addresses = resolver.addresses(&peer, Instant::now() + time).await;
    let addresses = addresses.map_err(|fault| fault.to_string())?;
    let mut why = "its name has no address".to_owned();
    // One that leads nowhere, as IPv6 may, leaves time for the others.
    let share = time / addresses.len().max(1) as u32;
    for address in addresses {
        let connected = timeout(share, TcpStream::connect(address)).await;
        let tcp = match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(tcp) => tcp,
            Err(error) => {
                why = error.to_string();
                continue;
            }
        };
        let stream = match depot.scheme {
            Scheme::Http => Ok(Stream::new(tcp, address)),
            Scheme::Https => tls::connect(Arc::clone(&tls), tcp, address, &peer.host).await,
        };
        match stream {
            Ok(mut stream) => return answer(&mut stream, depot).await,
            Err(error) => why = format!("TLS failed: {}", tls::cause_of(&error)),
        }
    }
    Err(why)
}

async fn answer(stream: &mut Stream, depot: &DepotAddress) -> Result<bool, String> {
    let in_words = |error: io::Error| error.to_string();
    let host = depot.authority.without_port(depot.scheme.default_port());
    let question = format!("GET {LOAD} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let (mut source, mut sink) = stream.split();
    let mut left = question.as_bytes();
    while !left.is_empty() {
        left = &left[sink.write(left).await.map_err(in_words)?..];
    }
    sink.flush().await.map_err(in_words)?;
    let mut buffer = BytesMut::new();
    let head = read_head(&mut source, &mut buffer, MAX_LOAD_BODY, ResponseHead::parse).await;
    let head = head.map_err(|_| "it does not answer as a depot does".to_owned())?;
    let is_own = head.headers.contains(&PROXY_STATUS);
    match head.status {
        StatusCode::OK => {}
        StatusCode::SERVICE_UNAVAILABLE => return Err("it is full, or being stopped".to_owned()),
        // It has not read the request, and would read none of clients.
        StatusCode::BAD_REQUEST if is_own => {
            let tls = "; does it speak TLS there (https:)?";
            let tls = if depot.scheme == Scheme::Http { tls } else { "" };
            return Err(format!("it takes no requests on that port{tls}"));
        }
        status if is_own && status.is_client_error() => return Ok(false),
        status => return Err(format!("it says {status}, and not as a depot does")),
    }
    let length = head.headers.get(&header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length =
        length.and_then(|text| text.parse().ok()).filter(|length| *length <= MAX_LOAD_BODY);
    let length = length.ok_or("it does not answer as a depot does")?;
    while buffer.len() < length {
        let missing = length - buffer.len();
        if source.read(&mut buffer, missing).await.map_err(in_words)? == 0 {
            return Err("its answer is cut off".to_owned());
        }
    }
    let load: Load = serde_json::from_slice(&buffer[..length])
        .map_err(|_| "it does not answer as a depot does".to_owned())?;
    match load {
        Load { leaving: true, .. } => Err("it is being stopped".to_owned()),
        Load { connections, connections_limit, .. } if connections >= connections_limit => {
            Err("it is full".to_owned())
        }
        _ => Ok(true),
    }
}
