// SPDX-License-Identifier: GPL-2.0-or-later
//! Peers at the wrong port: TLS where none is expected, or HTTP and sessions in clear text where TLS is.
//!
//! The first byte tells the protocols apart. Each is refused in its own words, so that the client's user can read why: HTTP
//! by 400, a session by ANSWER, TLS by an alert.

use protocol::{http::Fault, session};
use std::fmt::Display;

/// The first byte of a TLS handshake: the record type (RFC 8446, section 5.1). No HTTP method and no session begins
/// with it.
pub(crate) const TLS_HANDSHAKE: u8 = 22;

/// A fatal alert, `unexpected_message` (RFC 8446, sections 5.1 and 6): record type, version, length, level, description.
/// A server that speaks TLS does not answer the start of a handshake so. A depot before this one can therefore tell what is wrong.
pub(crate) const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// What a client speaks instead of TLS on a TLS port, judged by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClearText {
    /// A request.
    Http,
    /// A header of a session.
    Session,
    /// Something that this depot does not know.
    Unknown(u8),
}

impl ClearText {
    /// What begins with this byte; `None`: a TLS handshake.
    pub(crate) fn of(first: u8) -> Option<Self> {
        match first {
            TLS_HANDSHAKE => None,
            session::FIRST_BYTE => Some(Self::Session),
            byte if byte.is_ascii_alphabetic() => Some(Self::Http),
            byte => Some(Self::Unknown(byte)),
        }
    }

    /// Why it is refused.
    pub(crate) fn refusal(self) -> Fault {
        match self {
            Self::Http => Fault::bad_request(
                "this port speaks HTTPS, and the request came by plain HTTP: use https://",
            ),
            Self::Session => Fault::bad_request(
                "this port speaks TLS, and the session came without: name the depot as https:HOST:PORT",
            ),
            Self::Unknown(byte) => Fault::bad_request(format!(
                "this port speaks TLS, and the client sent something else, which begins with byte {byte:#04x}"
            )),
        }
    }
}

/// Why TLS is refused on a port without.
pub(crate) fn unexpected_tls() -> Fault {
    Fault::bad_request(
        "this port speaks plain HTTP, and the client speaks TLS: use http://, or a port of `tls.listen`",
    )
}

/// Whether a next hop that was asked without TLS answers by a TLS alert. No HTTP answer and no session begins so.
pub(crate) fn is_alert(answer: &[u8]) -> bool {
    answer.starts_with(&TLS_ALERT[..2])
}

/// A next hop that was asked without TLS expects it.
pub(crate) fn next_expects_tls(next: &impl Display) -> Fault {
    Fault::bad_response(format!(
        "upstream {next} speaks TLS on that port: say https: before it in the route or setting that names it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_byte_identifies_protocol() {
        for (first, expected) in [
            (TLS_HANDSHAKE, None),
            (0xb1, Some(ClearText::Session)),
            (b'G', Some(ClearText::Http)),
            (b'p', Some(ClearText::Http)),
            (0x80, Some(ClearText::Unknown(0x80))),
            (0, Some(ClearText::Unknown(0))),
        ] {
            assert_eq!(ClearText::of(first), expected, "{first}");
        }
    }
}
