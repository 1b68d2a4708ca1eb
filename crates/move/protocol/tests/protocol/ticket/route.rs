// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes with a ticket: what they lead to, and what they never lead to.

use super::{NOW, at, keys, signer, ticket};
use longhaul_protocol::{
    MAX_ROUTE_LEN,
    http::{Fault, Method, RequestRoute},
    ticket::{Ticket, TicketClient, TicketError, TicketRoute},
};
use proptest::prelude::*;

fn route(tail: &str) -> Result<TicketRoute, TicketError> {
    format!("/lh2/0/a.b.c/{tail}").parse()
}

#[test]
fn ticket_routes_through_its_depots_to_its_url() {
    for (url, tail, asked) in [
        ("http://o.example/dir/f?q=1", "f", "http://o.example/dir/f?q=1"),
        ("http://o.example/dir/f?q=1", "any-name", "http://o.example/dir/f?q=1"),
        ("https://o.example:81/dir/?q", "", "https://o.example:81/dir/?q"),
        ("http://o.example/dir/", "", "http://o.example/dir/"),
        ("http://o.example/dir/", "sub//f%20g?q=/../x", "http://o.example/dir/sub//f%20g?q=/../x"),
        ("http://o.example", "f", "http://o.example/f"),
    ] {
        let ticket = ticket(url);
        let token = signer().sign(&ticket).unwrap();
        let first = TicketRoute::new(&token, tail).unwrap();
        let verified = keys().verify(first.token(), at(NOW)).unwrap();
        let fetch = verified.ticket.step(&first).unwrap();
        assert_eq!((fetch.next.to_string(), fetch.host.as_str()), ("d2:3880".into(), "d2:3880"));
        assert_eq!(fetch.target, format!("/lh2/1/{token}/{tail}"));
        assert_eq!((fetch.origin, fetch.depots), (None, 1));
        let second: TicketRoute = fetch.target.parse().unwrap();
        let fetch = verified.ticket.step(&second).unwrap();
        assert_eq!(fetch.depots, 0);
        assert_eq!(fetch.origin.unwrap().to_string(), asked);
        let third = format!("/lh2/2/{token}/{tail}").parse().unwrap();
        let error = verified.ticket.step(&third).unwrap_err();
        assert_eq!(error, TicketError::Hop { hop: 2, depots: 2 });
    }
}

/// Tails that some server takes out of the directory before them, and why they are refused.
const LEADING_OUT: &[(&str, &str)] = &[
    ("..", "segment"),
    ("../x", "segment"),
    ("a/../../x", "segment"),
    (".", "segment"),
    ("a/./b", "segment"),
    ("%2e%2e/x", "segment"),
    (".%2E/x", "segment"),
    ("..;/x", "segment"),
    ("..;a=b/x", "segment"),
    ("..%3b/x", "segment"),
    ("%2e%2e%3Bx/y", "segment"),
    ("a%2f..%2fb", "encoded slash"),
    ("a%2Fb", "encoded slash"),
    ("%c0%ae%c0%ae/x", "not UTF-8"),
    ("%e0%80%ae./x", "not UTF-8"),
    ("..%c0%afx", "not UTF-8"),
    ("..%20/x", "segment"),
    ("%20../x", "segment"),
    (".%20./x", "segment"),
    ("..%20.%20/x", "segment"),
    ("...%20/x", "segment"),
    ("..%c2%a0/x", "segment"),
    ("..%e2%80%8b/x", "segment"),
    ("..%20;x/y", "segment"),
    ("%ef%bc%8e%ef%bc%8e/x", "segment"),
    ("%e2%80%a5/x", "segment"),
    ("%ef%b8%b0/x", "segment"),
    ("%e2%80%a6/x", "segment"),
    ("..%3fx/y", "segment"),
    ("..%23/y", "segment"),
    ("..%3a%3a$DATA/y", "segment"),
    ("..:x/y", "segment"),
    ("..%2520%253f/y", "segment"),
    ("..%e2%80%ae/x", "segment"),
    (".%ef%b8%8f./x", "segment"),
    ("..%c2%a5x", "segment"),
    ("a%c2%a5..%c2%a5x", "segment"),
    ("..%e2%82%a9x", "segment"),
    ("..%ef%bc%9bx/y", "segment"),
    ("..%ef%bc%9fx", "segment"),
    ("..%ef%bc%9ax", "segment"),
    ("..%ef%bc%83/", "segment"),
    ("..%cd%be/", "segment"),
    ("..%ef%bc%85%32f", "segment"),
    ("..%e3%85%a4/", "segment"),
    ("..%ef%be%a0/", "segment"),
    ("..%e1%a0%8b/", "segment"),
    ("..%e2%a0%80/", "segment"),
    ("..%f3%a0%80%81/", "segment"),
    ("%ef%bd%a1%ef%bd%a1/", "segment"),
    ("%e3%80%82%e3%80%82/", "segment"),
    ("..+/x", "segment"),
    ("%25252e%25252e/", "segment"),
    ("..%u002e/x", "hexadecimal"),
    ("%u002e%u002e/x", "hexadecimal"),
    ("%c0%2e%c0%2e/x", "not UTF-8"),
    ("%fc%80%80%80%80%ae./x", "not UTF-8"),
    ("%ed%a0%80", "not UTF-8"),
    ("caf%e9", "not UTF-8"),
    ("%e2%80%a4./x", "segment"),
    ("%252e%252e/x", "segment"),
    ("..%252fx", "segment"),
    ("..%ef%bc%8fx", "encoded slash"),
    ("..%e2%88%95x", "encoded slash"),
    ("..%ef%bc%bcx", "encoded slash"),
    ("..%c2%85x", "encoded slash"),
    ("a%5c..", "encoded slash"),
    ("a%00b", "control"),
    ("a%0d%0ab", "control"),
    ("..\\x", "backslash"),
    ("a#b", "'#'"),
    ("a b", "space"),
    ("caf\u{e9}", "ASCII"),
    ("a%", "hexadecimal"),
    ("a%2", "hexadecimal"),
    ("%zz", "hexadecimal"),
    ("%+1", "hexadecimal"),
    ("%%32e", "hexadecimal"),
];

