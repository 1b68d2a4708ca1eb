// SPDX-License-Identifier: GPL-2.0-or-later
//! Reaching through a depot to where it may not connect.

use super::{answer, echo, open_depot};
use crate::common::{
    client::{exchange, get, status},
    process::Daemon,
    scripted::Scripted,
};

/// Sends a request of one's own making; the status and all text of what comes back.
fn ask(depot: &Daemon, request: &str) -> (u16, String) {
    let (head, body, _) = exchange(depot.address, request.as_bytes());
    (status(&head), head + &String::from_utf8_lossy(&body))
}

#[test]
fn depot_refuses_forward_proxy_requests() {
    // It would relay there by a route; so only the form of the request is what keeps it from that.
    let (depot, inner) = (open_depot(""), echo());
    let there = inner.address;
    for (request, code) in [
        (format!("GET http://{there}/x HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("GET HTTP://{there} HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("GET //{there}/x HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("GET /x HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("GET {there} HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("GET @{there}/x HTTP/1.1\r\nHost: d\r\n"), 400),
        (format!("GET * HTTP/1.1\r\nHost: {there}\r\n"), 400),
        (format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n"), 405),
        (format!("GET /x HTTP/1.1\r\nHost: d\r\nX-Forwarded-Host: {there}\r\n"), 400),
        (format!("GET /x HTTP/1.1\r\nHost: d\r\nX-Original-URL: http://{there}/x\r\n"), 400),
    ] {
        let (got, text) = ask(&depot, &format!("{request}Connection: close\r\n\r\n"));
        assert_eq!(got, code, "{request}{text}");
        assert!(text.contains("longhaul depot d1: "), "{request}{text}");
    }
    // A client that takes it for a proxy is told the working request.
    for (url, route) in [
        (format!("http://{there}/a?b"), inner.route("-", "/a?b")),
        (format!("HTTP://{there}"), inner.route("-", "/")),
        (format!("https://{there}/a"), inner.route("-", "/a").replace("/http:", "/https:")),
    ] {
        let request = format!("GET {url} HTTP/1.1\r\nHost: {there}\r\nConnection: close\r\n\r\n");
        let (code, text) = ask(&depot, &request);
        let expected = format!(
            "no forward proxy (curl -x): ask it for {route}, as in http://DEPOT:3880{route}\n"
        );
        assert!(code == 400 && text.ends_with(&expected), "{text}");
    }
    let (_, text) = ask(&depot, "CONNECT o.example:443 HTTP/1.1\r\nHost: o.example\r\n\r\n");
    assert!(text.ends_with("ask it for /lh1/fetch/-/https:o.example/PATH\n"), "{text}");
    // The first request to arrive there is one that came by a route.
    let (head, ..) = get(depot.address, &inner.route("-", "/by-route"));
    assert_eq!(status(&head), 200);
    assert!(inner.next_head().starts_with("GET /by-route "));
}

#[test]
fn only_route_decides_the_destination() {
    let (depot, listed, other) = (open_depot(""), echo(), echo());
    let (route, there) = (listed.route("-", "/x"), other.address);
    for request in [
        format!("GET {route} HTTP/1.1\r\nHost: {there}\r\n"),
        format!("GET http://{there}{route} HTTP/1.1\r\nHost: {there}\r\n"),
        format!("GET {route} HTTP/1.1\r\nHost: d\r\nX-Forwarded-Host: {there}\r\n"),
    ] {
        let (code, text) = ask(&depot, &format!("{request}Connection: close\r\n\r\n"));
        assert!(code == 200 && text.ends_with("/x"), "{request}{text}");
        let seen = listed.next_head();
        assert!(seen.contains(&format!("\r\nHost: {}\r\n", listed.address)), "{seen}");
    }
    // Nor what is encoded in the path: for the origin it stays encoded.
    let target = format!("/a%0d%0aHost:%20{there}%0d%0a%0d%0aGET%20/y");
    let (head, ..) = get(depot.address, &listed.route("-", &target));
    assert_eq!(status(&head), 200);
    assert!(listed.next_head().starts_with(&format!("GET {target} HTTP/1.1\r\n")));
    assert_eq!(status(&get(depot.address, &other.route("-", "/last")).0), 200);
    assert!(other.next_head().starts_with("GET /last "));
}

#[test]
fn ambiguous_routes_are_refused() {
    let (depot, inner) = (open_depot(""), echo());
    let there = inner.address;
    for route in [
        format!("/lh1/fetch/-/http:{there}/a/../../x"),
        format!("/lh1/fetch/-/http:{there}/%2e%2e/x"),
        format!("/lh1/fetch/-/http:{there}/.%2E/x"),
        format!("/lh1/fetch/../fetch/-/http:{there}/x"),
        format!("/./lh1/fetch/-/http:{there}/x"),
        format!("//lh1/fetch/-/http:{there}/x"),
        format!("/lh1//fetch/-/http:{there}/x"),
        format!("/%6ch1/fetch/-/http:{there}/x"),
        format!("/lh1/fetch/-/http:user@{there}/x"),
        format!("/lh1/fetch/-/http:127.0.0.1%40{there}/x"),
        format!("/lh1/fetch/-/http:{there}%2fx"),
        format!("/lh1/fetch/-/http:{there}%00.example.org/x"),
        format!("/lh1/fetch/-/http:{there}%0d%0aX:/x"),
        format!("/lh1/fetch/-/http:{there}%23/x"),
        format!("/lh1/fetch/-/http:{there}\\@example.org/x"),
        format!("/lh1/fetch/-/http://{there}/x"),
        format!("/lh1/fetch/-/{there}/x"),
        format!("/lh1/fetch/-/file:{there}/x"),
        format!("/lh1/fetch/user@{there}/http:o/x"),
    ] {
        let (head, body, _) = get(depot.address, &route);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status(&head), 400, "{route}: {head}{text}");
        assert!(text.starts_with("longhaul depot d1: "), "{route}: {text}");
    }
    assert_eq!(status(&get(depot.address, &inner.route("-", "/last")).0), 200);
    assert!(inner.next_head().starts_with("GET /last "));
}

#[test]
fn private_address_spelling_cannot_hide_it() {
    let inner = echo();
    let port = inner.address.port();
    // All that is public is listed, and names by their addresses.
    let depot = Daemon::depot(
        "id = \"d1\"\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         upstreams = [\"0.0.0.0/0:*\", \"::/0:*\"]",
    );
    for host in [
        "127.0.0.1",
        "127.255.255.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::]",
        "0.0.0.0",
        "0",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0x7f.0x0.0x0.0x1",
        "0X7F000001",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "[fe80::1%25lo]",
        "10.1",
        "0xa9fea9fe",
        "[::ffff:169.254.169.254]",
        "[fd00::1]",
        "192.168.0.1",
    ] {
        for route in [
            format!("/lh1/fetch/-/http:{host}:{port}/x"),
            format!("/lh1/fetch/{host}:{port}/http:o/x"),
        ] {
            let (head, body, _) = get(depot.address, &route);
            let text = String::from_utf8_lossy(&body).into_owned();
            // Not an attempt that failed (502): none was made.
            assert!([400, 403].contains(&status(&head)), "{route}: {head}{text}");
            assert!(text.starts_with("longhaul depot d1: "), "{route}: {text}");
        }
    }
    // It was there all the time.
    let (head, ..) = get(open_depot("").address, &inner.route("-", "/last"));
    assert_eq!(status(&head), 200);
    assert!(inner.next_head().starts_with("GET /last "));
}

#[test]
fn depot_follows_no_redirects() {
    let (depot, inner) = (open_depot(""), echo());
    let there = inner.address;
    for (code, location) in [
        (301, format!("http://{there}/secret")),
        (302, format!("http://{there}/secret")),
        (303, format!("http://{there}/secret")),
        (307, format!("http://{there}/secret")),
        (308, format!("//{there}/secret")),
        (302, "http://169.254.169.254/latest".to_owned()),
        (302, "file:///etc/passwd".to_owned()),
    ] {
        let origin = Scripted::answering(format!(
            "HTTP/1.1 {code} Elsewhere\r\nLocation: {location}\r\nContent-Length: 4\r\n\r\ngone"
        ));
        let (head, body, _) = get(depot.address, &origin.route("-", "/x"));
        assert_eq!((status(&head), body.as_slice()), (code, &b"gone"[..]), "{head}");
        // What the client asks then, it asks by itself and not as the depot.
        let absolute = location.strip_prefix("//").map(|rest| format!("http://{rest}"));
        let expected = absolute.unwrap_or(location);
        assert!(head.contains(&format!("\r\nLocation: {expected}\r\n")), "{head}");
    }
    assert_eq!(status(&get(depot.address, &inner.route("-", "/last")).0), 200);
    assert!(inner.next_head().starts_with("GET /last "));
}

#[test]
fn origin_cannot_make_routes_at_the_depot() {
    // Relative references would be read against the depot's own address.
    let depot = open_depot("");
    for location in ["/lh1/fetch/-/http:127.0.0.1:1/x", "../../../../lh1/fetch/-/http:o/x", "//d/x"]
    {
        let origin = Scripted::answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ));
        let (head, ..) = get(depot.address, &origin.route("-", "/a/b"));
        let there = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
        let own = format!("http://{}", origin.address);
        let own_route = origin.route("-", "/");
        // Below the origin's own route, or an absolute URL; never one of the depot's own paths.
        let below = there.contains(&own_route);
        assert!(below || there.starts_with(&own) || there == "http://d/x", "{location}: {there}");
    }
}

