// SPDX-License-Identifier: GPL-2.0-or-later
//! Interim answers towards clients that read slowly: what such a client reads is whole messages, or a
//! part of one and a reset. Their number is bounded.

use crate::common::{
    PATIENCE,
    client::{connect, exchange, status},
    pki::Pki,
    process::Daemon,
    scripted::{Gate, Scripted, read_head},
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// Send buffers that hold much less than one interim answer.
const NARROW: &str = "[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"4KB\"\n";
const FINAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe final";

/// An interim answer that fills every buffer on its way.
fn hints() -> String {
    long_hints(60_000)
}

fn long_hints(length: usize) -> String {
    format!("HTTP/1.1 103 Early Hints\r\nLink: <{}/>\r\n\r\n", "x".repeat(length))
}

/// What a client reads: each message's status and body, of which all are whole.
fn messages(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head's end") + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        for line in head.trim_end().lines().skip(1) {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert!(!value.contains("HTTP/1.1 2"), "{name} holds an answer: {value}");
            if name == "link" || name == "Link" {
                assert!(value.ends_with("x/>"), "a part of an interim answer");
            }
        }
        let field = |line: &str| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(|n| n.parse().unwrap())
        };
        let length: usize = head.lines().find_map(field).unwrap_or(0);
        messages.push((status(&head), bytes[end..end + length].to_vec()));
        bytes = &bytes[end + length..];
    }
    messages
}

fn statuses(bytes: &[u8]) -> Vec<u16> {
    messages(bytes).iter().map(|(status, _)| *status).collect()
}

/// A connection of which the kernel takes little before it is read.
fn narrow(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ask(stream: &mut impl Write, route: &str) {
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream.flush().unwrap();
}

/// All that comes, in small pieces.
fn slowly(mut stream: impl Read) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 2000]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..length]);
        std::thread::yield_now();
    }
    all
}

/// An origin that sends interim answers and then this, and says when it has.
fn hinting(times: usize, then: &'static str) -> (Scripted, Gate) {
    let sent = Gate::default();
    let told = sent.clone();
    let origin = Scripted::new(move |mut stream, _| {
        for _ in 0..times {
            let _ = stream.write_all(hints().as_bytes());
        }
        let _ = stream.write_all(then.as_bytes());
        told.open();
    });
    (origin, sent)
}

/// Depots in a row, as a route names those after the first.
fn chain(settings: &str) -> [(Daemon, Vec<Daemon>, String); 2] {
    let depot = |id: &str| Daemon::depot(&format!("id = \"{id}\"\n{settings}\n{NARROW}"));
    let (near, far) = (depot("near"), depot("far"));
    let through = far.authority();
    [(depot("alone"), vec![], "-".to_owned()), (near, vec![far], through)]
}

#[test]
fn interim_answers_reach_a_slow_client_whole() {
    let (origin, _) = hinting(8, FINAL);
    for (depot, _others, through) in chain("") {
        let mut client = narrow(depot.address);
        ask(&mut client, &origin.route(&through, "/"));
        let got = messages(&slowly(client));
        let (last, hints) = got.split_last().unwrap();
        assert_eq!(*last, (200, b"the final".to_vec()));
        assert!(hints.len() == 8 && hints.iter().all(|(status, _)| *status == 103));
        depot.await_log(&["complete", "status=200"]);
    }
}

/// A TLS client of which the kernel takes little before it is read.
fn secured(pki: &Pki, to: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.roots()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, narrow(to))
}

#[test]
fn interim_answers_reach_a_slow_client_whole_over_tls() {
    let pki = Pki::new();
    let depots = ["near", "far"]
        .map(|id| pki.depot(&format!("id = \"{id}\"\nlimits.head = \"1MB\"\n{NARROW}")));
    // More than TLS buffers in addition to the kernel.
    let origin = Scripted::answering(format!("{}{FINAL}", long_hints(400_000).repeat(8)));
    for through in ["-".to_owned(), format!("https:{}", depots[1].address)] {
        let mut client = secured(&pki, depots[0].address);
        ask(&mut client, &origin.route(&through, "/"));
        let got = messages(&slowly(client));
        assert_eq!(got.len(), 9);
        assert_eq!(got[8], (200, b"the final".to_vec()));
    }
}

#[test]
fn partial_interim_answer_is_the_last_output() {
    let impatient =
        "[timeouts]\nclient_idle = \"500ms\"\nidle = \"300ms\"\nresponse_head = \"300ms\"";
    // For any further behaviour of the next hop: an answer, an end, malformed bytes, silence.
    let silence = "";
    for then in [FINAL, "HTTP/1.1 2", "scrap\r\n\r\n", silence] {
        let (origin, sent) = hinting(8, then);
        for (depot, _others, through) in chain(impatient) {
            let mut client = narrow(depot.address);
            ask(&mut client, &origin.route(&through, "/"));
            sent.wait();
            depot.await_log(&["client stalled"]);
            assert_cut(client);
        }
    }
}

