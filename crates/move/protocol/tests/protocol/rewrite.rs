// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot changes in heads that it passes on, and that nothing else changes.

mod login;
mod site;
mod withheld;

use longhaul_protocol::{
    DepotId, Route, Step,
    digest::Algorithm,
    http::{
        Connection, Framing, Method, NextHop, OutgoingBody, OutgoingRequest, OutgoingResponse,
        RequestHead, RequestRoute, ResponseHead, interim_for, options_for, redirect, request_for,
        response_for,
    },
};

use http::{HeaderName, HeaderValue};

const SANDBOX: &str = "Content-Security-Policy: sandbox allow-downloads allow-popups";

fn id() -> DepotId {
    "d1".parse().unwrap()
}

fn request(text: &str) -> RequestHead {
    RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
}

fn response(text: &str) -> ResponseHead {
    ResponseHead::parse(text.as_bytes()).unwrap().unwrap().0
}

/// A field that depots say to each other.
fn extra() -> [(HeaderName, HeaderValue); 1] {
    [("longhaul-streams".parse().unwrap(), HeaderValue::from_static("4"))]
}

/// The request as depot d1 passes it on, on a connection that it would keep.
fn passed_on(text: &str) -> String {
    let head = request(text);
    let Step::Fetch(fetch) = head.target.parse::<Route>().unwrap().step() else {
        panic!("{text} leads on");
    };
    let out = OutgoingRequest {
        id: &id(),
        connection: Connection::Keep,
        extra: &extra(),
        site: None,
        proxied: false,
    };
    String::from_utf8(request_for(&head, &fetch, &out).unwrap()).unwrap()
}

/// The response as depot d1 passes it on to `request`, on a connection that it closes.
fn answered(request_text: &str, response_text: &str) -> String {
    answered_with(request_text, response_text, Connection::Close, None).0
}

/// The same, on a connection of which this becomes, with a digest that this depot could make.
fn answered_with(
    request_text: &str,
    response_text: &str,
    connection: Connection,
    digest: Option<Algorithm>,
) -> (String, OutgoingBody) {
    let (head, request) = (response(response_text), request(request_text));
    let route: Route = request.target.parse().unwrap();
    let Step::Fetch(fetch) = route.clone().step() else { panic!("{request_text} leads on") };
    let next = if fetch.origin.is_some() { NextHop::Origin } else { NextHop::Depot };
    let framing = head.framing(&request).unwrap();
    let body = OutgoingBody::of(&head, &request, framing, next, digest).unwrap();
    let out = OutgoingResponse {
        id: &id(),
        connection,
        origin: fetch.origin.as_ref(),
        request_route: RequestRoute::Route(&route),
        body,
        extra: &extra(),
        site: false,
    };
    (String::from_utf8(response_for(&head, &request, &out)).unwrap(), body)
}

/// The lines of a head in alphabetical order after the first.
fn sorted(head: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n").collect();
    lines[1..].sort_unstable();
    lines
}

#[test]
fn forwarded_request_loses_hop_fields_and_gains_via() {
    let text = "GET /lh1/fetch/d2:3880,d3:3880/http:o.example:8080/f?q HTTP/1.1\r\n\
         Host: d1:3880\r\nRange: bytes=5-\r\nIf-Range: \"e\"\r\nUser-Agent: curl\r\n\
         Connection: keep-alive, X-Private, Via, close\r\nX-Private: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Authorization: x\r\nTE: trailers\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n\
         Cookie: secret\r\nContent-Length: 0\r\nTrailer: X\r\nLonghaul-Streams: 9; stolen\r\nVia: 1.1 a\r\nVia: 1.0 b (x)\r\nX-Kept: 2\r\n\r\n";
    assert_eq!(
        sorted(&passed_on(text)),
        [
            "GET /lh1/fetch/d3:3880/http:o.example:8080/f?q HTTP/1.1",
            "Connection: TE",
            "Host: d2:3880",
            "If-Range: \"e\"",
            "Longhaul-Streams: 4",
            "Range: bytes=5-",
            "Te: trailers",
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
        // It gets no trailers, which HTTP/1.0 does not know, and no fields between depots.
        ["HEAD /f?q=%20 HTTP/1.0", "Connection: close", "Host: [::1]", "Via: 1.0 d1 (longhaul)"]
    );
}

#[test]
fn forwarded_response_loses_hop_fields_and_gains_via() {
    let get = "GET /lh1/fetch/d2:3880/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let response = "HTTP/1.0 206 Partly\r\nContent-Length: 5, 5\r\nETag: \"e\"\r\n\
         Connection: X-Private, Content-Length, Transfer-Encoding\r\nX-Private: 1\r\n\
         Keep-Alive: 5\r\nLonghaul-Length: 7\r\nSet-Cookie: a=b\r\nWWW-Authenticate: Basic\r\nLocation: /else\r\nVia: 1.1 d2 (longhaul)\r\n\r\n";
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
            "Referrer-Policy: no-referrer",
            "Via: 1.1 d2 (longhaul), 1.0 d1 (longhaul)",
        ]
    );
}

