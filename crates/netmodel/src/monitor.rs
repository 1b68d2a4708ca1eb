// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes in bins of time, as the hardware monitor of Takano et al. counts them every 500 µs.

use units::{Duration, Timestamp};

/// Sums bytes in bins of equal width, from time zero on.
///
/// Memory is bounded: after [`Monitor::MAX_BINS`] bins, neighbours are added together and the width
/// doubles (35 minutes at 500 µs).
#[derive(Debug, Clone)]
pub struct Monitor {
    width: Duration,
    bins: Vec<u64>,
}

impl Monitor {
    /// The largest number of bins kept.
    pub const MAX_BINS: usize = 1 << 22;

    /// An empty monitor; a width of zero is taken as one nanosecond.
    pub fn new(width: Duration) -> Self {
        Self { width: width.max(Duration::from_nanos(1)), bins: Vec::new() }
    }

    /// Counts bytes at a time.
    pub fn add(&mut self, at: Timestamp, bytes: u64) {
        let mut bin = at.as_nanos() / self.width.as_nanos();
        while bin >= Self::MAX_BINS as u64 {
            self.fold();
            bin /= 2;
        }
        let bin = bin as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += bytes;
    }

    fn fold(&mut self) {
        self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
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
}
