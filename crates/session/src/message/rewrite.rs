// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot changes in a head that it passes on.

use super::{Fault, Method, RequestHead, ResponseHead, print, via};
use crate::{
    depot_id::DepotId,
    origin::OriginUrl,
    route::{Redirect, Route},
    step::Fetch,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};

/// Fields that concern one connection only (RFC 9110, section 7.6.1), besides those that
/// `Connection` names. `Transfer-Encoding` is not among them: chunks are relayed as they are.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::UPGRADE,
    header::EXPECT,
];

/// Fields that `Connection` may not take away: without them the next reader would see another
/// body length, or a loop would go unseen.
const STAYS: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::VIA, header::LOCATION];

/// Pages of many origins reach a browser under the one name of a depot. They must not read each
/// other's answers, so each is shut in by itself. Every depot sees to it: none can know whether
/// the next hop, whatever the route calls it, is a depot that has.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox allow-downloads allow-popups");

/// Fields of an answer that a browser would keep, or act upon, for the depot's name, whichever
/// origin they came from: with `WWW-Authenticate` it would give one origin's password to the next.
const NOT_FOR_A_SHARED_NAME: [HeaderName; 2] = [header::SET_COOKIE, header::WWW_AUTHENTICATE];

/// The head to send to the next hop.
///
/// The client's HTTP version is kept, so that an HTTP/1.0 client never gets a chunked body.
/// Cookies are left out: those a browser has for a depot's name are no origin's business.
///
/// # Errors
/// What to answer (508): the request has come round in a loop.
pub fn request_for(head: &RequestHead, fetch: &Fetch, id: &DepotId) -> Result<Vec<u8>, Fault> {
    via::check_loop(&head.headers, id)?;
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    for name in [header::COOKIE, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    via::sign(&mut headers, head.version, id);
    headers.insert(header::HOST, text(&fetch.host));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let line = format!("{} {} {:?}", head.method.as_str(), fetch.target, head.version);
    Ok(print(&line, &headers))
}

/// The head to send to the client (or to the depot before this one). `origin` is given by the
/// depot that talks to the origin itself: it alone can say what a relative `Location` means.
pub fn response_for(
    head: &ResponseHead,
    request: &RequestHead,
    origin: Option<&OriginUrl>,
    id: &DepotId,
) -> Vec<u8> {
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    for name in NOT_FOR_A_SHARED_NAME {
        headers.remove(name);
    }
    if head.status == StatusCode::NO_CONTENT {
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRANSFER_ENCODING);
    }
    if request.version == Version::HTTP_10 {
        headers.remove(header::TRANSFER_ENCODING);
    }
    // Equal repetitions of a length are one length; let the next reader see it so.
    if let Ok(Some(length)) = super::framing::content_length(&headers) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let given = headers.get(header::LOCATION).and_then(|l| l.to_str().ok());
    if let Some(location) = given.map(|given| location(given, request, origin)) {
        headers.insert(header::LOCATION, text(&location));
    }
    if !headers.get_all(header::CONTENT_SECURITY_POLICY).iter().any(|policy| policy == SANDBOX) {
        headers.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
    }
    via::sign(&mut headers, head.version, id);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    // A proxy speaks for itself, whatever HTTP the next hop spoke (RFC 9110, section 2.5).
    print(&format!("HTTP/1.1 {} {}", head.status.as_str(), head.reason), &headers)
}

/// A `Location` as the next reader is to see it. The depot next to the origin makes it absolute;
/// the one that the client asked leads back into the chain where it stays at the origin, which the
/// client may be unable to reach itself.
fn location(given: &str, request: &RequestHead, origin: Option<&OriginUrl>) -> String {
    let absolute = origin.map_or_else(|| given.to_owned(), |origin| origin.absolute(given));
    if via::came_through_depot(&request.headers) {
        return absolute;
    }
    through_chain(&absolute, request).unwrap_or(absolute)
}

/// The path at this depot that leads to `url` as `request` came, if both have the same origin.
fn through_chain(url: &str, request: &RequestHead) -> Option<String> {
    let (url, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let (url, route) = (url.parse::<OriginUrl>().ok()?, request.target.parse::<Route>().ok()?);
    let (here, there) = (route.origin(), &url);
    if (here.scheme(), here.authority()) != (there.scheme(), there.authority()) {
        return None;
    }
    Some(format!("{}{fragment}", route.to_origin(url).ok()?))
}

/// The whole answer that leads a client on.
pub fn redirect(to: &Redirect, method: Method) -> Vec<u8> {
    let body = format!("longhaul: {to}\n");
    let mut headers = HeaderMap::new();
    headers.insert(header::LOCATION, text(&to.to_string()));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let mut out = print("HTTP/1.1 302 Found", &headers);
    if method == Method::Get {
        out.extend_from_slice(body.as_bytes());
    }
    out
}

/// Takes out what concerns the last connection only.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !STAYS.contains(name))
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// A field's value of text that is visible ASCII by construction.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}
