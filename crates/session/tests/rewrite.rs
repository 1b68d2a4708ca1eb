// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot changes in heads that it passes on, and that nothing else changes.

use longhaul_session::{
    DepotId, Route, Step,
    message::{Framing, RequestHead, ResponseHead, request_for, response_for},
};

const SANDBOX: &str = "Content-Security-Policy: sandbox allow-downloads allow-popups";

fn id() -> DepotId {
    "d1".parse().unwrap()
}

fn request(text: &str) -> RequestHead {
    RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
}

/// The request as depot d1 passes it on.
fn passed_on(text: &str) -> String {
    let head = request(text);
    let Step::Fetch(fetch) = head.target.parse::<Route>().unwrap().step() else {
        panic!("{text} leads on");
    };
    String::from_utf8(request_for(&head, &fetch, &id()).unwrap()).unwrap()
}

/// The response as depot d1 passes it on to `request`.
fn answered(request_text: &str, response: &str) -> String {
    let (head, _) = ResponseHead::parse(response.as_bytes()).unwrap().unwrap();
    let request = request(request_text);
    let Step::Fetch(fetch) = request.target.parse::<Route>().unwrap().step() else {
        panic!("{request_text} leads on");
    };
    String::from_utf8(response_for(&head, &request, fetch.origin.as_ref(), &id())).unwrap()
}

/// The lines of a head in alphabetical order after the first.
fn sorted(head: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n").collect();
    lines[1..].sort_unstable();
    lines
}

#[test]
fn a_request_loses_what_concerns_the_connection_and_is_signed() {
    let text = "GET /lh1/fetch/d2:3880,d3:3880/http:o.example:8080/f?q HTTP/1.1\r\n\
         Host: d1:3880\r\nRange: bytes=5-\r\nIf-Range: \"e\"\r\nUser-Agent: curl\r\n\
         Connection: keep-alive, X-Private, Via, close\r\nX-Private: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Authorization: x\r\nTE: trailers\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n\
         Cookie: secret\r\nContent-Length: 0\r\nVia: 1.1 a\r\nVia: 1.0 b (x)\r\nX-Kept: 2\r\n\r\n";
    assert_eq!(
        sorted(&passed_on(text)),
        [
            "GET /lh1/fetch/d3:3880/http:o.example:8080/f?q HTTP/1.1",
            "Connection: close",
            "Host: d2:3880",
            "If-Range: \"e\"",
            "Range: bytes=5-",
            "User-Agent: curl",
            "Via: 1.1 a, 1.0 b (x), 1.1 d1 (longhaul)",
            "X-Kept: 2",
        ]
    );
}

#[test]
fn the_origin_sees_its_own_path_and_the_clients_version() {
    let text = "HEAD /lh1/fetch/-/http:[::1]:80/f?q=%20 HTTP/1.0\r\n\r\n";
    assert_eq!(
        sorted(&passed_on(text)),
        ["HEAD /f?q=%20 HTTP/1.0", "Connection: close", "Host: [::1]", "Via: 1.0 d1 (longhaul)"]
    );
}

#[test]
fn a_response_loses_what_concerns_the_connection_and_is_signed() {
    let get = "GET /lh1/fetch/d2:3880/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let response = "HTTP/1.0 206 Partly\r\nContent-Length: 5, 5\r\nETag: \"e\"\r\n\
         Connection: X-Private, Content-Length, Transfer-Encoding\r\nX-Private: 1\r\n\
         Keep-Alive: 5\r\nSet-Cookie: a=b\r\nWWW-Authenticate: Basic\r\nLocation: /else\r\nVia: 1.1 d2 (longhaul)\r\n\r\n";
    assert_eq!(
        sorted(&answered(get, response)),
        [
            "HTTP/1.1 206 Partly",
            "Connection: close",
            "Content-Length: 5",
            SANDBOX,
            "Etag: \"e\"",
            // Not this depot's to judge: it is not the one that talks to the origin.
            "Location: /else",
            "Via: 1.1 d2 (longhaul), 1.0 d1 (longhaul)",
        ]
    );
}

