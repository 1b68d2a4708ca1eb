// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS towards clients, between depots and to origins: with the real curl, wget and nginx.

use crate::common::{
    client::{connect, curl, read_answer, status, wget},
    noise,
    pki::{Pki, handshake_kind, url},
    process::Daemon,
    sha256,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};
use testkit::until;
use tokio_rustls::rustls::{
    HandshakeKind, ServerConfig, ServerConnection, Stream,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn tls_on_every_hop_carries_files_both_ways() {
    let (pki, body) = (Pki::new(), noise(41, 3_000_017));
    let nginx = pki.nginx("own", &body);
    let methods = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                   local = true\nmethods = [\"GET\", \"HEAD\", \"PUT\"]";
    let depots = ["near", "far"].map(|id| {
        Daemon::depot_with(&format!("id = \"{id}\"\n{}{methods}", pki.settings("own", "")))
    });
    let file = url(&depots, nginx.address, "/file");
    let got = pki.curl(&["-f", &file]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert_eq!(sha256(&got.stdout), sha256(&body));
    let out = pki.file("out");
    let ca = format!("--ca-certificate={}", pki.roots().display());
    let got = wget(&[&ca, "-O", out.to_str().unwrap(), &file]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert_eq!(sha256(&fs::read(&out).unwrap()), sha256(&body));
    let part = pki.curl(&["-f", "-r", "2000000-2000099", &file]);
    assert_eq!(part.stdout, &body[2_000_000..2_000_100]);
    for (name, chunked) in [("sized", &[][..]), ("chunked", &["-H", "Transfer-Encoding: chunked"])]
    {
        let to = url(&depots, nginx.address, &format!("/{name}"));
        let sent = [&["-f", "-T", out.to_str().unwrap()], chunked, &[&to]].concat();
        let sent = pki.curl(&sent);
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        let arrived = fs::read(nginx.dir.path().join("site").join(name)).unwrap();
        assert_eq!(sha256(&arrived), sha256(&body), "{name}");
    }
    for depot in &depots {
        depot.await_log(&["complete", "bytes=3000017", "copy=\"copy\""]);
        depot.await_log(&["complete", "sent_bytes=3000017"]);
    }
}

#[test]
fn next_hop_without_valid_certificate_is_refused() {
    let (pki, strange) = (Pki::new(), Pki::new());
    pki.issue("other", "elsewhere.example");
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let answer = plain.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in plain.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let depot = [pki.depot("id = \"d1\"")];
    let (unknown, named) = (strange.nginx("own", b"x"), pki.nginx("other", b"x"));
    for (origin, error) in [
        (unknown.address, "tls_certificate_error"),
        (named.address, "tls_certificate_error"),
        (answer, "tls_protocol_error"),
    ] {
        let got = pki.curl(&["-i", &url(&depot, origin, "/file")]);
        let got = text(&got.stdout);
        assert!(got.starts_with("HTTP/1.1 502"), "{got}");
        assert!(got.contains(&format!("Proxy-Status: d1; error={error}")), "{got}");
    }
    for server in [&unknown, &named] {
        let log = fs::read_to_string(server.dir.path().join("access.log")).unwrap();
        assert!(!log.contains("/file"), "{log}");
    }
}

#[test]
fn certificates_are_renewed_in_place() {
    let (pki, body) = (Pki::new(), noise(42, 40_000_000));
    let nginx = pki.nginx("own", &body);
    let depot = [pki.depot("")];
    let serial = |pki: &Pki| {
        let got =
            pki.curl(&["-o", "/dev/null", "-w", "%{certs}", &url(&depot, nginx.address, "/")]);
        let certs = text(&got.stdout);
        let serial = certs.lines().find(|line| line.starts_with("Serial Number:"));
        serial.unwrap_or_else(|| panic!("{certs}{}", text(&got.stderr))).to_owned()
    };
    let before = serial(&pki);
    // A download that is under way meanwhile, and waits.
    let file = url(&depot, nginx.address, "/file");
    let ca = pki.roots();
    let slow = std::thread::spawn(move || {
        curl(&["--cacert", ca.to_str().unwrap(), "-f", "--limit-rate", "20M", &file])
    });
    depot[0].await_log(&["ready"]);
    fs::write(pki.file("own.pem"), "no certificate").unwrap();
    depot[0].await_log(&["WARN", "stay as they were", "own.pem"]);
    assert_eq!(serial(&pki), before);
    pki.issue("own", "127.0.0.1");
    until("the new certificate is shown", || serial(&pki) != before);
    assert_eq!(sha256(&slow.join().unwrap().stdout), sha256(&body));
}

/// What an origin with TLS does once it has a request.
type Answering = fn(&mut Stream<'_, ServerConnection, TcpStream>);

/// An origin with TLS; it closes its connections when it has answered one request, or looks for others.
fn origin(pki: &Pki, answer: Answering) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(pki.file("own.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pki.file("own.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = Stream::new(&mut tls, &mut socket);
            if has_asked(&mut stream) {
                answer(&mut stream);
            }
            let _ = stream.flush();
        }
    });
    address
}

/// Reads a request's head.
fn has_asked(stream: &mut Stream<'_, ServerConnection, TcpStream>) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    head.ends_with(b"\r\n\r\n")
}

/// A body that ends with its connection.
const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall there is";

#[test]
fn tls_body_without_close_notify_is_truncated() {
    let pki = Pki::new();
    let depot = [pki.depot("")];
    let orderly = origin(&pki, |stream| {
        let _ = stream.write_all(UNTIL_CLOSE);
        stream.conn.send_close_notify();
    });
    let whole = pki.curl(&["-f", &url(&depot, orderly, "/")]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    assert_eq!(whole.stdout, b"all there is");
    // Anybody on the path can end a TCP connection; only the end that TLS vouches for is one.
    let abrupt = origin(&pki, |stream| drop(stream.write_all(UNTIL_CLOSE)));
    let cut = pki.curl(&["-f", &url(&depot, abrupt, "/")]);
    assert!(!cut.status.success(), "{}", text(&cut.stdout));
    depot[0].await_log(&[
        "WARN",
        "upstream failed after 12 bytes",
        "without sending TLS close_notify",
    ]);
    assert!(!depot[0].log_text().contains("docs.rs"), "{}", depot[0].log_text());
}

/// Bytes that TLS has taken from the kernel and that are still unread are found before the connection is
/// reused.
#[test]
fn unrequested_tls_bytes_reach_no_client() {
    let pki = Pki::new();
    let depot = [pki.depot("")];
    let talkative = origin(&pki, |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nri");
        std::thread::sleep(std::time::Duration::from_millis(100));
        // In one record: the depot's TLS has all of it at once.
        let _ = stream.write_all(b"ghtHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nPOISONED");
        // It keeps the connection, and says nothing more on it.
        while has_asked(stream) {}
    });
    for n in 0..3 {
        let got = pki.curl(&["-f", "--max-time", "10", &url(&depot, talkative, &format!("/{n}"))]);
        assert_eq!(text(&got.stdout), "right", "{n}: {}", text(&got.stderr));
    }
}

/// The second handshake between the same two shows and checks no certificate.
#[test]
fn tls_session_to_next_hop_is_resumed() {
    let pki = Pki::new();
    let depot = [pki.depot("idle_connections.per_hop = 0")];
    let origin = origin(&pki, |stream| {
        let again = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        let body = if again { "again" } else { "first" };
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}");
    });
    let bodies = ["/1", "/2", "/3"].map(|path| {
        let got = pki.curl(&["-f", &url(&depot, origin, path)]);
        text(&got.stdout)
    });
    assert_eq!(bodies, ["first", "again", "again"]);
}

#[test]
fn tls_session_from_previous_depot_is_resumed() {
    let pki = Pki::new();
    let depot = pki.depot("");
    let config = pki.client_config();
    let kinds = [(); 2].map(|()| handshake_kind(&config, depot.address));
    assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
}

#[test]
fn client_without_tls_is_closed_on_tls_port() {
    let pki = Pki::new();
    let depot = pki.depot("timeouts.request_head = \"300ms\"");
    let mut plain = connect(depot.address);
    plain.write_all(b"GET / HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    let (answer, ..) = read_answer(plain);
    assert_eq!(status(&answer), 400, "{answer}");
    depot.await_log(&["WARN", "refused", "this port speaks HTTPS"]);
    // Who begins as TLS does, and goes on otherwise.
    let mut malformed = connect(depot.address);
    malformed.write_all(&[22, 3, 1, 0, 4, 9, 9, 9, 9]).unwrap();
    let (answer, ..) = read_answer(malformed);
    assert!(!answer.contains("HTTP/"), "{answer}");
    depot.await_log(&["WARN", "TLS with the client failed"]);
    // And who says nothing at all.
    let silent = connect(depot.address);
    let (answer, _, end) = read_answer(silent);
    assert_eq!((answer.as_str(), end.is_ok()), ("", true));
    depot.await_log(&["WARN", "TLS with the client failed", "timed out"]);
}

#[test]
fn strangers_get_403_over_tls() {
    let pki = Pki::new();
    let depot = [Daemon::depot_with(&format!("{}[allow]\n", pki.settings("own", "id = \"d1\"")))];
    let got = pki.curl(&["-i", &url(&depot, "127.0.0.1:1".parse().unwrap(), "/")]);
    assert!(text(&got.stdout).starts_with("HTTP/1.1 403"), "{}", text(&got.stdout));
}

#[test]
fn mismatched_tls_files_stop_the_start() {
    let (pki, other) = (Pki::new(), Pki::new());
    fs::copy(other.file("own.key"), pki.file("other.key")).unwrap();
    fs::copy(pki.file("own.pem"), pki.file("other.pem")).unwrap();
    fs::write(pki.file("none.pem"), "").unwrap();
    fs::write(pki.file("none.key"), "").unwrap();
    fs::copy(pki.file("own.pem"), pki.file("encrypted.pem")).unwrap();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    fs::write(pki.file("encrypted.key"), encrypted).unwrap();
    for (own, reason) in [
        ("other", "other.pem: this certificate and the key in"),
        ("other", "other.key do not belong together: name the key that"),
        ("none", "none.pem: it holds no certificate"),
        ("missing", "missing.pem: No such file"),
        ("encrypted", "`tls.key`: "),
        ("encrypted", "encrypted.key: the private key is encrypted"),
    ] {
        let log = Daemon::launch("depot", &pki.settings(own, "")).err().expect("it must not start");
        assert!(log.contains(reason), "{own}: {log}");
    }
}

#[test]
fn one_transfer_over_several_connections_with_tls() {
    let pki = Pki::new();
    let body = noise(79, 30_000_001);
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"";
    let near =
        pki.depot(&format!("id = \"near\"\n[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = 4\n{admin}"));
    let far = pki.depot("id = \"far\"");
    let origin = pki.nginx("own", &body);
    let depots = [near, far];
    let url = url(&depots, origin.address, "/file");
    let output = pki.curl(&["-f", &url]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(sha256(&output.stdout), sha256(&body));
    let line = depots[0].await_log(&["complete"]);
    assert!(line.contains("upstream_streams_asked=4"), "{line}");
    // How many come in time is not certain; that they come by TLS is.
    depots[1].await_log(&["answered", "/lh1/join/"]);
}

#[test]
fn invalid_certificate_gives_a_warning() {
    let pki = Pki::new();
    let now = std::time::SystemTime::now();
    let day = std::time::Duration::from_secs(86_400);
    pki.issue_for("own", "127.0.0.1", now - day * 9, now - day * 2);
    let depot = pki.depot("admin.listen = \"127.0.0.1:0\"");
    depot.await_log(&["WARN", "own.pem has expired at", "renew it"]);
    let expiry = || depot.status().certificate.expect("there is one").not_after_unix_s;
    let then = (now - day * 2).duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((expiry() - then).abs() < 1.0, "{}", expiry());
    // Renewed, and each time not well enough.
    pki.issue_for("own", "127.0.0.1", now + day, now + day * 90);
    depot.await_log(&["WARN", "own.pem is valid from", "clients refuse it until then"]);
    pki.issue_for("own", "127.0.0.1", now - day, now + day * 13);
    depot.await_log(&["WARN", "own.pem expires at", "renew it"]);
    let said = depot.log_text().matches("the certificate ").count();
    pki.issue_for("own", "127.0.0.1", now - day, now + day * 90);
    until("the new one is read", || expiry() > then + 60.0 * 86_400.0);
    assert_eq!(depot.log_text().matches("the certificate ").count(), said);
}
