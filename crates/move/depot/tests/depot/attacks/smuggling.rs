// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests that two parsers would end at different positions, and the bytes behind them.
//!
//! Each is followed by a good request, which is what an attacker wants served: by a depot that goes on
//! behind the refused one, or by an origin that takes it for a body's rest.

use super::{answer, echo, open_depot};
use crate::common::{
    client::{connect, exchange, get, status},
    process::Daemon,
    scripted::Scripted,
};
use std::io::{Read, Write};

/// Where the good requests go.
struct Target {
    depot: Daemon,
    victim: Scripted,
}

impl Target {
    fn new() -> Self {
        Self { depot: open_depot(""), victim: echo() }
    }

    /// Asserts that a request is refused with one answer, and that nothing behind it is served.
    fn refuses(&self, request: &str, code: u16) {
        let hidden = self.victim.route("-", "/smuggled");
        let behind = format!("GET {hidden} HTTP/1.1\r\nHost: d\r\n\r\n");
        let bytes = format!("{request}{behind}{behind}");
        let (head, rest, _) = exchange(self.depot.address, bytes.as_bytes());
        let text = head + &String::from_utf8_lossy(&rest);
        assert_eq!(status(&text), code, "{request:?}: {text}");
        assert_eq!(text.matches("\r\nProxy-Status: d1; error=").count(), 1, "{request:?}: {text}");
        assert!(!text.contains("/smuggled"), "{request:?}: {text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{request:?}: {text}");
    }

    /// Asserts that of all requests to the victim this one is the first.
    fn is_untouched(&self) {
        let (head, ..) = get(self.depot.address, &self.victim.route("-", "/last"));
        assert_eq!(status(&head), 200);
        let seen = self.victim.next_head();
        assert!(seen.starts_with("GET /last "), "{seen}");
    }
}

