// SPDX-License-Identifier: GPL-2.0-or-later
//! Model of a network's links and queues. No clock and no I/O: `now` is an argument, so that the same
//! link runs in the simulator's virtual time and in the emulator's real time.
//!
//! A [`Link`] is one direction of a wire with a queue in front of it:
//!
//! ```text
//! offer ─▶ policer ─▶ queue (discipline) ─▶ serialisation at `rate` ─▶ loss ─▶ propagation `delay` ─▶ arrival
//!                                              │                        │          └─▶ jitter, late packets, copies
//!                                              │                        └─▶ outages
//!                                              └─▶ monitor: bytes in bins of time; spacing: gaps and bursts
//! ```
//!
//! [`pacing`] is what a host does before that: when its packets leave.
//!
//! Packets keep their order, except those of different flows under a [discipline](queue) that has a queue for
//! each, and where [impairments](Impairments) make some late. The unit of account is one packet on the wire: callers with super-packets
//! (TSO, GRO) offer each of their segments. Lengths are those of the IP packet, of either version;
//! the link adds what its layer 2 costs.

mod counters;
mod fate;
mod histogram;
mod impairment;
mod link;
mod loss;
mod monitor;
pub mod pacing;
pub mod queue;
mod rate_over_time;
mod service;
mod spacing;

pub use counters::Counters;
pub use fate::Fate;
pub use histogram::{Histogram, HistogramBin};
pub use impairment::{
    Distribution, Impairments, ImpairmentsError, Jitter, Outage, Policer, Reorder,
};
pub use link::{Link, LinkChange, LinkConfig, Packet};
pub use loss::{Loss, LossModel};
pub use monitor::Monitor;
pub use queue::{Discipline, QueueLimit, QueueState};
pub use rate_over_time::{DeliveryOpportunities, RateOverTime, RateOverTimeError, RateSteps};
pub use spacing::{GapStatistics, MeanAndDeviation, SpacingMeter};
