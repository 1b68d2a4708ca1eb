// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot refuses, with which status, and that it says so at the client and in its log.

use crate::common::{
    client::{connect, curl, exchange, get, read_answer, status},
    process::Daemon,
    refusing_address,
    scripted::Scripted,
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
};

/// Checks an answer of the depot's own: its status, its body and its `Proxy-Status`.
fn refused(depot: &Daemon, route: &str, code: u16, error: &str, reason: &str) {
    let (head, body, end) = get(depot.address, route);
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status(&head), code, "{route}: {head}{body}");
    assert!(end.is_ok());
    assert!(body.starts_with("longhaul depot d1: ") && body.contains(reason), "{route}: {body}");
    assert!(head.contains(&format!("Proxy-Status: d1; error={error}; details=\"")), "{head}");
    let quoted = format!("{reason:?}");
    let logged = &quoted[1..quoted.len() - 1];
    depot.await_log(&["WARN", &format!("status={code}"), &format!("error=\"{error}\""), logged]);
}

const OPEN: &str = "id = \"d1\"";

#[test]
fn malformed_routes() {
    let depot = Daemon::depot(OPEN);
    for (route, reason) in [
        ("/", "not a route"),
        ("/lh3/fetch/-/http:o/", "not a route"),
        ("/lh2/fetch/-/http:o/", "not a ticket's route"),
        ("/lh1/fetch/-/http:o", "origin's path is missing"),
        ("/lh1/fetch/a,a/http:o/", "passes a:3880 twice"),
        ("/lh1/fetch/-/gopher:o/", "http: or https:"),
        ("/lh1/fetch/-/http:o:99999/", "port between 1 and 65535"),
        ("/lh1/fetch/-/http:o/a/../b", "\"..\""),
        ("/lh1/lead/-/-/http:o/", "begins with the depot"),
    ] {
        refused(&depot, route, 400, "http_request_error", reason);
    }
    let long = format!("/lh1/fetch/-/http:o/{}", "a".repeat(9000));
    refused(&depot, &long, 400, "http_request_error", "8000 are allowed");
}

#[test]
fn favicon_request_gets_404_without_a_warning() {
    let depot = Daemon::depot(OPEN);
    let (head, ..) = get(depot.address, "/favicon.ico");
    assert_eq!(status(&head), 404, "{head}");
    refused(&depot, "/favicon.ic", 400, "http_request_error", "not a route");
    assert!(!depot.log_text().contains("favicon.ico"), "{}", depot.log_text());
}

#[test]
fn route_cannot_inject_log_lines() {
    let depot = Daemon::depot(OPEN);
    let forged = "/lh1/fetch/d%0a%1b[1mINFO%20complete/http:o/";
    refused(&depot, forged, 400, "http_request_error", "\\n\\u{1b}[1mINFO complete");
    for line in depot.log_text().lines() {
        assert!(!line.starts_with("INFO") && !line.contains('\u{1b}'), "{line:?}");
    }
}

