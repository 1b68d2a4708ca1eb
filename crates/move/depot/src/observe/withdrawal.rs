// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers that the depot ends itself while they are under way.

use std::sync::Arc;

/// Why the depot ends a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The operator has said so.
    Operator,
    /// The operator has put its client or its ticket on the deny list, for this reason.
    Denied(Arc<str>),
    /// Its ticket, or the key that has signed it, was revoked.
    Ticket,
    /// Its client is not let in any more.
    Client,
    /// Its user, or the user's password, was taken out of the proxy's file.
    Login,
}

impl Withdrawal {
    /// In words for the log.
    pub(crate) const fn words(&self) -> &'static str {
        match self {
            Self::Operator => "ended by the operator",
            Self::Denied(_) => "ended by the operator's deny list",
            Self::Ticket => "ended because its ticket, or the ticket's key, was revoked",
            Self::Client => "ended because its client may not use this depot any more",
            Self::Login => "ended because its user, or the user's password, was revoked",
        }
    }

    /// The operator's own words, if there are any.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Denied(why) if !why.is_empty() => Some(why),
            _ => None,
        }
    }

    /// For a client that was not answered yet.
    pub(crate) fn told(&self) -> String {
        let words = self.words();
        self.reason().map_or_else(|| words.to_owned(), |reason| format!("{words}: {reason}"))
    }
}
