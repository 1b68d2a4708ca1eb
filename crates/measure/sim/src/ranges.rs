// SPDX-License-Identifier: GPL-2.0-or-later
//! A set of segment numbers as disjoint ranges: what a receiver has beyond a hole, what a sender knows
//! to be there.
//!
//! The ranges lie in order in a queue. Segments arrive above all the others, and holes are filled from
//! the lowest upwards: nearly every change is near one of the ends, where a queue takes it without moving
//! the rest, and searches start there. Elsewhere, a search takes the logarithm of the
//! number of holes, and a change moves the ranges between it and the nearer end.

use std::{collections::VecDeque, ops::Range};

/// Disjoint, not adjoining ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    /// In order of their numbers.
    ranges: VecDeque<Range<u64>>,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The range that `number` is in.
    pub(crate) fn range_with(&self, number: u64) -> Option<Range<u64>> {
        let range = self.ranges.get(self.lowest(|range| range.end > number))?;
        (range.start <= number).then(|| range.clone())
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// One past the highest number; zero of an empty set.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.back().map_or(0, |range| range.end)
    }

    /// The place of the lowest range that `reaches`, as all those above it do; past the last where none
    /// does.
    fn lowest(&self, reaches: impl Fn(&Range<u64>) -> bool) -> usize {
        let count = self.ranges.len();
        let does = |place: usize| reaches(&self.ranges[place]);
        if count == 0 || does(0) {
            0
        } else if !does(count - 1) {
            count
        } else if !does(count - 2) {
            count - 1
        } else {
            self.ranges.partition_point(|range| !reaches(range))
        }
    }

    /// Adds a range, and calls `new` with each part of it that was not there.
    pub(crate) fn insert(&mut self, range: Range<u64>, mut new: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        let Range { start, end } = range;
        // Those that it touches become one with it.
        let first = self.lowest(|range| range.end >= start);
        let (mut past, mut at) = (first, start);
        while let Some(touched) = self.ranges.get(past).filter(|touched| touched.start <= end) {
            if at < touched.start {
                new(at..touched.start);
            }
            at = touched.end;
            past += 1;
        }
        if at < end {
            new(at..end);
        }
        if past == first {
            self.ranges.insert(first, start..end);
            return;
        }
        let joined = &mut self.ranges[first];
        (joined.start, joined.end) = (joined.start.min(start), at.max(end));
        if past > first + 1 {
            self.ranges.drain(first + 1..past);
        }
    }

    /// Removes everything below `number`.
    pub(crate) fn cut_below(&mut self, number: u64) {
        while let Some(first) = self.ranges.front_mut().filter(|first| first.start < number) {
            if first.end > number {
                first.start = number;
                return;
            }
            self.ranges.pop_front();
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
        let mut random = Pcg64::new(crate::testing::seed(), 1);
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
                assert_eq!(ranges.range_with(n).is_some(), set.contains(&n), "{n}");
            }
            if let Some(range_with) = ranges.range_with(start) {
                assert!(range_with.clone().all(|n| set.contains(&n)));
                assert!(!set.contains(&range_with.end));
                assert!(range_with.start == 0 || !set.contains(&(range_with.start - 1)));
            }
        }
    }
}
