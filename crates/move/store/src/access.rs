// SPDX-License-Identifier: GPL-2.0-or-later
//! By what a client proves that a session is its own, and to what space is charged.

use std::fmt;

/// A client's public key, or a hash that a depot derives from a ticket or an address. Clients with the same one are the same to
/// the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKey(pub [u8; 32]);

impl fmt::Debug for AccessKey {
    /// The first bytes only, which tell keys apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.0;
        write!(f, "AccessKey({a:02x}{b:02x}{c:02x}..)")
    }
}
