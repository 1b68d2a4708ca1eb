// SPDX-License-Identifier: GPL-2.0-or-later
//! Heads of a site's messages: all that is not of one connection passes, as with any reverse proxy.

use super::{id, request, response, sorted};
use http::Version;
use longhaul_protocol::{
    Route, Scheme, Step,
    http::{
        Connection, NextHop, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestRoute,
        SiteRequest, interim_for, request_for, response_for, site_is_taken,
    },
};

const ASKED: &str = "GET /a?b HTTP/1.1\r\nHost: data.example.org\r\nCookie: s=1\r\n\
    Referer: https://data.example.org/lh1/x\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
    X-Real-IP: 6.6.6.6\r\nLonghaul-Site: \"evil\";proto=http;for=\"6.6.6.6\"\r\nIf-None-Match: \"e\"\r\n\
    X-Api: 1\r\nConnection: keep-alive, X-Gone\r\nX-Gone: 1\r\n\r\n";

fn site(host: Option<&str>) -> SiteRequest {
    SiteRequest {
        asked: "data.example.org".to_owned(),
        scheme: Scheme::Https,
        client: "192.0.2.7".parse().unwrap(),
        host: host.map(str::to_owned),
    }
}

/// The head that goes to the next hop of this route.
fn passed_on(route: &str, host: Option<&str>) -> String {
    let Step::Fetch(fetch) = route.parse::<Route>().unwrap().step() else { panic!("{route}") };
    let site = site(host);
    let out = OutgoingRequest {
        id: &id(),
        connection: Connection::Keep,
        extra: &[],
        site: Some(&site),
        proxied: false,
    };
    String::from_utf8(request_for(&request(ASKED), &fetch, &out).unwrap()).unwrap()
}

#[test]
fn site_origin_gets_request_and_client_address() {
    let sent = passed_on("/lh1/fetch/-/http:o.example:8080/a?b", None);
    assert_eq!(
        sorted(&sent),
        [
            "GET /a?b HTTP/1.1",
            "Connection: TE",
            "Cookie: s=1",
            "Forwarded: for=192.0.2.7;host=\"data.example.org\";proto=https",
            "Host: data.example.org",
            "If-None-Match: \"e\"",
            "Referer: https://data.example.org/lh1/x",
            "Te: trailers",
            "Via: 1.1 d1 (longhaul)",
            "X-Api: 1",
            "X-Forwarded-For: 192.0.2.7",
            "X-Forwarded-Host: data.example.org",
            "X-Forwarded-Proto: https",
        ]
    );
    let sent = passed_on("/lh1/fetch/-/http:o.example:8080/a?b", Some("o.example:8080"));
    assert!(sent.contains("\r\nHost: o.example:8080\r\n"), "{sent}");
    assert!(sent.contains("\r\nX-Forwarded-Host: data.example.org\r\n"), "{sent}");
}