#[test]
fn the_depot_next_to_the_origin_completes_locations() {
    let get = "GET /lh1/fetch/-/http:o.example/dir/f HTTP/1.1\r\nHost: d\r\n\
               Via: 1.1 d0 (longhaul)\r\n\r\n";
    for (given, sent) in [
        ("/x", "http://o.example/x"),
        ("x", "http://o.example/dir/x"),
        ("https://else/", "https://else/"),
    ] {
        let response = format!("HTTP/1.1 302 Found\r\nLocation: {given}\r\n\r\n");
        let head = answered(get, &response);
        assert!(head.contains(&format!("\r\nLocation: {sent}\r\n")), "{head}");
    }
}

#[test]
fn the_depot_that_the_client_asked_keeps_redirects_of_the_origin_in_the_chain() {
    let fetch = "/lh1/fetch/d2:3880/http:o.example";
    let lead = "/lh1/lead/-/d1:3880,d2:3880/http:o.example";
    for way in [fetch, lead] {
        let get = format!("GET {way}/dir/f HTTP/1.1\r\nHost: d\r\n\r\n");
        let long = format!("http://o.example/{}", "a".repeat(7999));
        for (given, sent) in [
            ("http://o.example/x?y#z", format!("{way}/x?y#z")),
            ("HTTP://O.example:80", format!("{way}/")),
            ("https://o.example/x", "https://o.example/x".to_owned()),
            ("http://o.example:81/x", "http://o.example:81/x".to_owned()),
            ("http://u@o.example/x", "http://u@o.example/x".to_owned()),
            ("http://else/x", "http://else/x".to_owned()),
            (&long, long.clone()),
        ] {
            let response = format!("HTTP/1.1 302 Found\r\nLocation: {given}\r\n\r\n");
            let head = answered(&get, &response);
            assert!(head.contains(&format!("\r\nLocation: {sent}\r\n")), "{given}: {head}");
        }
    }
}

#[test]
fn every_depot_shuts_pages_in_and_none_twice() {
    // A page's own server may be named as a depot, so no depot trusts the next to have done it.
    let at_origin = "GET /lh1/fetch/-/http:evil/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let before_depot = "GET /lh1/fetch/evil:80/http:x/ HTTP/1.1\r\nHost: d\r\n\r\n";
    for request in [at_origin, before_depot] {
        for (given, lines) in [
            ("", 1),
            ("Connection: Content-Security-Policy\r\n", 1),
            ("Content-Security-Policy: sandbox allow-scripts allow-same-origin\r\n", 2),
            (&format!("Connection: content-security-policy\r\n{SANDBOX}\r\n"), 1),
            (&format!("{SANDBOX}\r\n"), 1),
        ] {
            let head = answered(request, &format!("HTTP/1.1 200 OK\r\n{given}\r\n"));
            assert!(head.contains(&format!("\r\n{SANDBOX}\r\n")), "{head}");
            assert_eq!(head.matches("Content-Security-Policy:").count(), lines, "{head}");
        }
    }
}

#[test]
fn no_head_promises_a_body_that_does_not_come() {
    let http10 = "HEAD /lh1/fetch/-/http:o/f HTTP/1.0\r\n\r\n";
    let get = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let no_content = "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
    assert!(!answered(http10, chunked).contains("Transfer-Encoding"));
    assert!(!answered(get, no_content).contains("Content-Length"));
    assert!(answered(get, chunked).contains("Transfer-Encoding: chunked"));
    let not_modified = "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n";
    assert!(answered(get, not_modified).contains("Content-Length: 5"));
    let (head, _) = ResponseHead::parse(not_modified.as_bytes()).unwrap().unwrap();
    assert_eq!(head.framing(&request(get)), Ok(Framing::Empty));
}

#[test]
fn a_request_that_comes_back_is_refused() {
    let head = request(
        "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nConnection: via\r\nVia: 1.1 D1 (longhaul)\r\n\r\n",
    );
    let Step::Fetch(fetch) = head.target.parse::<Route>().unwrap().step() else { panic!() };
    assert_eq!(request_for(&head, &fetch, &id()).unwrap_err().status, 508);
}
