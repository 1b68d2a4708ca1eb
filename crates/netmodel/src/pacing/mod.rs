// SPDX-License-Identifier: GPL-2.0-or-later
//! Precise pacing after Takano et al. (paper 001).
//!
//! - [`Estimator`]: which rate a flow's packets shall leave at (equation 1), in `cc/pace.h`, which the
//!   kernel's program is made of too.
//! - [`Injector`]: the gap frames behind each packet, so that a queue that sends one after the other keeps
//!   that rate (equations 2 and 3).

mod estimate;
mod face;
mod injector;

pub use estimate::{Estimator, Rtt};
pub use face::{Known, Params};
pub use injector::{GapFrames, Injector};