#[test]
fn malformed_requests() {
    let depot = Daemon::depot(OPEN);
    let route = "/lh1/fetch/-/http:127.0.0.1:1/x";
    for (request, code) in [
        (format!("GET {route} HTTP/1.1\r\n\r\n"), 400),
        (format!("GET {route} HTTP/1.1\r\nHost : d\r\n\r\n"), 400),
        (
            format!(
                "GET {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            400,
        ),
        (format!("CONNECT {route} HTTP/1.1\r\nHost: d\r\n\r\n"), 405),
        (format!("BREW {route} HTTP/1.1\r\nHost: d\r\n\r\n"), 501),
        (format!("GET {route} HTTP/3.0\r\nHost: d\r\n\r\n"), 505),
        (format!("GET {route} HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(70_000)), 431),
        ("\x17\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03\n\r\n\r\n".to_owned(), 400),
    ] {
        let (head, _, end) = exchange(depot.address, request.as_bytes());
        assert_eq!(status(&head), code, "{}", &request[..request.len().min(200)]);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(
            head.contains("\r\nAllow: GET, HEAD, PUT"),
            [405, 501].contains(&code),
            "{head}"
        );
    }
}

#[test]
fn refused_head_request_has_no_body() {
    let depot = Daemon::depot(OPEN);
    let long = format!("X: {}\r\n", "x".repeat(70_000));
    for (line, code) in [
        ("X : a\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("Transfer-Encoding: chunked, identity\r\n", 400),
        ("Host: o\r\n", 400),
        (&long, 431),
    ] {
        for before in ["", "\r\n"] {
            let request = format!("{before}HEAD / HTTP/1.1\r\nHost: o\r\n{line}\r\n");
            let (head, body, end) = exchange(depot.address, request.as_bytes());
            assert_eq!(status(&head), code, "{head}");
            assert!(head.contains("Proxy-Status") && body.is_empty() && end.is_ok(), "{head}");
        }
    }
}

#[test]
fn allow_field_lists_supported_methods() {
    let depot = Daemon::depot("");
    let put =
        "PUT /lh1/fetch/-/http:127.0.0.1:1/x HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n";
    let (head, body, _) = exchange(depot.address, put.as_bytes());
    assert_eq!(status(&head), 405, "{head}");
    assert!(head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("relays GET, HEAD without a ticket"));
}

#[test]
fn refused_body_does_not_reset_the_answer() {
    let depot = Daemon::depot(OPEN);
    let mut request = b"TRACE / HTTP/1.1\r\nHost: d\r\nContent-Length: 500000\r\n\r\n".to_vec();
    request.resize(request.len() + 500_000, b'x');
    let (head, _, end) = exchange(depot.address, &request);
    assert_eq!(status(&head), 405);
    assert!(end.is_ok(), "{end:?}");
}

#[test]
fn default_depot_serves_no_client() {
    let depot = Daemon::depot("id = \"d1\"\n[allow]");
    refused(
        &depot,
        "/lh1/fetch/-/http:127.0.0.1:1/",
        403,
        "http_request_denied",
        "not open for clients from 127.0.0.1",
    );
}

#[test]
fn strangers_take_no_slot() {
    let settings = "id = \"d1\"\n[limits]\nconnections = 1\n[allow]\nclients = [\"127.0.0.2/32\"]";
    let depot = Daemon::depot(settings);
    let silent = [(); 3].map(|()| connect(depot.address));
    let got = curl(&[
        "--interface",
        "127.0.0.2",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        &depot.url("/"),
    ]);
    assert_eq!(String::from_utf8_lossy(&got.stdout), "400");
    // Each was answered without having asked, and none was one too many.
    for stranger in silent {
        let (head, _, end) = read_answer(stranger);
        assert_eq!(status(&head), 403, "{head}");
        assert!(head.contains("http_request_denied") && end.is_ok(), "{head}");
    }
}

#[test]
fn unlisted_upstreams_are_refused() {
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let clients = "id = \"d1\"\n[allow]\nclients = [\"127.0.0.0/8\"]\n";
    let route = origin.route("-", "/");
    let error = "destination_ip_prohibited";

    let closed = Daemon::depot(clients);
    refused(
        &closed,
        &route,
        403,
        error,
        &format!("not open for upstream {}: it is not listed", origin.address),
    );
    refused(
        &closed,
        "/lh1/fetch/-/http:localhost/",
        403,
        error,
        "not open for upstream localhost:80: it is not listed",
    );

    // Listed, but local.
    let upstreams = "upstreams = [\"0.0.0.0/0:*\", \"::/0:*\", \"localhost:*\"]";
    let remote = Daemon::depot(&format!("{clients}{upstreams}"));
    refused(&remote, &route, 403, error, "a loopback address");
    let by_name = format!("/lh1/fetch/-/http:localhost:{}/", origin.address.port());
    refused(&remote, &by_name, 403, error, "a loopback address");
    refused(&remote, "/lh1/fetch/-/http:[::ffff:127.0.0.1]:80/", 403, error, "a loopback address");
    refused(
        &remote,
        "/lh1/fetch/-/http:169.254.169.254/latest",
        403,
        error,
        "a link-local address",
    );
    refused(&remote, "/lh1/fetch/0.0.0.0:3880/http:o/", 403, error, "an unspecified address");

    // The port counts; the name's addresses do.
    let upstreams =
        format!("upstreams = [\"127.0.0.0/8:{}\"]\nlocal = true", origin.address.port());
    let narrow = Daemon::depot(&format!("{clients}{upstreams}"));
    refused(&narrow, "/lh1/fetch/-/http:127.0.0.1:1/", 403, error, "not listed");
    for admitted in [&route, &by_name] {
        let (head, body, _) = get(narrow.address, admitted);
        assert_eq!((status(&head), body.as_slice()), (200, &b"ok"[..]), "{admitted}");
    }
}

#[test]
fn clients_are_not_redirected_to_unlisted_depots() {
    let depot = Daemon::depot(OPEN);
    refused(
        &depot,
        "/lh1/lead/evil.example:80/127.0.0.1:1/http:127.0.0.1:1/",
        403,
        "http_request_denied",
        "does not lead clients to evil.example:80",
    );
}

#[test]
fn unreachable_upstreams_give_502() {
    let name = "upstreams = [\"127.0.0.0/8:*\", \"no-such-host.invalid:80\"]";
    let depot = Daemon::depot(&format!(
        "{OPEN}\n[allow]\nclients = [\"127.0.0.0/8\"]\n{name}\nlocal = true"
    ));
    let closed = format!("/lh1/fetch/-/http:127.0.0.1:{}/", refusing_address().port());
    refused(&depot, &closed, 502, "connection_refused", "refused the connection");
    refused(
        &depot,
        "/lh1/fetch/-/http:no-such-host.invalid/",
        502,
        "dns_error",
        "does not resolve",
    );
    let chain = format!("/lh1/fetch/127.0.0.1:{}/http:o/", refusing_address().port());
    refused(&depot, &chain, 502, "connection_refused", "refused the connection");
}

#[test]
fn hanging_upstream_connect_gives_502() {
    // Of a listener without a backlog one connection is taken; SYNs after it stay unanswered.
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    deaf.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    deaf.listen(0).unwrap();
    let address = deaf.local_addr().unwrap().as_socket().unwrap();
    let _taken = connect(address);
    let depot = Daemon::depot(&format!("{OPEN}\n[timeouts]\nconnect = \"300ms\""));
    let route = format!("/lh1/fetch/-/http:{address}/");
    refused(&depot, &route, 502, "connection_timeout", "did not take the connection in time");
}

#[test]
fn far_depot_error_is_relayed() {
    let (near, far) = (Daemon::depot("id = \"d0\""), Daemon::depot(OPEN));
    let route =
        format!("/lh1/fetch/{}/http:127.0.0.1:{}/", far.authority(), refusing_address().port());
    let (head, body, _) = get(near.address, &route);
    assert_eq!(status(&head), 502);
    assert!(head.contains("Proxy-Status: d1; error=connection_refused"), "{head}");
    assert!(String::from_utf8(body).unwrap().contains("longhaul depot d1: upstream"));
}

#[test]
fn malformed_answers_give_502() {
    let depot = Daemon::depot(OPEN);
    for (answer, error, reason) in [
        ("", "connection_terminated", "closed without an answer"),
        ("HTTP/1.1 200 OK\r\nX: y\r\n", "http_response_incomplete", "in the middle of its head"),
        ("220 ftp.example ready\r\n\r\n", "http_protocol_error", "malformed"),
        ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "http_protocol_error", "malformed"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "http_protocol_error",
            "twice",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "http_protocol_error",
            "both",
        ),
    ] {
        let origin = Scripted::answering(answer);
        refused(&depot, &origin.route("-", "/"), 502, error, reason);
    }
    let endless = Scripted::answering(format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(100_000)));
    refused(
        &depot,
        &endless.route("-", "/"),
        502,
        "http_protocol_error",
        "larger than this depot takes",
    );
}

#[test]
fn silence_times_out() {
    let depot = Daemon::depot(&format!(
        "{OPEN}\n[timeouts]\nrequest_head = \"300ms\"\nresponse_head = \"300ms\""
    ));
    let silent = Scripted::new(|mut stream, _| drop(stream.read(&mut [0])));
    refused(&depot, &silent.route("-", "/"), 504, "http_response_timeout", "did not answer within");

    // A byte now and then does not help: the head as a whole has a time.
    let mut slow = connect(depot.address);
    let mut writer = slow.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        let bytes = b"GET / HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'y'));
        for byte in bytes {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    trickle.join().unwrap();
    depot.await_log(&["status=408", "did not end within"]);
}

#[test]
fn looping_route_is_refused() {
    let depot = Daemon::depot(OPEN);
    let circle = format!("/lh1/fetch/{0}/http:127.0.0.1:1/", depot.authority());
    let (head, ..) = get(depot.address, &circle);
    assert_eq!(status(&head), 508, "{head}");
    depot.await_log(&["status=508", "proxy_loop_detected", "comes back to d1"]);

    let via: Vec<String> = (0..16).map(|n| format!("Via: 1.1 proxy{n}\r\n")).collect();
    let via = via.concat();
    let request = format!("GET {circle} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{via}\r\n");
    let (head, ..) = exchange(depot.address, request.as_bytes());
    assert_eq!(status(&head), 508, "{head}");
}

#[test]
fn connections_over_the_limit_get_503() {
    let depot = Daemon::depot(&format!("{OPEN}\n[limits]\nconnections = 3\nper_client = 2"));
    let held = [connect(depot.address), connect(depot.address)];
    // The third is answered without a request: nothing it could ask would be served.
    let (head, body, _) = read_answer(connect(depot.address));
    assert_eq!(status(&head), 503);
    assert!(head.contains("Retry-After: 5") && head.contains("connection_limit_reached"), "{head}");
    assert!(String::from_utf8(body).unwrap().contains("2 connections from 127.0.0.1 are open"));
    drop(held);
    testkit::until("places are given back", || status(&get(depot.address, "/").0) == 400);
}

#[test]
fn unusable_configuration_stops_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    for (settings, reason) in [
        ("listen = [\"127.0.0.1:0\"]\ncolour = 1".to_owned(), "unknown field `colour`"),
        (
            "listen = [\"127.0.0.1:0\"]\n[[hop]]\npeer = \"::/0\"\ncongestion = \"warp\""
                .to_owned(),
            "no congestion control \"warp\"",
        ),
        (format!("listen = [\"{}\"]", taken.local_addr().unwrap()), "cannot listen on"),
    ] {
        let log = Daemon::launch("depot", &settings).err().expect(&settings);
        assert!(log.contains(reason), "{settings}: {log}");
    }
}
