// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that hold a place and give nothing for it, and heads without end.
//!
//! Where the guard is missing, the connection stays open and reading from it runs into the test's own
//! patience, which is much longer than the depot's here.

use super::{answer, echo, open_depot};
use crate::common::{
    client::{connect, exchange, get, read_answer, status},
    process::Daemon,
    scripted::{Scripted, read_head},
};
use protocol::ticket::Signer;
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::mpsc,
};
use testkit::until;

/// Long enough that a test which does its part at once is never late on a busy machine.
const IMPATIENT: &str = "[timeouts]\nrequest_head = \"2s\"\nkeep_alive = \"2s\"\nidle = \"500ms\"";

/// Asserts that a connection is answered with this status, and closed.
fn ends_with(stream: TcpStream, code: u16) {
    let (head, ..) = read_answer(stream);
    assert_eq!(status(&head), code, "{head}");
}

#[test]
fn unfinished_heads_free_their_slot() {
    let depot = open_depot(&format!("{IMPATIENT}\n[limits]\nper_client = 4"));
    let half = [(); 4].map(|()| {
        let mut stream = connect(depot.address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: d\r\n").unwrap();
        stream
    });
    for stream in half {
        ends_with(stream, 408);
    }
    until("places are given back", || status(&get(depot.address, "/").0) == 400);
}

#[test]
fn second_head_has_same_timeout_as_first() {
    let (depot, origin) = (open_depot(IMPATIENT), echo());
    let route = origin.route("-", "/x");
    let served = || {
        let mut stream = connect(depot.address);
        write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
        let head = read_head(&stream).unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(status(&head), 200);
        stream
    };
    // Begun and not ended: said so. Never begun: let go without a word.
    let mut begun = served();
    begun.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    ends_with(begun, 408);
    let (head, rest, end) = read_answer(served());
    assert!(head.is_empty() && rest.is_empty() && end.is_ok(), "{head}");
}

#[test]
fn stalled_body_is_aborted_and_never_completed() {
    let depot = open_depot(IMPATIENT);
    for (fields, part) in [
        ("Content-Length: 100", "half a body"),
        ("Transfer-Encoding: chunked", "64\r\nhalf a chunk"),
        ("Transfer-Encoding: chunked", "4\r\nbody\r\n6"),
        ("Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\nTrailer: x"),
        ("Content-Length: 100\r\nExpect: 100-continue", ""),
    ] {
        let (sender, got) = mpsc::channel();
        let origin = Scripted::new(move |mut stream, _| {
            let mut body = Vec::new();
            let end = stream.read_to_end(&mut body);
            sender.send((String::from_utf8_lossy(&body).into_owned(), end)).unwrap();
        });
        let mut client = connect(depot.address);
        let route = origin.route("-", "/x");
        write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n{part}").unwrap();
        ends_with(client, 408);
        depot.await_log(&["status=408", "nothing of the request's body came"]);
        let (body, end) = got.recv_timeout(crate::common::PATIENCE).unwrap();
        assert!(!body.ends_with("0\r\n\r\n"), "{fields}: {body}");
        // A reset, so that an origin that reads until the end does not take the part for all.
        let error = end.expect_err("a reset").kind();
        assert_eq!(error, ErrorKind::ConnectionReset, "{fields}");
    }
}

#[test]
fn heads_end_within_their_limit() {
    let (depot, origin) = (open_depot("[limits]\nhead = \"1KB\""), echo());
    let route = origin.route("-", "/x");
    let request = |length: usize| {
        let start = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nX: ");
        format!("{start}{}\r\n\r\n", "y".repeat(length - start.len() - 4))
    };
    assert_eq!(status(&exchange(depot.address, request(1024).as_bytes()).0), 200);
    assert_eq!(status(&exchange(depot.address, request(1025).as_bytes()).0), 431);
    // Without an end at all, in one line or in many.
    let endless = [
        format!("GET /{}", "a".repeat(100_000)),
        format!("GET {route} HTTP/1.1\r\n{}", "X: y\r\n".repeat(20_000)),
        format!("\r\n{}", "G".repeat(100_000)),
    ];
    for request in endless {
        assert_eq!(status(&exchange(depot.address, request.as_bytes()).0), 431);
    }
    let many = open_depot("");
    let fields = |n: usize| {
        let fields = (0..n).map(|n| format!("X{n}: y\r\n")).collect::<Vec<_>>().concat();
        format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{fields}\r\n")
    };
    assert_eq!(status(&exchange(many.address, fields(126).as_bytes()).0), 200);
    assert_eq!(status(&exchange(many.address, fields(127).as_bytes()).0), 431);
}

#[test]
fn trailers_end_within_their_limit() {
    let depot = open_depot("[limits]\nhead = \"1KB\"");
    let origin = Scripted::new(|mut stream, _| drop(stream.read_to_end(&mut Vec::new())));
    let route = origin.route("-", "/x");
    let request = format!(
        "PUT {route} HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}",
        "X: y\r\n".repeat(10_000)
    );
    let (head, ..) = exchange(depot.address, request.as_bytes());
    assert_eq!(status(&head), 400, "{head}");
}

#[test]
fn input_during_request_is_bounded() {
    // The depot watches the client for its leaving; it reads no more of it than one head's worth, and
    // the kernels' buffers hold the rest until the sender must stop.
    const FAR_TOO_MUCH: usize = 256 << 20;
    let depot = open_depot("");
    let (release, held) = mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let origin = Scripted::new(move |mut stream, _| {
        let _ = held.lock().unwrap().recv();
        let _ = stream.write_all(answer("late").as_bytes());
    });
    let mut client = connect(depot.address);
    let route = origin.route("-", "/x");
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    origin.next_head();
    client.set_nonblocking(true).unwrap();
    let (junk, mut sent) = (vec![b'x'; 1 << 20], 0);
    let mut writer = client.try_clone().unwrap();
    // Full when it stays full for a while: a depot that reads without end makes room all the time.
    let mut full = 0;
    while full < 50 {
        assert!(sent < FAR_TOO_MUCH, "the depot takes whatever comes");
        match writer.write(&junk) {
            Ok(written) => (sent, full) = (sent + written, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                full += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error} after {sent} bytes"),
        }
    }
    release.send(()).unwrap();
    client.set_nonblocking(false).unwrap();
    let head = read_head(&client).unwrap();
    assert_eq!(status(&head), 200, "{head}");
}

/// All that a connection brings until it ends, of which there must be one answer.
fn only_answer(to: std::net::SocketAddr, requests: &str) -> u16 {
    let mut stream = connect(to);
    stream.write_all(requests.as_bytes()).unwrap();
    let (head, body, end) = read_answer(stream);
    assert!(end.is_ok(), "{end:?} after {head}");
    let again = body.windows(9).any(|bytes| bytes == b"HTTP/1.1 ");
    assert!(!again, "{head}{}", String::from_utf8_lossy(&body));
    status(&head)
}

#[test]
fn depot_answer_closes_stranger_connection() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.json");
    std::fs::write(&keys, Signer::from_seed([1; 32]).unwrap().public_set()).unwrap();
    // Any client may have a ticket, so the depot reads its requests.
    let stranger_to = Daemon::depot(&format!(
        "id = \"d1\"\n[trust]\nkeys = {keys:?}\n[allow]\nclients = [\"192.0.2.0/24\"]\n\
         upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\nmethods = [\"GET\", \"OPTIONS\"]"
    ));
    // Listed clients, who may not ask this.
    let depot = Daemon::depot("id = \"d2\"");
    let origin = echo();
    let (route, lead) = (origin.route("-", "/x"), "/lh1/lead/127.0.0.1:1/-/http:o/");
    for target in [route.as_str(), lead, "*", "/", "/lh1/load", "/favicon.ico", "/lh2/x/0/y"] {
        let options = format!("OPTIONS {target} HTTP/1.1\r\nHost: d\r\nMax-Forwards: 0\r\n\r\n");
        let code = only_answer(stranger_to.address, &options.repeat(3));
        assert!((400..500).contains(&code), "{target}: {code}");
        let listed = only_answer(depot.address, &options.repeat(3));
        assert!((400..500).contains(&listed), "{target}: {listed}");
        let get = format!("GET {target} HTTP/1.1\r\nHost: d\r\n\r\n");
        let code = only_answer(stranger_to.address, &get.repeat(3));
        assert!((400..500).contains(&code), "{target}: {code}");
    }
    assert_eq!(origin.try_next_head(), None);
    // Who may ask is answered by the depot itself, and may go on.
    let options = format!("OPTIONS {route} HTTP/1.1\r\nHost: d\r\nMax-Forwards: 0\r\n");
    let two = format!("{options}\r\n{options}Connection: close\r\n\r\n");
    let (head, rest, end) = exchange(open_depot("").address, two.as_bytes());
    assert!(status(&head) == 204 && head.contains("\r\nAllow: ") && end.is_ok(), "{head}");
    assert_eq!(status(&String::from_utf8_lossy(&rest)), 204);
    assert_eq!(origin.try_next_head(), None);
}
