// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests to a proxy: CONNECT, absolute URLs, names and passwords.

use super::delimit::{self, Body};
use longhaul_protocol::{
    Authority, OriginUrl, Route, Step,
    http::{
        Connection, OutgoingRequest, RequestHead,
        proxy::{ConnectHead, Credentials, MAX_CREDENTIAL, ProxyRequest},
        request_for,
    },
};

/// A request's head, as a proxy reads it.
pub fn proxy(input: &[u8]) -> bool {
    let Ok(Some((head, length))) = ProxyRequest::parse(input) else { return false };
    match head {
        ProxyRequest::Connect(head) => connect(&head, input, length),
        ProxyRequest::Request(head) => url(&head),
    }
}

/// A tunnel begins where the head ends, for a lenient reader too, and leads to one server.
fn connect(head: &ConnectHead, input: &[u8], length: usize) -> bool {
    assert_eq!(head.refused().status, 405);
    credentials(Credentials::of_proxy(&head.headers));
    let Ok(server) = head.server(&"d1".parse().unwrap()) else { return false };
    assert_eq!(delimit::head(input), Some((length, Body::Nothing)));
    assert_eq!(server.to_string().parse::<Authority>().unwrap(), server);
    assert!(!server.to_string().contains(|c: char| c.is_control() || "@/# ".contains(c)));
    true
}

/// A request for a URL goes to its server with what it had, except for what is the proxy's.
fn url(head: &RequestHead) -> bool {
    credentials(Credentials::of_proxy(&head.headers));
    let origin = head.url.as_deref().map(|url| OriginUrl::of_proxy(url).expect("it is one"));
    let Some(origin) = origin else { return false };
    let host = origin.host_field();
    let Step::Fetch(fetch) = (Route::Fetch { chain: Vec::new(), origin }).step() else {
        panic!("a fetch is never a redirect")
    };
    let id = "d1".parse().unwrap();
    let out = OutgoingRequest {
        id: &id,
        connection: Connection::Keep,
        extra: &[],
        site: None,
        proxied: true,
    };
    let Ok(text) = request_for(head, &fetch, &out) else { return true };
    let (again, length) = RequestHead::parse(&text).unwrap().expect("what is printed is whole");
    assert_eq!((length, again.framing(), again.method), (text.len(), head.framing(), head.method));
    assert!(again.url.is_none() && again.target.starts_with('/'), "{}", again.target);
    assert_eq!(again.asked_authority(), Some(&*host));
    let of_proxy = ["proxy-authorization", "proxy-authenticate", "proxy-connection"];
    for (name, _) in again.headers.iter() {
        assert!(!of_proxy.contains(&name.as_str()), "{name}");
        assert!(!name.as_str().starts_with("longhaul-"), "{name}");
    }
    true
}

fn credentials(given: Option<Credentials>) {
    if let Some(Credentials { user, password }) = given {
        assert!(!user.contains(':') && user.len() <= MAX_CREDENTIAL);
        assert!(password.len() <= MAX_CREDENTIAL);
    }
}
