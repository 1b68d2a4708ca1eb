// SPDX-License-Identifier: GPL-2.0-or-later
//! How much waits in a queue, and how much may.

use units::Bytes;

/// Where a queue ends. Counted are the packets that wait; the one being serialised has left the queue, as in
/// Linux's pfifo and ns-2's `DropTail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Nowhere.
    Unlimited,
    /// At this number of packets.
    Packets(u64),
    /// At this number of bytes on the link, [`crate::LinkConfig::overhead`] included.
    Bytes(Bytes),
}

impl QueueLimit {
    /// Whether a queue of that length may wait.
    #[inline]
    pub(crate) fn holds(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Packets(limit) => packets <= limit,
            Self::Bytes(limit) => bytes <= limit.get(),
        }
    }
}

/// Length of a queue at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets and gap frames that wait.
    pub packets: u64,
    /// Their bytes on the link.
    pub bytes: u64,
    /// Of those, gap frames.
    pub gaps: u64,
    /// And their bytes.
    pub gap_bytes: u64,
}
