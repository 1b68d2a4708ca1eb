// SPDX-License-Identifier: GPL-2.0-or-later
//! Which bytes of a file are held.

use serde::{Deserialize, Serialize};

/// Disjoint ranges of bytes, sorted, each from its first byte to the one after its last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct RangeSet(Vec<(u64, u64)>);

/// Bytes that are missing; without an end where the file's length is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub start: u64,
    pub end: Option<u64>,
}

impl RangeSet {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range, which may touch or overlap others.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        // The common case: bytes arrive in order.
        if let Some(range) = self.0.iter_mut().find(|range| range.1 == start) {
            range.1 = end;
        } else {
            self.0.push((start, end));
        }
        self.0.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for range in self.0.drain(..) {
            match merged.last_mut() {
                Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
                _ => merged.push(range),
            }
        }
        self.0 = merged;
    }

    /// Removes everything at and after `end`.
    pub(crate) fn truncate(&mut self, end: u64) {
        self.0.retain(|range| range.0 < end);
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.min(end);
        }
    }

    /// How many bytes there are.
    pub(crate) fn held(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// The byte after the last.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.1)
    }

    /// The bytes that are missing first; nothing where all are there.
    pub(crate) fn first_gap(&self, total: Option<u64>) -> Option<Gap> {
        let (start, next) = match self.0.first() {
            Some((0, end)) => (*end, self.0.get(1).map(|range| range.0)),
            other => (0, other.map(|range| range.0)),
        };
        if next.is_none() && total.is_some_and(|total| start >= total) {
            return None;
        }
        Some(Gap { start, end: next.or(total) })
    }

    /// How many bytes are held right before this place.
    pub(crate) fn held_before(&self, place: u64) -> u64 {
        let range = self.0.iter().find(|(start, end)| *start < place && place <= *end);
        range.map_or(0, |range| place - range.0)
    }
}

impl TryFrom<Vec<(u64, u64)>> for RangeSet {
    type Error = &'static str;
    fn try_from(list: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        let mut ranges = Self::default();
        for (start, end) in list {
            if start >= end {
                return Err("a range is empty");
            }
            ranges.insert(start, end);
        }
        Ok(ranges)
    }
}

impl From<RangeSet> for Vec<(u64, u64)> {
    fn from(ranges: RangeSet) -> Self {
        ranges.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u64, u64)]) -> RangeSet {
        ranges.to_vec().try_into().unwrap()
    }

    #[test]
    fn ranges_merge_and_leave_gaps() {
        assert_eq!(set(&[(5, 9), (0, 3), (3, 4)]).0, [(0, 4), (5, 9)]);
        assert_eq!(set(&[(0, 9), (2, 3), (8, 12)]).0, [(0, 12)]);
        assert_eq!(set(&[(0, 4), (6, 9), (4, 7)]).0, [(0, 9)]);
        let holes = set(&[(0, 4), (6, 9)]);
        assert_eq!((holes.held(), holes.end()), (7, 9));
        assert_eq!(holes.first_gap(Some(9)), Some(Gap { start: 4, end: Some(6) }));
        assert_eq!(holes.held_before(4), 4);
        assert_eq!(holes.held_before(5), 0);
        assert_eq!(holes.held_before(9), 3);
        let mut cut = holes;
        cut.truncate(7);
        assert_eq!(cut.0, [(0, 4), (6, 7)]);
        cut.truncate(6);
        assert_eq!(cut.0, [(0, 4)]);
    }

    #[test]
    fn gap_of_a_whole_file_is_none() {
        assert_eq!(set(&[]).first_gap(Some(0)), None);
        assert_eq!(set(&[(0, 4)]).first_gap(Some(4)), None);
        assert_eq!(set(&[(0, 4)]).first_gap(None), Some(Gap { start: 4, end: None }));
        assert_eq!(set(&[(2, 4)]).first_gap(Some(4)), Some(Gap { start: 0, end: Some(2) }));
        assert_eq!(set(&[(0, 3)]).first_gap(Some(4)), Some(Gap { start: 3, end: Some(4) }));
    }

    #[test]
    fn empty_ranges_are_refused() {
        assert!(RangeSet::try_from(vec![(3, 3)]).is_err());
        assert!(RangeSet::try_from(vec![(4, 3)]).is_err());
    }
}
