// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a connection outlives a message (RFC 9112, section 9.3).

use super::print::HeadWriter;
use http::{Version, header};

/// Whether a connection stays open after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Others may follow.
    Keep,
    /// It is closed, and the message says so.
    Close,
}

impl Connection {
    /// Writes the field, if needed, for a peer of this version: without it, HTTP/1.1 keeps the
    /// connection, and HTTP/1.0 closes it.
    pub(super) fn write_to(self, head: &mut HeadWriter, peer: Version) {
        if self == Self::Close || peer == Version::HTTP_10 {
            head.field(&header::CONNECTION, "close");
        }
    }
}
