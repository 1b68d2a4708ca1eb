// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a connection outlives a message (RFC 9112, section 9.3).

use super::print::HeadWriter;
use http::{Version, header};

/// What becomes of a connection after a message has been sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Others may follow.
    Keep,
    /// It is closed, and the message says so.
    Close,
}

impl Connection {
    /// Says it in a head that is sent to a peer of this version: silence means in HTTP/1.1 that the
    /// connection is kept, and in HTTP/1.0 that it is not.
    pub(super) fn write_to(self, head: &mut HeadWriter, peer: Version) {
        if self == Self::Close || peer == Version::HTTP_10 {
            head.field(&header::CONNECTION, "close");
        }
    }
}
