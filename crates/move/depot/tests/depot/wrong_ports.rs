// SPDX-License-Identifier: GPL-2.0-or-later
//! Protocols at ports that expect another one: clients and operators are told what is wrong.

use crate::common::{
    client::{connect, curl, exchange, get, read_answer, status, wget},
    noise,
    pki::{Pki, url},
    process::Daemon,
    scripted::Scripted,
};
use protocol::{
    Authority, DepotAddress,
    session::{Header, Open, SessionId, Target},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
};
use testkit::until;
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// A fatal alert, `unexpected_message`.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];
/// How a TLS handshake begins.
const HELLO: [u8; 6] = [22, 3, 1, 0, 200, 1];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All bytes that come.
fn all_of(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn http_on_a_tls_port_is_answered_400_in_clear_text() {
    let pki = Pki::new();
    let depot = pki.depot("id = \"d1\"");
    let plain = depot.url("/lh1/fetch/-/http:127.0.0.1:1/");
    let got = text(&curl(&["-i", &plain]).stdout);
    assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    assert!(got.contains("this port speaks HTTPS") && got.contains("use https://"), "{got}");
    depot.await_log(&["WARN", "refused", "status=400", "this port speaks HTTPS"]);
    // HEAD has no body, and wget shows the answer too.
    let (_, body, _) = exchange(depot.address, b"HEAD / HTTP/1.1\r\nHost: d\r\n\r\n");
    assert!(body.is_empty(), "{}", text(&body));
    let got = wget(&["-O", "-", "--content-on-error", &plain]);
    assert!(text(&got.stdout).contains("this port speaks HTTPS"), "{}", text(&got.stdout));
    // An upload that the client goes on sending does not turn the answer into a reset.
    let body = pki.file("upload");
    std::fs::write(&body, noise(3, 1_000_000)).unwrap();
    let got = curl(&["-i", "-H", "Expect:", "-T", body.to_str().unwrap(), &plain]);
    assert!(text(&got.stdout).starts_with("HTTP/1.1 400 "), "{}", text(&got.stderr));
}

#[test]
fn session_on_a_tls_port_is_refused_by_an_answer_in_clear_text() {
    let pki = Pki::new();
    let depot = pki.depot("");
    let open = Open::new(SessionId([7; 16]), Vec::new(), Target::End).to_bytes().unwrap();
    let mut stream = connect(depot.address);
    stream.write_all(&open).unwrap();
    let bytes = all_of(stream);
    let Ok(Some((Header::Answer(answer), length))) = Header::parse(&bytes) else {
        panic!("{bytes:?}");
    };
    let said = answer.fault().expect("a refusal").to_string();
    assert!(length == bytes.len() && said.contains("this port speaks TLS"), "{said}");
    depot.await_log(&["WARN", "refused", "the session came without"]);
}

#[test]
fn unknown_bytes_on_a_tls_port_are_logged_and_not_answered() {
    let pki = Pki::new();
    let depot = pki.depot("");
    let mut stream = connect(depot.address);
    stream.write_all(&[0x80, 0x2e, 1, 0, 2]).unwrap();
    let mut bytes = Vec::new();
    // It is reset, because its bytes were never read.
    let _ = stream.read_to_end(&mut bytes);
    assert!(bytes.is_empty(), "{bytes:?}");
    depot.await_log(&["WARN", "refused", "begins with byte 0x80"]);
}

#[test]
fn tls_on_a_plain_port_is_answered_by_an_alert() {
    let (pki, depot) = (Pki::new(), Daemon::depot(""));
    let mut stream = connect(depot.address);
    stream.write_all(&HELLO).unwrap();
    assert_eq!(all_of(stream), ALERT);
    depot.await_log(&["WARN", "refused", "status=400", "the client speaks TLS", "`tls.listen`"]);
    let got = pki.curl(&[&format!("https://{}/", depot.address)]);
    assert_eq!(got.status.code(), Some(35), "curl: a failed handshake: {}", text(&got.stderr));
    // Also from strangers, and behind a request that was served.
    let closed = Daemon::depot_with("listen = [\"127.0.0.1:0\"]\n[allow]\n");
    let mut stream = connect(closed.address);
    stream.write_all(&HELLO).unwrap();
    assert_eq!(all_of(stream), ALERT);
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
    let mut request =
        format!("GET {} HTTP/1.1\r\nHost: d\r\n\r\n", origin.route("-", "/")).into_bytes();
    request.extend(HELLO);
    let (head, body, _) = exchange(depot.address, &request);
    assert_eq!(
        (status(&head), &body[..6], &body[6..]),
        (200, &b"served"[..], &ALERT[..]),
        "{head}"
    );
}

/// Each such connection is closed by the depot, although the client neither reads nor closes: it frees its place.
#[test]
fn clients_at_the_wrong_port_take_no_slot() {
    let pki = Pki::new();
    let limits = "limits.connections = 2\nlimits.per_client = 2";
    let (secured, plain) = (pki.depot(limits), Daemon::depot(limits));
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
    let first_bytes: [(&Daemon, &[u8]); 4] =
        [(&secured, b"G"), (&secured, &[0xb1]), (&secured, &[0]), (&plain, &HELLO[..1])];
    for (depot, bytes) in first_bytes {
        let held: Vec<_> = (0..2)
            .map(|_| {
                let mut stream = connect(depot.address);
                stream.write_all(bytes).unwrap();
                stream
            })
            .collect();
        until("there is room again", || {
            if depot.address == plain.address {
                return status(&get(plain.address, &origin.route("-", "/")).0) == 200;
            }
            let url = format!("https://{}{}", secured.address, origin.route("-", "/"));
            pki.curl(&["-f", &url]).stdout == b"served"
        });
        drop(held);
    }
}

/// What a depot says in its log, and to its client, of a next hop.
fn refused(depot: &Daemon, route: &str, expected: &str) {
    let (head, body, _) = get(depot.address, route);
    let answer = format!("{head}{}", text(&body));
    assert!(status(&head) == 502 && answer.contains(expected), "{route}: {answer}");
    depot.await_log(&["refused", expected]);
}

#[test]
fn next_hop_error_says_it_lacks_tls() {
    let depot = Daemon::depot("timeouts.connect = \"1s\"");
    let https = |address: SocketAddr| format!("/lh1/fetch/-/https:{address}/");
    let does_not = "it does not speak TLS on that port";
    // A real web server.
    let origin = crate::common::web::Server::start(&crate::common::web::NGINX, |dir, address| {
        let server = format!("server {{ listen {address}; }}");
        std::fs::write(dir.join("main.conf"), crate::common::web::nginx_conf(dir, &server))
            .unwrap();
    });
    refused(&depot, &https(origin.address), does_not);
    // One that speaks first, as mail servers do.
    refused(&depot, &https(raw(|mut stream| drop(stream.write_all(b"220 hello\r\n")))), does_not);
    // Another depot, as an origin and on the way.
    let plain = Daemon::depot("id = \"d2\"");
    refused(&depot, &https(plain.address), "it expects no TLS on that port");
    let by = format!("/lh1/fetch/https:{}/http:127.0.0.1:1/", plain.address);
    refused(&depot, &by, "it expects no TLS on that port");
    // One that closes, and one that waits for more.
    let closing = raw(|mut stream| drop(stream.read(&mut [0; 4096])));
    refused(&depot, &https(closing), "it closed the connection during the handshake");
    let mute = raw(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    refused(&depot, &https(mute), "it did not answer the handshake in time");
}

/// A server that does with each connection what it likes.
fn raw(script: impl Fn(std::net::TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let script = script.clone();
            std::thread::spawn(move || script(stream));
        }
    });
    address
}