#[test]
fn receipt_is_promised_to_whoever_asks_and_by_depots_alone() {
    let token = "000102030405060708090a0b0c0d0e0f";
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLonghaul-Receipt: kept\r\n\r\n";
    for (via, field, promised) in [
        ("", format!("Longhaul-Receipt: {token}\r\n"), 1),
        ("Via: 1.1 d0 (longhaul)\r\n", format!("Longhaul-Receipt: {token}\r\n"), 1),
        ("", String::new(), 0),
        ("", "Longhaul-Receipt: kept\r\n".to_owned(), 0),
    ] {
        let get = format!("GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n{via}{field}\r\n");
        let head = answered(&get, response).to_lowercase();
        assert_eq!(head.matches("longhaul-receipt: kept\r\n").count(), promised, "{get}{head}");
    }
}

#[test]
fn last_depot_makes_locations_absolute() {
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
fn first_depot_keeps_origin_redirects_in_the_chain() {
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
    let out = OutgoingRequest {
        id: &id(),
        connection: Connection::Close,
        extra: &[],
        site: None,
        proxied: false,
    };
    assert_eq!(request_for(&head, &fetch, &out).unwrap_err().status, 508);
}

#[test]
fn bodies_of_requests_keep_their_framing() {
    for (fields, expected, never) in [
        ("Content-Length: 5, 5\r\nTrailer: X\r\n", "Content-Length: 5", "Trailer:"),
        ("Content-Length: 0\r\n", "Content-Length: 0", "Expect:"),
        ("Transfer-Encoding: Chunked\r\n", "Transfer-Encoding: chunked", "Content-Length:"),
        ("Transfer-Encoding: chunked\r\nTrailer: X\r\n", "Trailer: X", "Content-Length:"),
        ("Content-Length: 5\r\nExpect: 100-Continue\r\n", "Expect: 100-continue", "close"),
        ("Content-Length: 5\r\nConnection: content-length\r\n", "Content-Length: 5", "close"),
    ] {
        let put = format!("PUT /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
        let head = passed_on(&put);
        assert_eq!(head.matches(&format!("\r\n{expected}\r\n")).count(), 1, "{head}");
        assert!(!head.contains(never), "{head}");
        assert!(head.starts_with("PUT /f HTTP/1.1\r\n"), "{head}");
        assert!(!head.contains("Longhaul"), "the origin is told what depots say: {head}");
    }
}

#[test]
fn connection_is_kept_only_if_the_peer_can_know() {
    let get = |version| format!("GET /lh1/fetch/-/http:o/f HTTP/{version}\r\nHost: d\r\n\r\n");
    let (length, until_close) =
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    for (version, response, connection, closes) in [
        ("1.1", length, Connection::Keep, false),
        ("1.1", length, Connection::Close, true),
        ("1.1", until_close, Connection::Keep, true),
        ("1.0", length, Connection::Keep, true),
    ] {
        let (head, _) = answered_with(&get(version), response, connection, None);
        assert_eq!(head.contains("\r\nConnection: close\r\n"), closes, "{version} {head}");
    }
}

#[test]
fn depot_made_digest_is_sent_only_between_depots() {
    let between = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nTE: trailers\r\nVia: 1.1 d0 (longhaul)\r\n\r\n";
    let no_trailers = between.replace("TE: trailers\r\n", "");
    let client = between.replace("Via: 1.1 d0 (longhaul)\r\n", "");
    let middle = between.replace("fetch/-", "fetch/d2");
    let last = client.replace("fetch/-", "fetch/d2");
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let both = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLonghaul-Length: 5\r\n\r\n";
    let open = "HTTP/1.1 200 OK\r\n\r\n";
    let sha = Some(Algorithm::Sha256);
    let out = |framing, length, digest| OutgoingBody { framing, length, digest };
    let chunked = Framing::Chunked;
    for (request, response, digest, expected) in [
        // The depot next to the origin makes it, for a depot that takes it.
        (between, plain, sha, out(chunked, Some(5), sha)),
        (between, open, sha, out(chunked, None, sha)),
        (between, plain, None, out(Framing::Length(5), Some(5), None)),
        (&no_trailers, plain, sha, out(Framing::Length(5), Some(5), None)),
        (&client, plain, sha, out(Framing::Length(5), Some(5), None)),
        (&client, open, sha, out(Framing::UntilClose, None, None)),
        // An origin says nothing between depots.
        (&client, both, None, out(chunked, None, None)),
        // A depot further on passes it on; the one nearest the client makes a length of it.
        (&middle, both, None, out(chunked, Some(5), None)),
        (&last, both, None, out(Framing::Length(5), Some(5), None)),
    ] {
        let (head, body) = answered_with(request, response, Connection::Keep, digest);
        assert_eq!(body, expected, "{request}{response}");
        let has = |line: &str| head.contains(&format!("\r\n{line}\r\n"));
        assert_eq!(has("Content-Length: 5"), body.framing == Framing::Length(5), "{head}");
        let both = body.framing == chunked && body.length.is_some();
        assert_eq!(has("Longhaul-Length: 5"), both, "{head}");
        assert_eq!(has("Trailer: Content-Digest"), body.digest.is_some(), "{head}");
        assert_eq!(head.contains("\r\nTransfer-Encoding: "), body.framing == chunked, "{head}");
        let from_depot = request.contains("(longhaul)");
        assert!(from_depot || !head.contains("\r\nLonghaul-"), "{head}");
    }
}

#[test]
fn invalid_longhaul_length_is_refused() {
    let get = request("GET /lh1/fetch/d2/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n");
    for length in ["", "-1", "5, 5", "18446744073709551616", "5\r\nLonghaul-Length: 5"] {
        let head = response(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLonghaul-Length: {length}\r\n\r\n"
        ));
        let body = OutgoingBody::of(&head, &get, Framing::Chunked, NextHop::Depot, None);
        assert_eq!(body.unwrap_err().status, 502, "{length}");
    }
}

#[test]
fn interim_answers_go_to_those_who_know_them() {
    let early = response(
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nSet-Cookie: a=b\r\nConnection: x\r\nX: y\r\n\
         Link: <https://x/>; rel=preload; ReferrerPolicy=unsafe-url\r\nContent-Security-Policy: x\r\n\r\n",
    );
    let put = |version| {
        let fields = "Host: d\r\nContent-Length: 5\r\n\r\n";
        request(&format!("PUT /lh1/fetch/-/http:o/f HTTP/{version}\r\n{fields}"))
    };
    let sent = interim_for(&early, &put("1.1"), (&id(), false)).unwrap();
    assert_eq!(
        sorted(&String::from_utf8(sent).unwrap()),
        [
            "HTTP/1.1 103 Early Hints",
            "Link: </x>",
            "Referrer-Policy: no-referrer",
            "Via: 1.1 d1 (longhaul)"
        ]
    );
    assert_eq!(interim_for(&early, &put("1.0"), (&id(), false)), None);
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 Switch\r\n\r\n"] {
        assert_eq!(interim_for(&response(head), &put("1.1"), (&id(), false)), None);
    }
}

