// SPDX-License-Identifier: GPL-2.0-or-later
//! Logins that origins ask for: which responses send a client back to the site, and how.

use super::{answered, request, response};
use longhaul_protocol::{
    OriginUrl,
    http::{ResponseHead, send_to_login},
};

const SITE: &str = "http://o.example/dir/a%20b.bin?v=2";

/// The response of an origin as depots pass it on, to a client of a route.
fn passed(method: &str, url: &str, text: &str) -> Result<ResponseHead, u16> {
    let origin: OriginUrl = url.parse().unwrap();
    let route = url.replacen("://", ":", 1);
    let request = request(&format!("{method} /lh1/fetch/-/{route} HTTP/1.1\r\nHost: d\r\n\r\n"));
    send_to_login(response(text), &request, &origin).map_err(|fault| fault.status.as_u16())
}

fn location(head: &ResponseHead) -> &str {
    head.headers.get(&http::header::LOCATION).map_or("", |to| to.to_str().unwrap())
}

#[test]
fn login_challenge_becomes_a_redirect_to_the_site() {
    let challenge = "HTTP/1.1 401 Who\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 3\r\n\
                     Cache-Control: max-age=99\r\nExpires: x\r\nAge: 5\r\nLocation: http://evil/\r\n\r\n";
    for method in ["GET", "HEAD"] {
        let head = passed(method, SITE, challenge).unwrap();
        assert_eq!((head.status.as_u16(), head.reason.as_str()), (302, "Found"));
        assert_eq!(location(&head), "http://o.example/dir/a%20b.bin?v=2&lh-direct=1");
        let names: Vec<_> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
        // What a challenge says of the connection is still to be read.
        assert_eq!(names, ["www-authenticate", "content-length", "location", "cache-control"]);
        assert!(head.authenticates_connection());
    }
    for method in ["PUT", "POST", "DELETE", "OPTIONS"] {
        let body = if method == "OPTIONS" { "" } else { "\r\nContent-Length: 0" };
        let route = "/lh1/fetch/-/http:o.example/f";
        let request = request(&format!("{method} {route} HTTP/1.1\r\nHost: d{body}\r\n\r\n"));
        let origin = "http://o.example/f".parse().unwrap();
        let head = send_to_login(response(challenge), &request, &origin).unwrap();
        assert_eq!(head.status, 401, "{method}");
    }
    assert_eq!(passed("GET", SITE, "HTTP/1.1 407 Proxy\r\n\r\n").unwrap().status, 407);
}

#[test]
fn marked_request_is_sent_back_no_second_time() {
    for marked in [
        "http://o.example/f?lh-direct=1",
        "http://o.example/f?a=b&lh-direct=1",
        "http://o.example/f?lh-direct=1&a=b",
    ] {
        for method in ["GET", "HEAD"] {
            let challenge = "HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n";
            assert_eq!(passed(method, marked, challenge).unwrap_err(), 401, "{marked}");
            let to_login = "HTTP/1.1 302 Found\r\nLocation: /login\r\nSet-Cookie: a=b\r\n\r\n";
            assert_eq!(location(&passed(method, marked, to_login).unwrap()), "/login");
        }
    }
}

#[test]
fn login_and_file_redirects_are_distinguished() {
    for (fields, is_login) in [
        // Sets a cookie, which would end at the depot.
        ("Location: /dir/other.bin\r\nSet-Cookie: state=1", true),
        ("Location: http://sso.example/x.php\r\nSet-Cookie: state=1", true),
        // Means to lead back.
        ("Location: /login.php?next=/dir/a%20b.bin", true),
        ("Location: /login.php?a=b&next=%2Fdir%2Fa%20b.bin", true),
        ("Location: /login.php?next=%2Fdir%2Fa%2520b.bin%3Fv%3D2&c=d", true),
        ("Location: https://sso.example/in.do?to=http%3A%2F%2Fo.example%2Fdir%2Fa%2520b.bin", true),
        ("Location: /login.php?to=%252Fin.do%253Fto%253D%252Fx%26y", false),
        // Leads from a file to a page.
        ("Location: /login", true),
        ("Location: login?x", true),
        ("Location: /accounts/login/", true),
        ("Location: /login.html#top", true),
        ("Location: https://sso.example/LOGIN.HTM", true),
        ("Location: https://sso.example", true),
        // Files of the same origin, mirrors, and the same name elsewhere.
        ("Location: /v2/a%20b-2.bin", false),
        ("Location: other.bin?signed=1", false),
        ("Location: http://mirror.example/pub/x.iso", false),
        ("Location: http://mirror.example/pub/a%20b.bin?k=v", false),
        ("Location: https://o.example/dir/a%20b.bin?v=2", false),
        ("Location: /dir/a%20b.bin/", false),
        ("Location: mailto:x", false),
        ("X-No-Location: 1\r\nSet-Cookie: a=b", false),
    ] {
        for code in [302, 303, 307] {
            let text = format!("HTTP/1.1 {code} There\r\n{fields}\r\n\r\n");
            let head = passed("GET", SITE, &text).unwrap();
            let is_sent_back = location(&head) == format!("{SITE}&lh-direct=1");
            assert_eq!(is_sent_back, is_login, "{fields}");
            assert_eq!(head.status.as_u16(), if is_login { 302 } else { code }, "{fields}");
        }
        for code in [200, 300, 301, 304, 308, 403] {
            let text = format!("HTTP/1.1 {code} There\r\n{fields}\r\n\r\n");
            assert_eq!(passed("GET", SITE, &text).unwrap().status.as_u16(), code, "{fields}");
        }
    }
    // From a page, or a name without an extension, to another one.
    for path in ["/", "/dir/", "/page.html", "/set"] {
        let url = format!("http://o.example{path}");
        let head = passed("GET", &url, "HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n").unwrap();
        assert_eq!(location(&head), "/other", "{path}");
    }
}

#[test]
fn redirect_back_to_the_site_bypasses_the_chain() {
    let way = "/lh1/fetch/d2:3880/http:o.example";
    let get = format!("GET {way}/f?a HTTP/1.1\r\nHost: d\r\n\r\n");
    for (given, sent) in [
        ("http://o.example/f?a&lh-direct=1", "http://o.example/f?a&lh-direct=1".to_owned()),
        // No other URL leads out of it.
        ("http://o.example/f?lh-direct=1", format!("{way}/f?lh-direct=1")),
        ("http://o.example/g?a&lh-direct=1", format!("{way}/g?a&lh-direct=1")),
        ("http://o.example/f?a", format!("{way}/f?a")),
    ] {
        let head = answered(&get, &format!("HTTP/1.1 302 Found\r\nLocation: {given}\r\n\r\n"));
        assert!(head.contains(&format!("\r\nLocation: {sent}\r\n")), "{given}: {head}");
    }
}
