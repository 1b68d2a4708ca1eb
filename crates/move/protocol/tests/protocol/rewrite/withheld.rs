// SPDX-License-Identifier: GPL-2.0-or-later
//! What goes no further than a depot: fields that speak for its name, for clients or of tickets.

use super::{answered, id, passed_on, request, response};
use http::{HeaderName, HeaderValue};
use longhaul_protocol::{
    Route, Step,
    http::{
        Connection, Fields, OutgoingRequest, RequestHead, interim_for, request_for,
        trailers_for_client, trailers_for_origin,
    },
};

#[test]
fn trailers_with_effects_are_removed() {
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
fn origin_cannot_set_policy_for_the_depots_host() {
    let get = "GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\n\r\n";
    let fields: String = FOR_THE_WHOLE_NAME.map(|name| format!("{name}: x\r\n")).concat();
    let head = answered(get, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    assert_eq!(names_in(&head, &FOR_THE_WHOLE_NAME), Vec::<String>::new(), "{head}");
    let early = response(&format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n"));
    let head = interim_for(&early, &request(get), (&id(), false)).unwrap();
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
fn content_fields_are_forwarded() {
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

/// Fields by which proxies say who a client is, or what it asked, and those that look like them.
const OF_CLIENTS: &[&str] = &[
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

/// Statements of a user about a file, or of a client about its request. They claim no more than that.
const OF_USERS: &[&str] = &[
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
];

#[test]
fn tickets_and_clients_are_hidden_beyond_the_depot() {
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
    for field in OF_CLIENTS {
        let head = get(&format!("{field}\r\n"));
        assert!(!head.contains("192.0.2.1"), "{head}");
    }
    for field in OF_USERS {
        assert!(get(&format!("{field}\r\n")).contains("192.0.2.1"), "{field}");
    }
}

#[test]
fn location_cannot_lead_to_a_depots_own_path() {
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
    assert_eq!(ask("", "206 Partial Content", ranges), plain, "the client did not ask for ranges");
    assert_eq!(ask("", "200 OK", "text/html"), "text/html");
    let two = ask("", "200 OK", "text/plain\r\nContent-Type: multipart/x-mixed-replace");
    assert_eq!(two, "text/plain and application/octet-stream");
}

#[test]
fn connection_options_are_read_next_to_non_text() {
    let request = b"GET /lh1/fetch/-/http:o/f HTTP/1.1\r\nHost: d\r\nX-A: b\r\nConnection: x-a, \xe9, close\r\n\r\n";
    let (head, _) = RequestHead::parse(request).unwrap().unwrap();
    assert!(!head.keeps_alive());
    let fetch = "/lh1/fetch/-/http:o/f".parse::<Route>().unwrap().step();
    let Step::Fetch(fetch) = fetch else { panic!("it is the last depot") };
    let out = OutgoingRequest {
        id: &id(),
        connection: Connection::Close,
        extra: &[],
        site: None,
        proxied: false,
    };
    let going = String::from_utf8(request_for(&head, &fetch, &out).unwrap()).unwrap();
    assert!(!going.contains("X-A") && !going.contains("x-a"), "{going}");
}
