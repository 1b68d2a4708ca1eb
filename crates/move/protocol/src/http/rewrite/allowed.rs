// SPDX-License-Identifier: GPL-2.0-or-later
//! Which fields of an answer go on.
//!
//! Answers of all origins reach a browser under the one name of a depot. A field by which an origin speaks for
//! more than its own answer (`Strict-Transport-Security`, `Alt-Svc`, `Clear-Site-Data`, `NEL`) would speak for
//! all of them, and new ones come with each year. So this is a list of what may pass: what says something of the
//! content, of this one answer, or to programs other than browsers. The depot removes all fields that are not listed.

use http::{HeaderName, HeaderValue, header};

/// The part of a message that contains a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    Trailers,
    /// Trailers of a request.
    RequestTrailers,
}

/// Fields of heads, in alphabetical order.
static IN_HEADS: [&str; 63] = [
    "accept-patch",
    "accept-post",
    "accept-ranges",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "age",
    "allow",
    "cache-control",
    "cache-status",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-range",
    "content-security-policy",
    "content-type",
    "cross-origin-resource-policy",
    "date",
    "dav",
    "deprecation",
    "digest",
    "etag",
    "expires",
    "if-schedule-tag-match",
    "last-modified",
    "link",
    "location",
    "lock-token",
    "memento-datetime",
    "ms-author-via",
    "pragma",
    "preference-applied",
    "proxy-status",
    "ratelimit",
    "ratelimit-policy",
    "repr-digest",
    "retry-after",
    "schedule-tag",
    "server",
    "server-timing",
    "signature",
    "signature-input",
    "sunset",
    "tus-checksum-algorithm",
    "tus-extension",
    "tus-max-size",
    "tus-resumable",
    "tus-version",
    "upload-checksum",
    "upload-complete",
    "upload-draft-interop-version",
    "upload-expires",
    "upload-length",
    "upload-limit",
    "upload-metadata",
    "upload-offset",
    "vary",
    "want-digest",
    "want-repr-digest",
];

/// Fields of trailers: properties of a body that are known only at its end.
static IN_TRAILERS: [&str; 8] = [
    "content-digest",
    "content-md5",
    "digest",
    "proxy-status",
    "repr-digest",
    "server-timing",
    "signature",
    "signature-input",
];

/// Prefixes of fields that concern one program and not browsers: those of object
/// stores, of `WebDAV` servers, and private ones.
static PREFIXES: [&str; 4] = ["ceph-", "icy-", "oc-", "x-"];

/// Private fields that have an effect beyond this answer on browsers, or on web servers in front
/// of a depot.
static OBEYED: [&str; 22] = [
    "x-accel-",
    "x-archive-",
    "x-content-security-policy",
    "x-dns-prefetch-control",
    "x-envoy-",
    "x-esi",
    "x-lighttpd-",
    "x-litespeed-",
    "x-lscache",
    "x-middleware-",
    "x-permitted-cross-domain-policies",
    "x-pingback",
    "x-proxy",
    "x-purge",
    "x-reproxy-",
    "x-sendfile",
    "x-send-file",
    "x-sourcemap",
    "x-ua-compatible",
    "x-varnish-",
    "x-webkit-",
    "x-xss-protection",
];

/// Whether a field of an answer goes on.
pub(super) fn goes_on(part: Part, name: &HeaderName, value: &HeaderValue) -> bool {
    let name = name.as_str();
    let begins = |all: &[&str]| all.iter().any(|prefix| name.starts_with(prefix));
    let made_up = begins(&PREFIXES) && !begins(&OBEYED);
    let in_trailers = || IN_TRAILERS.binary_search(&name).is_ok();
    let listed = match part {
        Part::Head => IN_HEADS.binary_search(&name).is_ok() || made_up,
        Part::Trailers => in_trailers() || made_up,
        // Origins that merge trailers into the header section trust what those say about the client.
        Part::RequestTrailers => in_trailers(),
    };
    let tells = if name == header::CONTENT_SECURITY_POLICY {
        says(value, b"report-")
    } else {
        // A preload is not requested by the page, whose policy forbids referrers.
        name == header::LINK && says(value, b"referrerpolicy")
    };
    listed && !tells
}

/// Whether a body of this type is one that browsers take apart, and whose parts set cookies: they take the heads of
/// parts for the answer's own. Ranges are, if the client asked for ranges.
pub(super) fn has_heads_of_its_own(kind: &HeaderValue, ranges_wanted: bool) -> bool {
    let kind = kind.as_bytes().trim_ascii().to_ascii_lowercase();
    kind.starts_with(b"multipart/") && !(ranges_wanted && kind.starts_with(b"multipart/byteranges"))
}

/// Whether a value has a browser tell others of the page's URL, and so of its ticket, by this word.
fn says(value: &HeaderValue, word: &[u8]) -> bool {
    value.as_bytes().to_ascii_lowercase().windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_of_the_specification() {
        let page = include_str!("../../../../../../docs/protocol.md");
        for (name, list) in [("response-fields", &IN_HEADS[..]), ("obeyed-prefixes", &OBEYED)] {
            let block =
                page.split(&format!("```text {name}\n")).nth(1).expect(name).split("```").next();
            assert!(block.unwrap().split_whitespace().eq(list.iter().copied()), "{name}");
        }
    }

    #[test]
    fn lists_are_in_order() {
        assert!(IN_HEADS.is_sorted() && IN_TRAILERS.is_sorted());
    }
}
