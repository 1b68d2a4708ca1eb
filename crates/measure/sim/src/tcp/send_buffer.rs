// SPDX-License-Identifier: GPL-2.0-or-later
//! The send buffer and its autotuning.

use scenario::Tcp;
use units::Bytes;

/// What the send buffer holds, in segments of payload.
///
/// Linux lets it grow to twice the memory that the window takes, which is three times its payload
/// (`tcp_sndbuf_expand`), and large GSO packets use little more of it than their
/// payload. So it holds six windows. It grows when the window has room for more than it holds, and never
/// falls.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendBuffer {
    pub(super) segments: u64,
    most: u64,
    /// The same in bytes.
    limit: u64,
    memory: u64,
    mss: u64,
}

impl SendBuffer {
    /// A buffer for segments of `mss` bytes of payload that grows to `most` bytes.
    pub(super) fn new(tcp: &Tcp, mss: u32, most: Bytes) -> Self {
        // Headers, the buffer's descriptors, rounding to a power of two, as Linux 6.x counts a
        // segment: 4352 bytes at an MTU of 1500.
        let memory = u64::from((mss + 640).next_power_of_two() + 256);
        let mss = u64::from(mss);
        let limit = most.get();
        let most = (limit / mss).max(2);
        let mut buffer = Self { segments: most, most, limit, memory, mss };
        if tcp.autotuning {
            buffer.segments = 0;
            buffer.expand(tcp.initial_window);
        }
        buffer
    }

    /// Whether it has come to its maximum.
    pub(super) fn is_largest(&self) -> bool {
        self.segments >= self.most
    }

    /// Bytes that it holds at its maximum, including overhead beyond the payload.
    pub(super) fn most_bytes(&self) -> u64 {
        self.limit
    }

    /// The window has room for more than the buffer holds.
    pub(super) fn expand(&mut self, cwnd: u32) {
        let segments = 2 * u64::from(cwnd) * self.memory / self.mss;
        self.segments = self.segments.max(segments.min(self.most));
    }
}
