// SPDX-License-Identifier: GPL-2.0-or-later
//! Certificates in files, as TLS needs them.

use host::FileError;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    pki_types::{
        CertificateDer,
        pem::{self, PemObject},
    },
};

/// What is spoken above TLS.
pub const ALPN: &[u8] = b"http/1.1";

/// Whom to trust: the authorities of the file, or those that this system trusts.
///
/// # Errors
/// The file cannot be read, or holds no certificate.
pub fn client_config(files: &[PathBuf]) -> Result<ClientConfig, FileError> {
    Ok(trusting(roots(files)?, ALPN))
}

fn trusting(roots: RootCertStore, alpn: &[u8]) -> ClientConfig {
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

/// A user's TLS client, set up when it is needed first. It trusts the authorities that this system trusts, and those of a
/// file.
#[derive(Debug)]
pub struct LazyClient {
    ca: Option<PathBuf>,
    alpn: &'static [u8],
    config: OnceLock<Arc<ClientConfig>>,
}

impl LazyClient {
    /// With a file of further authorities, for what is spoken above TLS.
    pub fn new(ca: Option<PathBuf>, alpn: &'static [u8]) -> Self {
        Self { ca, alpn, config: OnceLock::new() }
    }

    /// The client.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate.
    pub fn get(&self) -> Result<Arc<ClientConfig>, FileError> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let mut trusted = roots(&[])?;
        if let Some(file) = &self.ca {
            add(&mut trusted, file)?;
        }
        let config = Arc::new(trusting(trusted, self.alpn));
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

/// The authorities of the file, or those that this system trusts.
///
/// # Errors
/// The file cannot be read, or holds no certificate.
pub fn roots(files: &[PathBuf]) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = files.first() {
        add(&mut roots, file)?;
    } else {
        // Some that this system has may be of no use; without any, each https hop says why.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), FileError> {
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| FileError::new(file, &error))?;
    }
    Ok(())
}

/// The certificates of a file in PEM: at least one.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(|error| in_words(file, error))?;
    if certificates.is_empty() {
        return Err(FileError::new(file, &"it holds no certificate in PEM"));
    }
    Ok(certificates)
}

/// What is wrong with a file that is to be in PEM.
pub fn in_words(file: &Path, error: pem::Error) -> FileError {
    match error {
        pem::Error::Io(error) => FileError::io(file, &error),
        pem::Error::NoItemsFound if is_encrypted(file) => {
            let reason = format!(
                "the private key is encrypted, and there is no prompt for the password; decrypt it: openssl pkey -in {} -out NEW_FILE",
                file.display()
            );
            FileError::new(file, &reason)
        }
        pem::Error::NoItemsFound => FileError::new(file, &"it holds no private key in PEM"),
        other => FileError::new(file, &format!("it is not a PEM file: {other}")),
    }
}

/// Whether a file holds a private key that only a password opens (RFC 7468, section 11).
fn is_encrypted(file: &Path) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    let mark = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    text.windows(mark.len()).any(|part| part == mark)
}
