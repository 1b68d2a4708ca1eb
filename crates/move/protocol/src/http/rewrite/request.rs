// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a request, as it goes on.

use super::{
    super::{
        Connection, Fault, Fields, Framing, Method, RequestHead, SiteRequest, print::HeadWriter,
        via,
    },
    beyond, names_route,
};
use crate::{depot_id::DepotId, step::Fetch};
use http::{HeaderName, HeaderValue, Version, header};

/// The values that a depot adds to a request.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// Its name.
    pub id: &'a DepotId,
    /// Whether it would send other requests on this connection.
    pub connection: Connection,
    /// Fields between depots (`Longhaul-...`), for a next hop that is one.
    pub extra: &'a [(HeaderName, HeaderValue)],
    /// How the client asked, where it is for a site.
    pub site: Option<&'a SiteRequest>,
    /// Whether the client uses the depot as its proxy: then all that is not of one connection goes on.
    pub proxied: bool,
}

/// The head to send to the next hop. Its body goes out as [`RequestHead::framing`] says it came.
///
/// The client's HTTP version is kept, so that an HTTP/1.0 client never gets a chunked body; in
/// HTTP/1.0 the connection is always closed. Cookies are left out, unless it is for a site or by a proxy's client:
/// those that a browser keeps for a depot's name do not concern an origin.
///
/// # Errors
/// What to answer (508): the request has come round in a loop.
pub fn request_for(
    head: &RequestHead,
    fetch: &Fetch,
    out: &OutgoingRequest<'_>,
) -> Result<Vec<u8>, Fault> {
    let came = &head.headers;
    via::check_loop(came, out.id)?;
    let version = if head.version == Version::HTTP_10 { " HTTP/1.0" } else { " HTTP/1.1" };
    let mut going = HeadWriter::start(&[head.method.as_str(), " ", &fetch.target, version]);
    let is_last = fetch.origin.is_some();
    going.text(&header::HOST, out.site.filter(|_| is_last).map_or(&fetch.host, SiteRequest::host));
    let (goes_on, left) = (beyond(came), max_forwards(head));
    going.pass(came, |name, value| {
        !REWRITTEN.contains(name)
            && (out.proxied
                || if out.site.is_some() { is_for_site(name) } else { is_clients(name, value) })
            && (*name != header::TRAILER || head.framing() == Framing::Chunked)
            && (*name != header::MAX_FORWARDS || left.is_none())
            && goes_on(name)
    });
    match head.framing() {
        Framing::Length(length) => going.number(&header::CONTENT_LENGTH, length),
        Framing::Chunked => going.field(&header::TRANSFER_ENCODING, "chunked"),
        Framing::Empty | Framing::UntilClose => {}
    }
    if head.expects_continue() {
        going.field(&header::EXPECT, "100-continue");
    }
    if let Some(left) = left {
        going.number(&header::MAX_FORWARDS, left.saturating_sub(1));
    }
    going.field(&header::VIA, via::with_own_entry(came, head.version, out.id));
    out.connection.write_to(&mut going, head.version);
    if head.version != Version::HTTP_10 {
        // A depot accepts trailers from any next hop. If its own client does not, it checks and drops them.
        going.field(&header::TE, "trailers");
        going.field(&header::CONNECTION, "TE");
    }
    if !is_last {
        for (name, value) in out.extra {
            going.field(name, value);
        }
    }
    match out.site {
        Some(site) if is_last => {
            site.for_origin().into_iter().for_each(|(name, value)| going.field(&name, value));
        }
        Some(site) => {
            let (name, value) = site.field();
            going.field(&name, value);
        }
        None => {}
    }
    Ok(going.end())
}

/// Fields that a depot writes itself for every request, and never passes on.
static REWRITTEN: [HeaderName; 4] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::VIA];