#[test]
fn repeated_or_odd_lengths_are_refused() {
    let target = Target::new();
    let route = target.victim.route("-", "/x");
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: 5,",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: 5;",
        "Content-Length: ",
        "Content-Length: 18446744073709551616",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: chunked;x",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\r\n\tz",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "X\0: y",
        "X: \0",
        "X",
        ": x",
        "Content-Length: 5\n",
    ] {
        target
            .refuses(&format!("PUT {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n0\r\n\r\n"), 400);
    }
    let gzip = "Transfer-Encoding: gzip, chunked";
    target.refuses(&format!("PUT {route} HTTP/1.1\r\nHost: d\r\n{gzip}\r\n\r\n0\r\n\r\n"), 501);
    for body in ["Content-Length: 5\r\n\r\nabcde", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        target.refuses(&format!("GET {route} HTTP/1.1\r\nHost: d\r\n{body}"), 400);
        target.refuses(&format!("HEAD {route} HTTP/1.1\r\nHost: d\r\n{body}"), 400);
    }
    let old = format!("PUT {route} HTTP/1.0\r\n");
    target.refuses(&format!("{old}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
    target.refuses(&format!("{old}\r\n"), 411);
    target.is_untouched();
}

#[test]
fn odd_line_ends_are_refused() {
    let target = Target::new();
    let route = target.victim.route("-", "/x");
    for request in [
        format!("GET {route} HTTP/1.1\nHost: d\n\n"),
        format!("GET {route} HTTP/1.1\r\nHost: d\n\r\n"),
        format!("GET {route} HTTP/1.1\r\nHost: d\r\n\n"),
        format!("GET {route} HTTP/1.1\r\n\rHost: d\r\n\r\n"),
        format!("GET {route} HTTP/1.1\r\r\nHost: d\r\n\r\n"),
        format!("GET  {route} HTTP/1.1\r\nHost: d\r\n\r\n"),
        format!(" GET {route} HTTP/1.1\r\nHost: d\r\n\r\n"),
        format!("GET\t{route}\tHTTP/1.1\r\nHost: d\r\n\r\n"),
        format!("GET {route} HTTP/1.1 \r\nHost: d\r\n\r\n"),
        format!("\n\nGET {route} HTTP/1.1\r\nHost: d\r\n\r\n"),
        format!("\r\n\r\nGET {route} HTTP/1.1\r\nHost: d\r\n\r\n"),
        format!("GET {route}\r\n\r\n"),
        format!("GET {route} HTTP/1.1\r\nHost: d\r\nHost: e\r\n\r\n"),
        format!("GET {route} HTTP/1.1\r\n Host: d\r\n\r\n"),
    ] {
        target.refuses(&request, 400);
    }
    // Behind the second space should stand the version.
    target.refuses(&format!("GET {route}  HTTP/1.1\r\nHost: d\r\n\r\n"), 505);
    target.is_untouched();
}

#[test]
fn odd_chunks_are_refused() {
    let target = Target::new();
    // It waits for the whole request, which never comes.
    let origin = Scripted::new(|mut stream, _| drop(stream.read_to_end(&mut Vec::new())));
    let route = origin.route("-", "/x");
    for chunks in [
        "5 \r\nabcde\r\n0\r\n\r\n",
        " 5\r\nabcde\r\n0\r\n\r\n",
        "0x5\r\nabcde\r\n0\r\n\r\n",
        "+5\r\nabcde\r\n0\r\n\r\n",
        "-5\r\nabcde\r\n0\r\n\r\n",
        "\r\nabcde\r\n0\r\n\r\n",
        ";x\r\n",
        "g\r\n",
        "5\nabcde\r\n0\r\n\r\n",
        "5\rabcde\r\n0\r\n\r\n",
        "5\r\nabcde\n0\r\n\r\n",
        "5\r\nabcde0\r\n\r\n",
        "5\r\nabcdef\r\n0\r\n\r\n",
        "5;a\nb\r\nabcde\r\n0\r\n\r\n",
        "5;a\0b\r\nabcde\r\n0\r\n\r\n",
        "00000000000000005\r\nabcde\r\n0\r\n\r\n",
        "10000000000000000\r\n",
        "ffffffffffffffff\r\n",
        "8000000000000000\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\n folded\r\n\r\n",
    ] {
        let head = format!("PUT {route} HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n");
        target.refuses(&format!("{head}{chunks}"), 400);
    }
    let long = format!("5;{}\r\nabcde\r\n0\r\n\r\n", "x".repeat(1000));
    let head = format!("PUT {route} HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n");
    target.refuses(&format!("{head}{long}"), 400);
    target.is_untouched();
}

#[test]
fn no_request_after_a_refusal_is_served() {
    let target = Target::new();
    let closed = Daemon::depot("id = \"d1\"\n[allow]\nclients = [\"127.0.0.0/8\"]");
    for (request, code) in [
        ("GET / HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 400),
        ("GET /favicon.ico HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 404),
        ("TRACE / HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
        ("CONNECT d:1 HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
        ("BREW / HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 501),
        ("GET / HTTP/2.0\r\nHost: d\r\n\r\n".to_owned(), 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
        ("PUT / HTTP/1.1\r\nHost: d\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n".to_owned(), 417),
        (format!("GET {}&{} HTTP/1.1\r\nHost: d\r\n\r\n", "/lh2/0/a.b.c/", "x"), 403),
        // A body that is not read: what looks like a request may be its bytes.
        ("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 400),
    ] {
        target.refuses(&request, code);
    }
    target.is_untouched();
    let hidden = target.victim.route("-", "/smuggled");
    let refused = format!("GET {hidden} HTTP/1.1\r\nHost: d\r\n\r\n").repeat(3);
    let (head, rest, _) = exchange(closed.address, refused.as_bytes());
    assert_eq!(status(&head), 403);
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1"), "one answer, then the end");
}

#[test]
fn body_like_a_request_stays_a_body() {
    // With its length beyond doubt, a request within a body goes on as that body's bytes.
    let target = Target::new();
    let hidden = target.victim.route("-", "/smuggled");
    let inner = format!("GET {hidden} HTTP/1.1\r\nHost: d\r\n\r\n");
    let length = inner.len();
    let (sender, got) = std::sync::mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        sender.send(String::from_utf8(body).unwrap()).unwrap();
        let _ = stream.write_all(answer("stored").as_bytes());
    });
    let route = origin.route("-", "/x");
    let request = format!(
        "PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{inner}"
    );
    let (head, body, _) = exchange(target.depot.address, request.as_bytes());
    assert_eq!((status(&head), body.as_slice()), (200, &b"stored"[..]), "{head}");
    assert_eq!(got.recv_timeout(crate::common::PATIENCE).unwrap(), inner);
    target.is_untouched();
}

#[test]
fn surplus_answer_reaches_no_client() {
    // The origin keeps the connection: the next request on it would get the second answer.
    let poison = answer("poison");
    for (first, method, expected) in [
        (format!("{}{poison}", answer("first")), "GET", "first"),
        (answer(&poison), "HEAD", ""),
        (
            format!(
                "HTTP/1.1 304 Not Modified\r\nContent-Length: {}\r\n\r\n{poison}",
                poison.len()
            ),
            "GET",
            "",
        ),
        (format!("HTTP/1.1 204 No Content\r\n\r\n{poison}"), "GET", ""),
    ] {
        let depot = open_depot("");
        let origin = Scripted::new(move |mut stream, head| {
            let answer = if head.contains("/x ") { first.clone() } else { answer("second") };
            let _ = stream.write_all(answer.as_bytes());
            // Kept open until the depot closes it.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        // On one connection, so that the depot has reason to keep the origin's.
        let mut client = connect(depot.address);
        let ask = |path: &str, method: &str, more: &str| {
            let route = origin.route("-", path);
            format!("{method} {route} HTTP/1.1\r\nHost: d\r\n{more}\r\n")
        };
        client.write_all(ask("/x", method, "").as_bytes()).unwrap();
        let head = crate::common::scripted::read_head(&client).unwrap();
        let mut body = vec![0; expected.len()];
        client.read_exact(&mut body).unwrap();
        assert_eq!(String::from_utf8_lossy(&body), expected, "{head}");
        let last = "Connection: close\r\n";
        client.write_all(ask("/y", "GET", last).as_bytes()).unwrap();
        let (_, body, end) = crate::common::client::read_answer(client);
        assert_eq!(String::from_utf8_lossy(&body), "second", "after {head}");
        assert!(end.is_ok());
    }
}
