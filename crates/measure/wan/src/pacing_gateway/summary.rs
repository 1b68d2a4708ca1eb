// SPDX-License-Identifier: GPL-2.0-or-later
//! Statistics of a gateway, from its beginning to its end.

use serde::Serialize;

/// Statistics of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClassSummary {
    /// Its name; `other` for what is in no class.
    pub name: String,
    /// Its rate; null where it has what the others leave.
    pub rate_bps: Option<u64>,
    /// Packets sent.
    pub packets: u64,
    /// The bytes of the link that they took.
    pub link_bytes: u64,
    /// Packets that there was no room for, or that the device refused.
    pub dropped_packets: u64,
    /// Packets that still waited at the end, and were not sent.
    pub left_packets: u64,
}

/// Statistics of a gateway. Each packet read is in `packets`, `dropped_packets` or `left_packets` of one class,
/// or in `not_carried`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The device that it sent by.
    pub device: String,
    /// Its line rate.
    pub line_bps: u64,
    /// How long it ran.
    pub seconds: f64,
    /// The classes, and `other`.
    pub classes: Vec<ClassSummary>,
    /// Gap frames sent.
    pub gap_frames: u64,
    /// The bytes of the link that they took.
    pub gap_link_bytes: u64,
    /// Packets to groups and link-local addresses, or that are none.
    pub not_carried: u64,
    /// Packets that were lost in the TUN device's queue, before they were read; null where that is not
    /// known.
    pub tun_dropped: Option<u64>,
    /// How often the wire ran dry while something waited: the thread was late. Later packets are not
    /// sent faster for that.
    pub stalls: u64,
    /// And for how long together.
    pub stalled_s: f64,
    /// How often the device's queue was full: it is slower than the configured line rate, or
    /// others send by it.
    pub device_full: u64,
}
