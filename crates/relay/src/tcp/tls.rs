// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS above a connection.

use crate::{
    dial::{Class, PeerHost},
    tcp::Stream,
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::TcpStream;
pub use tokio_rustls::rustls::{self, ClientConfig, ServerConfig};
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
    let name = match host {
        PeerHost::Ip(ip) => ServerName::IpAddress((*ip).into()),
        PeerHost::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
    };
    let connector = TlsConnector::from(config);
    let shake = async |socket| connector.connect(name, socket).await.map(TlsStream::from);
    Stream::secured(tcp, address, shake).await
}

/// What kind of failure a handshake ended with.
pub fn class_of(error: &io::Error) -> Class {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => Class::TlsCertificate,
        Some(rustls::Error::AlertReceived(_)) => Class::TlsAlert,
        _ => Class::TlsProtocol,
    }
}
