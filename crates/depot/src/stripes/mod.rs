// SPDX-License-Identifier: GPL-2.0-or-later
//! One transfer over several connections on the stretch between two depots.
//!
//! ```text
//!             blocks, on whichever has room          in order of their offsets
//!            ┌──────── first connection ────────┐
//!  body ──▶ [`Writer`] ─── joined ──────────▶ [`Reader`] ──▶ body
//!            └──────── joined ──────────────────┘
//! ```
//! The depot nearer the client asks, the other one agrees with a token ([`Offers`]), and the first one
//! opens further connections by it ([`joining`]). Nobody waits for those: the transfer begins on one
//! and takes each in as it comes. What is held is at most a block of each connection; the rest waits in
//! the sockets' buffers, and so holds the sender back. `session::message::stripes` has the format.

mod entering;
mod joining;
mod offers;
mod reader;
mod writer;

pub(crate) use entering::enter;
pub(crate) use joining::{Joins, join};
pub(crate) use offers::Offers;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

/// A body that is known to be shorter comes over one connection: it would be over before others joined.
pub(crate) const LEAST: u64 = 1 << 20;

#[cfg(test)]
mod tests;
