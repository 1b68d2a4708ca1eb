// SPDX-License-Identifier: GPL-2.0-or-later
//! Which certificate a client sees: that of the site it asks for (SNI), or else the depot's own.
//!
//! Certificates are read again when their files change, and judged then ([`worse_than`]). One that clients would refuse does
//! not replace one that they take. Each change forgets the sessions of clients: who resumes one sees no certificate, and
//! would not notice that it is another one.

use crate::{
    certificate::{Described, Judged, Problem, Validity, server_name, worse_than},
    config::Config,
    observe::status::ShownCertificate,
    tls::Protocol,
};
use host::{FileError, ReloadingFile, SettingFile};
use protocol::{Host, Scheme};
use relay::tcp::tls_files::{certificates, in_words};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};
use tokio_rustls::rustls::{
    self, ServerConfig,
    client::verify_server_name,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};

/// A certificate with its key.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    key: Arc<CertifiedKey>,
    /// What it says.
    pub described: Described,
}

/// All of a depot, by the names for which clients see them.
#[derive(Debug)]
pub(crate) struct ShownCertificates {
    by_name: Arc<ByName>,
    /// The names by which clients call the depot itself.
    names: Vec<Host>,
    /// Whom the depot trusts; none for those whom this system trusts.
    trusted: Option<PathBuf>,
    config: RwLock<Arc<ServerConfig>>,
}

#[derive(Debug, Clone)]
struct ByName {
    /// The depot's own, for all other names and for none.
    own: Option<Arc<ReloadingFile<OwnCertificate>>>,
    sites: HashMap<String, Arc<ReloadingFile<OwnCertificate>>>,
}

impl ShownCertificates {
    /// Reads them; none where the configuration names none.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, FileError> {
        let Config { tls: files, sites, .. } = config;
        let own = files.certificate.as_deref().zip(files.key.as_deref());
        let own = own.map(|pair| read(pair, ["tls.certificate", "tls.key"])).transpose()?;
        let mut by_name = HashMap::new();
        for site in sites {
            let Some(pair) = site.certificate.as_deref().zip(site.key.as_deref()) else { continue };
            let read = read(pair, ["site.certificate", "site.key"])?;
            check_name(&read, site.name.as_str())?;
            by_name.insert(site.name.as_str().to_owned(), Arc::new(read));
        }
        if own.is_none() && by_name.is_empty() {
            return Ok(None);
        }
        let by_name = Arc::new(ByName { own: own.map(Arc::new), sites: by_name });
        let names = config.names.iter().filter(|name| name.scheme == Scheme::Https);
        let names = names.map(|name| name.authority.host.clone()).collect();
        let shown = RwLock::new(by_name.config());
        Ok(Some(Self { by_name, names, trusted: files.roots.clone(), config: shown }))
    }

    /// What a handshake with a client takes.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self) {
        let mut has_changed = false;
        for (site, file) in self.files() {
            let before = file.get();
            file.refresh_if(|old, new| match self.worse(site, old, new) {
                None => Ok(()),
                Some(why) => Err(FileError::new(
                    file.file(),
                    &format!(
                        "clients would refuse this certificate, unlike the one before it: {why}. The depot keeps the \
                         one before it. Correct the file, or restart the depot to use it all the same"
                    ),
                )),
            });
            has_changed |= !Arc::ptr_eq(&before, &file.get());
        }
        if has_changed {
            // With it go the sessions of clients.
            *self.config.write().unwrap_or_else(PoisonError::into_inner) = self.by_name.config();
        }
    }

    /// Keeps what the settings before these have in memory, where the same file now holds something that clients would
    /// refuse. Returns which, and why.
    pub(crate) fn inherit(&mut self, before: &Self) -> Vec<(PathBuf, String)> {
        let mut by_name = ByName::clone(&self.by_name);
        let mut kept = Vec::new();
        for (site, old) in before.files() {
            let slot = match site {
                None => by_name.own.as_mut(),
                Some(name) => by_name.sites.get_mut(name),
            };
            let Some(new) = slot.filter(|new| new.file() == old.file()) else { continue };
            if let Some(why) = self.worse(site, &old.get(), &new.get()) {
                kept.push((old.file().to_owned(), why));
                *new = Arc::clone(old);
            }
        }
        if !kept.is_empty() {
            self.by_name = Arc::new(by_name);
            self.config = RwLock::new(self.by_name.config());
        }
        kept
    }

    /// Why clients that take `old` refuse `new`, of the depot itself or of a site.
    fn worse(
        &self,
        site: Option<&str>,
        old: &OwnCertificate,
        new: &OwnCertificate,
    ) -> Option<String> {
        let judge = |of: &'_ OwnCertificate| self.problems(site, of);
        let [before, after] = [old, new].map(|of| Judged {
            chain: &of.key.cert,
            described: &of.described,
            problems: judge(of),
        });
        let has_names = site.is_some() || !self.names.is_empty();
        worse_than(&before, &after, has_names, self.trusted.as_ref())
    }

    /// What clients refuse a certificate for.
    fn problems(&self, site: Option<&str>, of: &OwnCertificate) -> Vec<Problem> {
        let hosts = match site {
            Some(name) => vec![Host::Name(name.to_owned())],
            None => self.names.clone(),
        };
        let refused = hosts.into_iter().filter(|host| of.refusal(host).is_some());
        of.described.problems(refused.map(|host| host.to_string()), SystemTime::now())
    }

    /// Why clients that call the depot by this host refuse the certificate that they see; nothing if they take it.
    pub(crate) fn objection(&self, host: &Host) -> Option<String> {
        let Some(own) = &self.by_name.own else {
            return Some("the depot has no certificate of its own, only those of sites".to_owned());
        };
        let error = own.get().refusal(host)?;
        Some(format!("{}: {error}", own.file().display()))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ReloadingFile<OwnCertificate>> {
        self.files().map(|(_, file)| &**file)
    }

    /// All of them, with the sites that they are for.
    fn files(&self) -> impl Iterator<Item = (Option<&str>, &Arc<ReloadingFile<OwnCertificate>>)> {
        let ByName { own, sites } = &*self.by_name;
        own.iter()
            .map(|file| (None, file))
            .chain(sites.iter().map(|(name, file)| (Some(name.as_str()), file)))
    }

    /// What is wrong with each, for operators.
    pub(crate) fn found(&self) -> impl Iterator<Item = (&Path, Vec<Problem>)> {
        self.files().map(|(site, file)| (file.file(), self.problems(site, &file.get())))
    }

    /// As the status has them.
    pub(crate) fn shown(&self) -> Vec<ShownCertificate> {
        let shown = |(site, file): (Option<&str>, &Arc<ReloadingFile<OwnCertificate>>)| {
            let own = file.get();
            let problems = self.problems(site, &own);
            ShownCertificate {
                of: site.unwrap_or("own").to_owned(),
                names: own.described.names(),
                not_after_unix_s: own.described.validity.map_or(0.0, Validity::until_unix_s),
                problems: problems.iter().map(|it| it.token().to_owned()).collect(),
                refused: file.failure(),
            }
        };
        let mut all: Vec<_> = self.files().map(shown).collect();
        all.sort_by(|a, b| a.of.cmp(&b.of));
        all
    }
}