/// Tails that look a little like those, and name a file.
const WITHIN: &[&str] = &[
    "caf%C3%A9",
    "100%C2%A5",
    "a:b,c&d*",
    "wait%E2%80%A6",
    "%E6%96%87%E4%BB%B6.txt",
    "file%3f",
    "a.",
    ".hidden",
    "a%20b",
    "%20",
    "100%25",
    "a..%20b",
    "..%20a",
    "..a%2eb",
    "...",
    "a..b",
    "..a",
    "%2e%2e%2e",
    "a;b",
    "a?..%2f",
];

#[test]
fn a_tail_never_leads_out_of_the_ticket() {
    let prefix = ticket("http://o/dir/");
    for (tail, reason) in LEADING_OUT {
        let error = route(tail).expect_err(tail).to_string();
        assert!(error.contains(reason), "{tail}: {error}");
        assert_eq!(Fault::from(route(tail).unwrap_err()).status, 400);
    }
    for tail in WITHIN {
        assert!(prefix.step(&route(tail).unwrap()).is_ok(), "{tail}");
    }
    let exact = ticket("http://o/dir/f");
    for tail in ["f?q", "a/f", "f/", "/"] {
        let error = exact.step(&route(tail).unwrap()).unwrap_err();
        assert!(matches!(error, TicketError::Tail(_)), "{tail}");
        assert_eq!(Fault::from(error).status, 403);
    }
}

#[test]
fn malformed_ticket_route_is_refused() {
    for target in [
        "",
        "/",
        "/lh1/0/a.b.c/f",
        "/lh2/",
        "/lh2/0",
        "/lh2/0/a.b.c",
        "/lh2//a.b.c/f",
        "/lh2/00/a.b.c/f",
        "/lh2/+0/a.b.c/f",
        "/lh2/-1/a.b.c/f",
        "/lh2/16/a.b.c/f",
        "/lh2/99999999999999999999/a.b.c/f",
        "/lh2/0/a.b/f",
        "/lh2/0/a.b.c.d/f",
        "/lh2/0/a..c/f",
        "/lh2/0/a.b.c=/f",
        "/lh2/0/a%2eb.c/f",
        "/lh2/0//f",
    ] {
        let error = target.parse::<TicketRoute>().expect_err(target);
        assert!(matches!(error, TicketError::Route(_)), "{target}: {error}");
    }
    let longest = "x".repeat(MAX_ROUTE_LEN - "/lh2/0/a.b.c/".len());
    assert!(route(&longest).is_ok());
    assert_eq!(route(&format!("{longest}x")).unwrap_err(), TicketError::TooLong(8001));
}

#[test]
fn logs_show_who_and_what_but_nothing_to_use() {
    for (target, shown) in [
        ("/lh2/0/a.b.secret/dir/f", "/lh2/0/a.b.../dir/f"),
        ("/lh2/0/a.b.secret", "/lh2/0/a.b.../"),
        ("/lh2/0/secret/f", "/lh2/0/.../f"),
        ("/lh1/fetch/-/http:o/f", "/lh1/fetch/-/http:o/f"),
        ("/lh2/secret", "/lh2/secret"),
    ] {
        assert_eq!(TicketRoute::redacted(target), shown, "{target}");
    }
    let route: TicketRoute = "/lh2/0/a.b.secret/f".parse().unwrap();
    assert_eq!(format!("{route:?}"), "/lh2/0/a.b.../f");
}