/// Parts of the names of fields that tell origins the client, host, path or method of a request. Origins
/// would believe a depot, although the client wrote the field. Each proxy and each host of services has its own, so
/// this is what names have in common. Letters and digits alone are compared.
static CLIENT_WORDS: [&str; 71] = [
    "appengine",
    "authelia",
    "authenticated",
    "authentik",
    "authrequest",
    "authuser",
    "cfaccess",
    "clientcert",
    "clientcn",
    "clientdn",
    "clientip",
    "clientprincipal",
    "clientverify",
    "clusterip",
    "connectingip",
    "consumercustomid",
    "consumergroups",
    "consumerid",
    "consumerusername",
    "envoyexternaladdress",
    "envoyinternal",
    "envoyoriginal",
    "eppn",
    "forwarded",
    "forwarder",
    "forwardfor",
    "frontendhttps",
    "hostoverride",
    "httpmethod",
    "iapjwt",
    "impersonate",
    "ivgroups",
    "ivuser",
    "jwtassertion",
    "methodoverride",
    "oidc",
    "originalhost",
    "originalmethod",
    "originalpath",
    "originaluri",
    "originalurl",
    "originatingip",
    "peerip",
    "realip",
    "remote",
    "rewriteuri",
    "rewriteurl",
    "scriptname",
    "shib",
    "smuser",
    "socketip",
    "sourceip",
    "srcip",
    "sslclient",
    "sslsubject",
    "sslverify",
    "tailscaleuser",
    "unencodedurl",
    "useremail",
    "userinfo",
    "userip",
    "username",
    "vouchidp",
    "vouchsuccess",
    "vouchuser",
    "webauth",
    "xaccel",
    "xemail",
    "xhost",
    "xmethod",
    "xuser",
];

/// Common fields that do not identify the client. This list avoids the costly comparison of other names.
static COMMON: [&str; 37] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "cookie",
    "dnt",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "pragma",
    "priority",
    "range",
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
];

/// The field that identifies the client's program, not the client.
const PROGRAM: &str = "useragent";

/// Names of what users say of their files have this in them (`X-Amz-Meta-...`); signatures cover them.
const META: &str = "-meta-";

/// Whether a client's field is for a depot to pass on.
fn is_clients(name: &HeaderName, value: &HeaderValue) -> bool {
    let text = name.as_str();
    if COMMON.binary_search(&text).is_ok() {
        return *name != header::COOKIE;
    }
    // A page that came through a depot names its address, and so its ticket.
    if matches!(text, "referer" | "ping-from") {
        return !names_route(&String::from_utf8_lossy(value.as_bytes()));
    }
    !says_who(text)
}

/// The same of a site's client: cookies are the site's, and its addresses hold no tickets.
fn is_for_site(name: &HeaderName) -> bool {
    COMMON.binary_search(&name.as_str()).is_ok() || !says_who(name.as_str())
}

/// Whether others are told who asks, for what or how, by a field of this name.
fn says_who(name: &str) -> bool {
    // Programs behind a server's gateway interface see no difference between all other characters.
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_theirs = || CLIENT_WORDS.iter().any(|part| plain.contains(part)) || plain == "proxy";
    !name.contains(META) && !plain.contains(PROGRAM) && is_theirs()
}

/// How many more hops an OPTIONS request may take (RFC 9110, section 7.6.2).
fn max_forwards(head: &RequestHead) -> Option<u64> {
    let value =
        head.headers.get(&header::MAX_FORWARDS).filter(|_| head.method == Method::Options)?;
    super::super::framing::decimal(value.to_str().ok()?)
}

/// The whole answer to an OPTIONS request that is to go no further (`Max-Forwards: 0`): it is the
/// depot's own. Nothing for all other requests.
pub fn options_for(head: &RequestHead, id: &DepotId, connection: Connection) -> Option<Vec<u8>> {
    if max_forwards(head)? > 0 {
        return None;
    }
    let mut answer = HeadWriter::start(&["HTTP/1.1 204 No Content"]);
    answer.field(&header::ALLOW, Method::list(&Method::ALL));
    answer.field(&header::VIA, via::with_own_entry(&Fields::new(), head.version, id));
    connection.write_to(&mut answer, head.version);
    Some(answer.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_field_words_match_the_specification() {
        let page = include_str!("../../../../../../docs/protocol.md");
        let block = page.split("```text client-words\n").nth(1).unwrap().split("```").next();
        assert!(block.unwrap().split_whitespace().eq(CLIENT_WORDS));
    }

    #[test]
    fn common_fields_do_not_identify_the_client() {
        assert!(COMMON.is_sorted());
        for name in COMMON {
            assert!(!says_who(name), "{name}");
            // Their values are looked at.
            assert!(!["referer", "ping-from"].contains(&name), "{name}");
        }
    }
}
