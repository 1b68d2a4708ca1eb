// SPDX-License-Identifier: GPL-2.0-or-later
//! Precise pacing (Takano et al., "Design and Evaluation of Precise Software Pacing Mechanisms for
//! Fast Long-Distance Networks", paper 001): when packets leave a host, so that no bottleneck gets them
//! faster than it carries them.
//!
//! - [`Estimator`]: which rate a flow's packets shall leave at (equation 1), in `cc/pace.h`, which the
//!   kernel's program is made of too.
//! - [`GapInjector`]: the gap frames behind each packet, so that a queue that sends one after the other keeps
//!   that rate (equations 2 and 3).
//! - [`Scheduler`]: packets for several bottlenecks over one wire, each bottleneck's at its own pace.

mod class_clock;
mod drr;
mod estimate;
mod ffi;
mod injector;
mod scheduler;

pub use estimate::{Estimator, Rtt};
pub use ffi::{Params, PathCap, TcpSnapshot};
pub use injector::{GapFrames, GapInjector};
pub use scheduler::{Class, Departure, Next, Packet, Scheduler, SchedulerError};
