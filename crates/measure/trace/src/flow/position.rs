// SPDX-License-Identifier: GPL-2.0-or-later
//! Positions of 64 bits for sequence numbers of 32.

/// What is further away than this is no part of the stream, unless the next packet agrees with it: half of what 32 bits tell
/// apart, and the largest window there is (RFC 7323).
const FAR: u64 = 1 << 30;

/// Where a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The first byte.
    pub(super) first: u64,
    /// The end of the highest data.
    pub(super) high: u64,
    /// All below is acknowledged.
    pub(super) acknowledged: u64,
    /// Where a packet far away would be continued.
    stray: Option<u64>,
}

impl Sequence {
    /// A stream whose first byte has this number.
    pub(super) fn at(seq: u32) -> Self {
        // Room below, for data before the first that was captured.
        let first = 1 << 32 | u64::from(seq);
        Self { first, high: first, acknowledged: first, stray: None }
    }

    /// The position of a number: the one nearest to the high-water mark.
    pub(super) fn position(&self, seq: u32) -> u64 {
        let difference = seq.wrapping_sub(self.high as u32).cast_signed();
        self.high.wrapping_add_signed(difference.into())
    }

    /// The range of a packet's data, or of nothing where it is acknowledged. `None` if it is far away, and the packet
    /// before was not.
    pub(super) fn accept(&mut self, seq: u32, length: u32) -> Option<(u64, u64)> {
        let begin = self.position(seq);
        let end = begin + u64::from(length);
        let is_near = begin.abs_diff(self.high) <= FAR && begin + FAR > self.acknowledged;
        if is_near || self.stray == Some(begin) {
            self.stray = None;
            return Some((begin, end));
        }
        self.stray = Some(end);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_continue_where_numbers_wrap() {
        let mut at = Sequence::at(u32::MAX - 9);
        assert_eq!(at.accept(u32::MAX - 9, 20), Some((at.first, at.first + 20)));
        at.high += 20;
        assert_eq!(at.accept(10, 5), Some((at.first + 20, at.first + 25)));
        assert_eq!(at.accept(u32::MAX - 19, 5), Some((at.first - 10, at.first - 5)));
    }

    #[test]
    fn packet_far_away_is_taken_if_the_next_one_continues_it() {
        let mut at = Sequence::at(1000);
        let far = 1000 + (1 << 30) + 5;
        assert_eq!(at.accept(far, 100), None);
        assert!(at.accept(1000, 100).is_some());
        assert_eq!(at.accept(far, 100), None);
        assert!(at.accept(far + 100, 100).is_some());
    }
}
