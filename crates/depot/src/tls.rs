// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS towards clients and next hops: certificates, whom to trust, handshakes.

use crate::{
    certificate::{Trouble, Validity},
    config::{Site, TlsFiles},
    observe::status::Reload,
    shown_certificates::{OwnCertificate, ShownCertificates},
    wrong_port::ClearText,
};
use host::{FileError, ReloadingFile, SettingFile};
use relay::tcp::{
    Stream,
    tls_files::{self, client_config},
};
use session::Host;
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Requests and answers.
    Http,
    /// One session (`docs/lsl.md`).
    Session,
    /// Bytes that mean nothing to a depot.
    Tcp,
    /// TLS on a port without, which is refused.
    Tls,
}

impl Protocol {
    /// Its name in TLS.
    pub(crate) const fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Self::Http => Some(tls_files::ALPN),
            Self::Session => Some(session::lsl::ALPN),
            Self::Tcp | Self::Tls => None,
        }
    }
}

/// The result of a client's connection on a TLS port.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// The handshake is made.
    Secured(Stream),
    /// The client speaks this instead. Nothing of it has been read.
    ClearText(Stream, ClearText),
}

/// What TLS needs.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Towards clients: certificates of the depot and of its sites, if there are any.
    server: Option<Arc<ShownCertificates>>,
    /// Towards next hops: whom to trust.
    client: ReloadingFile<ClientConfig>,
    /// The last warning about each certificate's validity, and its time.
    said: Mutex<HashMap<PathBuf, (Trouble, Instant)>>,
}

/// How often the same warning about a certificate is repeated.
const AGAIN: Duration = Duration::from_secs(86_400);

impl Tls {
    /// Reads certificates, keys and roots.
    pub(crate) fn new(files: &TlsFiles, sites: &[Site]) -> Result<Self, FileError> {
        let roots = files.roots.iter().map(|file| SettingFile::new("tls.roots", file)).collect();
        let tls = Self {
            server: ShownCertificates::new(files, sites)?.map(Arc::new),
            client: ReloadingFile::new("roots", roots, client_config, |_| String::new())?,
            said: Mutex::default(),
        };
        tls.judge();
        Ok(tls)
    }

    /// How it went when the files were read last.
    pub(crate) fn reloads(&self) -> impl Iterator<Item = Reload> {
        let shown = self.shown().map(ReloadingFile::last_read);
        shown.chain([self.client.last_read()]).map(Reload::of)
    }

    /// Why clients that call the depot by this host refuse its certificate; nothing if they take it, or if it has none.
    pub(crate) fn objection(&self, host: &Host) -> Option<String> {
        self.server.as_ref()?.objection(host)
    }

    /// When all certificates are good that say so, if there are any.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.shown().filter_map(|own| own.get().validity).reduce(Validity::and)
    }

    /// The certificates that clients may see.
    fn shown(&self) -> impl Iterator<Item = &ReloadingFile<OwnCertificate>> {
        self.server.iter().flat_map(|server| server.all())
    }

    /// Says what is wrong with a certificate's time: once, and again each day.
    fn judge(&self) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for own in self.shown() {
            let trouble = own.get().validity.and_then(|it| it.trouble(SystemTime::now()));
            let Some(trouble) = trouble else {
                said.remove(own.file());
                continue;
            };
            let last = said.get(own.file());
            if last.is_none_or(|(what, when)| *what != trouble || when.elapsed() >= AGAIN) {
                said.insert(own.file().to_owned(), (trouble, Instant::now()));
                tracing::warn!("the certificate {} {trouble}", own.file().display());
            }
        }
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self) {
        self.shown().for_each(ReloadingFile::refresh);
        self.client.refresh();
        self.judge();
    }

    /// If this has no certificate, keeps that of `before`. Returns whether it does.
    pub(crate) fn keep_certificate(&mut self, before: &Self) -> bool {
        let kept = self.server.is_none() && before.server.is_some();
        if kept {
            self.server.clone_from(&before.server);
        }
        kept
    }

    /// A client's connection, once the handshake is made, or the client speaks something else than TLS.
    pub(crate) async fn accept(&self, client: TcpStream, peer: SocketAddr) -> io::Result<Accepted> {
        let Some(server) = &self.server else {
            return Err(io::Error::other("this depot has no certificate"));
        };
        let mut first = [0];
        if client.peek(&mut first).await? == 1
            && let Some(spoken) = ClearText::of(first[0])
        {
            return Ok(Accepted::ClearText(Stream::new(client, peer), spoken));
        }
        let secured = relay::tcp::tls::accept(server.config(), client, peer).await?;
        Ok(Accepted::Secured(secured))
    }

    /// Whose certificates next hops may have.
    pub(crate) fn client(&self, protocol: Protocol) -> Arc<ClientConfig> {
        let config = self.client.get();
        if protocol == Protocol::Http {
            return config;
        }
        // What it has learned of servers is shared with the original.
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = protocol.alpn().map(Vec::from).into_iter().collect();
        Arc::new(config)
    }
}
