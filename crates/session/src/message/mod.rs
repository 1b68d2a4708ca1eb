// SPDX-License-Identifier: GPL-2.0-or-later
//! Heads of HTTP/1 messages: read strictly, rewritten for the next hop, written anew.
//!
//! Nothing of a received head is copied as bytes: it is parsed into `http` types and printed
//! again, so that what one party reads in it is what the next reads (no smuggling through
//! line ends, folding or spaces). Rules: RFC 9110 sections 7.6 and 10.2.2, RFC 9112 section 6.

pub mod chunked;
mod connection;
mod fault;
mod framing;
mod lines;
mod method;
mod request;
mod response;
mod rewrite;
pub mod stripes;
mod via;

pub use connection::Connection;
pub use fault::{Fault, PROXY_STATUS, ProxyError, reported};
pub use framing::Framing;
pub use method::{Method, MethodError};
pub use request::RequestHead;
pub use response::ResponseHead;
pub use rewrite::{
    NextHop, Outward, RequestOut, ResponseOut, Way, interim_for, options_for, own_answer, redirect,
    request_for, response_for, trailers_for,
};
pub use via::came_through_depot;

use http::{HeaderMap, HeaderName, HeaderValue, Version};

/// The largest number of fields in a head.
pub const MAX_FIELDS: usize = 128;
/// More hops than this in `Via` are taken for a loop.
pub const MAX_VIA: usize = 16;

/// Copies parsed fields into a map.
fn header_map(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let bad = || format!("the field \"{}\" is malformed", field.name.escape_default());
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| bad())?;
        map.append(name, value);
    }
    Ok(map)
}

/// HTTP/1.0 or HTTP/1.1, from the minor version that the parser gives.
fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 }
}

/// Prints a head: the first line, the fields, the empty line.
fn print(first_line: &str, headers: &HeaderMap) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(first_line.as_bytes());
    out.extend_from_slice(b"\r\n");
    print_fields(headers, &mut out);
    out
}

/// Prints fields and the empty line.
fn print_fields(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        print_name(name, out);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Prints a field's name with capitals, as scripts around HTTP/1 tools expect it.
fn print_name(name: &HeaderName, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(name.as_str().as_bytes());
    let mut at_start = true;
    for byte in &mut out[start..] {
        if at_start {
            byte.make_ascii_uppercase();
        }
        at_start = *byte == b'-';
    }
}