/// A server of rustls, which answers what is not TLS by an alert.
fn alerting(pki: &Pki) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(pki.file("own.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pki.file("own.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    raw(move |mut socket| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        while tls.is_handshaking() {
            if tls.complete_io(&mut socket).is_err() {
                let _ = tls.write_tls(&mut socket);
                // What it has not read must not turn the close into a reset.
                let _ = socket.shutdown(std::net::Shutdown::Write);
                let _ = socket.read_to_end(&mut Vec::new());
                return;
            }
        }
    })
}

#[test]
fn next_hop_error_says_it_expects_tls() {
    let (pki, depot) = (Pki::new(), Daemon::depot("id = \"d1\""));
    let alerting = alerting(&pki);
    let expected = format!("upstream {alerting} speaks TLS on that port");
    refused(&depot, &format!("/lh1/fetch/-/http:{alerting}/"), &expected);
    // For sessions.
    let next = DepotAddress::from(Authority::from(alerting)).into();
    let open = Open::new(SessionId([7; 16]), vec![next], Target::End).to_bytes().unwrap();
    let mut stream = connect(depot.address);
    stream.write_all(&open).unwrap();
    let bytes = all_of(stream);
    let Ok(Some((Header::Answer(answer), _))) = Header::parse(&bytes) else { panic!("{bytes:?}") };
    let said = answer.fault().expect("a refusal").to_string();
    assert!(said.contains(&expected), "{said}");
    // A depot, and a real web server, say it themselves.
    let secured = pki.depot("id = \"d2\"");
    let (head, body, _) = get(depot.address, &format!("/lh1/fetch/-/http:{}/", secured.address));
    assert!(status(&head) == 400 && text(&body).contains("this port speaks HTTPS"), "{head}");
    let nginx = pki.nginx("own", b"x");
    let (head, body, _) = get(depot.address, &format!("/lh1/fetch/-/http:{}/", nginx.address));
    assert!(status(&head) == 400 && text(&body).contains("plain HTTP request"), "{head}");
}

/// What comes behind a request's head says nothing of its protocol.
#[test]
fn body_that_begins_as_another_protocol_gets_an_http_answer() {
    let depot = Daemon::depot("");
    for first in [0xb1, 22] {
        let mut request = b"PUT /none HTTP/1.1\r\nHost: d\r\nContent-Length: 3\r\n\r\n".to_vec();
        request.extend([first, b'L', b'S']);
        let mut stream = connect(depot.address);
        stream.write_all(&request).unwrap();
        let (head, ..) = read_answer(stream);
        assert!((400..500).contains(&status(&head)), "{first}: {head:?}");
    }
}

#[test]
fn https_through_depots_still_works() {
    let pki = Pki::new();
    let nginx = pki.nginx("own", b"served");
    let depots = [pki.depot("id = \"near\""), pki.depot("id = \"far\"")];
    let got = pki.curl(&["-f", &url(&depots, nginx.address, "/file")]);
    assert_eq!(got.stdout, b"served", "{}", text(&got.stderr));
}
