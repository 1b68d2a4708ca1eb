// SPDX-License-Identifier: GPL-2.0-or-later
//! What a transfer has shown to be let in.

/// The ticket of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedTicket {
    /// Its name.
    pub id: String,
    /// Its issuer, by its own claim.
    pub issuer: Option<String>,
    /// The key that signed it.
    pub key: String,
}

/// The proxy user of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedLogin {
    /// The name.
    pub user: String,
    /// A value that differs for each password.
    pub mark: [u8; 32],
}
