// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole URLs: what of a request reaches the server, and of a response the client.

use super::{Proxy, ann, answered, get};
use crate::common::{
    client::{connect, status},
    process::Daemon,
    scripted::{Scripted, read_head},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// An origin that answers each request on a connection, and whose requests have no body.
fn serving() -> Scripted {
    Scripted::new(|mut stream, _| {
        while stream.write_all(SERVED.as_bytes()).is_ok() && read_head(&stream).is_some() {}
    })
}

/// An origin that hands out, and answers, a request with a body of this length.
fn taking(length: usize) -> (Scripted, std::sync::mpsc::Receiver<Vec<u8>>) {
    let (sender, bodies) = std::sync::mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(SERVED.as_bytes()).unwrap();
        // All that comes behind it.
        let _ = stream.read_to_end(&mut body);
        sender.send(body).unwrap();
    });
    (origin, bodies)
}

/// Sends a request on a connection that is kept, and reads the response.
fn ask(mut stream: &TcpStream, request: &str) -> u16 {
    stream.write_all(request.as_bytes()).unwrap();
    let head = read_head(stream).expect("an answer");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.expect("a length").parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    status(&head)
}

#[test]
fn fields_of_the_connection_stay_and_all_others_pass() {
    let (proxy, origin) = (
        Proxy::new(),
        Scripted::answering(
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nSet-Cookie: a=b\r\nStrict-Transport-Security: max-age=1\r\n\
             Location: /next\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic realm=\"origin\"\r\n\
             X-Hop: y\r\nConnection: X-Hop, close\r\n\r\nserved",
        ),
    );
    let fields = "Proxy-Connection: keep-alive\r\nConnection: X-Mine\r\nX-Mine: 1\r\nCookie: c=d\r\n\
        X-Forwarded-For: 192.0.2.1\r\nX-HTTP-Method-Override: PUT\r\nReferer: http://a/lh1/x\r\n\
        Authorization: Bearer t\r\nLonghaul-Request: x\r\n";
    // Dot segments are as apt writes them.
    let url = format!("HTTP://{}/./x/../a%20b?c=d", origin.address);
    let (code, head, body) = answered(connect(proxy.address()), &get(&url, fields));
    assert_eq!((code, body.as_str()), (200, "served"), "{head}");
    for part in
        ["Set-Cookie: a=b\r\n", "Strict-Transport-Security: max-age=1\r\n", "Location: /next\r\n"]
    {
        assert!(head.contains(part), "{part}: {head}");
    }
    for part in ["Keep-Alive", "Proxy-Authenticate", "X-Hop", "Content-Security-Policy"] {
        assert!(!head.contains(part), "{part}: {head}");
    }
    let sent = origin.next_head();
    assert!(sent.starts_with("GET /./x/../a%20b?c=d HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("Host: {}\r\n", origin.address)), "{sent}");
    assert_eq!(sent.matches("Host: ").count(), 1, "{sent}");
    for part in [
        "Cookie: c=d\r\n",
        "X-Forwarded-For: 192.0.2.1\r\n",
        "X-Http-Method-Override: PUT\r\n",
        "Referer: http://a/lh1/x\r\n",
        "Authorization: Bearer t\r\n",
        "Via: 1.1 d1 (longhaul)\r\n",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    for part in ["Proxy-", "X-Mine", "Longhaul-", "secret", &ann()[27..]] {
        assert!(!sent.contains(part.trim_end()), "{part}: {sent}");
    }
    let line = proxy.depot.await_log(&["complete", "user=\"ann\""]);
    assert!(
        line.contains(&format!("url=\"http://{}/./x/../a%20b?c=d\"", origin.address)),
        "{line}"
    );
}

#[test]
fn one_connection_serves_requests_for_many_origins() {
    let (proxy, origins) = (Proxy::new(), [serving(), serving()]);
    let stream = connect(proxy.address());
    for n in 0..6 {
        let at = origins[n % 2].address;
        let request = format!("GET http://{at}/{n} HTTP/1.1\r\nHost: {at}\r\n{}\r\n", ann());
        assert_eq!(ask(&stream, &request), 200);
    }
    // Each request has to show the password.
    let at = origins[0].address;
    (&stream)
        .write_all(format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(status(&read_head(&stream).unwrap()), 407);
    let head = origins[1].next_head();
    assert!(head.starts_with("GET /1 "), "{head}");
}

/// A second request behind a body goes to its own server, and its password to none.
#[test]
fn request_behind_a_body_is_another_request() {
    for (framing, body, length) in [
        ("Content-Length: 5\r\n", "hello", 5),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", 15),
    ] {
        let (proxy, other) = (Proxy::new(), serving());
        let (first, bodies) = taking(length);
        let (at, next) = (first.address, other.address);
        let stream = connect(proxy.address());
        let second = format!("GET http://{next}/ HTTP/1.1\r\nHost: {next}\r\n{}\r\n", ann());
        let request =
            format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{}{framing}\r\n{body}", ann());
        assert_eq!(ask(&stream, &format!("{request}{second}")), 200);
        assert_eq!(ask(&stream, ""), 200);
        other.next_head();
        drop((stream, proxy));
        let got = bodies.recv_timeout(crate::common::PATIENCE).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), body);
    }
}

#[test]
fn ambiguous_bodies_are_refused() {
    let (proxy, origin) = (Proxy::new(), serving());
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: y\r\n Content-Length: 5\r\n",
        "Host: other\r\n",
    ] {
        let url = format!("http://{}/", origin.address);
        let request = get(&url, fields).replace("GET", "POST") + "hello";
        let (status, head, _) = answered(connect(proxy.address()), &request);
        assert_eq!(status, 400, "{fields}: {head}");
    }
    assert!(origin.try_next_head().is_none(), "the origin was asked");
}

#[test]
fn requests_lead_through_further_depots() {
    let (origin, next) = (serving(), Daemon::depot("id = \"d2\""));
    let (taking, bodies) = taking(5);
    let proxy = Proxy::with("", &format!("via = [\"{}\"]", next.address), "");
    let stream = connect(proxy.address());
    for n in 0..3 {
        let at = origin.address;
        let request = format!("GET http://{at}/{n} HTTP/1.1\r\nHost: {at}\r\n{}\r\n", ann());
        assert_eq!(ask(&stream, &request), 200);
        let head = origin.next_head();
        assert!(head.starts_with(&format!("GET /{n} ")), "{head}");
        // The depots between carry bytes and do not read HTTP.
        assert!(head.contains("Via: 1.1 d1 (longhaul)\r\n"), "{head}");
        assert!(!head.to_lowercase().contains("proxy-"), "{head}");
    }
    let at = taking.address;
    let request = format!(
        "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{}Content-Length: 5\r\n\r\nhello",
        ann()
    );
    assert_eq!(ask(&stream, &request), 200);
    drop(stream);
    assert_eq!(bodies.recv_timeout(crate::common::PATIENCE).unwrap(), b"hello");
    let line = next.await_log(&["SESSION", &format!("tcp:{}", origin.address)]);
    assert!(line.contains("ended"), "{line}");
    proxy.depot.await_log(&[
        "complete",
        "method=\"POST\"",
        &format!("upstream=\"{}\"", next.address),
    ]);
}

#[test]
fn failures_of_the_server_are_told() {
    let (proxy, next) = (Proxy::new(), Daemon::depot("id = \"d2\""));
    let through = Proxy::with("", &format!("via = [\"{}\"]", next.address), "");
    let silent = Scripted::new(|_, _| ());
    for proxy in [&proxy, &through] {
        let closed = get("http://127.0.0.1:9/", "");
        let (status, _, body) = answered(connect(proxy.address()), &closed);
        assert_eq!(status, 502, "{body}");
        assert!(body.contains("refused"), "{body}");
        let (status, _, body) =
            answered(connect(proxy.address()), &get(&format!("http://{}/", silent.address), ""));
        assert_eq!(status, 502, "{body}");
    }
}

/// What is cut off at the server, or on the way, must not look whole to the client.
#[test]
fn response_that_breaks_off_is_not_whole_for_the_client() {
    let next = Daemon::depot("id = \"d2\"");
    let through = Proxy::with("", &format!("via = [\"{}\"]", next.address), "");
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    for proxy in [&Proxy::new(), &through] {
        let mut stream = connect(proxy.address());
        let request = get(&format!("http://{}/", origin.address), "");
        stream.write_all(request.as_bytes()).unwrap();
        let (head, body, _) = crate::common::client::read_answer(stream);
        assert!(head.contains("Content-Length: 10\r\n") && body == b"half", "{head}");
        proxy.depot.await_log(&["user=\"ann\"", "upstream cut off at 4 of 10 bytes"]);
    }
}

#[test]
fn depots_own_names_and_sites_stay_what_they_are() {
    let closing = SERVED.replace("Content", "Connection: close\r\nContent");
    let (origin, site) = (Scripted::answering(closing.clone()), Scripted::answering(closing));
    let proxy = Proxy::with(
        "",
        "",
        &format!(
            "[[site]]\nname = \"data.example\"\norigin = \"http://{}\"\nclients = [\"127.0.0.0/8\"]",
            site.address
        ),
    );
    // A server has to take whole URLs for itself too (RFC 9112, section 3.2.2).
    let route = format!("http://{}{}", proxy.address(), origin.route("-", "/by-route"));
    let plain = |url: &str| format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(answered(connect(proxy.address()), &plain(&route)).0, 200);
    assert!(origin.next_head().starts_with("GET /by-route "));
    let (status, head, _) =
        answered(connect(proxy.address()), &plain("http://data.example/of-site"));
    assert_eq!(status, 200, "{head}");
    assert!(site.next_head().starts_with("GET /of-site "));
    // A route at another depot is a URL like any other: nothing without a password.
    let other = "http://127.0.0.9:3880/lh1/fetch/-/http:127.0.0.1:1/";
    assert_eq!(answered(connect(proxy.address()), &plain(other)).0, 407);
    for path in ["/lh1/load", "/lh1/hold", "/lh1/join/x", "/favicon.ico"] {
        let url = format!("http://{}{path}", origin.address);
        assert_eq!(answered(connect(proxy.address()), &get(&url, "")).0, 200, "{path}");
        assert!(origin.next_head().starts_with(&format!("GET {path} ")));
    }
}
