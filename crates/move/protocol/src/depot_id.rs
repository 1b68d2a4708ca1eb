// SPDX-License-Identifier: GPL-2.0-or-later
//! The name by which a depot signs what it passes on (`Via`, `Proxy-Status`).

use std::{fmt, str::FromStr};

/// A depot's name: at most 64 letters, digits, `-`, `_` and `.`, beginning with a letter, so that
/// it is a token both in `Via` (RFC 9110) and in `Proxy-Status` (RFC 9209).
///
/// Names are compared without regard to case. Two depots of one chain must not share a name: the
/// second would take the other's requests for its own coming back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepotId(String);

/// The text is not a depot's name: an error in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name a depot: expected at most 64 letters, digits, '-', '_' and '.', \
     beginning with a letter"
)]
pub struct DepotIdError(String);

impl DepotId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DepotId {
    type Err = DepotIdError;
    fn from_str(text: &str) -> Result<Self, DepotIdError> {
        let good = text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if good { Ok(Self(text.to_owned())) } else { Err(DepotIdError(text.to_owned())) }
    }
}

impl fmt::Display for DepotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
