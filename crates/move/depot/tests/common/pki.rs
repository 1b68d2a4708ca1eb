// SPDX-License-Identifier: GPL-2.0-or-later
//! A certificate authority of the test's own, and depots and origins that have its certificates.

use super::{
    client::{connect, curl},
    process::Daemon,
    web::{NGINX, Server, nginx_conf},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::{
    fs,
    io::{Read, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, Stream,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// An authority, and what it has signed, as files.
pub struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub dir: TempDir,
}

impl Pki {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        // Unlike that of what it signs, or clients take that for signed by itself.
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pki = Self { issuer, dir: tempfile::tempdir().unwrap() };
        fs::write(pki.roots(), pki.issuer.pem()).unwrap();
        pki.issue("own", "127.0.0.1");
        pki
    }

    /// Writes a certificate for a host, and its key.
    pub fn issue(&self, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
    }

    /// The same, good for a time of choice.
    pub fn issue_for(&self, name: &str, host: &str, from: SystemTime, until: SystemTime) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (from.into(), until.into());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        // The one that is looked at first is written last, so that both are seen together in the end.
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
    }

    /// Writes a certificate with its key as `changed` makes it, signed by the authority or, if `alone`, by itself.
    pub fn issue_changed(
        &self,
        name: &str,
        hosts: &[&str],
        alone: bool,
        changed: impl FnOnce(&mut CertificateParams),
    ) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        changed(&mut params);
        let certificate = if alone {
            params.self_signed(&key).unwrap()
        } else {
            params.signed_by(&key, &self.issuer).unwrap()
        };
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn roots(&self) -> PathBuf {
        self.file("roots.pem")
    }

    /// The settings of a client that trusts the authority, and resumes its sessions.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.roots()).unwrap()).unwrap();
        Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// The settings of a depot that speaks TLS alone, with the certificate of this name.
    pub fn settings(&self, own: &str, more: &str) -> String {
        let file = |name: &str| self.file(name).display().to_string();
        format!(
            "listen = []\n{more}\n[tls]\nlisten = [\"127.0.0.1:0\"]\nroots = {:?}\n\
             certificate = {:?}\nkey = {:?}\n",
            file("roots.pem"),
            file(&format!("{own}.pem")),
            file(&format!("{own}.key")),
        )
    }

    /// Such a depot.
    pub fn depot(&self, settings: &str) -> Daemon {
        Daemon::depot_with(&self.settings("own", settings))
    }

    /// curl, which trusts the authority.
    pub fn curl(&self, args: &[&str]) -> std::process::Output {
        curl(&[&["--cacert", self.roots().to_str().unwrap()], args].concat())
    }

    /// nginx with TLS, which serves `file` and takes uploads.
    pub fn nginx(&self, own: &str, file: &[u8]) -> Server {
        Server::start(&NGINX, |dir, address| {
            fs::create_dir_all(dir.join("site")).unwrap();
            fs::write(dir.join("site/file"), file).unwrap();
            let (site, pem) = (dir.join("site"), self.file(&format!("{own}.pem")));
            let server = format!(
                "server {{ listen {address} ssl; root {}; dav_methods PUT;\n\
                 default_type application/octet-stream;\n\
                 ssl_certificate {}; ssl_certificate_key {}; client_max_body_size 0; }}",
                site.display(),
                pem.display(),
                pem.with_extension("key").display()
            );
            fs::write(dir.join("main.conf"), nginx_conf(dir, &server)).unwrap();
        })
    }
}

/// The URL at the first depot that fetches from `origin` through the others.
pub fn url(depots: &[Daemon], origin: SocketAddr, path: &str) -> String {
    let chain: Vec<_> =
        depots[1..].iter().map(|depot| format!("https:{}", depot.address)).collect();
    let chain = if chain.is_empty() { "-".to_owned() } else { chain.join(",") };
    format!("https://{}/lh1/fetch/{chain}/https:{origin}{path}", depots[0].address)
}

/// A question of a client to a depot over a new connection: whether its TLS session was resumed.
pub fn handshake_kind(config: &Arc<ClientConfig>, depot: SocketAddr) -> HandshakeKind {
    let name = ServerName::from(depot.ip());
    let mut tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut socket = connect(depot);
    let mut stream = Stream::new(&mut tls, &mut socket);
    let question = "OPTIONS * HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n";
    stream.write_all(question.as_bytes()).unwrap();
    // What it is known by comes with the answer.
    let _ = stream.read_to_end(&mut Vec::new());
    tls.handshake_kind().unwrap()
}
