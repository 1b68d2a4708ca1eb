// SPDX-License-Identifier: GPL-2.0-or-later
//! Which certificate a client sees: that of the site it asks for (SNI), or else the depot's own.

use crate::{
    certificate::Validity,
    config::{Site, TlsFiles},
    tls::Protocol,
};
use host::{FileError, ReloadingFile, SettingFile};
use relay::tcp::tls_files::{certificates, in_words};
use session::Host;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
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
    /// When it is good.
    pub validity: Option<Validity>,
}

/// All of a depot, by the names for which clients see them.
#[derive(Debug)]
pub(crate) struct ShownCertificates {
    by_name: Arc<ByName>,
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
struct ByName {
    /// The depot's own, for all other names and for none.
    own: Option<ReloadingFile<OwnCertificate>>,
    sites: HashMap<String, ReloadingFile<OwnCertificate>>,
}

impl ShownCertificates {
    /// Reads them; none where the configuration names none.
    pub(crate) fn new(files: &TlsFiles, sites: &[Site]) -> Result<Option<Self>, FileError> {
        let own = files.certificate.as_deref().zip(files.key.as_deref());
        let own = own.map(|pair| read(pair, ["tls.certificate", "tls.key"])).transpose()?;
        let mut by_name = HashMap::new();
        for site in sites {
            let Some(pair) = site.certificate.as_deref().zip(site.key.as_deref()) else { continue };
            let read = read(pair, ["site.certificate", "site.key"])?;
            check_name(&read, site.name.as_str())?;
            by_name.insert(site.name.as_str().to_owned(), read);
        }
        if own.is_none() && by_name.is_empty() {
            return Ok(None);
        }
        let by_name = Arc::new(ByName { own, sites: by_name });
        let shown: Arc<dyn ResolvesServerCert> = Arc::clone(&by_name) as _;
        let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(shown);
        // Clients that offer both are served as before: each kind of request is known by its first byte.
        let protocols = [Protocol::Http, Protocol::Session].into_iter();
        config.alpn_protocols = protocols.filter_map(Protocol::alpn).map(Vec::from).collect();
        Ok(Some(Self { by_name, config: Arc::new(config) }))
    }

    /// What a handshake with a client takes.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Why clients that call the depot by this host refuse the certificate that they see; nothing if they take it.
    pub(crate) fn objection(&self, host: &Host) -> Option<String> {
        let Some(own) = &self.by_name.own else {
            return Some("the depot has no certificate of its own, only those of sites".to_owned());
        };
        let name = match host {
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
            Host::Name(name) => match ServerName::try_from(name.as_str()) {
                Ok(name) => name,
                Err(error) => return Some(error.to_string()),
            },
        };
        let error = own.get().is_for(&name).err()?;
        Some(format!("{}: {error}", own.file().display()))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ReloadingFile<OwnCertificate>> {
        self.by_name.own.iter().chain(self.by_name.sites.values())
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
    ReloadingFile::new("certificates", files, pair, |_| String::new())
}

fn pair(files: &[PathBuf]) -> Result<OwnCertificate, FileError> {
    let [certificate, key] = files else { unreachable!("a certificate has a key") };
    let chain = certificates(certificate)?;
    let validity = Validity::of(&chain);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_words(key, error))?;
    let both = CertifiedKey::from_der(chain, secret, &aws_lc_rs::default_provider())
        .map_err(|error| not_a_pair(certificate, key, &error))?;
    Ok(OwnCertificate { key: Arc::new(both), validity })
}

impl OwnCertificate {
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
