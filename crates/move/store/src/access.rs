// SPDX-License-Identifier: GPL-2.0-or-later
//! By what a client proves that a session is its own.

use std::fmt;

/// A hash that a depot derives from a client's key, ticket or code. Clients with the same one are the same to the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKey(pub [u8; 32]);

impl fmt::Debug for AccessKey {
    /// The first bytes only: the rest lets its reader collect sessions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.0;
        write!(f, "AccessKey({a:02x}{b:02x}{c:02x}..)")
    }
}
