// SPDX-License-Identifier: GPL-2.0-or-later
//! Fate of a packet on a link.

use units::Timestamp;

/// The fate of an offered packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives {
        /// When its first bit goes onto the wire.
        starts: Timestamp,
        /// When its last bit reaches the other end.
        at: Timestamp,
        /// Whether it is marked (CE): it met a queue that marks, and its sender can be told.
        marked: bool,
    },
    /// It arrives, over a link whose [impairments](crate::Impairments) may have made it late, so that others overtake
    /// it.
    ArrivesImpaired {
        /// When its first bit goes onto the wire.
        starts: Timestamp,
        /// When it arrives: at or after the time at which its last bit reaches the other end.
        at: Timestamp,
        /// Whether it is marked (CE).
        marked: bool,
        /// Whether nothing has made it late.
        on_time: bool,
        /// Whether a copy arrives right behind it.
        twice: bool,
    },
    /// It waits, and the discipline decides later: [`Link::decided`](crate::Link::decided) tells of it by its
    /// ticket.
    Queued {
        /// No other packet that waits has it.
        ticket: u32,
    },
    /// The queue was full.
    QueueFull,
    /// The discipline dropped it, at a queue that was not full.
    EarlyDrop,
    /// The policer had no tokens for it.
    Policed,
    /// Lost on the wire.
    Lost,
    /// Longer than the MTU.
    TooLong,
}
