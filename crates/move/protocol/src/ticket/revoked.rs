// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets that were taken back before they expire.
//!
//! ```text
//! # an order that was cancelled; its ticket expires on 2030-01-31
//! 5f0c7d2e9b3a41c68e1d0a7b4c2f9e83
//! ```

use super::{MAX_ID_LEN, TicketError, Verified};
use std::collections::HashSet;

/// Maximum number of revoked tickets. To revoke more, change the key.
const MOST: usize = 1_000_000;

/// Tickets that count no more, by their `jti`, whichever key has signed them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RevocationList(HashSet<String>);

/// Why a text is not a list of tickets: an error in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevocationListError {
    /// A line is not the name of a ticket.
    #[error(
        "line {0} begins with no ticket's jti: expected 1 to 128 visible ASCII characters, or a comment after #"
    )]
    Line(usize),
    /// There are too many.
    #[error("more than {MOST} tickets: change the key that signed them instead")]
    TooMany,
}

impl RevocationList {
    /// Reads a list: each line's first word is a `jti`, and what follows a comment; empty lines, and lines that begin
    /// with `#`, say nothing. A `jti` may hold a `#` itself.
    ///
    /// # Errors
    /// A line is no `jti`, or there are too many.
    pub fn parse(text: &str) -> Result<Self, RevocationListError> {
        let mut all = HashSet::new();
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (at, line) in text.lines().enumerate() {
            let Some(id) = line.split_whitespace().next().filter(|id| !id.starts_with('#')) else {
                continue;
            };
            if id.len() > MAX_ID_LEN || !id.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(RevocationListError::Line(at + 1));
            }
            all.insert(id.to_owned());
            if all.len() > MOST {
                return Err(RevocationListError::TooMany);
            }
        }
        Ok(Self(all))
    }

    /// Sees whether a ticket still counts.
    ///
    /// # Errors
    /// It was taken back.
    pub fn check(&self, verified: &Verified) -> Result<(), TicketError> {
        let id = &verified.ticket.id;
        if self.has(id) { Err(TicketError::RevocationList(id.clone())) } else { Ok(()) }
    }

    /// Whether a ticket of this name was taken back.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_line_by_line() {
        let list = RevocationList::parse("# two\n\n a1 \r\nb-2\na1\n").unwrap();
        assert_eq!(list.len(), 2);
        assert!(RevocationList::parse("").unwrap().is_empty());
        // With words behind it, as people write them.
        let noted = RevocationList::parse("\u{feff}a1 # bob\n\tb-2\tbob's\nc#3\n #d\n").unwrap();
        assert_eq!(noted, RevocationList(["a1", "b-2", "c#3"].map(str::to_owned).into()));
        assert_eq!(RevocationList::parse("a\n\u{fc}b\n"), Err(RevocationListError::Line(2)));
        assert_eq!(RevocationList::parse("caf\u{e9}"), Err(RevocationListError::Line(1)));
        assert_eq!(
            RevocationList::parse(&"x".repeat(MAX_ID_LEN + 1)),
            Err(RevocationListError::Line(1))
        );
    }
}
