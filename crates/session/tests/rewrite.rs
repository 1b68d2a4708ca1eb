// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot changes in heads that it passes on, and that nothing else changes.

use longhaul_session::{
    DepotId, Route, Step,
    digest::Algorithm,
    message::{
        Connection, Fields, Framing, Method, NextHop, Outward, RequestHead, RequestOut,
        ResponseHead, ResponseOut, Way, interim_for, options_for, redirect, request_for,
        response_for, trailers_for_client, trailers_for_origin,
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
    let out = RequestOut { id: &id(), connection: Connection::Keep, extra: &extra() };
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
) -> (String, Outward) {
    let (head, request) = (response(response_text), request(request_text));
    let route: Route = request.target.parse().unwrap();
    let Step::Fetch(fetch) = route.clone().step() else { panic!("{request_text} leads on") };
    let next = if fetch.origin.is_some() { NextHop::Origin } else { NextHop::Depot };
    let framing = head.framing(&request).unwrap();
    let body = Outward::of(&head, &request, framing, next, digest).unwrap();
    let out = ResponseOut {
        id: &id(),
        connection,
        origin: fetch.origin.as_ref(),
        way: Way::Route(&route),
        body,
        extra: &extra(),
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
fn a_request_loses_what_concerns_the_connection_and_is_signed() {
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
        // Nor is it told of trailers, which HTTP/1.0 does not know, or of what depots say.
        ["HEAD /f?q=%20 HTTP/1.0", "Connection: close", "Host: [::1]", "Via: 1.0 d1 (longhaul)"]
    );
}

#[test]
fn a_response_loses_what_concerns_the_connection_and_is_signed() {
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
    let out = RequestOut { id: &id(), connection: Connection::Close, extra: &[] };
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
fn connections_are_kept_only_where_the_peer_can_know() {
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
fn a_digest_made_on_the_way_follows_the_body_between_depots_only() {
    let between = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nTE: trailers\r\nVia: 1.1 d0 (longhaul)\r\n\r\n";
    let no_trailers = between.replace("TE: trailers\r\n", "");
    let client = between.replace("Via: 1.1 d0 (longhaul)\r\n", "");
    let middle = between.replace("fetch/-", "fetch/d2");
    let last = client.replace("fetch/-", "fetch/d2");
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let beside = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLonghaul-Length: 5\r\n\r\n";
    let open = "HTTP/1.1 200 OK\r\n\r\n";
    let sha = Some(Algorithm::Sha256);
    let out = |framing, length, digest| Outward { framing, length, digest };
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
        (&client, beside, None, out(chunked, None, None)),
        // A depot further on passes it on; the one nearest the client makes a length of it.
        (&middle, beside, None, out(chunked, Some(5), None)),
        (&last, beside, None, out(Framing::Length(5), Some(5), None)),
    ] {
        let (head, body) = answered_with(request, response, Connection::Keep, digest);
        assert_eq!(body, expected, "{request}{response}");
        let has = |line: &str| head.contains(&format!("\r\n{line}\r\n"));
        assert_eq!(has("Content-Length: 5"), body.framing == Framing::Length(5), "{head}");
        let beside = body.framing == chunked && body.length.is_some();
        assert_eq!(has("Longhaul-Length: 5"), beside, "{head}");
        assert_eq!(has("Trailer: Content-Digest"), body.digest.is_some(), "{head}");
        assert_eq!(head.contains("\r\nTransfer-Encoding: "), body.framing == chunked, "{head}");
        let from_depot = request.contains("(longhaul)");
        assert!(from_depot || !head.contains("\r\nLonghaul-"), "{head}");
    }
}

#[test]
fn a_length_beside_chunks_that_is_none_is_refused() {
    let get = request("GET /lh1/fetch/d2/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n");
    for length in ["", "-1", "5, 5", "18446744073709551616", "5\r\nLonghaul-Length: 5"] {
        let head = response(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLonghaul-Length: {length}\r\n\r\n"
        ));
        let body = Outward::of(&head, &get, Framing::Chunked, NextHop::Depot, None);
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
    let sent = interim_for(&early, &put("1.1"), &id()).unwrap();
    assert_eq!(
        sorted(&String::from_utf8(sent).unwrap()),
        [
            "HTTP/1.1 103 Early Hints",
            "Link: </x>",
            "Referrer-Policy: no-referrer",
            "Via: 1.1 d1 (longhaul)"
        ]
    );
    assert_eq!(interim_for(&early, &put("1.0"), &id()), None);
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 Switch\r\n\r\n"] {
        assert_eq!(interim_for(&response(head), &put("1.1"), &id()), None);
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
fn who_brings_a_body_is_led_on_with_it() {
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

#[test]
fn trailers_that_a_reader_might_obey_go_no_further() {
    let mut came = Fields::new();
    for name in [
        "content-digest",
        "proxy-status",
        "server-timing",
        "x-own",
        "content-length",
        "transfer-encoding",
        "host",
        "set-cookie",
        "authorization",
        "connection",
        "longhaul-length",
        "trailer",
        "content-type",
    ] {
        came.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("1"));
    }
    let going = trailers_for_client(&came);
    let mut kept: Vec<_> = going.iter().map(|(name, _)| name.to_string()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["content-digest", "proxy-status", "server-timing", "x-own"]);
    // Of a request's nothing that people make up, by which an origin might be told who asks.
    came.append("x-real-ip".parse::<HeaderName>().unwrap(), HeaderValue::from_static("1"));
    let going = trailers_for_origin(&came);
    let mut kept: Vec<_> = going.iter().map(|(name, _)| name.to_string()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["content-digest", "proxy-status", "server-timing"]);
}

/// The names of the fields of a head that are among these.
fn names_in(head: &str, of: &[&str]) -> Vec<String> {
    let names = head.lines().filter_map(|line| line.split_once(": "));
    let names = names.map(|(name, _)| name.to_ascii_lowercase());
    names.filter(|name| of.contains(&name.as_str())).collect()
}

/// By which an origin would speak for the whole name of a depot, or have others act.
const FOR_THE_WHOLE_NAME: [&str; 52] = [
    "accept-ch",
    "accept-ch-lifetime",
    "access-control-allow-credentials",
    "access-control-allow-private-network",
    "activate-storage-access",
    "alt-svc",
    "authentication-info",
    "clear-site-data",
    "connection-allowlist",
    "content-location",
    "content-security-policy-report-only",
    "critical-ch",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "document-policy",
    "expect-ct",
    "feature-policy",
    "integrity-policy",
    "longhaul-request",
    "nel",
    "no-vary-search",
    "observe-browsing-topics",
    "origin-agent-cluster",
    "origin-trial",
    "p3p",
    "permissions-policy",
    "proxy-authenticate",
    "proxy-authentication-info",
    "public-key-pins",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "set-login",
    "sourcemap",
    "speculation-rules",
    "strict-transport-security",
    "supports-loading-mode",
    "timing-allow-origin",
    "tk",
    "use-as-dictionary",
    "upgrade",
    "www-authenticate",
    "x-accel-redirect",
    "x-archive-files",
    "x-dns-prefetch-control",
    "x-permitted-cross-domain-policies",
    "x-sendfile",
    "x-xss-protection",
    "some-field-of-the-year-2030",
];

#[test]
fn no_origin_speaks_for_the_whole_name_of_a_depot() {
    let get = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let fields: String = FOR_THE_WHOLE_NAME.map(|name| format!("{name}: x\r\n")).concat();
    let head = answered(get, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    assert_eq!(names_in(&head, &FOR_THE_WHOLE_NAME), Vec::<String>::new(), "{head}");
    let early = response(&format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n"));
    let head = interim_for(&early, &request(get), &id()).unwrap();
    let head = String::from_utf8(head).unwrap();
    assert_eq!(names_in(&head, &FOR_THE_WHOLE_NAME), Vec::<String>::new(), "{head}");
    let field = |name: &str| (name.parse().unwrap(), HeaderValue::from_static("x"));
    let trailers =
        trailers_for_client(&FOR_THE_WHOLE_NAME.iter().map(|name| field(name)).collect());
    assert_eq!(trailers, Fields::new());
    // Nor does a policy have a browser send the address of a page, and its ticket, to others.
    let policy = "Content-Security-Policy: default-src 'none'; REPORT-URI https://x/";
    let head = answered(get, &format!("HTTP/1.1 200 OK\r\n{policy}\r\n\r\n"));
    assert!(!head.contains("https://x/"), "{head}");
}

#[test]
fn what_says_something_of_the_content_goes_on() {
    let of_content = [
        "accept-ranges",
        "access-control-allow-origin",
        "age",
        "allow",
        "cache-control",
        "content-digest",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-range",
        "content-type",
        "date",
        "dav",
        "digest",
        "etag",
        "expires",
        "last-modified",
        "link",
        "proxy-status",
        "repr-digest",
        "retry-after",
        "server",
        "upload-offset",
        "vary",
        "x-amz-meta-name",
        "x-content-type-options",
        "x-goog-hash",
        "x-own",
    ];
    let get = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let fields: String = of_content.map(|name| format!("{name}: x\r\n")).concat();
    let head = answered(get, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    assert_eq!(names_in(&head, &of_content), of_content, "{head}");
}

#[test]
fn nobody_beyond_a_depot_is_told_of_a_ticket_or_of_clients() {
    let get = |fields: &str| {
        passed_on(&format!("GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n{fields}\r\n"))
    };
    for referer in [
        "http://d1:3880/lh2/0/a.b.c/page.html",
        "https://d1/lh1/fetch/-/http:o/",
        "/lh2/0/a.b.c/",
        "http://d1/%6ch2/0/a.b.c/",
        "http://d1/lh%32/0/a.b.c/",
        "http://x/?u=http%3A%2F%2Fd1%2Flh2%2F0%2Fa.b.c%2F",
        "http://x/?u=http%253A%252F%252Fd1%252Flh2%252F0%252Fa.b.c%252F",
        "http://x/?u=http%25253A%25252F%25252Fd1%25252Flh2%25252F0%25252Fa.b.c%25252F",
        "http://d1\\lh2\\0\\a.b.c\\",
        "http://d1/LH2/0/a.b.c/",
        &format!("http://portal/?ticket=a.b.{}", "s".repeat(86)),
        &format!("http://portal/?ticket=a%2eb%2e{}", "s".repeat(86)),
    ] {
        for name in ["Referer", "referer", "Ping-From"] {
            let head = get(&format!("{name}: {referer}\r\n"));
            assert!(!head.contains("a.b.c") && !head.contains("ssss"), "{head}");
            assert!(!head.to_lowercase().contains(&format!("\r\n{}:", name.to_lowercase())));
        }
    }
    assert!(get("Referer: https://site.example/page\r\n").contains("Referer: https://site"));
    let said = [
        "Forwarded: for=192.0.2.1",
        "X-Forwarded-For: 192.0.2.1",
        "X-FORWARDED-HOST: 192.0.2.1",
        "x-forwarded-proto: 192.0.2.1",
        "X-Real-IP: 192.0.2.1",
        "True-Client-IP: 192.0.2.1",
        "CF-Connecting-IP: 192.0.2.1",
        "X-Client-IP: 192.0.2.1",
        "Remote-User: 192.0.2.1",
        "X_Forwarded_For: 192.0.2.1",
        "X.Forwarded.For: 192.0.2.1",
        "X-Forwarded: 192.0.2.1",
        // As servers that tell no mark from another see them.
        "X-Real*IP: 192.0.2.1",
        "X-Real~IP: 192.0.2.1",
        "X!Forwarded!For: 192.0.2.1",
        "X-Real--IP: 192.0.2.1",
        "X-Client'IP: 192.0.2.1",
        "X-Webauth-User: 192.0.2.1",
        "X-Vouch-User: 192.0.2.1",
        "X-Auth-User: 192.0.2.1",
        "X-Authentik-Username: 192.0.2.1",
        "X-Consumer-Username: 192.0.2.1",
        "X-Amzn-Oidc-Identity: 192.0.2.1",
        "Tailscale-User-Login: 192.0.2.1",
        "Cf-Access-Jwt-Assertion: 192.0.2.1",
        "Impersonate-User: 192.0.2.1",
        "X-SSL-Client-S-DN: 192.0.2.1",
        "X-Forward-For: 192.0.2.1",
        "X-Host: 192.0.2.1",
        "X-Original-URI: 192.0.2.1",
        "X-Envoy-Original-Path: 192.0.2.1",
        "X-Script-Name: 192.0.2.1",
        "Proxy: 192.0.2.1",
        "X-Accel-Redirect: 192.0.2.1",
        "X-HTTP-Method-Override: 192.0.2.1",
        "X-Method-Override: 192.0.2.1",
        "Front-End-Https: 192.0.2.1",
        "X-Appengine-Cron: 192.0.2.1",
        "X-Forwarder-For: 192.0.2.1",
        "X-Original-Forwarded-For: 192.0.2.1",
        "X-Original-URL: 192.0.2.1",
        "X-Rewrite-URL: 192.0.2.1",
        "X-HTTP-Host-Override: 192.0.2.1",
        "X-Remote-User: 192.0.2.1",
        "X_Remote_User: 192.0.2.1",
        "X-ProxyUser-IP: 192.0.2.1",
        "WL-Proxy-Client-IP: 192.0.2.1",
        "Ali-CDN-Real-IP: 192.0.2.1",
        "CDN-Src-IP: 192.0.2.1",
        "X-Azure-ClientIP: 192.0.2.1",
        "X-Envoy-External-Address: 192.0.2.1",
        "X-Goog-Authenticated-User-Email: 192.0.2.1",
        "X-Goog-IAP-JWT-Assertion: 192.0.2.1",
        "X-MS-Client-Principal: 192.0.2.1",
        "X-ARR-ClientCert: 192.0.2.1",
        "X-SSL-Client-Cert: 192.0.2.1",
        "SSL-Client-Verify: 192.0.2.1",
        "X-Auth-Request-User: 192.0.2.1",
    ];
    for field in said {
        let head = get(&format!("{field}\r\n"));
        assert!(!head.contains("192.0.2.1"), "{head}");
    }
    // What a user says of a file, or a client of its request, is nobody's to believe more than that.
    for field in [
        "X-Amz-Meta-Remote-Path: 192.0.2.1",
        "X-Goog-Meta-Client-Ip: 192.0.2.1",
        "X-Amz-Date: 192.0.2.1",
        "X-Requested-With: 192.0.2.1",
        "X-Amz-Copy-Source-If-Match: 192.0.2.1",
        "X-Ms-Client-Request-Id: 192.0.2.1",
        "X-Goog-User-Project: 192.0.2.1",
        "X-Amz-User-Agent: 192.0.2.1",
        "User-Agent: 192.0.2.1",
        "Sec-Fetch-User: 192.0.2.1",
        "Access-Control-Request-Method: 192.0.2.1",
        "X-Voucher-Code: 192.0.2.1",
        "Upload-Metadata: 192.0.2.1",
        "If-None-Match: 192.0.2.1",
        "Authorization: Bearer 192.0.2.1",
        "Origin: http://192.0.2.1",
    ] {
        assert!(get(&format!("{field}\r\n")).contains("192.0.2.1"), "{field}");
    }
}

#[test]
fn no_location_leads_to_a_path_of_the_depots_own() {
    let own = "/lh1/fetch/-/http:o.example";
    let get = format!("GET {own}/dir/f HTTP/1.1\r\nHost: d\r\n\r\n");
    for (given, sent) in [
        // What is no URL is made one first, and then stays at the origin.
        ("/caf\u{e9}", format!("{own}/caf%C3%A9")),
        ("/lh1/fetch/-/http:x/\u{e9}", format!("{own}/lh1/fetch/-/http:x/%C3%A9")),
        ("/a b", format!("{own}/a%20b")),
        ("/\tx", format!("{own}/%09x")),
        // Without a host a browser would take it for a path at the depot.
        ("http:/lh1/fetch/-/http:x/", format!("{own}/lh1/fetch/-/http:x/")),
        ("HTTP:lh1/x", format!("{own}/dir/lh1/x")),
        ("https:/lh1/fetch/-/http:x/", "https://lh1/fetch/-/http:x/".to_owned()),
        ("http:", format!("{own}/dir/f")),
        ("http:///lh1/x", "http://lh1/x".to_owned()),
        // Browsers take a backslash for a slash, and the dots out.
        ("/\\evil/x", format!("{own}/%5Cevil/x")),
        ("\\\\evil\\x", format!("{own}/dir/%5C%5Cevil%5Cx")),
        ("..\\..\\..\\..\\lh1/x", format!("{own}/dir/..%5C..%5C..%5C..%5Clh1/x")),
    ] {
        let response = format!("HTTP/1.1 302 Found\r\nLocation: {given}\r\n\r\n");
        let head = answered(&get, &response);
        let there = head.lines().find_map(|line| line.strip_prefix("Location: "));
        assert_eq!(there, Some(&*sent), "{given:?}");
        assert_eq!(head.matches("Location: ").count(), 1, "{head}");
    }
    // Two of them are one.
    let two = "HTTP/1.1 302 Found\r\nLocation: /x\r\nLocation: /lh1/fetch/-/http:y/\r\n\r\n";
    assert_eq!(answered(&get, two).matches("Location: ").count(), 1);
    // A next hop that the route calls a depot may be none.
    let chain = "GET /lh1/fetch/evil:1/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    for given in [
        "/lh1/fetch/-/http:x/",
        "../../../lh1/fetch/-/http:x/",
        "/%6ch2/0/a.b.c/",
        "//\\lh1/x",
        "/lh1\\fetch\\-\\http:x\\",
        "..\\..\\..\\lh1\\fetch\\-\\http:x\\",
        // Absolute, and yet here.
        "http://d/lh1/fetch/-/http:x/",
        "HTTP://D:80/lh1/fetch/-/http:x/",
        "https://d:443/%6ch2/0/a.b.c/",
        "http://a:b@d./lh1/fetch/-/http:x/",
    ] {
        let head = answered(chain, &format!("HTTP/1.1 302 Found\r\nLocation: {given}\r\n\r\n"));
        assert!(!head.contains("Location: "), "{given}: {head}");
    }
}

#[test]
fn numbers_of_bytes_are_below_the_sign_bit() {
    let most = i64::MAX as u64;
    for (length, fits) in [(most, true), (most + 1, false), (u64::MAX, false)] {
        let put = format!("PUT /x HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n");
        let read = RequestHead::parse(put.as_bytes());
        assert_eq!(read.map_err(|fault| fault.status.as_u16()).is_ok(), fits, "{length}");
        let head = response(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        let get = request("GET /x HTTP/1.1\r\nHost: d\r\n\r\n");
        assert_eq!(head.framing(&get).is_ok(), fits, "{length}");
    }
}

#[test]
fn no_body_has_heads_that_browsers_obey() {
    let ask = |range: &str, status: &str, kind: &str| {
        let request = format!("GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n{range}\r\n");
        let head = answered(
            &request,
            &format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nContent-Type: {kind}\r\n\r\n"),
        );
        let kinds: Vec<_> = head.lines().filter_map(|l| l.strip_prefix("Content-Type: ")).collect();
        kinds.join(" and ")
    };
    let range = "Range: bytes=0-1,4-5\r\n";
    let plain = "application/octet-stream";
    for kind in
        ["multipart/x-mixed-replace; boundary=x", " Multipart/Mixed;boundary=x", "multipart/x"]
    {
        assert_eq!(ask("", "200 OK", kind), plain, "{kind}");
        assert_eq!(ask(range, "206 Partial Content", kind), plain, "{kind}");
    }
    let ranges = "multipart/byteranges; boundary=x";
    assert_eq!(ask(range, "206 Partial Content", ranges), ranges);
    assert_eq!(ask(range, "200 OK", ranges), plain);
    assert_eq!(ask("", "206 Partial Content", ranges), plain, "nobody asked for ranges");
    assert_eq!(ask("", "200 OK", "text/html"), "text/html");
    let two = ask("", "200 OK", "text/plain\r\nContent-Type: multipart/x-mixed-replace");
    assert_eq!(two, "text/plain and application/octet-stream");
}

#[test]
fn what_a_connection_names_is_known_beside_what_is_no_text() {
    let request = b"GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nX-A: b\r\nConnection: x-a, \xe9, close\r\n\r\n";
    let (head, _) = RequestHead::parse(request).unwrap().unwrap();
    assert!(!head.keeps_alive());
    let fetch = "/lh1/fetch/-/http:o/f".parse::<Route>().unwrap().step();
    let Step::Fetch(fetch) = fetch else { panic!("it is the last depot") };
    let out = RequestOut { id: &id(), connection: Connection::Close, extra: &[] };
    let going = String::from_utf8(request_for(&head, &fetch, &out).unwrap()).unwrap();
    assert!(!going.contains("X-A") && !going.contains("x-a"), "{going}");
}
