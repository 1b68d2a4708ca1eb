// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot says of a site's client: it is read as it was meant, or not at all.

use super::targets::{GET, to_a_depot};
use http::{HeaderName, header};
use longhaul_protocol::{
    Authority, Fetch,
    http::{Connection, OutgoingRequest, RequestHead, SiteRequest, request_for},
};

/// The input is the field's value.
pub fn site(input: &[u8]) -> bool {
    let text = [b"GET / HTTP/1.1\r\nHost: d\r\nLonghaul-Site: ", input, b"\r\n\r\n"].concat();
    let Ok(Some((head, _))) = RequestHead::parse(&text) else { return false };
    let Some(site) = SiteRequest::read(&head.headers) else { return false };
    assert!(Authority::parse(&site.asked, Some(80)).is_ok(), "{site:?}");
    let next = sent(&site, &to_a_depot());
    let canonical = SiteRequest { client: site.client.to_canonical(), ..site.clone() };
    assert_eq!(SiteRequest::read(&next.headers), Some(canonical));
    // The origin reads one client, of the kind that it is.
    let origin = Fetch { origin: Some("http://o/f".parse().unwrap()), ..to_a_depot() };
    let told = sent(&site, &origin);
    let one = |name: HeaderName| {
        let values: Vec<_> = told.headers.get_all(&name).collect();
        let [value] = values[..] else { panic!("{name} is there {} times", values.len()) };
        value.to_str().unwrap().to_owned()
    };
    assert_eq!(one(header::HOST), site.host());
    let client: std::net::IpAddr =
        one(HeaderName::from_static("x-forwarded-for")).parse().expect("an address");
    assert_eq!(client, site.client.to_canonical());
    let forwarded = one(header::FORWARDED);
    assert!(!forwarded.contains(',') && forwarded.matches(';').count() == 2, "{forwarded}");
    true
}

/// The request for a site as it goes on.
fn sent(site: &SiteRequest, fetch: &Fetch) -> RequestHead {
    let id = "d1".parse().unwrap();
    let out = OutgoingRequest {
        id: &id,
        connection: Connection::Keep,
        extra: &[],
        site: Some(site),
        proxied: false,
    };
    let text = request_for(&GET, fetch, &out).expect("it runs in no circle");
    RequestHead::parse(&text).unwrap().expect("what is printed is whole").0
}
