// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a request, as it goes on.

use super::{
    super::{Connection, Fault, Framing, Method, RequestHead, print, via},
    remove_hop_by_hop, text,
};
use crate::{depot_id::DepotId, step::Fetch};
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

/// What a depot itself says in a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestOut<'a> {
    /// Its name.
    pub id: &'a DepotId,
    /// Whether it would send other requests on this connection.
    pub connection: Connection,
    /// Fields between depots (`Longhaul-...`), for a next hop that is one.
    pub extra: &'a [(HeaderName, HeaderValue)],
}

/// The head to send to the next hop. Its body goes out as [`RequestHead::framing`] says it came.
///
/// The client's HTTP version is kept, so that an HTTP/1.0 client never gets a chunked body; in
/// HTTP/1.0 the connection is always closed. Cookies are left out: those a browser has for a
/// depot's name are no origin's business.
///
/// # Errors
/// What to answer (508): the request has come round in a loop.
pub fn request_for(
    head: &RequestHead,
    fetch: &Fetch,
    out: &RequestOut<'_>,
) -> Result<Vec<u8>, Fault> {
    via::check_loop(&head.headers, out.id)?;
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    headers.remove(header::COOKIE);
    set_framing(&mut headers, head.framing());
    if head.expects_continue() {
        headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
    }
    if let Some(left) = max_forwards(head) {
        headers.insert(header::MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)));
    }
    via::sign(&mut headers, head.version, out.id);
    headers.insert(header::HOST, text(&fetch.host));
    out.connection.say(&mut headers, head.version);
    if head.version != Version::HTTP_10 {
        // A depot takes trailers whoever asks: where they go no further, they are checked and end.
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.append(header::CONNECTION, HeaderValue::from_static("TE"));
    }
    if fetch.origin.is_none() {
        headers.extend(out.extra.iter().cloned());
    }
    let line = format!("{} {} {:?}", head.method, fetch.target, head.version);
    Ok(print(&line, &headers))
}

/// Says how long the body is.
fn set_framing(headers: &mut HeaderMap, framing: Framing) {
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    match framing {
        Framing::Length(length) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            return;
        }
        Framing::Empty | Framing::UntilClose => {}
    }
    headers.remove(header::TRAILER);
}

/// How many more hops an OPTIONS request may take (RFC 9110, section 7.6.2).
fn max_forwards(head: &RequestHead) -> Option<u64> {
    let value =
        head.headers.get(header::MAX_FORWARDS).filter(|_| head.method == Method::Options)?;
    super::super::framing::decimal(value.to_str().ok()?)
}

/// The whole answer to an OPTIONS request that is to go no further (`Max-Forwards: 0`): it is the
/// depot's own. Nothing for all other requests.
pub fn options_for(head: &RequestHead, id: &DepotId, connection: Connection) -> Option<Vec<u8>> {
    if max_forwards(head)? > 0 {
        return None;
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ALLOW, text(&Method::allow()));
    via::sign(&mut headers, head.version, id);
    connection.say(&mut headers, head.version);
    Some(print("HTTP/1.1 204 No Content", &headers))
}
