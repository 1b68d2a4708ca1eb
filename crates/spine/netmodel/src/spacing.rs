// SPDX-License-Identifier: GPL-2.0-or-later
//! How packets follow one another on a link: gaps between them and bursts, as the hardware monitor of
//! Takano et al. shows them.
//!
//! A **gap** is the time from a packet's last bit to the next one's first. A **burst** is a run of
//! packets with no gap between them, where a gap of up to an eighth of the packet after it is
//! none: at that distance packets still have eight ninths of the link, and whatever is
//! slower behind it has to queue them.
//!
//! Sums are integers of 128 bits, so that means and deviations are exact over any time; quantiles are
//! those of a [`Histogram`]. Packets are noted and counted many at a time: with many links, one's
//! counts are then fetched into the cache once for all of them.

use crate::Histogram;
use units::{Duration, Timestamp};

/// Gaps and bursts of a link at work: notes packets, in order of time, until they are counted.
#[derive(Debug, Clone)]
pub struct SpacingMeter {
    noted: [(Timestamp, Timestamp); Self::NOTES],
    notes: usize,
    counted: GapStatistics,
}

impl Default for SpacingMeter {
    fn default() -> Self {
        Self::new()
    }
}

impl SpacingMeter {
    const NOTES: usize = 16;

    /// Nothing seen.
    pub fn new() -> Self {
        let noted = [(Timestamp::ZERO, Timestamp::ZERO); Self::NOTES];
        Self { noted, notes: 0, counted: GapStatistics::default() }
    }

    /// Makes room for all that there may be to count.
    pub fn reserve(&mut self) {
        self.counted.gaps.reserve();
        self.counted.bursts.reserve();
    }

    /// Notes a packet whose transmission starts and ends so, after that of the one before.
    #[inline]
    pub fn add(&mut self, starts: Timestamp, ends: Timestamp) {
        self.noted[self.notes % Self::NOTES] = (starts, ends);
        self.notes += 1;
        if self.notes == Self::NOTES {
            self.count();
        }
    }

    /// Everything so far.
    pub fn counted(&mut self) -> &GapStatistics {
        self.count();
        &self.counted
    }

    #[inline(never)]
    fn count(&mut self) {
        self.counted.add(&self.noted[..self.notes]);
        self.notes = 0;
    }
}

/// Counts of the gaps and bursts of a link.
#[derive(Debug, Clone, Default)]
pub struct GapStatistics {
    packets: u64,
    first_starts: Timestamp,
    last_starts: Timestamp,
    last_ends: Timestamp,
    /// The sum of all gaps, in nanoseconds, and of their squares.
    gap_sum: u64,
    gap_squares: u128,
    /// The sum of the squares of the times from start to start.
    departure_squares: u128,
    gaps: Histogram,
    /// The lengths of the bursts that are over, in packets, and of the one that is not.
    bursts: Histogram,
    burst: u64,
}

/// A mean with its standard deviation, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanAndDeviation {
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation, that of all values.
    pub deviation_ns: f64,
}

impl MeanAndDeviation {
    /// Mean and deviation of `count` values with this sum and sum of squares. `None` without values.
    fn new(count: u64, sum: u64, squares: u128) -> Option<Self> {
        let whole = u128::from(sum.checked_div(count)?);
        // Around a whole number near the mean: of large squares that are nearly equal, floats
        // would lose the difference.
        let around = squares + u128::from(count) * whole * whole - 2 * whole * u128::from(sum);
        let rest = (u128::from(sum) - whole * u128::from(count)) as f64 / count as f64;
        let variance = around as f64 / count as f64 - rest * rest;
        Some(Self { mean_ns: whole as f64 + rest, deviation_ns: variance.max(0.0).sqrt() })
    }
}

impl GapStatistics {
    /// So many times as long as a gap must a packet be that follows without one.
    const BURST: u64 = 8;

    /// Counts packets whose transmission starts and ends so.
    fn add(&mut self, packets: &[(Timestamp, Timestamp)]) {
        let packets = match packets {
            [(starts, ends), others @ ..] if self.packets == 0 => {
                (self.first_starts, self.packets, self.burst) = (*starts, 1, 1);
                (self.last_starts, self.last_ends) = (*starts, *ends);
                others
            }
            all => all,
        };
        // What is added to is kept out of memory.
        let (mut last_starts, mut last_ends) = (self.last_starts, self.last_ends);
        let (mut sum, mut gap_squares, mut departure_squares) = (0, 0, 0);
        let mut burst = self.burst;
        for (starts, ends) in packets {
            let gap = starts.since(last_ends).as_nanos();
            let departure = starts.since(last_starts).as_nanos();
            sum += gap;
            gap_squares += u128::from(gap) * u128::from(gap);
            departure_squares += u128::from(departure) * u128::from(departure);
            self.gaps.add(gap);
            if gap > ends.since(*starts).as_nanos() / Self::BURST {
                self.bursts.add(burst);
                burst = 0;
            }
            burst += 1;
            (last_starts, last_ends) = (*starts, *ends);
        }
        self.packets += packets.len() as u64;
        (self.last_starts, self.last_ends, self.burst) = (last_starts, last_ends, burst);
        self.gap_sum += sum;
        self.gap_squares += gap_squares;
        self.departure_squares += departure_squares;
    }

