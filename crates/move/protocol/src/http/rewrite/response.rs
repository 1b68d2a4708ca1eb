// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of an answer, as it goes back.

use super::{
    super::{
        Connection, Fields, Framing, Method, RequestHead, ResponseHead, framing, print::HeadWriter,
        receipt, site, via,
    },
    OutgoingBody, RequestRoute,
    allowed::{self, Part},
    beyond, names_route, outgoing_body,
};
use crate::{depot_id::DepotId, digest, origin::OriginUrl};
use http::{HeaderName, HeaderValue, StatusCode, Version, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// Pages of many origins reach a browser under the one name of a depot. They must not read each
/// other's answers, so each is isolated. Every depot does this: none can know whether
/// the next hop, whatever the route calls it, is a depot that has.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox allow-downloads allow-popups");

/// The address of a page that was fetched with a ticket contains the ticket. The page must not send it as a referrer.
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// The values that a depot adds to an answer.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingResponse<'a> {
    /// Its name.
    pub id: &'a DepotId,
    /// Whether the client may send another request. Where the end of the body or the client's
    /// version forbid it, the header section says so whatever this value is.
    pub connection: Connection,
    /// The origin, given by the depot that talks to it: it alone can say what a relative
    /// `Location` means.
    pub origin: Option<&'a OriginUrl>,
    /// The way that the request took to get here.
    pub request_route: RequestRoute<'a>,
    /// How the body goes out.
    pub body: OutgoingBody,
    /// Fields between depots (`Longhaul-...`), for an asker that is one.
    pub extra: &'a [(HeaderName, HeaderValue)],
    /// Whether it is a site's: then all that is not of one connection passes.
    pub site: bool,
}

impl OutgoingResponse<'_> {
    /// Whether the client knows the origin by a name that is the origin's alone, so that nothing has to be kept from it.
    fn passes_whole(&self) -> bool {
        self.site || matches!(self.request_route, RequestRoute::Proxy)
    }
}

/// The head to send to the client (or to the depot before this one).
pub fn response_for(
    head: &ResponseHead,
    request: &RequestHead,
    out: &OutgoingResponse<'_>,
) -> Vec<u8> {
    let came = &head.headers;
    let (mut going, beyond, whole) = (status_line(head), beyond(came), out.passes_whole());
    let ranges_wanted =
        head.status == StatusCode::PARTIAL_CONTENT && request.headers.contains(&header::RANGE);
    let is_apart = |kind: &HeaderValue| allowed::has_heads_of_its_own(kind, ranges_wanted);
    going.pass(came, |name, value| {
        let listed = match *name {
            header::LOCATION => false,
            header::TRAILER => trailers_go(out.body),
            _ if whole => !WRITTEN.contains(name),
            header::CONTENT_TYPE => !is_apart(value),
            _ => allowed::goes_on(Part::Head, name, value),
        };
        listed && beyond(name)
    });
    if !whole && came.get_all(&header::CONTENT_TYPE).any(is_apart) {
        going.field(&header::CONTENT_TYPE, "application/octet-stream");
    }
    say_framing(&mut going, head, request, out.body, &beyond);
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let given = came.get(&name).filter(|_| name == header::LOCATION || whole);
        if let Some(location) = given.and_then(|given| location(given, request, out)) {
            going.text(&name, &location);
        }
    }
    if !whole {
        shut_in(&mut going, came, &beyond);
    }
    going.field(&header::VIA, via::with_own_entry(came, head.version, out.id));
    let connection = match out.body.framing {
        Framing::UntilClose => Connection::Close,
        _ => out.connection,
    };
    connection.write_to(&mut going, request.version);
    if receipt::wanted(request).is_some() {
        let (name, value) = receipt::promise();
        going.field(&name, value);
    }
    if request.came_through_depot() {
        for (name, value) in out.extra {
            going.field(name, value);
        }
        if out.site {
            let (name, value) = site::taken();
            going.field(&name, value);
        }
    }
    going.end()
}

/// Fields of a site's answer that the depot replaces.
static WRITTEN: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::CONTENT_LOCATION, header::TRANSFER_ENCODING, header::VIA];

