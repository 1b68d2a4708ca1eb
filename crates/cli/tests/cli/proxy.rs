// SPDX-License-Identifier: GPL-2.0-or-later
//! `[proxy]`: real curl that uses a depot as its proxy.

use crate::{
    common::{done, longhaul, text},
    depot::Depot,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use testkit::until;

/// Runs openssl, which has to be there as for an operator.
fn openssl(dir: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("openssl");
    command.current_dir(dir).args(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("openssl, of the Debian package of that name");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Makes `own.pem` and `own.key`, the certificate of `localhost` and 127.0.0.1 that is its own authority.
pub fn make_certificate(dir: &Path) {
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let server = "basicConstraints=critical,CA:FALSE";
    let subject = ["-subj", "/CN=localhost", "-addext", names, "-addext", server];
    let files = ["-keyout", "own.key", "-out", "own.pem"];
    openssl(dir, &[&request[..], &subject, &files].concat(), "");
}

/// A server of files with TLS, or without; ended when dropped.
pub struct Files {
    child: Child,
    pub port: String,
}

impl Files {
    /// With TLS, by what [`make_certificate`] makes.
    pub fn secured(dir: &Path) -> Self {
        let arguments =
            ["s_server", "-accept", "127.0.0.1:0", "-cert", "own.pem", "-key", "own.key", "-WWW"];
        let child = Command::new("openssl")
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let accepts = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ACCEPT "));
        let accepts = accepts.expect("a server that starts says so");
        // Read to its end, so that the server never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, port: accepts.rsplit(':').next().unwrap().to_owned() }
    }

    pub fn plain(dir: &Path) -> Self {
        let mut command = longhaul();
        command.args(["origin", dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = lines.by_ref().map_while(Result::ok).find(|line| line.contains("ready"));
        let ready = ready.expect("a server that starts says so");
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let address = ready.split("listen=").nth(1).unwrap();
        let address = address.split(['"', ' ']).find(|word| !word.is_empty()).unwrap();
        Self { child, port: address.rsplit(':').next().unwrap().to_owned() }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A proxy as an operator sets it up, one more depot, and two servers of the same file.
struct Setting {
    dir: tempfile::TempDir,
    secured: Files,
    plain: Files,
    next: Depot,
}

pub const OPEN: &str = "[allow]\nclients = [\"127.0.0.0/8\"]\nservers = [\"127.0.0.1:*\", \"localhost:*\"]\nlocal = true\n";

impl Setting {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        make_certificate(path);
        fs::write(path.join("set.bin"), vec![b'x'; 300_000]).unwrap();
        let hash = openssl(path, &["passwd", "-6", "-stdin"], "secret\n");
        fs::write(path.join("passwords"), format!("ann:{hash}")).unwrap();
        let key = path.join("key.pem");
        let public = path.join("keys.json");
        done(&["ticket", "keygen", key.to_str().unwrap(), "--public", public.to_str().unwrap()]);
        fs::write(
            path.join("next.toml"),
            format!("[trust]\nkeys = {:?}\n{OPEN}", public.display().to_string()),
        )
        .unwrap();
        let next = path.join("next.toml");
        let next = Depot::named("d2", &["--config", next.to_str().unwrap()]);
        Self { secured: Files::secured(path), plain: Files::plain(path), next, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn proxy(&self, more: &str) -> Depot {
        let file = |name: &str| self.path(name).display().to_string();
        let text = format!(
            "[proxy]\npasswords = {:?}\n{more}\n[control]\nsocket = {:?}\n[trust]\nkeys = {:?}\n{OPEN}",
            file("passwords"),
            file("control"),
            file("keys.json"),
        );
        fs::write(self.path("proxy.toml"), text).unwrap();
        done(&["depot", "check", &file("proxy.toml")]);
        Depot::start(&["--config", &file("proxy.toml")])
    }

    /// The file by HTTPS, and by HTTP.
    fn urls(&self) -> [String; 2] {
        let Self { secured, plain, .. } = self;
        [
            format!("https://localhost:{}/set.bin", secured.port),
            format!("http://127.0.0.1:{}/set.bin", plain.port),
        ]
    }

    /// What curl gets by a proxy: its exit code, the status of the proxy's or server's response, and the bytes.
    fn curl(&self, proxy: &str, url: &str, more: &[&str]) -> (i32, String, usize) {
        let ca = self.path("own.pem");
        let output = Command::new("curl")
            .args(["-q", "-sS", "--noproxy", "", "--max-time", "30", "-o", "got"])
            .args([
                "-w",
                "%{http_connect} %{http_code}",
                "--cacert",
                ca.to_str().unwrap(),
                "-x",
                proxy,
            ])
            .args(more)
            .arg(url)
            .current_dir(self.dir.path())
            .env_remove("http_proxy")
            .output()
            .expect("curl, of the Debian package of that name");
        let got = fs::read(self.path("got")).map_or(0, |bytes| bytes.len());
        let _ = fs::remove_file(self.path("got"));
        (output.status.code().unwrap(), text(&output.stdout), got)
    }
}

#[test]
fn curl_uses_a_depot_as_its_proxy_by_password() {
    let setting = Setting::new();
    let through = format!("via = [\"{}\"]", setting.next.listen);
    for more in ["", &through] {
        let proxy = setting.proxy(more);
        let [secured, plain] = setting.urls();
        let ann = format!("http://ann:secret@{}", proxy.listen);
        assert_eq!(setting.curl(&ann, &secured, &[]), (0, "200 200".to_owned(), 300_000), "{more}");
        assert_eq!(setting.curl(&ann, &plain, &[]), (0, "000 200".to_owned(), 300_000), "{more}");
        assert_eq!(setting.curl(&ann, &plain, &["-p"]).1, "200 200", "{more}");
        // curl asks first, and then shows the password that the proxy wants.
        assert_eq!(setting.curl(&ann, &secured, &["--proxy-anyauth"]).1, "200 200");
        for wrong in ["http://ann:guess@", "http://eve:secret@", "http://"] {
            let wrong = format!("{wrong}{}", proxy.listen);
            let (code, statuses, _) = setting.curl(&wrong, &secured, &[]);
            assert!(code != 0 && statuses == "407 000", "{wrong}: {code} {statuses}");
            assert_eq!(setting.curl(&wrong, &plain, &[]).1, "000 407", "{wrong}");
        }
    }
}

#[test]
fn curl_uses_a_depot_as_its_proxy_by_ticket() {
    let setting = Setting::new();
    let proxy = setting.proxy("");
    let via = format!("{},{}", proxy.listen, setting.next.listen);
    let key = setting.path("key.pem");
    let [secured, plain] = setting.urls();
    for (server, url, other, expected) in [
        (format!("tcp:localhost:{}", setting.secured.port), &secured, &plain, "200 200"),
        (format!("tcp:127.0.0.1:{}", setting.plain.port), &plain, &secured, "000 200"),
    ] {
        let made =
            ["ticket", "make", "--key", key.to_str().unwrap(), "--via", &via, "--session", &server];
        let user = format!("ticket:{}", done(&made).trim());
        let proxy = format!("http://{}", proxy.listen);
        let (code, statuses, bytes) = setting.curl(&proxy, url, &["--proxy-user", &user]);
        assert_eq!((code, statuses.as_str(), bytes), (0, expected, 300_000), "{server}");
        let (_, statuses, _) = setting.curl(&proxy, other, &["--proxy-user", &user]);
        assert!(statuses.contains("403"), "{server}: {statuses}");
    }
}

#[test]
fn operator_sees_and_denies_a_proxys_clients() {
    let setting = Setting::new();
    let proxy = setting.proxy("");
    let socket = setting.path("control").display().to_string();
    let say = |words: &[&str]| done(&[&["depot"], words, &["--socket", &socket]].concat());
    let mut client = std::net::TcpStream::connect(&proxy.listen).unwrap();
    let target = format!("127.0.0.1:{}", setting.plain.port);
    write!(
        client,
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n\r\n"
    )
    .unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    let list = say(&["transfers"]);
    assert!(list.contains(" ann ") && list.contains(&target), "{list}");
    say(&["deny", "--client", "127.0.0.1", "--for", "1h"]);
    until("the tunnel ends", || say(&["transfers"]).contains("no open transfers"));
    let ann = format!("http://ann:secret@{}", proxy.listen);
    let (code, statuses, _) = setting.curl(&ann, &setting.urls()[0], &[]);
    assert!(code != 0 && statuses == "403 000", "{statuses}");
}
