// SPDX-License-Identifier: GPL-2.0-or-later
//! Header sections of HTTP/1 messages: strict parser, rewriter for the next hop, and writer.
//!
//! Nothing of a received head is copied as bytes: it is parsed into `http` types and printed
//! again, so that what one party reads in it is what the next reads (no smuggling through
//! line ends, folding or spaces). Rules: RFC 9110 sections 7.6 and 10.2.2, RFC 9112 section 6.

mod authentication;
pub mod chunked;
mod connection;
mod fault;
mod fields;
mod forwarded;
mod framing;
pub mod hold;
mod lines;
pub mod load;
mod login;
mod method;
mod print;
pub mod proxy;
pub mod receipt;
mod request;
mod response;
mod rewrite;
mod site;
pub mod stripes;
mod via;

pub use connection::Connection;
pub use fault::{Fault, PROXY_STATUS, ProxyError, proxy_challenge, refusal_by_depot, reported};
pub use fields::Fields;
pub use forwarded::{forwarded_client, forwarded_for};
pub use framing::Framing;
pub use login::send_to_login;
pub use method::{Method, MethodError};
pub use request::RequestHead;
pub use response::ResponseHead;
pub use rewrite::{
    NextHop, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestRoute, interim_for,
    options_for, own_answer, redirect, request_for, response_for, trailers_for_client,
    trailers_for_origin,
};
pub use site::{SiteRequest, is_taken as site_is_taken};
pub use via::came_through_depot;

use http::Version;

/// The largest number of fields in a head.
pub const MAX_FIELDS: usize = 128;
/// More hops than this in `Via` are taken for a loop.
pub const MAX_VIA: usize = 16;

/// HTTP/1.0 or HTTP/1.1, from the minor version that the parser gives.
fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 }
}