/// Keeps an answer of one of many origins from the others.
fn shut_in(going: &mut HeadWriter, came: &Fields, beyond: &impl Fn(&HeaderName) -> bool) {
    let policy = header::CONTENT_SECURITY_POLICY;
    if !beyond(&policy) || !came.get_all(&policy).any(|policy| policy == SANDBOX) {
        going.field(&policy, SANDBOX);
    }
    going.field(&header::REFERRER_POLICY, NO_REFERRER);
}

/// An interim answer (1xx) as it goes back; nothing where it does not (RFC 9110, section 15.2:
/// HTTP/1.0 knows none). `passes_whole`: for a site, or for a proxy's client.
pub fn interim_for(
    head: &ResponseHead,
    request: &RequestHead,
    (id, passes_whole): (&DepotId, bool),
) -> Option<Vec<u8>> {
    if !head.is_interim() || request.version == Version::HTTP_10 {
        return None;
    }
    let came = &head.headers;
    let (mut going, beyond) = (status_line(head), beyond(came));
    going.pass(came, |name, value| {
        let of_the_answer = [header::LOCATION, header::CONTENT_SECURITY_POLICY].contains(name);
        let listed = || allowed::goes_on(Part::Head, name, value);
        let passes = if passes_whole { !WRITTEN.contains(name) } else { listed() };
        !of_the_answer && passes && beyond(name)
    });
    if !passes_whole {
        going.field(&header::REFERRER_POLICY, NO_REFERRER);
    }
    going.field(&header::VIA, via::with_own_entry(came, head.version, id));
    Some(going.end())
}

/// A proxy speaks for itself, whatever HTTP the next hop spoke (RFC 9110, section 2.5).
fn status_line(head: &ResponseHead) -> HeadWriter {
    HeadWriter::start(&["HTTP/1.1 ", head.status.as_str(), " ", &head.reason])
}

/// Whether something may follow the body.
fn trailers_go(body: OutgoingBody) -> bool {
    !matches!(body.framing, Framing::Length(_))
}

/// Writes the fields that delimit the body, or would delimit it.
fn say_framing(
    going: &mut HeadWriter,
    head: &ResponseHead,
    request: &RequestHead,
    body: OutgoingBody,
    beyond: &impl Fn(&HeaderName) -> bool,
) {
    let came = &head.headers;
    match body.framing {
        // 204 never has a body, so its length is not announced.
        Framing::Empty if head.status == StatusCode::NO_CONTENT => {}
        Framing::Empty => {
            // Equal repetitions of a length are one length; let the next reader see it so.
            if let Ok(Some(length)) = framing::content_length(came) {
                going.number(&header::CONTENT_LENGTH, length);
            }
            if request.version != Version::HTTP_10 {
                going.pass(came, |name, _| *name == header::TRANSFER_ENCODING);
            }
        }
        Framing::Length(length) => going.number(&header::CONTENT_LENGTH, length),
        Framing::Chunked => {
            going.field(&header::TRANSFER_ENCODING, "chunked");
            if let Some(length) = body.length {
                going.number(&outgoing_body::LENGTH, length);
            }
            if let Some(algorithm) = body.digest {
                going.field(&digest::LONGHAUL_DIGEST, algorithm.key());
                // The sender of other trailers has announced them.
                if !(beyond(&header::TRAILER) && digest::follows(came)) {
                    going.field(&header::TRAILER, "Content-Digest");
                }
            }
        }
        Framing::UntilClose => {}
    }
}

/// Characters that a URL does not have as themselves, and readers take for others (a backslash for a slash) or
/// leave out.
const NOT_IN_URLS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\');

/// A `Location` as the next reader is to see it; nothing where it would lead that one to a path of this depot's
/// own. The depot next to the origin makes it absolute; the one that the client asked leads back into the
/// chain where it stays at the origin, which the client may be unable to reach itself.
fn location(
    given: &HeaderValue,
    request: &RequestHead,
    out: &OutgoingResponse<'_>,
) -> Option<String> {
    let given = percent_encode(given.as_bytes(), NOT_IN_URLS).to_string();
    if out.passes_whole() {
        return Some(of_site(given, out.request_route));
    }
    let absolute = out.origin.map_or_else(|| given.clone(), |origin| origin.absolute(&given));
    if request.came_through_depot() {
        return Some(absolute);
    }
    // A next hop that the route calls a depot, and that is none, may leave it relative.
    let here = !is_absolute(&absolute) || names_host(&absolute, request);
    if here && names_route(&absolute) {
        return None;
    }
    let (url, fragment) = absolute.split_at(absolute.find('#').unwrap_or(absolute.len()));
    let back = url.parse().ok().and_then(|url| out.request_route.to(url));
    Some(back.map_or(absolute.clone(), |target| format!("{target}{fragment}")))
}