#[test]
fn site_fields_reach_next_depot_and_cannot_be_forged() {
    let sent = passed_on("/lh1/fetch/d2:3880/http:o.example:8080/a?b", None);
    assert!(sent.contains("\r\nHost: d2:3880\r\n") && sent.contains("\r\nCookie: s=1\r\n"));
    assert_eq!(sent.matches("Longhaul-Site:").count(), 1, "{sent}");
    let told = SiteRequest::read(&request(&sent).headers).expect("it is told");
    assert_eq!(told, site(None));
    for gone in ["6.6.6.6", "X-Gone", "Forwarded: "] {
        assert!(!sent.contains(gone), "{gone} in {sent}");
    }
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: s=2; Path=/\r\nSet-Cookie: t=3\r\n\
    Strict-Transport-Security: max-age=5\r\nCache-Control: no-cache\r\nETag: \"e\"\r\nAlt-Svc: clear\r\n\
    Content-Security-Policy: default-src 'self'\r\nWWW-Authenticate: Basic\r\nKeep-Alive: timeout=5\r\n\
    Longhaul-Site: ?1\r\n";

/// The head that goes back, from the depot that has the site or from one behind it.
fn back(fields: &str, asked: &str, has_site: bool) -> String {
    let head = response(&format!("{ANSWER}{fields}\r\n"));
    let request = request(asked);
    let route: Route = "/lh1/fetch/-/http:o.example:8080/a/b".parse().unwrap();
    let framing = head.framing(&request).unwrap();
    let body = OutgoingBody::of(&head, &request, framing, NextHop::Origin, None).unwrap();
    let request_route = if has_site {
        RequestRoute::Site(route.origin(), "data.example.org")
    } else {
        RequestRoute::Route(&route)
    };
    let out = OutgoingResponse {
        id: &id(),
        connection: Connection::Keep,
        origin: Some(route.origin()),
        request_route,
        body,
        extra: &[],
        site: true,
    };
    String::from_utf8(response_for(&head, &request, &out)).unwrap()
}

#[test]
fn site_answer_is_forwarded_whole() {
    let sent = back("", ASKED, true);
    assert_eq!(
        sorted(&sent),
        [
            "HTTP/1.1 200 OK",
            "Alt-Svc: clear",
            "Cache-Control: no-cache",
            "Content-Length: 5",
            "Content-Security-Policy: default-src 'self'",
            "Etag: \"e\"",
            "Set-Cookie: s=2; Path=/",
            "Set-Cookie: t=3",
            "Strict-Transport-Security: max-age=5",
            "Via: 1.1 d1 (longhaul)",
            "Www-Authenticate: Basic",
        ]
    );
    // To the depot before it says so.
    let through = ASKED.replace("Cookie:", "Via: 1.1 d0 (longhaul)\r\nCookie:");
    let sent = back("", &through, false);
    assert!(site_is_taken(&response(&sent).headers), "{sent}");
    assert!(sent.contains("Set-Cookie: t=3\r\n") && !sent.contains("sandbox"), "{sent}");
}

#[test]
fn references_to_the_origin_lead_to_the_site() {
    for (given, expected) in [
        ("http://o.example:8080/x?y#z", "/x?y#z"),
        ("http://data.example.org/x", "/x"),
        ("http://data.example.org:80/x", "/x"),
        ("//o.example:8080/x?y#z", "/x?y#z"),
        ("//o.example:8080", "/"),
        ("//data.example.org/x", "/x"),
        ("///o.example:8080/x", "/x"),
        ("http:///o.example:8080/x", "/x"),
        ("HTTP://O.Example:8080/x", "/x"),
        // A path that begins like a host.
        ("http://o.example:8080//else.example/x", "/.//else.example/x"),
        ("//o.example:8080//else.example/x", "/.//else.example/x"),
        ("//else.example/x", "//else.example/x"),
        ("//o.example/x", "//o.example/x"),
        ("//u@o.example:8080/x", "//u@o.example:8080/x"),
        ("/a://o.example:8080/x", "/a://o.example:8080/x"),
        ("x?u=http://o.example:8080/", "x?u=http://o.example:8080/"),
        // Those that leave it stay as they are, and so do relative ones.
        ("https://data.example.org/x", "https://data.example.org/x"),
        ("http://else.example/x", "http://else.example/x"),
        ("http://o.example/x", "http://o.example/x"),
        ("/lh1/fetch/x", "/lh1/fetch/x"),
        ("../x", "../x"),
        ("?q", "?q"),
        ("", ""),
    ] {
        let fields = format!("Location: {given}\r\nContent-Location: {given}\r\n");
        let sent = back(&fields, ASKED, true);
        for name in ["Location", "Content-Location"] {
            assert!(sent.contains(&format!("\r\n{name}: {expected}\r\n")), "{given}: {sent}");
        }
        // Between depots they are the origin's own.
        let through = ASKED.replace("Cookie:", "Via: 1.1 d0 (longhaul)\r\nCookie:");
        let sent = back(&fields, &through, false);
        assert!(sent.contains(&format!("\r\nLocation: {given}\r\n")), "{given}: {sent}");
    }
}

#[test]
fn interim_answers_pass_whole() {
    let early = response("HTTP/1.1 103 E\r\nLink: </s>; rel=preload\r\nX-Accel-Y: 1\r\n\r\n");
    let asked = request(ASKED);
    assert_eq!(asked.version, Version::HTTP_11);
    let sent = String::from_utf8(interim_for(&early, &asked, (&id(), true)).unwrap()).unwrap();
    assert!(sent.contains("X-Accel-Y: 1\r\n") && !sent.contains("Referrer-Policy"), "{sent}");
}
