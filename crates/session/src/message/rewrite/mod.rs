// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot changes in a head that it passes on.

mod outward;
mod request;
mod response;
mod trailers;
mod way;

pub use outward::{NextHop, Outward};
pub use request::{RequestOut, options_for, request_for};
pub use response::{ResponseOut, interim_for, own_answer, redirect, response_for};
pub use trailers::trailers_for;
pub use way::Way;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Fields that concern one connection only (RFC 9110, section 7.6.1), besides those that
/// `Connection` names. `Transfer-Encoding` is not among them: it is set as the body goes out.
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

/// What fields between depots begin with. Each depot sets its own: none is passed on as it came,
/// so that nobody beyond a depot can speak for it.
const OURS: &str = "longhaul-";

/// Fields that `Connection` may not take away: without them the next reader would see another
/// body length, or a loop would go unseen.
const STAYS: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::VIA, header::LOCATION];

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
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(OURS)).cloned().collect();
    for name in named.iter().chain(&ours).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// A field's value of text that is visible ASCII by construction.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}