/// A site's reference: one to the origin leads to the site if the client asked for the site; otherwise it stays as
/// it is. Without a scheme (`//HOST/PATH`) it has that of the origin. Browsers take more slashes for two.
fn of_site(given: String, request_route: RequestRoute<'_>) -> String {
    let RequestRoute::Site(origin, _) = request_route else { return given };
    let (url, fragment) = given.split_at(given.find('#').unwrap_or(given.len()));
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_ascii_lowercase(), rest),
        _ => (origin.scheme().to_string(), url),
    };
    let Some(rest) = rest.strip_prefix("//") else { return given };
    let url = format!("{scheme}://{}", rest.trim_start_matches('/'));
    let target = url.parse().ok().and_then(|url| request_route.to(url));
    // Two slashes would begin a host.
    let apart = |target: &str| if target.starts_with("//") { "/." } else { "" };
    target.map(|target| format!("{}{target}{fragment}", apart(&target))).unwrap_or(given)
}

/// Whether an absolute reference leads to where the request was sent: to this depot, by the name that its client
/// knows.
fn names_host(absolute: &str, request: &RequestHead) -> bool {
    let rest = absolute.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let plain = |host: &str| {
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix(":80").or(host.strip_suffix(":443")).unwrap_or(&host);
        host.trim_end_matches('.').to_owned()
    };
    let asked = request.headers.get(&header::HOST).and_then(|host| host.to_str().ok());
    asked.is_some_and(|asked| plain(asked) == plain(host))
}

/// Whether a reference names its host, or is none that leads anywhere.
fn is_absolute(reference: &str) -> bool {
    reference.split_once("://").is_some_and(|(scheme, host)| {
        scheme.bytes().all(|b| b.is_ascii_alphanumeric()) && !host.starts_with(['/', '\\'])
    })
}

/// The whole answer that leads a client on. With 302 it would ask the next depot by GET whatever
/// it asked this one (RFC 9110, section 15.4.3), so a request with a body gets 307.
pub fn redirect(to: &str, method: Method, connection: Connection) -> Vec<u8> {
    let mut head = HeadWriter::start(&[match method {
        Method::Get | Method::Head => "HTTP/1.1 302 Found",
        _ => "HTTP/1.1 307 Temporary Redirect",
    }]);
    head.text(&header::LOCATION, to);
    let kind = "text/plain; charset=utf-8";
    own(head, kind, (&format!("longhaul: {to}\n"), 0), method, connection)
}

/// A whole answer of the depot's own, to a question that is for itself.
pub fn own_answer(kind: &str, body: &str, method: Method, connection: Connection) -> Vec<u8> {
    padded_answer(kind, (body, 0), method, connection)
}

/// The beginning of such an answer; the given number of bytes of its body are still to follow.
pub(in super::super) fn padded_answer(
    kind: &str,
    body: (&str, u64),
    method: Method,
    connection: Connection,
) -> Vec<u8> {
    let mut head = HeadWriter::start(&["HTTP/1.1 200 OK"]);
    head.field(&header::CACHE_CONTROL, "no-store");
    own(head, kind, body, method, connection)
}

fn own(
    mut head: HeadWriter,
    kind: &str,
    (body, padding): (&str, u64),
    method: Method,
    connection: Connection,
) -> Vec<u8> {
    head.field(&header::REFERRER_POLICY, NO_REFERRER);
    head.field(&header::CONTENT_TYPE, kind);
    head.number(&header::CONTENT_LENGTH, body.len() as u64 + padding);
    connection.write_to(&mut head, Version::HTTP_11);
    let mut out = head.end();
    if method.is_answered_with_body() {
        out.extend_from_slice(body.as_bytes());
    }
    out
}