#[test]
fn misplaced_ticket_is_redacted_from_logs() {
    let token = signer().sign(&ticket("http://o/f")).unwrap();
    let (claims, signature) = token.rsplit_once('.').unwrap();
    for (before, behind) in [
        ("/lh2/", "/f"),
        ("/lh2/0/", ""),
        ("/lh2/0//", "/f"),
        ("//lh2/0/", "/f"),
        ("/LH2/0/", "/f"),
        ("/", ""),
        ("/?ticket=", "&x"),
        ("/lh1/fetch/-/http:10.0.0.1:3880/lh2/0/", "/f"),
        ("/lh2/0/a.b.c/", ""),
        ("/%6ch2/0/", "%2Ff"),
    ] {
        for token in [token.clone(), token.replace('.', "%2e")] {
            let shown = TicketRoute::redacted(&format!("{before}{token}{behind}")).into_owned();
            assert!(!shown.contains(signature), "{before}: {shown}");
        }
    }
    // The claims tell who used it.
    assert_eq!(TicketRoute::redacted(&format!("/x/{token}/f")), format!("/x/{claims}.../f"));
    // A long name is not a ticket.
    let name = format!("/lh1/fetch/-/http:o.example.org/a.{}.gz", "0".repeat(128));
    assert_eq!(TicketRoute::redacted(&name), name);
}

#[test]
fn a_ticket_is_for_its_methods_and_clients() {
    let clients = vec!["10.0.0.0/8".parse().unwrap()];
    let ticket = Ticket { clients, ..ticket("http://o/f") };
    assert_eq!(ticket.check_method(Method::Head), Ok(()));
    assert_eq!(ticket.check_method(Method::Put), Err(TicketError::Method(Method::Put)));
    let ask = |hop, ip: &str| ticket.check_client(hop, ip.parse().unwrap());
    let stranger = "192.0.2.1";
    assert_eq!(ask(0, "10.9.9.9"), Ok(TicketClient::Allowed));
    assert_eq!(ask(0, "::ffff:10.9.9.9"), Ok(TicketClient::Allowed));
    assert_eq!(ask(0, stranger), Err(TicketError::Client(stranger.parse().unwrap())));
    // A client that asks for a later hop claims to be the depot before it.
    assert_eq!(ask(1, stranger), Ok(TicketClient::MustBe(&"d1:3880".parse().unwrap())));
    assert!(ask(2, "10.9.9.9").is_err());
    let open = super::ticket("http://o/f");
    assert_eq!(open.check_client(1, stranger.parse().unwrap()), Ok(TicketClient::Allowed));
}

#[test]
fn origin_redirects_stay_under_the_ticket() {
    for (opened, to, expected) in [
        ("http://o/dir/", "http://o/dir/x?y", Some("x?y")),
        ("http://o/dir/", "http://o/dir/", Some("")),
        ("http://o/dir/", "http://o/other", None),
        ("http://o/dir/", "https://o/dir/x", None),
        ("http://o/dir/", "http://o:81/dir/x", None),
        ("http://o/dir/", "http://o/dir/a%2fb", None),
        ("http://o/dir/f?q", "http://o/dir/f?q", Some("f")),
        ("http://o/dir/f", "http://o/dir/g", None),
    ] {
        let token = signer().sign(&ticket(opened)).unwrap();
        let route = TicketRoute::new(&token, "from-here").unwrap();
        let verified = keys().verify(&token, at(NOW)).unwrap();
        let back = RequestRoute::Ticket(&route, &verified).to(to.parse().unwrap());
        assert_eq!(back, expected.map(|tail| format!("/lh2/0/{token}/{tail}")), "{opened} {to}");
    }
}

proptest! {
    #[test]
    fn reading_is_the_inverse_of_printing(hop in 0..16_usize, tail in "[!\"$-\\[\\]-~]{0,40}") {
        let text = format!("/lh2/{hop}/a-_.B9.c/{tail}");
        if let Ok(route) = text.parse::<TicketRoute>() {
            prop_assert_eq!(route.to_string(), text);
            prop_assert_eq!((route.hop(), route.tail()), (hop, tail.as_str()));
        }
    }

    /// Whatever is asked of the origin is under the prefix also after the dots have been taken out,
    /// by a server that decodes first.
    #[test]
    fn no_tail_leaves_the_prefix(
        tail in "(\\.|%2e|%2E|/|%2f|%5c|\\\\|;|%3b|a|%|%25|2e|\\?){0,12}"
    ) {
        let Ok(route) = format!("/lh2/1/a.b.c/{tail}").parse::<TicketRoute>() else { return Ok(()) };
        let fetch = ticket("http://o/dir/").step(&route).unwrap();
        let path = fetch.target.split('?').next().unwrap();
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy().replace('\\', "/");
        let mut depth = 0_i32;
        for segment in decoded.strip_prefix("/dir/").unwrap().split('/') {
            depth += match segment.split(';').next().unwrap_or_default() {
                ".." => -1,
                "" | "." => 0,
                _ => 1,
            };
            prop_assert!(depth >= 0, "{}", tail);
        }
    }
}
