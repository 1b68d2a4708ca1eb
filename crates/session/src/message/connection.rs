// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a connection outlives a message (RFC 9112, section 9.3).

use super::{Framing, RequestHead, ResponseHead, print::Printed};
use http::{Version, header};

/// What becomes of a connection after a message has been sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Others may follow.
    Keep,
    /// It is closed, and the message says so.
    Close,
}

impl RequestHead {
    /// Whether the client may send another request on this connection. HTTP/1.0 clients may not:
    /// the `Keep-Alive` they know goes wrong behind proxies (RFC 9112, appendix C.2.2).
    pub fn keeps_alive(&self) -> bool {
        self.version != Version::HTTP_10 && !self.headers.lists(&CONNECTION, "close")
    }
}

impl ResponseHead {
    /// Whether the connection may be used again when the body has been read to its end.
    pub fn keeps_alive(&self, framing: Framing) -> bool {
        let says = |option| self.headers.lists(&CONNECTION, option);
        framing != Framing::UntilClose
            && !says("close")
            && (self.version != Version::HTTP_10 || says("keep-alive"))
    }
}

const CONNECTION: header::HeaderName = header::CONNECTION;

impl Connection {
    /// Says it in a head that is sent to a peer of this version: silence means in HTTP/1.1 that the
    /// connection is kept, and in HTTP/1.0 that it is not.
    pub(super) fn say(self, head: &mut Printed, peer: Version) {
        if self == Self::Close || peer == Version::HTTP_10 {
            head.field(&CONNECTION, "close");
        }
    }
}
