// SPDX-License-Identifier: GPL-2.0-or-later
//! Changes that a depot makes to a header section that it passes on.

mod allowed;
mod outgoing_body;
mod request;
mod request_route;
mod response;
mod trailers;

pub use outgoing_body::{NextHop, OutgoingBody};
pub use request::{OutgoingRequest, options_for, request_for};
pub use request_route::RequestRoute;
pub(super) use response::padded_answer;
pub use response::{OutgoingResponse, interim_for, own_answer, redirect, response_for};
pub use trailers::{trailers_for_client, trailers_for_origin};

use super::Fields;
use crate::ticket::TicketRoute;
use http::{HeaderName, header};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Fields that concern one connection only (RFC 9110, section 7.6.1), besides those that
/// `Connection` names. `Transfer-Encoding` is not among them: it is set as the body goes out.
static HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::UPGRADE,
    header::EXPECT,
];

/// Prefix of the fields between depots. Each depot sets its own and passes none on,
/// so that no hop beyond a depot can speak for it.
const OURS: &str = "longhaul-";

/// Fields that `Connection` may not take away: without them the next reader would see another
/// body length, or a loop would go unseen.
static STAYS: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::VIA, header::LOCATION];

/// How often a URL is decoded in search of a route: in a query of a query's query it is encoded three times.
const DECODED: usize = 8;

/// Whether a URL, or a part of one, has a depot's route in it or a ticket, however it is written.
fn names_route(url: &str) -> bool {
    let mut text = url.to_owned();
    for _ in 0..DECODED {
        // Browsers take a backslash for a slash.
        let plain = text.to_ascii_lowercase().replace('\\', "/");
        let is_ticket = || matches!(TicketRoute::redacted(&text), Cow::Owned(_));
        if plain.contains("lh1/") || plain.contains("lh2/") || is_ticket() {
            return true;
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == text {
            return false;
        }
        text = decoded;
    }
    // An honest URL is not encoded that often.
    true
}

/// Which of the fields that came go beyond the connection on which they did.
fn beyond(came: &Fields) -> impl Fn(&HeaderName) -> bool {
    let named: Vec<&str> = came.members(&header::CONNECTION).collect();
    move |name| {
        let taken_away = named.iter().any(|named| named.eq_ignore_ascii_case(name.as_str()));
        !HOP_BY_HOP.contains(name)
            && !name.as_str().starts_with(OURS)
            && (!taken_away || STAYS.contains(name))
    }
}
