// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS above a connection.

use crate::{
    dial::{Class, PeerHost},
    tcp::Stream,
};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::TcpStream;
pub use tokio_rustls::rustls::{self, ClientConfig, ServerConfig};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConnection, InvalidMessage, OtherError, StreamOwned,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream, rustls::pki_types::ServerName};

/// A client's connection, once the handshake is made.
///
/// # Errors
/// The handshake failed.
pub async fn accept(
    config: Arc<ServerConfig>,
    client: TcpStream,
    peer: SocketAddr,
) -> io::Result<Stream> {
    let acceptor = TlsAcceptor::from(config);
    let shake = async |socket| acceptor.accept(socket).await.map(TlsStream::from);
    Stream::secured(client, peer, shake).await
}

/// A connection to a peer, once the handshake is made and its certificate is for `host`.
///
/// # Errors
/// The handshake failed; [`class_of`] says how.
pub async fn connect(
    config: Arc<ClientConfig>,
    tcp: TcpStream,
    address: SocketAddr,
    host: &PeerHost,
) -> io::Result<Stream> {
    let name = server_name(host)?;
    let connector = TlsConnector::from(config);
    let shake = async |socket| connector.connect(name, socket).await.map(TlsStream::from);
    Stream::secured(tcp, address, shake).await
}

/// The same for a program without a runtime, over a connection of its own. Afterwards reads wait as long as the connection
/// lets them.
///
/// # Errors
/// The handshake failed, or took longer than `time`.
pub fn connect_blocking(
    config: Arc<ClientConfig>,
    mut tcp: std::net::TcpStream,
    host: &PeerHost,
    time: Duration,
) -> io::Result<impl io::Read + io::Write + use<>> {
    let mut session =
        ClientConnection::new(config, server_name(host)?).map_err(io::Error::other)?;
    let (read, write) = (tcp.read_timeout()?, tcp.write_timeout()?);
    let until = Instant::now() + time;
    while session.is_handshaking() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        tcp.set_read_timeout(Some(left))?;
        tcp.set_write_timeout(Some(left))?;
        session.complete_io(&mut tcp).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
    }
    tcp.set_read_timeout(read)?;
    tcp.set_write_timeout(write)?;
    Ok(StreamOwned::new(session, tcp))
}

fn server_name(host: &PeerHost) -> io::Result<ServerName<'static>> {
    Ok(match host {
        PeerHost::Ip(ip) => ServerName::IpAddress((*ip).into()),
        PeerHost::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
    })
}

/// What kind of failure a handshake ended with.
pub fn class_of(error: &io::Error) -> Class {
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(_)) => Class::TlsCertificate,
        Some(rustls::Error::AlertReceived(_)) => Class::TlsAlert,
        None if error.kind() == io::ErrorKind::TimedOut => Class::ConnectionTimeout,
        _ => Class::TlsProtocol,
    }
}

/// Why a handshake with a server failed, in words. A server that does not speak TLS shows in different ways: it answers
/// in its own protocol, closes, or waits for more.
pub fn cause_of(error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    match tls_error(error) {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it does not speak TLS on that port".to_owned()
        }
        // What a depot answers on a port without TLS. In reply to a ClientHello it means nothing else.
        Some(rustls::Error::AlertReceived(AlertDescription::UnexpectedMessage)) => {
            "it expects no TLS on that port (alert unexpected_message)".to_owned()
        }
        Some(error) if is_authority(error) => AUTHORITY.to_owned(),
        Some(error) => error.to_string(),
        None => match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe => {
                "it closed the connection during the handshake, so it may not speak TLS on that port".to_owned()
            }
            TimedOut => {
                "it did not answer the handshake in time, so it may not speak TLS on that port".to_owned()
            }
            _ => error.to_string(),
        },
    }
}

/// What to do about a server that shows an authority's certificate as its own.
const AUTHORITY: &str = "its certificate is an authority's (CA:TRUE) and not a server's: give it one with \
                         basicConstraints=CA:FALSE, as docs/operator.md (A certificate) makes it";

/// Whether a certificate is refused as that of an authority, which the library has no kind of its own for.
fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause)))
        if cause.to_string().contains("CaUsedAsEndEntity"))
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
