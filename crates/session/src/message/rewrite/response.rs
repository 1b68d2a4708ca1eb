// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of an answer, as it goes back.

use super::{
    super::{Connection, Framing, Method, RequestHead, ResponseHead, framing, print, via},
    Outward, Way, outward, remove_hop_by_hop, text,
};
use crate::{depot_id::DepotId, digest, origin::OriginUrl};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};

/// Pages of many origins reach a browser under the one name of a depot. They must not read each
/// other's answers, so each is shut in by itself. Every depot sees to it: none can know whether
/// the next hop, whatever the route calls it, is a depot that has.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox allow-downloads allow-popups");

/// Fields of an answer that a browser would keep, or act upon, for the depot's name, whichever
/// origin they came from: with `WWW-Authenticate` it would give one origin's password to the next.
const NOT_FOR_A_SHARED_NAME: [HeaderName; 2] = [header::SET_COOKIE, header::WWW_AUTHENTICATE];

/// What a depot itself says in an answer.
#[derive(Debug, Clone, Copy)]
pub struct ResponseOut<'a> {
    /// Its name.
    pub id: &'a DepotId,
    /// Whether the client may send another request. Where the end of the body or the client's
    /// version forbid it, the head says so whatever stands here.
    pub connection: Connection,
    /// The origin, given by the depot that talks to it: it alone can say what a relative
    /// `Location` means.
    pub origin: Option<&'a OriginUrl>,
    /// The way that the request took to get here.
    pub way: Way<'a>,
    /// How the body goes out.
    pub body: Outward,
    /// Fields between depots (`Longhaul-...`), for an asker that is one.
    pub extra: &'a [(HeaderName, HeaderValue)],
}

/// The head to send to the client (or to the depot before this one).
pub fn response_for(head: &ResponseHead, request: &RequestHead, out: &ResponseOut<'_>) -> Vec<u8> {
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    for name in NOT_FOR_A_SHARED_NAME {
        headers.remove(name);
    }
    set_framing(&mut headers, head.status, request, out.body);
    let given = headers.get(header::LOCATION).and_then(|l| l.to_str().ok());
    if let Some(location) = given.map(|given| location(given, request, out)) {
        headers.insert(header::LOCATION, text(&location));
    }
    if !headers.get_all(header::CONTENT_SECURITY_POLICY).iter().any(|policy| policy == SANDBOX) {
        headers.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
    }
    via::sign(&mut headers, head.version, out.id);
    let connection = match out.body.framing {
        Framing::UntilClose => Connection::Close,
        _ => out.connection,
    };
    connection.say(&mut headers, request.version);
    if via::came_through_depot(&request.headers) {
        headers.extend(out.extra.iter().cloned());
    }
    print(&status_line(head), &headers)
}

/// An interim answer (1xx) as it goes back; nothing where it does not (RFC 9110, section 15.2:
/// HTTP/1.0 knows none).
pub fn interim_for(head: &ResponseHead, request: &RequestHead, id: &DepotId) -> Option<Vec<u8>> {
    if !head.is_interim() || request.version == Version::HTTP_10 {
        return None;
    }
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    for name in [header::SET_COOKIE, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    via::sign(&mut headers, head.version, id);
    Some(print(&status_line(head), &headers))
}

/// A proxy speaks for itself, whatever HTTP the next hop spoke (RFC 9110, section 2.5).
fn status_line(head: &ResponseHead) -> String {
    format!("HTTP/1.1 {} {}", head.status.as_str(), head.reason)
}

/// Says how long the body is, or would be.
fn set_framing(headers: &mut HeaderMap, status: StatusCode, request: &RequestHead, body: Outward) {
    match body.framing {
        Framing::Empty => {
            if status == StatusCode::NO_CONTENT {
                headers.remove(header::CONTENT_LENGTH);
            }
            if status == StatusCode::NO_CONTENT || request.version == Version::HTTP_10 {
                headers.remove(header::TRANSFER_ENCODING);
            }
            // Equal repetitions of a length are one length; let the next reader see it so.
            if let Ok(Some(length)) = framing::content_length(headers) {
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        Framing::Length(length) => {
            headers.remove(header::TRANSFER_ENCODING);
            headers.remove(header::TRAILER);
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            if let Some(length) = body.length {
                headers.insert(outward::LENGTH, HeaderValue::from(length));
            }
            if let Some(algorithm) = body.digest {
                headers.insert(outward::DIGEST, HeaderValue::from_static(algorithm.key()));
                // What else is to follow was announced by whoever sends it.
                if !digest::follows(headers) {
                    headers.append(header::TRAILER, HeaderValue::from_static("Content-Digest"));
                }
            }
        }
        Framing::UntilClose => {}
    }
}

/// A `Location` as the next reader is to see it. The depot next to the origin makes it absolute;
/// the one that the client asked leads back into the chain where it stays at the origin, which the
/// client may be unable to reach itself.
fn location(given: &str, request: &RequestHead, out: &ResponseOut<'_>) -> String {
    let absolute = out.origin.map_or_else(|| given.to_owned(), |origin| origin.absolute(given));
    if via::came_through_depot(&request.headers) {
        return absolute;
    }
    let (url, fragment) = absolute.split_at(absolute.find('#').unwrap_or(absolute.len()));
    let back = url.parse().ok().and_then(|url| out.way.to(url));
    back.map_or(absolute.clone(), |target| format!("{target}{fragment}"))
}

/// The whole answer that leads a client on. With 302 it would ask the next depot by GET whatever
/// it asked this one (RFC 9110, section 15.4.3), so whoever brings a body gets 307.
pub fn redirect(to: &str, method: Method, connection: Connection) -> Vec<u8> {
    let mut headers = HeaderMap::new();
    headers.insert(header::LOCATION, text(to));
    let status = match method {
        Method::Get | Method::Head => "HTTP/1.1 302 Found",
        _ => "HTTP/1.1 307 Temporary Redirect",
    };
    let kind = "text/plain; charset=utf-8";
    own(status, headers, kind, &format!("longhaul: {to}\n"), method, connection)
}

/// A whole answer of the depot's own, to a question that is for itself.
pub fn own_answer(kind: &str, body: &str, method: Method, connection: Connection) -> Vec<u8> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    own("HTTP/1.1 200 OK", headers, kind, body, method, connection)
}

fn own(
    status: &str,
    mut headers: HeaderMap,
    kind: &str,
    body: &str,
    method: Method,
    connection: Connection,
) -> Vec<u8> {
    headers.insert(header::CONTENT_TYPE, text(kind));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    connection.say(&mut headers, Version::HTTP_11);
    let mut out = print(status, &headers);
    if method.is_answered_with_body() {
        out.extend_from_slice(body.as_bytes());
    }
    out
}
