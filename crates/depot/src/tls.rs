// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS towards clients and next hops: certificates, whom to trust, handshakes.

use crate::{
    config::TlsFiles,
    stream::Stream,
    watched::{FileError, Watched},
};
use session::{Host, message::ProxyError};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor, TlsConnector, TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore, ServerConfig,
        pki_types::{
            CertificateDer, PrivateKeyDer, ServerName,
            pem::{self, PemObject},
        },
    },
};

/// What is spoken above TLS.
const ALPN: &[u8] = b"http/1.1";

/// What TLS needs.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Towards clients: the depot's own certificate, if it has one.
    server: Option<Arc<Watched<ServerConfig>>>,
    /// Towards next hops: whom to trust.
    client: Watched<ClientConfig>,
}

impl Tls {
    /// Reads certificates, key and roots.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, FileError> {
        let own = files.certificate.clone().zip(files.key.clone());
        let server = own.map(|(certificate, key)| {
            Watched::new("certificates", vec![certificate, key], server_config, |_| String::new())
        });
        let roots = files.roots.iter().cloned().collect();
        Ok(Self {
            server: server.transpose()?.map(Arc::new),
            client: Watched::new("roots", roots, client_config, |_| String::new())?,
        })
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self) {
        self.server.iter().for_each(|server| server.refresh());
        self.client.refresh();
    }

    /// Where this has no certificate, it has that of `before` from now on; says whether that is so.
    pub(crate) fn keep_certificate(&mut self, before: &Self) -> bool {
        let kept = self.server.is_none() && before.server.is_some();
        if kept {
            self.server.clone_from(&before.server);
        }
        kept
    }

    /// A client's connection, once the handshake is made.
    pub(crate) async fn accept(&self, client: TcpStream, peer: SocketAddr) -> io::Result<Stream> {
        let Some(server) = &self.server else {
            return Err(io::Error::other("this depot has no certificate"));
        };
        let acceptor = TlsAcceptor::from(server.get());
        let shake = async |socket| acceptor.accept(socket).await.map(TlsStream::from);
        Stream::secured(client, peer, shake).await
    }

    /// A next hop's connection, once the handshake is made and its certificate is for `host`.
    pub(crate) async fn connect(
        &self,
        hop: TcpStream,
        address: SocketAddr,
        host: &Host,
    ) -> io::Result<Stream> {
        let name = match host {
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        };
        let connector = TlsConnector::from(self.client.get());
        let shake = async |socket| connector.connect(name, socket).await.map(TlsStream::from);
        Stream::secured(hop, address, shake).await
    }
}

/// Which of RFC 9209's errors a handshake that failed is.
pub(crate) fn error_type(error: &io::Error) -> ProxyError {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => ProxyError::TlsCertificateError,
        Some(rustls::Error::AlertReceived(_)) => ProxyError::TlsAlertReceived,
        _ => ProxyError::TlsProtocolError,
    }
}

fn server_config(files: &[PathBuf]) -> Result<ServerConfig, FileError> {
    let [certificate, key] = files else { unreachable!("a certificate has a key") };
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_words(key, error))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| FileError::new(certificate, &error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Whom to trust: the authorities of the file, or those that this system trusts.
fn client_config(files: &[PathBuf]) -> Result<ClientConfig, FileError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = files.first() {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| FileError::new(file, &error))?;
        }
    } else {
        // Some that this system has may be of no use; without any, each https hop says why.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(|error| in_words(file, error))?;
    if certificates.is_empty() {
        return Err(FileError::new(file, &"it holds no certificate in PEM"));
    }
    Ok(certificates)
}

fn in_words(file: &Path, error: pem::Error) -> FileError {
    match error {
        pem::Error::Io(error) => FileError::new(file, &error),
        pem::Error::NoItemsFound => FileError::new(file, &"it holds no private key in PEM"),
        other => FileError::new(file, &format!("it is no PEM: {other}")),
    }
}