    /// How many packets were seen.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Gaps; `None` before the second packet.
    pub fn gap(&self) -> Option<MeanAndDeviation> {
        MeanAndDeviation::new(self.packets.saturating_sub(1), self.gap_sum, self.gap_squares)
    }

    /// Times from the start of a packet to the start of the next; `None` before the second.
    pub fn departure(&self) -> Option<MeanAndDeviation> {
        let sum = self.last_starts.since(self.first_starts).as_nanos();
        MeanAndDeviation::new(self.packets.saturating_sub(1), sum, self.departure_squares)
    }

    /// The gap that a share of all does not exceed, to within 3.2 %.
    pub fn gap_quantile(&self, share: f64) -> Option<Duration> {
        let slot = self.gaps.quantile(share)?;
        Some(Duration::from_nanos((slot.to - 1).min(self.gaps.largest())))
    }

    /// The mean length of a burst in packets; a packet between two gaps is one of 1.
    pub fn burst_mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.packets as f64 / (self.bursts.count() + 1) as f64)
    }

    /// The longest burst in packets.
    pub fn burst_max(&self) -> Option<u64> {
        (self.packets > 0).then(|| self.bursts.largest().max(self.burst))
    }

    /// Lengths of all bursts that are over, in packets.
    pub fn bursts(&self) -> &Histogram {
        &self.bursts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing(packets: impl IntoIterator<Item = (u64, u64)>) -> GapStatistics {
        let mut spacing = SpacingMeter::new();
        for (starts, takes) in packets {
            spacing.add(Timestamp::from_nanos(starts), Timestamp::from_nanos(starts + takes));
        }
        spacing.counted().clone()
    }

    #[test]
    fn even_spacing_has_zero_deviation_after_a_day() {
        let spacing = spacing((0..1000).map(|n| (n * 86_400_000_000 + 7, 12_000)));
        let (gap, departure) = (spacing.gap().unwrap(), spacing.departure().unwrap());
        assert_eq!(gap, MeanAndDeviation { mean_ns: 86_399_988_000.0, deviation_ns: 0.0 });
        assert_eq!(departure, MeanAndDeviation { mean_ns: 86_400_000_000.0, deviation_ns: 0.0 });
        assert_eq!(spacing.gap_quantile(0.01), Some(Duration::from_nanos(86_399_988_000)));
        assert_eq!((spacing.burst_mean(), spacing.burst_max()), (Some(1.0), Some(1)));
    }

    #[test]
    fn means_and_deviations_are_those_of_the_gaps() {
        let (mut at, mut packets, mut gaps) = (0, Vec::new(), Vec::new());
        for n in 0..5000u64 {
            let (gap, takes) = (n * n % 9973, 500 + n % 1000);
            at += gap;
            packets.push((at, takes));
            gaps.push(gap as f64);
            at += takes;
        }
        let mean = gaps[1..].iter().sum::<f64>() / 4999.0;
        let squares = gaps[1..].iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let spread = spacing(packets).gap().unwrap();
        assert!((spread.mean_ns - mean).abs() < 1e-6, "{spread:?}, mean {mean}");
        assert!((spread.deviation_ns - (squares / 4999.0).sqrt()).abs() < 1e-6, "{spread:?}");
    }

    #[test]
    fn gap_of_an_eighth_packet_stays_in_the_burst() {
        // Three packets of 800 ns, gaps of none and 100 ns; 101 ns; one; a pause; two.
        let packets = [(0, 800), (800, 800), (1700, 800), (2601, 800), (9000, 800), (9800, 800)];
        let spacing = spacing(packets);
        assert_eq!((spacing.burst_mean(), spacing.burst_max()), (Some(2.0), Some(3)));
        assert_eq!(spacing.bursts().count(), 2, "the last goes on");
        assert_eq!(spacing.gap_quantile(0.4), Some(Duration::ZERO));
    }

    #[test]
    fn single_packet_has_no_gap() {
        let one = spacing([(5, 5)]);
        assert_eq!((one.packets(), one.gap(), one.departure()), (1, None, None));
        assert_eq!((one.gap_quantile(0.5), one.burst_mean()), (None, Some(1.0)));
        assert_eq!(spacing([]).burst_max(), None);
        // On a link without a rate packets take no time; those of one moment are a burst.
        let at_once = spacing([(5, 0), (5, 0), (6, 0)]);
        assert_eq!((at_once.burst_mean(), at_once.burst_max()), (Some(1.5), Some(2)));
    }
}
