// SPDX-License-Identifier: GPL-2.0-or-later
//! Quantities as types: [`Bytes`], [`Rate`], [`Duration`], [`Timestamp`], [`Probability`].
//!
//! Text is read as tc(8) writes it: `10gbit`, `90ms`, `128KB` (a `k` of bytes is 1024, a `k` of
//! bits is 1000, `bps` is bytes a second), `0.02%`. Units may have capital letters, but not where that
//! makes a byte look like a bit: `50Mbps` and `10Mb` are refused, `50MBps` and `10MB` are not. Two things are added for scenario files:
//! quantities may be scaled and added, `"90ms / 2 - 2 * 3ms"`, and a loss may be spread over
//! segments in series, `"0.1% over 3"` (equation 4 of Augusto et al.). A rate or a time without a unit is
//! refused: tc reads a bare time as microseconds and a bare rate as bits, which is easily forgotten.
//!
//! Also here: [`FailureClass`], the classes of failure that every crate's errors tell apart, and [`text`], by which every
//! crate prints what others have written.
//!
//! [`BackOff`] has the waits between attempts of all that try again.
//!
//! [`quantity`] reads a text that may be of any of them.
//!
//! And [`suggest`], which finds the word that was meant.
//!
//! Arithmetic that can overflow is checked (`checked_*`) or saturates where the type says so.

mod back_off;
mod bytes;
mod duration;
mod failure;
mod parse;
mod probability;
mod quantity;
mod rate;
pub mod suggest;
pub mod text;

pub use back_off::BackOff;
pub use bytes::{Bytes, Rounded};
pub use duration::{Duration, Timestamp};
pub use failure::{ClassifyFailure, FailureClass};
pub use parse::ParseError;
pub use probability::Probability;
pub use quantity::{ValueKind, quantity};
pub use rate::Rate;
