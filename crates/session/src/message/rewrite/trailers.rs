// SPDX-License-Identifier: GPL-2.0-or-later
//! Which trailers go on.

use super::{super::Fields, beyond};
use http::{HeaderName, header};

/// Fields that mean nothing behind a body, or that a receiver which merges trailers into the head
/// would obey: framing, routing, control of the request, credentials, and how the content is to be
/// read (RFC 9110, section 6.5.1).
static NOT_BEHIND_A_BODY: [HeaderName; 34] = [
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_SECURITY_POLICY,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::DATE,
    header::EXPIRES,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::LOCATION,
    header::MAX_FORWARDS,
    header::ORIGIN,
    header::PRAGMA,
    header::RANGE,
    header::REFRESH,
    header::RETRY_AFTER,
    header::SET_COOKIE,
    header::STRICT_TRANSPORT_SECURITY,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::VARY,
    header::VIA,
    header::WARNING,
    header::WWW_AUTHENTICATE,
];

/// The trailers that a depot passes on of those that came.
pub fn trailers_for(came: &Fields) -> Fields {
    let goes_on = beyond(came);
    let going = came.iter().filter(|(name, _)| goes_on(name) && !NOT_BEHIND_A_BODY.contains(name));
    going.map(|(name, value)| (name.clone(), value.clone())).collect()
}
