// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted of one direction.

use crate::classify::Cause;

/// Counters of one direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowCounts {
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) marked_packets: u64,
    pub(crate) copies: u64,
    pub(crate) strays: u64,
    /// By cause, in segments.
    pub(crate) fast: u64,
    pub(crate) timeout: u64,
    /// How often the timer ran out, whatever was sent again then.
    pub(crate) timeouts: u64,
    pub(crate) tail_loss_probe: u64,
    pub(crate) unneeded: u64,
    pub(crate) unknown: u64,
    pub(crate) control: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) spurious: u64,
    /// Duplicate selective acknowledgements, and those of no retransmission that is known.
    pub(crate) duplicate_sacks: u64,
    pub(crate) unmatched_duplicate_sacks: u64,
    pub(crate) reordered_packets: u64,
    pub(crate) reordering_max_ns: u64,
    pub(crate) gaps: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) zero_windows: u64,
    pub(crate) window_full: u64,
    pub(crate) keep_alives: u64,
    pub(crate) zero_window_probes: u64,
    pub(crate) outstanding_max_bytes: u64,
    pub(crate) idle_ns: u64,
    pub(crate) window_limited_ns: u64,
}

impl FlowCounts {
    /// Counts a packet that was sent again.
    pub(crate) fn resent(&mut self, cause: Cause, segments: u64, bytes: u64) {
        *match cause {
            Cause::Fast => &mut self.fast,
            Cause::Timeout => &mut self.timeout,
            Cause::TailLossProbe => &mut self.tail_loss_probe,
            Cause::Unneeded => &mut self.unneeded,
            Cause::Unknown => &mut self.unknown,
        } += segments;
        self.retransmitted_packets += 1;
        self.retransmitted_bytes += bytes;
    }

    /// Segments of data that were sent again.
    pub(crate) fn retransmitted_segments(&self) -> u64 {
        self.fast + self.timeout + self.tail_loss_probe + self.unneeded + self.unknown
    }
}
