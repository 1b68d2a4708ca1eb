// SPDX-License-Identifier: GPL-2.0-or-later
//! Origins that speak for more than their own answer, under the name of a depot; and clients that
//! speak for others, or tell origins of tickets.

use super::{echo, open_depot};
use crate::common::{
    client::{exchange, get, status},
    process::Daemon,
    scripted::Scripted,
};

/// By which an origin would speak for the whole name of a depot.
const FOR_THE_WHOLE_NAME: [&str; 14] = [
    "Strict-Transport-Security: max-age=99999999",
    "NEL: {\"report_to\":\"x\",\"max_age\":99}",
    "Report-To: {}",
    "Reporting-Endpoints: x=\"https://x/\"",
    "Alt-Svc: h3=\"x:1\"",
    "Clear-Site-Data: \"*\"",
    "Service-Worker-Allowed: /",
    "Origin-Agent-Cluster: ?1",
    "Accept-CH: Sec-CH-UA-Model",
    "Set-Cookie: a=b",
    "WWW-Authenticate: Basic realm=x",
    "Refresh: 0; url=/lh1/fetch/-/http:x/",
    "Public-Key-Pins: x",
    "A-Field-Of-The-Year-2030: x",
];

/// A depot behind another one.
fn another_depot() -> Daemon {
    Daemon::depot(
        "id = \"d2\"\n[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true",
    )
}

