// SPDX-License-Identifier: GPL-2.0-or-later
//! Log-linear histograms as `src/bpf/monitor.h` counts them: 32 slots for each power of two, so a slot
//! is at most 1/32 of its values wide; below 32 there is one for each value.

/// As `SLOT_BITS` there.
const BITS: u32 = 5;

/// How often values came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

/// Values that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The smallest.
    pub from: u64,
    /// The next above the largest; of the last slot, which takes all that is larger, no bound.
    pub to: u64,
    /// How often they came.
    pub count: u64,
}

impl Histogram {
    pub(super) fn new(counts: Vec<u64>) -> Self {
        Self { counts }
    }

    /// Counts one more.
    pub(super) fn add(&mut self, value: u64) {
        let last = self.counts.len() - 1;
        self.counts[slot_of(value).min(last)] += 1;
    }

    /// What came since an earlier look at the same.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let earlier = earlier.counts.iter().chain(std::iter::repeat(&0));
        Self { counts: self.counts.iter().zip(earlier).map(|(now, then)| now - then).collect() }
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The slots that anything fell into, smallest values first.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let taken = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        taken.map(|(n, &count)| Slot { from: value_of(n), to: value_of(n + 1), count })
    }

    /// The slot of the smallest value that at least the `share` (0 to 1) of all do not exceed; `None`
    /// without values.
    pub fn quantile(&self, share: f64) -> Option<Slot> {
        let wanted = (share * self.total() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.slots().find(|slot| {
            seen += slot.count;
            seen >= wanted
        })
    }
}

impl Slot {
    /// The middle of its values.
    pub fn middle(&self) -> f64 {
        // Both are whole: a slot of one value has that value.
        f64::midpoint(self.from as f64, (self.to - 1) as f64)
    }
}

fn slot_of(value: u64) -> usize {
    if value >> BITS == 0 {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    (u64::from(shift << BITS) + (value >> shift)) as usize
}

/// The smallest value of a slot.
fn value_of(slot: usize) -> u64 {
    let group = (slot >> BITS) as u32;
    if group == 0 {
        return slot as u64;
    }
    let shift = group - 1;
    (slot as u64 - u64::from(shift << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_slot_that_says_so() {
        let near_powers = (0..40).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in (0..5000).chain(near_powers).chain((0..64).map(|n| n * 16_807 * 48_271)) {
            let slot = slot_of(value);
            assert!(value_of(slot) <= value && value < value_of(slot + 1), "{value} in {slot}");
            let width = value_of(slot + 1) - value_of(slot);
            assert!(width == 1 || width <= value / 32, "{value}: {width} wide");
        }
    }

    #[test]
    fn quantiles_are_the_nearest_ranks() {
        let mut histogram = Histogram::new(vec![0; 1152]);
        assert_eq!(histogram.quantile(0.5), None);
        for value in 1..=20 {
            histogram.add(value);
        }
        for (share, value) in [(0.0, 1), (0.05, 1), (0.06, 2), (0.5, 10), (0.99, 20), (1.0, 20)] {
            let slot = histogram.quantile(share).unwrap();
            assert_eq!((slot.from, slot.middle()), (value, value as f64), "{share}");
        }
        let earlier = histogram.clone();
        histogram.add(u64::MAX >> 1);
        assert_eq!(histogram.total(), 21, "what is too large counts in the last slot");
        assert_eq!(histogram.since(&earlier).total(), 1);
        assert_eq!(histogram.since(&Histogram::default()), histogram);
    }
}
