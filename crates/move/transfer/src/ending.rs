// SPDX-License-Identifier: GPL-2.0-or-later
//! How a body ended: with its connection, or with trailers that report a failure.
//!
//! Servers that send in chunks can report a failure only behind the body: `XRootD` in `X-Transfer-Status`, IPFS gateways
//! in `X-Stream-Error`, depots in `Proxy-Status` (RFC 9209).

use crate::text::printable;
use http::{HeaderMap, HeaderName};
use protocol::http::{Fields, reported};
use std::{error::Error, io};

const TRANSFER_STATUS: HeaderName = HeaderName::from_static("x-transfer-status");
const STREAM_ERROR: HeaderName = HeaderName::from_static("x-stream-error");
/// How much of a report is shown.
const SHOWN: usize = 200;

/// Whether the connection just ended, before the body did. Over TLS: also without the sender's goodbye.
pub(crate) fn is_end(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        let io = cause.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// The failure that trailers report, made printable.
pub(crate) fn reported_failure(trailers: &HeaderMap) -> Option<String> {
    let failed = |(name, value): &(&HeaderName, String)| match *name {
        // Three digits, a colon, a text.
        name if *name == TRANSFER_STATUS => !is_success(value),
        name if *name == STREAM_ERROR => !value.is_empty(),
        _ => false,
    };
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = trailers.iter().map(|(name, value)| (name, text(value).trim().to_owned()));
    let of_server = fields.filter(failed).map(|(name, value)| format!("{name}: {value}")).next();
    let fields = || trailers.iter().map(|(name, value)| (name.clone(), value.clone()));
    let of_proxy = || reported(&fields().collect::<Fields>()).map(|fault| fault.to_string());
    of_server.or_else(of_proxy).map(|failure| printable(&failure, SHOWN))
}

/// Whether a status is one of 200 to 299.
fn is_success(value: &str) -> bool {
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    digits.len() == 3 && digits.starts_with('2')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(name: &'static str, value: &str) -> Option<String> {
        let name = HeaderName::from_static(name);
        reported_failure(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
    }

    #[test]
    fn trailers_report_failures_as_servers_write_them() {
        for (name, value) in [
            ("x-transfer-status", "500: Unable to read f; input/output error"),
            ("x-transfer-status", ""),
            ("x-transfer-status", "20: x"),
            ("x-transfer-status", "2000"),
            ("x-stream-error", "failed to fetch"),
            ("proxy-status", "d1; error=connection_terminated"),
        ] {
            assert!(failure(name, value).is_some(), "{name}: {value}");
        }
        for (name, value) in [
            ("x-transfer-status", "200: OK"),
            ("x-transfer-status", " 206 Partial"),
            ("x-stream-error", ""),
            ("proxy-status", "d1; received-status=200"),
            ("etag", "500: x"),
        ] {
            assert_eq!(failure(name, value), None, "{name}: {value}");
        }
    }
}
