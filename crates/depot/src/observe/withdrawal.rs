// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers that the depot ends itself while they are under way.

/// Why the depot ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The operator has said so.
    Operator,
    /// The operator has put its client or its ticket on the deny list.
    Denied,
    /// Its ticket, or the key that has signed it, was revoked.
    Ticket,
    /// Its client is not let in any more.
    Client,
    /// Its user, or the user's password, was taken out of the proxy's file.
    Login,
}

impl Withdrawal {
    /// In words for the log, and for a client that was not answered yet.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Operator => "ended by the operator",
            Self::Denied => "ended by the operator's deny list",
            Self::Ticket => "ended because its ticket, or the ticket's key, was revoked",
            Self::Client => "ended because its client may not use this depot any more",
            Self::Login => "ended because its user, or the user's password, was revoked",
        }
    }
}
