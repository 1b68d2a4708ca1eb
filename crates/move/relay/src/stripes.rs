// SPDX-License-Identifier: GPL-2.0-or-later
//! One stream of bytes over several connections of the same hop.
//!
//! ```text
//!              blocks, on whichever has room          in order of their offsets
//!             ┌──────── first connection ────────┐
//!  bytes ──▶ [`Writer`] ─── joined ──────────▶ [`Reader`] ──▶ bytes
//!             └──────── joined ──────────────────┘
//! ```
//! One end asks, the other one agrees with a token ([`Offers`]), and the first one opens further
//! connections with it ([`Joins`]): the reader of an HTTP answer, and either end of a session's direction
//! ([`Arrivals`]). Neither end waits for those: the transfer begins on one connection
//! and takes each in as it comes. What is held is at most a block of each connection; the rest waits in
//! the sockets' buffers, and so holds the sender back.

mod arrivals;
pub mod blocks;
mod joins;
mod offers;
mod reader;
mod writer;

pub use arrivals::{Arrivals, SetUp};
pub use joins::Joins;
pub use offers::{Asker, Joined, Offered, Offers, Token};
pub use reader::Reader;
pub use writer::Writer;

/// A stream that is known to be shorter goes over one connection: it would be over before others joined.
pub const LEAST: u64 = 1 << 20;

#[cfg(test)]
mod tests;
