// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a transfer will take by each route, and which route to take.
//!
//! ```text
//! estimate     the time over a chain that nobody has measured: closed forms
//! predictors   the family of predictors, of which the one with the lowest error counts
//! series       what was seen, weighed with what was expected; intervals that hold
//! path         what is known of one route: by size, and how it has failed
//! choice       one of several routes: forecasts, noise, an allowance for trying others
//! memory       routes by destination, bounded
//! ```
//! The caller gives the time, random bits and what depots claim of themselves. No I/O, no clock.
//!
//! Threats. What depots claim can make them look slower, never faster than what was seen or the closed form gives
//! for round trips that were measured here. What was told of a route when it was first used stays in force for it, so a depot gains nothing
//! by telling another thing later.

mod choice;
mod estimate;
mod memory;
#[cfg(test)]
mod noise;
mod path;
mod predictors;
mod series;

pub use choice::{Assessed, Candidate, Chosen, Claim, Decision, Request, Why};
pub use estimate::{ASSUMED_LOSS, ASSUMED_RATE_BPS, Hop, completion_s};
pub use memory::Memory;
pub use path::{Basis, End, Forecast, Path, Seen, Usual};
pub use predictors::{Family, Prediction, Predictor};
pub use series::{Expected, Interval, Series};
