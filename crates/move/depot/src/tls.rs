// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS towards clients and next hops: certificates, whom to trust, handshakes.

use crate::{
    certificate::{Problem, Trouble, Validity},
    config::Config,
    observe::status::{Reload, ShownCertificate},
    shown_certificates::{OwnCertificate, ShownCertificates},
    wrong_port::ClearText,
};
use host::{FileError, ReloadingFile, SettingFile};
use protocol::Host;
use relay::tcp::{
    Stream,
    tls_files::{self, client_config},
};
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{ClientConfig, client::Resumption};

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
            Self::Session => Some(protocol::session::ALPN),
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
    /// The same with what was learned of servers lately.
    lately: Mutex<Option<Lately>>,
    /// The last warning about each certificate's validity, and its time.
    said: Mutex<HashMap<PathBuf, (Trouble, Instant)>>,
}

/// What was made of the trusted authorities, with sessions of servers that can be resumed.
#[derive(Debug)]
struct Lately {
    of: Arc<ClientConfig>,
    config: Arc<ClientConfig>,
    since: Instant,
}

/// For how long sessions with next hops are resumed without a look at their certificates, which may have changed.
const RESUMED: Duration = Duration::from_secs(600);
/// How many servers' sessions are remembered.
const SERVERS: usize = 256;

/// How often the same warning about a certificate is repeated.
const AGAIN: Duration = Duration::from_secs(86_400);

impl Tls {
    /// Reads certificates, keys and roots.
    pub(crate) fn new(config: &Config) -> Result<Self, FileError> {
        let roots =
            config.tls.roots.iter().map(|file| SettingFile::new("tls.roots", file)).collect();
        let tls = Self {
            server: ShownCertificates::new(config)?.map(Arc::new),
            client: ReloadingFile::new("roots", roots, client_config, |_| String::new())?,
            lately: Mutex::default(),
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
        self.shown().filter_map(|own| own.get().described.validity).reduce(Validity::and)
    }

    /// The certificates that clients may see.
    fn shown(&self) -> impl Iterator<Item = &ReloadingFile<OwnCertificate>> {
        self.server.iter().flat_map(|server| server.all())
    }

    /// Says what is wrong with a certificate's time: once, and again each day.
    fn judge(&self) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for own in self.shown() {
            let trouble = own.get().described.validity.and_then(|it| it.trouble(SystemTime::now()));
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
        self.server.iter().for_each(|server| server.refresh());
        self.client.refresh();
        self.judge();
    }

    /// What is wrong with each certificate that clients may see, with its file.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&Path, Vec<Problem>)> {
        self.server.iter().flat_map(|server| server.found())
    }

    /// The certificates that clients may see.
    pub(crate) fn certificates(&self) -> Vec<ShownCertificate> {
        self.server.as_ref().map(|server| server.shown()).unwrap_or_default()
    }

    /// Keeps the certificates of `before` where their files now hold some that clients would refuse. Call it before others
    /// can use these settings.
    pub(crate) fn keep_better_certificates(&mut self, before: &Self) {
        let (Some(server), Some(before)) = (&mut self.server, &before.server) else { return };
        let Some(server) = Arc::get_mut(server) else { return };
        for (file, why) in server.inherit(before) {
            let file = file.display();
            tracing::warn!(
                %file,
                "clients would refuse the certificate in this file, unlike the one before it: {why}. The depot keeps the \
                 one before it. Correct the file, or restart the depot to use it all the same"
            );
        }
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
        let config = self.client_lately();
        if protocol == Protocol::Http {
            return config;
        }
        // What it has learned of servers is shared with the original.
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = protocol.alpn().map(Vec::from).into_iter().collect();
        Arc::new(config)
    }

    /// The authorities as they are now, with sessions of the last [`RESUMED`].
    fn client_lately(&self) -> Arc<ClientConfig> {
        let of = self.client.get();
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = &*lately
            && Arc::ptr_eq(&it.of, &of)
            && it.since.elapsed() < RESUMED
        {
            return Arc::clone(&it.config);
        }
        let mut config = ClientConfig::clone(&of);
        config.resumption = Resumption::in_memory_sessions(SERVERS);
        let config = Arc::new(config);
        *lately = Some(Lately { of, config: Arc::clone(&config), since: Instant::now() });
        config
    }
}
