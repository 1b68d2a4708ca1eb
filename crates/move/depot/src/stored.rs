// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions at rest: the depot is the acceptor, and keeps what it is left until it is collected (`docs/lsl.md`, section 13).
//!
//! ```text
//! connection   one connection: its ANSWER, its request, and its line in the log
//!   run          what is asked, before and after the initiator has proved itself
//!     leave        a stream is stored
//!     collect      a stored stream is sent
//!     listing      list, extend, drop
//! opening      the store is opened, retried while another process has it, checked; expiry; closed at a takeover
//! shared       what all of them share
//!   leaving      which session writes which stored one
//!   prefixes     what is there of a session that continues, hashed
//!   places       how many sessions at a time
//! job          a session with a client, and what it may
//! outcome      how it ended
//! account      to whom space is charged
//! ```
//! Threats: a note that was recorded is answered, and changes nothing (`run` waits for CONFIRM). Space is charged to the
//! ticket's issuer or to the client's address, since anybody can make up keys. A session that arrives too slowly, or whose sender
//! has gone, gives its reservation back. Sessions, and of them those of a client, are bounded, and so is what is hashed at a time.
//! All calls that use the disk run on threads that may wait.

mod account;
mod collect;
mod connection;
mod job;
mod leave;
mod leaving;
mod listing;
mod opening;
mod outcome;
mod pace;
mod places;
mod prefixes;
mod run;
mod shared;

pub(crate) use connection::serve;
pub(crate) use opening::{check, keep, open};
pub(crate) use shared::{Counted, Stored};