#[test]
fn via_spelling_cannot_hide_a_loop() {
    let (depot, origin) = (open_depot(""), echo());
    // Through this depot again and again, and at last to an origin.
    let circle = format!("/lh1/fetch/-/http:{}", depot.address).repeat(20);
    let circle = circle + &origin.route("-", "/x");
    for via in [
        "",
        "Via: 1.1 x (\r\n",
        "Via: 1.1 x (a\\\r\n",
        "Via: 1.1 x ((a)\r\n",
        "Via: 1.1 x\r\nVia: 1.1 y (\r\n",
        "Via: 1.1 x \"\r\n",
        "Via: (\r\n",
        "Via: 1.1 x (\u{e9}\r\n",
        "Via: ,\r\n",
        "Via:\r\n",
        "Via: 1.1 x (a)\r\n",
        "Connection: via\r\n",
        "Connection: close, Via\r\nVia: 1.1 x\r\n",
    ] {
        let request = format!("GET {circle} HTTP/1.1\r\nHost: d\r\n{via}Connection: close\r\n\r\n");
        let (code, text) = ask(&depot, &request);
        assert!([400, 508].contains(&code), "{via}: {text}");
    }
    assert!(origin.try_next_head().is_none(), "a request has run in a circle");
    // Entries before others do not reduce their count.
    let hops: Vec<_> = (0..16).map(|n| format!("1.1 h{n} (x, \\( y)")).collect();
    let (route, via) = (origin.route("-", "/x"), hops.join(", "));
    let request = |via: &str| {
        format!("GET {route} HTTP/1.1\r\nHost: d\r\nVia: {via}\r\nConnection: close\r\n\r\n")
    };
    assert_eq!(ask(&depot, &request(&via)).0, 508);
    assert_eq!(ask(&depot, &request(&hops[1..].join(", "))).0, 200);
}

#[test]
fn interim_and_switching_answers_open_no_tunnel() {
    let depot = open_depot("");
    let origin = Scripted::answering(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}",
        answer("tunnel")
    ));
    let route = origin.route("-", "/x");
    let request = format!(
        "GET {route} HTTP/1.1\r\nHost: d\r\nUpgrade: x\r\nConnection: upgrade, close\r\n\r\nraw"
    );
    let (code, text) = ask(&depot, &request);
    assert_ne!(code, 101, "{text}");
    assert!(!origin.next_head().to_lowercase().contains("upgrade"));
}
