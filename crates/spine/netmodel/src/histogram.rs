// SPDX-License-Identifier: GPL-2.0-or-later
//! How often values occurred, in bounded memory: exactly below 32, from there on in bins of a 32nd of
//! an octave, so to within 3.2 %. That reaches over all of 64 bits in at most 1920 bins (15 KB).

/// A log-linear histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// As many as the largest value so far needs.
    bins: Vec<u64>,
    largest: u64,
}

/// Values that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBin {
    /// The smallest.
    pub from: u64,
    /// The next above the largest.
    pub to: u64,
    /// How often they came.
    pub count: u64,
}

impl HistogramBin {
    /// The middle of its values.
    pub fn middle(&self) -> f64 {
        // Both are whole: a slot of one value has that value.
        f64::midpoint(self.from as f64, (self.to - 1) as f64)
    }
}

impl Histogram {
    /// Bins in an octave, as a power of two.
    const FINENESS: u32 = 5;
    const PER_OCTAVE: usize = 1 << Self::FINENESS;
    const MAX_BINS: usize = (u64::BITS - Self::FINENESS + 1) as usize * Self::PER_OCTAVE;

    /// Nothing counted.
    pub fn new() -> Self {
        Self::default()
    }

    /// A histogram of counts made elsewhere with the same bins, the first of them for 0.
    pub fn of_counts(bins: Vec<u64>) -> Self {
        let last = bins.iter().rposition(|count| *count > 0);
        Self { largest: last.map_or(0, Self::end), bins }
    }

    /// Makes room for every value, so that counting never waits for memory.
    pub fn reserve(&mut self) {
        self.bins.resize(Self::MAX_BINS, 0);
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bin = Self::bin(value);
        if bin >= self.bins.len() {
            self.grow(bin);
        }
        self.bins[bin] += 1;
        self.largest = self.largest.max(value);
    }

    #[cold]
    fn grow(&mut self, bin: usize) {
        self.bins.resize(bin + 1, 0);
    }

    #[inline]
    fn bin(value: u64) -> usize {
        // How far below the leading bit a bin's width begins: values of the lowest two octaves, taken
        // for the second of them, are their own bins.
        let leading = (value | Self::PER_OCTAVE as u64).leading_zeros();
        let shift = u64::BITS - 1 - Self::FINENESS - leading;
        (shift as usize) * Self::PER_OCTAVE + (value >> shift) as usize
    }

    /// The largest value of a bin.
    fn end(bin: usize) -> u64 {
        let octave = (bin / Self::PER_OCTAVE).saturating_sub(1);
        let leading = (bin - octave * Self::PER_OCTAVE) as u64;
        (leading << octave) + ((1 << octave) - 1)
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The largest value, or its upper bound if the counts were made elsewhere. 0 if there is none.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The values since an earlier snapshot of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let earlier = earlier.bins.iter().chain(std::iter::repeat(&0));
        let bins = self.bins.iter().zip(earlier).map(|(now, then)| now - then).collect();
        Self { largest: self.largest, bins }
    }

    /// The bins that anything fell into, smallest values first.
    pub fn bins(&self) -> impl Iterator<Item = HistogramBin> {
        let taken = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        taken.map(|(n, &count)| {
            let from = n.checked_sub(1).map_or(0, |before| Self::end(before) + 1);
            HistogramBin { from, to: Self::end(n).saturating_add(1), count }
        })
    }

    /// The slot of the smallest value that a share of all does not exceed; `None` if there is none.
    pub fn quantile(&self, share: f64) -> Option<HistogramBin> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.bins().find(|slot| {
            seen += slot.count;
            seen >= wanted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bin_around_it() {
        let mut first = 0u64;
        for bin in 0..Histogram::MAX_BINS {
            let end = Histogram::end(bin);
            assert_eq!(
                (Histogram::bin(first), Histogram::bin(end)),
                (bin, bin),
                "{first} to {end}"
            );
            assert!(end - first <= first / 32, "{first} to {end}");
            if bin + 1 == Histogram::MAX_BINS {
                assert_eq!(end, u64::MAX);
            } else {
                first = end + 1;
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let values: Vec<u64> = (0..10_000u64).map(|n| n * n * n % 1_000_003).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        for value in &values {
            histogram.add(*value);
        }
        assert_eq!((histogram.count(), histogram.largest()), (10_000, sorted[9999]));
        for (share, n) in [(0.0, 0), (0.01, 99), (0.5, 4999), (0.99, 9899), (1.0, 9999)] {
            let (slot, exact) = (histogram.quantile(share).unwrap(), sorted[n]);
            assert!(slot.from <= exact && exact < slot.to, "{share}: {slot:?}, exact {exact}");
            assert!(slot.to - 1 - slot.from <= exact / 32, "{slot:?}");
        }
        let mut reserved = Histogram::new();
        reserved.reserve();
        for value in &values {
            reserved.add(*value);
        }
        assert_eq!(reserved.quantile(0.5), histogram.quantile(0.5));
    }

    #[test]
    fn imported_counts_are_kept_and_new_ones_reported() {
        let mut histogram = Histogram::new();
        (1..=20).for_each(|value| histogram.add(value));
        let earlier = Histogram::of_counts(histogram.bins.clone());
        assert_eq!(earlier.quantile(0.5).map(|slot| slot.middle()), Some(10.0));
        assert_eq!((earlier.count(), earlier.largest()), (20, 20));
        histogram.add(5);
        histogram.add(1 << 40);
        let since = histogram.since(&earlier);
        let slots: Vec<_> = since.bins().map(|slot| (slot.from, slot.count)).collect();
        assert_eq!(slots, [(5, 1), (1 << 40, 1)]);
        assert_eq!(histogram.since(&Histogram::new()).count(), 22);
    }
}
