// SPDX-License-Identifier: GPL-2.0-or-later
//! Two plain paths on which an algorithm can be watched: no sockets, no retransmission, no clock, the
//! same result every time.
//!
//! - [`PeriodicLoss`]: one flow, a constant round trip, unlimited bandwidth, one loss in `every`
//!   segments, as the closed forms of [`crate::response`] assume.
//! - [`Bottleneck`]: flows that share one taildrop queue, packet by packet.
//!
//! What was lost is not sent again, since only windows and rates are looked at.

mod bottleneck;
mod periodic;
pub mod reference;
mod sender;

pub use bottleneck::{Bottleneck, Sample};
pub use periodic::{Epoch, PeriodicLoss, average_window};
pub use sender::{Flow, FlowSample};

/// Payload of a segment where only segments are counted: an MTU of 1500, IPv4, TCP time stamps.
const MSS: u32 = 1448;

fn micros(nanos: u64) -> u32 {
    u32::try_from(nanos / 1000).unwrap_or(u32::MAX)
}