/// Asserts that what came ends within an interim answer, by a reset.
fn assert_cut(mut client: TcpStream) {
    let (mut got, mut piece) = (Vec::new(), [0; 4096]);
    let error = loop {
        match client.read(&mut piece) {
            Ok(0) => panic!("an orderly end after {} bytes", got.len()),
            Ok(length) => got.extend_from_slice(&piece[..length]),
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(error, ErrorKind::ConnectionReset);
    let got = String::from_utf8_lossy(&got);
    let last = got.rsplit("HTTP/1.1 ").next().unwrap();
    assert!(last.starts_with("103 ") || last.len() < 3, "{}", &last[..last.len().min(300)]);
    for code in ["200 OK", "408 ", "502 ", "504 "] {
        assert!(!got.contains(&format!("HTTP/1.1 {code}")), "{code}");
    }
}

#[test]
fn fault_is_not_written_into_interim_answer() {
    let timeouts = "[timeouts]\nidle = \"300ms\"\nhalf_closed = \"300ms\"";
    let methods = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                   local = true\nmethods = [\"GET\", \"PUT\"]\n";
    let depot = Daemon::depot(&format!("{timeouts}\n{methods}{NARROW}"));
    for (framing, part, said) in [
        ("Content-Length: 100", "half", "client stalled"),
        ("Transfer-Encoding: chunked", "no chunk\r\n", "client failed"),
    ] {
        let gate = Gate::default();
        let begun = gate.clone();
        let origin = Scripted::new(move |mut stream, _| {
            begun.open();
            let _ = stream.write_all(hints().as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut client = narrow(depot.address);
        let route = origin.route("-", "/");
        write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{framing}\r\n\r\n").unwrap();
        // A part of the interim answer has come.
        client.peek(&mut [0; 1]).unwrap();
        client.write_all(part.as_bytes()).unwrap();
        depot.await_log(&[said]);
        assert_cut(client);
    }
}

#[test]
fn answer_after_interim_answers_is_whole() {
    let timeouts = "[timeouts]\nresponse_head = \"500ms\"\nconnect = \"500ms\"";
    for (depot, others, through) in chain(timeouts) {
        let last = others.last().unwrap_or(&depot);
        // The next hop closes.
        let (origin, _) = hinting(2, "");
        let mut client = narrow(depot.address);
        ask(&mut client, &origin.route(&through, "/"));
        assert_eq!(statuses(&slowly(client)), [103, 103, 502]);
        // Or it falls silent.
        let silent = Scripted::new(|mut stream, _| {
            let _ = stream.write_all(hints().as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut client = narrow(depot.address);
        ask(&mut client, &silent.route(&through, "/"));
        assert_eq!(statuses(&slowly(client)), [103, 504]);
        last.await_log(&["status=504", "http_response_timeout"]);
    }
}

#[test]
fn slow_interim_reader_does_not_time_out_next_hop() {
    let depot = Daemon::depot(&format!("timeouts.response_head = \"300ms\"\n{NARROW}"));
    // Two, so that the answer is not read before the client has taken the first.
    let (origin, sent) = hinting(2, FINAL);
    let mut client = narrow(depot.address);
    ask(&mut client, &origin.route("-", "/"));
    sent.wait();
    client.peek(&mut [0; 1]).unwrap();
    // It is the client's time that passes here, more of it than the next hop has.
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(statuses(&slowly(client)), [103, 103, 200]);
}

#[test]
fn interim_answers_are_bounded() {
    let short = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let sixteen = format!("{}{FINAL}", short.repeat(16));
    let seventeen = format!("{}{FINAL}", short.repeat(17));
    let statuses_of = |bytes: &[u8]| -> Vec<u16> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().filter(|line| line.starts_with("HTTP/1.1 ")).map(status).collect()
    };
    for (depot, others, through) in chain("") {
        for (answer, last) in [(&sixteen, 200), (&seventeen, 502)] {
            let origin = Scripted::answering(answer.clone());
            let request = format!(
                "GET {} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n",
                origin.route(&through, "/")
            );
            let (head, rest, _) = exchange(depot.address, request.as_bytes());
            let got = statuses_of(&[head.as_bytes(), &rest].concat());
            assert_eq!((got.len(), got.last()), (17, Some(&last)), "{got:?}");
        }
        // Without end, and where the client is told nothing of them.
        let endless =
            Scripted::new(
                |mut stream, _| {
                    while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
                },
            );
        for version in ["1.1", "1.0"] {
            let mut client = connect(depot.address);
            let route = endless.route(&through, "/");
            let head = format!("GET {route} HTTP/{version}\r\nHost: d\r\nConnection: close");
            write!(client, "{head}\r\n\r\n").unwrap();
            let got = slowly(client);
            assert_eq!(statuses_of(&got).last(), Some(&502));
        }
        let last = others.last().unwrap_or(&depot);
        last.await_log(&["status=502", "more than 16 interim answers"]);
    }
}

#[test]
fn interim_answer_rules_out_stale_connection() {
    // It serves one request, sends this part of an answer to the next, and closes.
    let origin = Scripted::new(|mut stream, _| {
        stream.write_all(FINAL.as_bytes()).unwrap();
        if read_head(&stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: <x/>\r\n\r\n");
        }
    });
    let depot = Daemon::depot("");
    let route = origin.route("-", "/");
    // One after the other on one connection: the second goes to the connection that the first left.
    let mut client = connect(depot.address);
    let request = format!("GET {route} HTTP/1.1\r\nHost: d\r\n\r\n");
    client.write_all(request.repeat(2).as_bytes()).unwrap();
    // Asked again, it would announce twice what it announced once.
    assert_eq!(statuses(&slowly(client)), [200, 103, 502]);
    let mut client = connect(depot.address);
    ask(&mut client, &route);
    assert_eq!(statuses(&slowly(client)), [200]);
}
