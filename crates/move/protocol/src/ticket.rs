// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets: who may have what moved through which depots, until when, signed with a key that the
//! depots trust. They are part of the URL, because clients drop credentials on a redirect to another
//! host.
//!
//! A ticket is a JSON Web Token (RFC 7519) signed with Ed25519 (`EdDSA`, RFC 8037) and nothing
//! else; the depots hold the public keys ([`KeySet`], RFC 7517). Its route is
//!
//! ```text
//! /lh2/<hop>/<token>/<tail>
//! ```
//! `hop` says which of the ticket's depots is asked, counted from the client, from 0; each asks the
//! next with the number after its own, the last asks the origin. `tail` completes the ticket's URL
//! where that is a prefix, and only names the file where it is exact.
//!
//! Time and randomness are arguments. Limits: one signature, no encryption (anyone who sees a ticket can
//! read and use it until it expires); RFC 8725's advice is followed except for explicit typing, since
//! the claim `lh` already sets a ticket apart from other tokens.

mod claims;
mod description;
mod error;
mod header;
mod keys;
mod opens;
mod pem;
mod replays;
mod revoked;
mod route;
mod time;

pub use claims::{MAX_ID_LEN, Ticket, TicketClient, ticket_id};
pub use description::TicketDescription;
pub use error::TicketError;
pub use keys::{KeyError, KeySet, Signer, Unverified, Verified};
pub use opens::{Opens, OpensError, SessionTarget};
pub use replays::{Replays, UsesSoFar};
pub use revoked::{RevocationList, RevocationListError};
pub use route::{PREFIX, TicketRoute};
pub use time::{UnixTime, UnixTimeError, UnixTimeTextError};

/// Tolerated clock difference between signers and depots, in seconds: a ticket is valid that much earlier
/// and later than it says. It also lets a request that is under way at the end pass the whole chain.
pub const LEEWAY_S: u32 = 30;
