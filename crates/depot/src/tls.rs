// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS towards clients and next hops: certificates, whom to trust, handshakes.

use crate::{
    certificate::{Trouble, Validity},
    config::TlsFiles,
    observe::status::Reload,
};
use host::{FileError, ReloadingFile};
use relay::tcp::{
    Stream,
    tls_files::{ALPN, certificates, client_config, in_words},
};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{
    self, ClientConfig, ServerConfig,
    pki_types::{PrivateKeyDer, pem::PemObject},
};

/// What TLS needs.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Towards clients: the depot's own certificate, if it has one.
    server: Option<Arc<ReloadingFile<Own>>>,
    /// Towards next hops: whom to trust.
    client: ReloadingFile<ClientConfig>,
    /// What was said last of the certificate's time, and when.
    said: Mutex<Option<(Trouble, Instant)>>,
}

/// What the depot shows clients.
#[derive(Debug)]
struct Own {
    config: Arc<ServerConfig>,
    validity: Option<Validity>,
}

/// How often the same is said of a certificate.
const AGAIN: Duration = Duration::from_secs(86_400);

impl Tls {
    /// Reads certificates, key and roots.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, FileError> {
        let own = files.certificate.clone().zip(files.key.clone());
        let server = own.map(|(certificate, key)| {
            ReloadingFile::new("certificates", vec![certificate, key], server_config, |_| {
                String::new()
            })
        });
        let roots = files.roots.iter().cloned().collect();
        let tls = Self {
            server: server.transpose()?.map(Arc::new),
            client: ReloadingFile::new("roots", roots, client_config, |_| String::new())?,
            said: Mutex::default(),
        };
        tls.judge();
        Ok(tls)
    }

    /// How it went when the files were read last.
    pub(crate) fn reloads(&self) -> impl Iterator<Item = Reload> {
        let own = self.server.iter().map(|server| server.last_read());
        own.chain([self.client.last_read()]).map(Reload::of)
    }

    /// When the certificate is good, if there is one and it says so.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.server.as_ref()?.get().validity
    }

    /// Says what is wrong with the certificate's time: once, and again each day.
    fn judge(&self) {
        let Some(server) = &self.server else { return };
        let trouble = server.get().validity.and_then(|it| it.trouble(SystemTime::now()));
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trouble) = trouble else {
            *said = None;
            return;
        };
        if said.is_none_or(|(what, when)| what != trouble || when.elapsed() >= AGAIN) {
            *said = Some((trouble, Instant::now()));
            tracing::warn!("the certificate {} {trouble}", server.file().display());
        }
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self) {
        self.server.iter().for_each(|server| server.refresh());
        self.client.refresh();
        self.judge();
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
        relay::tcp::tls::accept(Arc::clone(&server.get().config), client, peer).await
    }

    /// Whose certificates next hops may have.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client.get()
    }
}

fn server_config(files: &[PathBuf]) -> Result<Own, FileError> {
    let [certificate, key] = files else { unreachable!("a certificate has a key") };
    let chain = certificates(certificate)?;
    let validity = Validity::of(&chain);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_words(key, error))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| not_a_pair(certificate, key, &error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Own { config: Arc::new(config), validity })
}

/// Why a certificate and a key cannot be used together.
fn not_a_pair(certificate: &Path, key: &Path, error: &rustls::Error) -> FileError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let reason = format!(
                "this certificate and the key in {} do not belong together: name the key that the \
                 certificate was made with",
                key.display()
            );
            FileError::new(certificate, &reason)
        }
        error => FileError::new(certificate, error),
    }
}
