// SPDX-License-Identifier: GPL-2.0-or-later
//! A set of segment numbers as disjoint ranges: what a receiver has beyond a hole, what a sender knows
//! to be there.
//!
//! Every operation takes a time that grows with the logarithm of the number of holes, not with the
//! window.

use std::{collections::BTreeMap, ops::Range};

/// Disjoint, not adjoining ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    /// From the start to the end of each.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The range that `number` is in.
    pub(crate) fn around(&self, number: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ends.range(..=number).next_back()?;
        (number < end).then_some(start..end)
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ends.first_key_value().map(|(&start, &end)| start..end)
    }

    /// One past the highest number; zero of an empty set.
    pub(crate) fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// Adds a range, and calls `new` with each part of it that was not there.
    pub(crate) fn insert(&mut self, range: Range<u64>, mut new: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        let mut at = range.start;
        // The range before, where it reaches up to this one.
        if let Some((&before, &before_end)) = self.ends.range(..=start).next_back()
            && before_end >= start
        {
            if before_end >= end {
                return;
            }
            (start, at) = (before, before_end);
            self.ends.remove(&before);
        }
        while let Some((&next, &next_end)) = self.ends.range(start..=end).next() {
            if at < next {
                new(at..next);
            }
            at = next_end;
            end = end.max(next_end);
            self.ends.remove(&next);
        }
        if at < end {
            new(at..end);
        }
        self.ends.insert(start, end);
    }

    /// Removes everything below `number`.
    pub(crate) fn cut_below(&mut self, number: u64) {
        while let Some((&start, &end)) = self.ends.first_key_value() {
            if start >= number {
                return;
            }
            self.ends.pop_first();
            if end > number {
                self.ends.insert(number, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;
    use rand_pcg::Pcg64;
    use std::collections::BTreeSet;

    #[test]
    fn is_the_set_of_its_numbers() {
        let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        eprintln!("LONGHAUL_SEED={seed}");
        let mut random = Pcg64::new(seed, 1);
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        for _ in 0..5000 {
            let start = random.next_u64() % 300;
            let range = start..start + random.next_u64() % 12;
            if random.next_u64().is_multiple_of(20) {
                ranges.cut_below(start / 2);
                set.retain(|n| *n >= start / 2);
            }
            let mut new = Vec::new();
            ranges.insert(range.clone(), |part| new.extend(part));
            let expected: Vec<u64> = range.filter(|n| set.insert(*n)).collect();
            assert_eq!(new, expected);
            assert_eq!(ranges.end(), set.last().map_or(0, |n| n + 1));
            assert_eq!(ranges.first().map(|r| r.start), set.first().copied());
            for n in 0..320 {
                assert_eq!(ranges.around(n).is_some(), set.contains(&n), "{n}");
            }
            if let Some(around) = ranges.around(start) {
                assert!(around.clone().all(|n| set.contains(&n)));
                assert!(!set.contains(&around.end));
                assert!(around.start == 0 || !set.contains(&(around.start - 1)));
            }
        }
    }
}