fn ask(depot: &Daemon, route: &str, fields: &str) -> (String, String) {
    let request = format!(
        "GET {route} HTTP/1.1\r\nHost: d\r\nTE: trailers\r\n{fields}Connection: close\r\n\r\n"
    );
    let (head, body, _) = exchange(depot.address, request.as_bytes());
    (head, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn origin_headers_do_not_apply_to_depot_name() {
    let fields = FOR_THE_WHOLE_NAME.map(|field| format!("{field}\r\n")).concat();
    let trailers = format!("{fields}Access-Control-Allow-Origin: *\r\nX-Own: 1\r\n");
    let origin = Scripted::answering(format!(
        "HTTP/1.1 103 Early Hints\r\n{fields}Link: </x>\r\n\r\n\
         HTTP/1.1 200 OK\r\n{fields}ETag: \"e\"\r\nX-Amz-Meta-A: b\r\nReferrer-Policy: unsafe-url\r\n\
         Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n{trailers}\r\n"
    ));
    let (near, far) = (open_depot(""), another_depot());
    for chain in ["-", &far.authority()] {
        let (head, rest) = ask(&near, &origin.route(chain, "/x"), "");
        let all = head + &rest;
        for field in FOR_THE_WHOLE_NAME {
            let name = field.split(':').next().unwrap().to_lowercase();
            assert!(!all.to_lowercase().contains(&format!("\n{name}:")), "{name}: {all}");
        }
        assert!(all.starts_with("HTTP/1.1 103 ") && all.contains("\r\nLink: </x>\r\n"), "{all}");
        // The early answer has a policy, too.
        assert_eq!(all.matches("\r\nReferrer-Policy: no-referrer\r\n").count(), 2, "{all}");
        for line in ["Etag: \"e\"", "X-Amz-Meta-A: b", "X-Own: 1"] {
            assert_eq!(all.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {all}");
        }
        assert!(!all.contains("unsafe-url") && !all.contains("Access-Control-"), "{all}");
    }
}

#[test]
fn depot_sets_no_referrer() {
    let (depot, origin) = (open_depot(""), echo());
    let lead = format!("/lh1/lead/{}/{}/http:o/x", another_depot().authority(), depot.authority());
    for (route, code) in [
        (origin.route("-", "/x"), 200),
        (origin.route("127.0.0.1:1", "/x"), 502),
        ("/lh1/nothing".to_owned(), 400),
        ("/lh2/0/a.b.c/x".to_owned(), 403),
        (lead, 302),
    ] {
        let (head, _) = ask(&depot, &route, "");
        assert_eq!(status(&head), code, "{route}: {head}");
        assert!(head.contains("\r\nReferrer-Policy: no-referrer\r\n"), "{route}: {head}");
    }
}

#[test]
fn origins_learn_no_tickets_or_clients() {
    let (near, far, origin) = (open_depot(""), another_depot(), echo());
    for chain in ["-", &far.authority()] {
        let route = origin.route(chain, "/x");
        for field in [
            "Referer: http://d1:3880/lh2/0/a.b.secret/page.html",
            "Referer: http://d1:3880/%6Ch2/0/a.b.secret/page.html",
            "Referer: https://x/?u=http%253A%252F%252Fd%252Flh2%252F0%252Fa.b.secret",
            "Referer: http://d1:3880/lh1/fetch/-/http:secret/",
            "Ping-From: http://d1:3880/lh2/0/a.b.secret/page.html",
            "X-Forwarded-For: secret",
            "x_forwarded_for: secret",
            "Forwarded: for=secret",
            "X-Real-IP: secret",
            "X-Remote-User: secret",
            "CF-Connecting-IP: secret",
            "X-Original-URL: /secret",
        ] {
            let (head, _) = ask(&near, &route, &format!("{field}\r\n"));
            assert_eq!(status(&head), 200, "{head}");
            let seen = origin.next_head();
            assert!(!seen.contains("secret"), "{field}: {seen}");
        }
        ask(&near, &route, "Referer: https://site.example/page\r\nX-Own: 1\r\n");
        let seen = origin.next_head();
        assert!(seen.contains("\r\nReferer: https://site.example/page\r\n"), "{seen}");
        assert!(seen.contains("\r\nX-Own: 1\r\n"), "{seen}");
    }
}

#[test]
fn location_stays_on_the_same_route() {
    let depot = open_depot("");
    for (location, sent) in [
        ("/caf\u{e9}", Some("/caf%C3%A9")),
        ("/lh1/fetch/-/http:evil/\u{e9}", Some("/lh1/fetch/-/http:evil/%C3%A9")),
        ("\\lh1\\fetch\\-\\http:evil\\", Some("/%5Clh1%5Cfetch%5C-%5Chttp:evil%5C")),
        ("http:/lh1/fetch/-/http:evil/", Some("/lh1/fetch/-/http:evil/")),
        ("/a b\u{1f}c", None),
    ] {
        let origin = Scripted::answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ));
        let (head, ..) = get(depot.address, &origin.route("-", "/x"));
        let there = head.lines().find_map(|line| line.strip_prefix("Location: "));
        let expected = sent.map(|path| origin.route("-", path));
        // What is no HTTP at all is refused.
        assert!(status(&head) == if sent.is_some() { 302 } else { 502 }, "{location}: {head}");
        assert_eq!(there, expected.as_deref(), "{location}");
    }
    // A next hop that a route calls a depot, and that is none.
    for location in ["/lh1/fetch/-/http:evil/", "..\\..\\..\\..\\lh1\\fetch\\-\\http:evil\\"] {
        let evil = Scripted::answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ));
        let route = format!("/lh1/fetch/{}/http:o/x", evil.address);
        let (head, ..) = get(depot.address, &route);
        assert!(status(&head) == 302 && !head.contains("\r\nLocation: "), "{head}");
    }
}

#[test]
fn lengths_beyond_the_sign_bit_are_refused() {
    let (depot, origin) = (open_depot(""), echo());
    for length in ["9223372036854775808", "18446744073709551615"] {
        let put = format!(
            "PUT {} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n",
            origin.route("-", "/x")
        );
        let (head, ..) = exchange(depot.address, put.as_bytes());
        assert_eq!(status(&head), 400, "{head}");
        let long =
            Scripted::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nx"));
        let (head, ..) = get(depot.address, &long.route("-", "/x"));
        assert_eq!(status(&head), 502, "{head}");
    }
    assert!(origin.try_next_head().is_none(), "it was passed on");
    assert_eq!(status(&get(depot.address, &origin.route("-", "/last")).0), 200);
}
