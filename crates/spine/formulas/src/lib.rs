// SPDX-License-Identifier: GPL-2.0-or-later
//! Published formulas of TCP, as functions of numbers: the models of scenarios and the forecasts of routes use the same.
//!
//! ```text
//! cardwell   the time of a finite file: slow start and what follows
//! padhye     Reno's rate with losses and timeouts
//! cubic      CUBIC's average window with rare losses
//! ```
//! Units: segments and seconds. No I/O, no clock.

pub mod cardwell;
pub mod cubic;
pub mod padhye;