#[test]
fn options_go_only_so_far() {
    let options = |left: &str| {
        format!("OPTIONS /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nMax-Forwards: {left}\r\n\r\n")
    };
    assert!(passed_on(&options("3")).contains("\r\nMax-Forwards: 2\r\n"));
    assert_eq!(options_for(&request(&options("3")), &id(), Connection::Keep), None);
    let own = options_for(&request(&options("0")), &id(), Connection::Keep).unwrap();
    assert_eq!(
        sorted(&String::from_utf8(own).unwrap()),
        [
            "HTTP/1.1 204 No Content",
            "Allow: GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS",
            "Via: 1.1 d1 (longhaul)",
        ]
    );
    let get = options("0").replace("OPTIONS", "GET");
    assert_eq!(options_for(&request(&get), &id(), Connection::Keep), None);
    assert!(passed_on(&get).contains("\r\nMax-Forwards: 0\r\n"));
}

#[test]
fn request_with_body_is_redirected_with_307() {
    let route: Route = "/lh1/lead/d2/d1/http:o/f".parse().unwrap();
    let Step::Lead(to) = route.step() else { panic!("a lead leads") };
    for (method, status, has_body) in [
        (Method::Get, "302 Found", true),
        (Method::Head, "302 Found", false),
        (Method::Put, "307 Temporary Redirect", true),
        (Method::Delete, "307 Temporary Redirect", true),
    ] {
        let answer =
            String::from_utf8(redirect(&to.to_string(), method, Connection::Keep)).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(answer.contains(&format!("\r\nLocation: {to}\r\n")), "{answer}");
        assert_eq!(!answer.ends_with("\r\n\r\n"), has_body, "{answer}");
    }
}
