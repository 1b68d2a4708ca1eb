// SPDX-License-Identifier: GPL-2.0-or-later
//! Endpoints, prefix, TLS and login.

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use serde::{Deserialize, Serialize};
use std::{fs, io, path::PathBuf, time::Duration};

/// Time limits for connecting, and for a response.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(10);
/// Interval and time limit of HTTP/2 keepalive, which detects partitions.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of a certificate or password file, in bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// Connection settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Members of one cluster: `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Prefix of all keys. Ends in a slash.
    #[serde(default = "Settings::usual_prefix")]
    pub prefix: String,
    /// Trusted authorities (PEM) for `https`. `None`: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A client certificate (PEM), with `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// A user, with `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File with the user's password in its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

/// Why etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the settings cannot be read.
    #[error("{}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// etcd refuses, or is unreachable.
    #[error("etcd: {0}")]
    Etcd(#[from] etcd_client::Error),
    /// etcd does not respond in time.
    #[error("etcd does not respond within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The lease has expired, or etcd ended the watch.
    #[error("etcd: {0}")]
    Ended(String),
}

impl Settings {
    fn usual_prefix() -> String {
        "/longhaul/depots/".to_owned()
    }

    /// Validates the settings.
    ///
    /// # Errors
    /// The text names the wrong key.
    pub fn check(&self) -> Result<(), String> {
        let is_url = |endpoint: &&String| {
            let rest = endpoint.strip_prefix("http://").or(endpoint.strip_prefix("https://"));
            rest.is_none_or(|host| host.is_empty() || host.contains(['/', '@', ' ']))
        };
        if self.endpoints.is_empty() {
            return Err("`etcd.endpoints` names no member".to_owned());
        }
        if let Some(wrong) = self.endpoints.iter().find(is_url) {
            return Err(format!("`etcd.endpoints`: {wrong:?} is not http[s]://HOST:PORT"));
        }
        if !self.prefix.ends_with('/') || self.prefix.len() > 256 {
            return Err(
                "`etcd.prefix` has to end in a slash, and to have at most 256 bytes".to_owned()
            );
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err("`etcd.certificate` and `etcd.key` need each other".to_owned());
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Err("`etcd.user` and `etcd.password_file` need each other".to_owned());
        }
        Ok(())
    }

    /// Connects to one of the members.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(ANSWER)
            .with_keep_alive(ALIVE_EVERY, ALIVE_WITHIN)
            .with_keep_alive_while_idle(true)
            // A member that has lost the others says so.
            .with_require_leader(true);
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let text = read(file)?;
            options = options.with_user(user, text.lines().next().unwrap_or_default());
        }
        if self.endpoints.iter().any(|endpoint| endpoint.starts_with("https:")) {
            options = options.with_tls(self.tls()?);
        }
        Ok(Client::connect(&self.endpoints, Some(options)).await?)
    }

    fn tls(&self) -> Result<TlsOptions, Error> {
        let mut tls = TlsOptions::new();
        tls = match &self.ca {
            Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
            None => tls.with_native_roots(),
        };
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(tls)
    }
}

fn read(file: &PathBuf) -> Result<String, Error> {
    let failed = |error| Error::File { file: file.clone(), error };
    if fs::metadata(file).map_err(failed)?.len() > LONGEST_FILE {
        return Err(failed(io::Error::other("it is too large")));
    }
    fs::read_to_string(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let good = Settings {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            prefix: Settings::usual_prefix(),
            ca: None,
            certificate: None,
            key: None,
            user: None,
            password_file: None,
        };
        assert_eq!(good.check(), Ok(()));
        let wrong = |change: &dyn Fn(&mut Settings)| {
            let mut settings = good.clone();
            change(&mut settings);
            settings.check().unwrap_err()
        };
        for (found, part) in [
            (wrong(&|it| it.endpoints.clear()), "names no member"),
            (wrong(&|it| it.endpoints = vec!["127.0.0.1:2379".to_owned()]), "is not http[s]://"),
            (wrong(&|it| it.endpoints = vec!["http://u@h:1".to_owned()]), "is not http[s]://"),
            (wrong(&|it| it.prefix = "/x".to_owned()), "end in a slash"),
            (wrong(&|it| it.user = Some("u".to_owned())), "need each other"),
            (wrong(&|it| it.key = Some("k".into())), "need each other"),
        ] {
            assert!(found.contains(part), "{found}");
        }
    }
}
