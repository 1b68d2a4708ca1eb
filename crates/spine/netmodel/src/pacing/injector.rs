// SPDX-License-Identifier: GPL-2.0-or-later
//! Gap frames.

use super::ffi::{TargetSum, Wire};
use std::num::NonZeroU64;
use units::{Bytes, Duration, Rate, Timestamp};

/// Sizes of gap frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapFrames {
    /// The rate of the link that they go onto.
    pub line: Rate,
    /// The most gap behind one packet: a slower target is missed.
    pub max_gap: Bytes,
    /// Bytes of the link that the shortest takes: for Ethernet, 64 bytes with the check sequence, 8 of
    /// preamble and 12 of inter-frame gap.
    pub min_frame: Bytes,
    /// Bytes of the link that the longest takes.
    pub max_frame: Bytes,
}

impl GapFrames {
    /// The paper's: 4 KB a frame, 64 KB a gap; on Ethernet.
    pub const fn of(line: Rate) -> Self {
        Self {
            line,
            max_gap: Bytes::new(64 << 10),
            min_frame: Bytes::new(84),
            max_frame: Bytes::new(4 << 10),
        }
    }
}

/// A queue whose packets are followed by gap frames, so that they leave at the sum of their flows'
/// targets.
#[derive(Debug, Clone)]
pub struct GapInjector {
    wire: Wire,
    sum: Box<TargetSum>,
}

impl GapInjector {
    /// Round trips without a packet after which a flow leaves the sum.
    const STAY_ROUND_TRIPS: u64 = 2;
    /// And for so long: a round trip within a machine says nothing about its next packet.
    const STAY_AT_LEAST: Duration = Duration::from_millis(10);

    /// An empty queue. Sizes beyond 4 GB are taken as that.
    pub fn new(frames: GapFrames) -> Self {
        let size = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        let min_frame = size(frames.min_frame).max(1);
        Self {
            wire: Wire {
                line: frames.line.bps() / 8,
                rest: 0,
                owed: 0,
                max_gap: size(frames.max_gap),
                min_frame,
                max_frame: size(frames.max_frame).max(min_frame.saturating_mul(2)),
            },
            sum: TargetSum::new(),
        }
    }

    /// Records that a packet of a flow leaves, with its bytes on the link and the flow's target in bytes a
    /// second (0: not known, so it is not paced). Returns the gap frames that follow it, as bytes of the link.
    pub fn packet(
        &mut self,
        now: Timestamp,
        flow: NonZeroU64,
        target: u64,
        rtt: Duration,
        packet: Bytes,
    ) -> impl Iterator<Item = Bytes> {
        if target > 0 {
            let stay = rtt.saturating_mul(Self::STAY_ROUND_TRIPS).max(Self::STAY_AT_LEAST);
            let sum = self.sum.join(flow.get(), target, now.as_nanos(), stay.as_nanos());
            self.wire.owe(sum, u32::try_from(packet.get()).unwrap_or(u32::MAX));
        }
        std::iter::from_fn(|| match self.wire.frame() {
            0 => None,
            frame => Some(Bytes::new(frame.into())),
        })
    }

    /// Flows that have a part in the sum.
    pub fn flows(&self) -> u32 {
        self.sum.flows
    }
}
