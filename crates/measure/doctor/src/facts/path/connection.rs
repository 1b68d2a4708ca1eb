// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to a server, which are read through TLS if it asks for that, and watched below it by `TCP_INFO`.
//!
//! This crate has no TLS of its own: its caller brings one ([`Secure`]).

use super::Request;
use host::tcp_info;
use socket2::{Domain, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a read waits.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

/// Why a path was not measured.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Its name has no address.
    #[error("{host} has no address: {error}")]
    Name {
        /// The name.
        host: String,
        /// The resolver's answer.
        error: io::Error,
    },
    /// It does not answer.
    #[error("{peer} cannot be reached: {error}")]
    Connect {
        /// The address.
        peer: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// TLS with it fails.
    #[error("{peer}: TLS: {error}")]
    Tls {
        /// The address.
        peer: SocketAddr,
        /// What is wrong.
        error: io::Error,
    },
    /// The connection broke off.
    #[error("the connection to {peer} broke off: {error}")]
    Broken {
        /// The address.
        peer: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// It speaks no HTTP, or does not give the document.
    #[error("{peer} answers {said}. Give the URL of a large document that it has")]
    Answer {
        /// The address.
        peer: SocketAddr,
        /// The status, or what came in its place.
        said: String,
    },
}

/// Bytes both ways. Reads wait as long as the connection below lets them, and then fail with `WouldBlock` or `TimedOut`.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Puts TLS above connections.
pub trait Secure {
    /// TLS above a connection to a server, whose certificate has to be for `host`. Waits for `time` at most.
    ///
    /// # Errors
    /// The handshake fails.
    fn secure(&self, tcp: TcpStream, host: &str, time: Duration) -> io::Result<Box<dyn Stream>>;
}

/// For callers that measure no https URL.
#[derive(Debug, Clone, Copy)]
pub struct NoTls;

impl Secure for NoTls {
    fn secure(&self, _: TcpStream, _: &str, _: Duration) -> io::Result<Box<dyn Stream>> {
        Err(io::Error::new(ErrorKind::Unsupported, "there is no TLS here"))
    }
}

/// A connection on which a document was asked for.
pub(super) struct Connection {
    /// Below TLS.
    pub tcp: TcpStream,
    /// What is read.
    pub stream: Box<dyn Stream>,
    /// The round trip of its handshake.
    pub handshake_rtt_us: u32,
}

impl Connection {
    /// Connects, and sends the request's header section `head`. `segment` is the longest segment that is asked for.
    pub fn open(
        peer: SocketAddr,
        request: &Request,
        head: &str,
        segment: Option<u32>,
        tls: &dyn Secure,
    ) -> Result<Self, PathError> {
        let broken = |error| PathError::Broken { peer, error };
        let tcp = connect(peer, segment).map_err(|error| PathError::Connect { peer, error })?;
        // Its only sample yet is the handshake's.
        let handshake_rtt_us = tcp_info(&tcp).map_err(broken)?.rtt_us;
        let below = tcp.try_clone().map_err(broken)?;
        let mut stream: Box<dyn Stream> = if request.is_tls {
            let secured = tls.secure(below, &request.host, CONNECT);
            secured.map_err(|error| PathError::Tls { peer, error })?
        } else {
            Box::new(below)
        };
        stream.write_all(head.as_bytes()).map_err(broken)?;
        Ok(Self { tcp, stream, handshake_rtt_us })
    }
}

/// The address of a name: the first one.
///
/// # Errors
/// It has none.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, PathError> {
    let failed = |error| PathError::Name { host: host.to_owned(), error };
    let mut found = (host, port).to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| failed(ErrorKind::NotFound.into()))
}

/// The round trip to a host in microseconds, by the shortest of three handshakes.
///
/// # Errors
/// It has no address, or does not accept connections at that port.
pub fn round_trip_us(host: &str, port: u16) -> Result<u32, PathError> {
    let peer = resolve(host, port)?;
    let handshake = || {
        let tcp = connect(peer, None)?;
        tcp_info(&tcp).map(|info| info.rtt_us)
    };
    let all: io::Result<Vec<u32>> = (0..3).map(|_| handshake()).collect();
    let all = all.map_err(|error| PathError::Connect { peer, error })?;
    Ok(all.into_iter().min().unwrap_or(0))
}

fn connect(peer: SocketAddr, segment: Option<u32>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, None)?;
    if let Some(segment) = segment {
        socket.set_tcp_mss(segment)?;
    }
    socket.connect_timeout(&peer.into(), CONNECT)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(CONNECT))?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn round_trip_over_loopback_is_short() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let rtt_us = round_trip_us("127.0.0.1", port).unwrap();
        assert!(rtt_us > 0 && rtt_us < 1_000_000, "{rtt_us}");
        drop(listener);
        assert!(matches!(round_trip_us("127.0.0.1", port), Err(PathError::Connect { .. })));
        assert!(matches!(round_trip_us("no-such-name.invalid", 1), Err(PathError::Name { .. })));
    }
}
