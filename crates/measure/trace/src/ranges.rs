// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets of sequence numbers as sorted ranges that neither touch nor overlap.

use std::ops::Range;

/// A set with more ranges than this joins its lowest two, and so forgets what lies between them.
const MAX_RANGES: usize = 1 << 14;

/// A set of positions in a stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Adds a range. Returns how many of its positions are new.
    pub(crate) fn add(&mut self, mut new: Range<u64>) -> u64 {
        if new.is_empty() {
            return 0;
        }
        // What arrives in order extends the last range.
        if let Some(last) = self.0.last_mut().filter(|last| last.end == new.start) {
            last.end = new.end;
            return new.end - new.start;
        }
        let from = self.0.partition_point(|range| range.end < new.start);
        let to = self.0.partition_point(|range| range.start <= new.end);
        let touched = &self.0[from..to];
        let known: u64 = touched.iter().map(|range| overlap(range, &new)).sum();
        let fresh = new.end - new.start - known;
        if let (Some(first), Some(last)) = (touched.first(), touched.last()) {
            new = new.start.min(first.start)..new.end.max(last.end);
        }
        self.0.splice(from..to, [new]);
        if self.0.len() > MAX_RANGES {
            let second = self.0.remove(1);
            self.0[0].end = second.end;
        }
        fresh
    }

    /// How many positions of a range are in the set.
    pub(crate) fn count_in(&self, range: &Range<u64>) -> u64 {
        let from = self.0.partition_point(|known| known.end <= range.start);
        let reached = self.0[from..].iter().take_while(|known| known.start < range.end);
        reached.map(|known| overlap(known, range)).sum()
    }

    /// Removes all positions below one.
    pub(crate) fn remove_below(&mut self, position: u64) {
        let gone = self.0.partition_point(|range| range.end <= position);
        if gone > 0 {
            self.0.drain(..gone);
        }
        if let Some(first) = self.0.first_mut() {
            first.start = first.start.max(position);
        }
    }

    /// The end of the highest range.
    pub(crate) fn end(&self) -> Option<u64> {
        self.0.last().map(|range| range.end)
    }

    /// Bytes of memory behind it.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Range<u64>>()
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_agree_with_a_set_of_single_numbers() {
        let seed = testkit::fuzz::seed();
        let mut random = Pcg64::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        for _ in 0..200 {
            let (mut set, mut plain) = (RangeSet::default(), BTreeSet::new());
            for _ in 0..60 {
                let start = below(100);
                let range = start..start + below(12);
                if below(8) == 0 {
                    set.remove_below(start);
                    plain.retain(|position| *position >= start);
                    continue;
                }
                let known = range.clone().filter(|position| plain.contains(position)).count();
                assert_eq!(set.count_in(&range), known as u64, "{range:?} in {set:?}");
                let fresh = range.clone().filter(|position| plain.insert(*position)).count();
                assert_eq!(set.add(range.clone()), fresh as u64, "{range:?}");
                let parts = set.0.windows(2).all(|pair| pair[0].end < pair[1].start);
                assert!(parts && set.0.iter().all(|range| !range.is_empty()), "{set:?}");
                assert_eq!(set.end(), plain.last().map(|last| last + 1));
            }
        }
    }

    #[test]
    fn number_of_ranges_is_bounded() {
        let mut set = RangeSet::default();
        for n in 0..2 * MAX_RANGES as u64 {
            set.add(10 * n..10 * n + 1);
        }
        assert_eq!(set.0.len(), MAX_RANGES);
        assert_eq!(set.count_in(&(0..10 * MAX_RANGES as u64)), 10 * MAX_RANGES as u64);
    }
}
