// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes in bins of time, as the hardware monitor of Takano et al. counts them every 500 µs.

use units::{Duration, Timestamp};

/// Sums bytes in bins of equal width, starting at time zero.
///
/// Memory is bounded: after [`Monitor::MAX_BINS`] bins, neighbours are added together and the width
/// doubles (8.7 minutes at 500 µs).
///
/// A simulation has many, most of them short, so they grow as they are used. A thread that must not
/// be held up, in a network that stays up for days, [reserves](Monitor::reserve) all bins at the start
/// (8 MB of address space, which the kernel fills as it is touched): growth then copies nothing, and
/// folding works in place, in about a millisecond, at 9 minutes, 17, 35, and so on.
#[derive(Debug, Clone)]
pub struct Monitor {
    width: Duration,
    bins: Vec<u64>,
    /// The bin of the last bytes, and where it begins and ends: most bytes fall where those before
    /// them fell.
    last: (usize, u64, u64),
}

impl Monitor {
    /// The largest number of bins kept.
    pub const MAX_BINS: usize = 1 << 20;

    /// An empty monitor; a width of zero is taken as one nanosecond.
    pub fn new(width: Duration) -> Self {
        let width = width.max(Duration::from_nanos(1));
        Self { width, bins: Vec::new(), last: (0, 0, 0) }
    }

    /// Makes room for all bins that there may be, so that counting never waits for memory.
    pub fn reserve(&mut self) {
        self.bins.reserve_exact(Self::MAX_BINS - self.bins.len());
    }

    /// Counts bytes at a time.
    #[inline]
    pub fn add(&mut self, at: Timestamp, bytes: u64) {
        let (_, begins, ends) = self.last;
        if at.as_nanos() < begins || at.as_nanos() >= ends {
            self.find(at.as_nanos());
        }
        self.bins[self.last.0] += bytes;
    }

    /// Finds the bin of a time, and makes room for it.
    fn find(&mut self, at: u64) {
        while at / self.width.as_nanos() >= Self::MAX_BINS as u64 {
            self.fold();
        }
        let width = self.width.as_nanos();
        let bin = at / width;
        let begins = bin * width;
        self.last = (bin as usize, begins, begins.saturating_add(width));
        if bin as usize >= self.bins.len() {
            self.bins.resize(bin as usize + 1, 0);
        }
    }

    fn fold(&mut self) {
        let half = self.bins.len().div_ceil(2);
        for n in 0..half {
            // An odd last bin has no neighbour.
            self.bins[n] = self.bins[2 * n] + self.bins.get(2 * n + 1).unwrap_or(&0);
        }
        self.bins.truncate(half);
        self.width = self.width.saturating_mul(2);
    }

    /// The width of a bin.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// The bins so far; the last one with any byte is the last.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_their_bins() {
        let mut monitor = Monitor::new(Duration::from_micros(500));
        for (micros, bytes) in [(0, 1), (499, 2), (500, 4), (1600, 8)] {
            monitor.add(Timestamp::from_nanos(micros * 1000), bytes);
        }
        assert_eq!(monitor.bins(), [3, 4, 0, 8]);
    }

    #[test]
    fn memory_is_bounded_and_no_byte_is_lost() {
        let mut monitor = Monitor::new(Duration::from_nanos(1));
        for second in 0..100u64 {
            monitor.add(Timestamp::from_nanos(second * 1_000_000_000), 1);
        }
        assert!(monitor.bins().len() <= Monitor::MAX_BINS);
        assert_eq!(monitor.bins().iter().sum::<u64>(), 100);
        let last = monitor.bins().len() as u64 - 1;
        assert_eq!(last, 99_000_000_000 / monitor.width().as_nanos());
    }

    #[test]
    fn folding_moves_each_byte_to_its_wider_bin() {
        let times = || (0..5000u64).map(|n| n * n % 3_333_333);
        let mut folded = Monitor::new(Duration::from_nanos(1));
        for at in times() {
            folded.add(Timestamp::from_nanos(at), at);
        }
        assert_eq!(folded.width(), Duration::from_nanos(4), "folded twice");
        let mut wide = Monitor::new(folded.width());
        for at in times() {
            wide.add(Timestamp::from_nanos(at), at);
        }
        assert_eq!(folded.bins(), wide.bins());
    }
}
