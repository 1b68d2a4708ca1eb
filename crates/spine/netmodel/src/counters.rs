// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a link.

use units::Duration;

/// Counts since the start. `offered` is the sum of `delivered`, `queue_drops`, `policed`, `losses`, `too_long` and what
/// is still to be decided ([`Link::undecided`](crate::Link::undecided)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered: u64,
    /// Packets that arrive.
    pub delivered: u64,
    /// Packets dropped by the queue: at its limit, or by the discipline before.
    pub queue_drops: u64,
    /// Of those, packets that the discipline dropped.
    pub early_drops: u64,
    /// Packets that the policer dropped, before the queue.
    pub policed: u64,
    /// Packets lost on the wire.
    pub losses: u64,
    /// Of those, packets lost in an outage.
    pub outage_losses: u64,
    /// Packets that came late by chance, so that others overtook them. They are delivered, too.
    pub late: u64,
    /// Copies that arrived beside what was delivered.
    pub copies: u64,
    /// Packets longer than the MTU.
    pub too_long: u64,
    /// Packets marked by the queue, lost ones included. They are in one of the counts above, too.
    pub marks: u64,
    /// Bytes on the link (with overhead) of packets that were serialised, lost ones included.
    pub carried_bytes: u64,
    /// Bytes on the link of packets that arrive.
    pub delivered_bytes: u64,
    /// The largest number of packets that waited at once.
    pub queue_max_packets: u64,
    /// The largest number of bytes that waited at once.
    pub queue_max_bytes: u64,
    /// The sum of all times in the queue, for the mean over `offered` less drops.
    pub queueing: Duration,
    /// Gap frames that were serialised. They are in none of the counts above but the queue's largest.
    pub gaps: u64,
    /// Their bytes on the link.
    pub gap_bytes: u64,
    /// Gap frames dropped at the full queue.
    pub gap_drops: u64,
}