impl ByName {
    /// A configuration that knows no session yet.
    fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let shown: Arc<dyn ResolvesServerCert> = Arc::clone(self) as _;
        let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(shown);
        // Clients that offer both are served as before: each kind of request is known by its first byte.
        let protocols = [Protocol::Http, Protocol::Session].into_iter();
        config.alpn_protocols = protocols.filter_map(Protocol::alpn).map(Vec::from).collect();
        Arc::new(config)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase);
        let of_site = asked.and_then(|name| self.sites.get(&name));
        of_site.or(self.own.as_ref()).map(|shown| Arc::clone(&shown.get().key))
    }
}

/// Reads a certificate and its key, which these settings name.
fn read(
    (certificate, key): (&Path, &Path),
    settings: [&'static str; 2],
) -> Result<ReloadingFile<OwnCertificate>, FileError> {
    let files =
        vec![SettingFile::new(settings[0], certificate), SettingFile::new(settings[1], key)];
    ReloadingFile::new("certificates", files, pair, |own| own.described.to_string())
}

fn pair(files: &[PathBuf]) -> Result<OwnCertificate, FileError> {
    let [certificate, key] = files else { unreachable!("a certificate has a key") };
    let chain = certificates(certificate)?;
    let described = Described::of(&chain);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_words(key, error))?;
    let both = CertifiedKey::from_der(chain, secret, &aws_lc_rs::default_provider())
        .map_err(|error| not_a_pair(certificate, key, &error))?;
    Ok(OwnCertificate { key: Arc::new(both), described })
}

impl OwnCertificate {
    /// Why clients that ask for this host refuse the certificate.
    fn refusal(&self, host: &Host) -> Option<String> {
        match server_name(host) {
            Ok(name) => self.is_for(&name).err().map(|error| error.to_string()),
            Err(why) => Some(why),
        }
    }

    /// Whether clients that ask for this host take the certificate.
    fn is_for(&self, host: &ServerName<'_>) -> Result<(), rustls::Error> {
        let certificate = ParsedCertificate::try_from(self.key.end_entity_cert()?)?;
        verify_server_name(&certificate, host)
    }
}

/// Clients that ask for a site refuse a certificate for another name.
fn check_name(shown: &ReloadingFile<OwnCertificate>, name: &str) -> Result<(), FileError> {
    let host = ServerName::try_from(name).expect("a site's name is a DNS name");
    shown.get().is_for(&host).map_err(|error| {
        let reason = format!("this certificate is not for the [[site]] {name}: {error}");
        FileError::new(shown.file(), &reason)
    })
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
