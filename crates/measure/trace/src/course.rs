// SPDX-License-Identifier: GPL-2.0-or-later
//! How a quantity changed over time, in bounded memory: the lowest and the highest value of each slice of time.
//!
//! Slices begin with the first value and are 1 ms long. If there are more than [`MAX_SLICES`] with values, neighbours become one
//! and slices are twice as long.

/// Slices of a course.
pub const MAX_SLICES: usize = 512;
/// Length of a slice at first.
const FIRST_NS: u64 = 1_000_000;

/// A slice of time with values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Its middle, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The lowest value in it.
    pub lowest: u64,
    /// The highest.
    pub highest: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extremes {
    index: u64,
    lowest: u64,
    highest: u64,
}

/// A quantity over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course {
    start_ns: u64,
    /// 0 before the first value.
    slice_ns: u64,
    /// By index, without those that have no value.
    slices: Vec<Extremes>,
}

impl Course {
    /// A value at this time, in nanoseconds since 1970. Times before the last slice count as in it.
    pub(crate) fn add(&mut self, unix_ns: u64, value: u64) {
        if self.slice_ns == 0 {
            (self.start_ns, self.slice_ns) = (unix_ns, FIRST_NS);
        }
        let index = unix_ns.saturating_sub(self.start_ns) / self.slice_ns;
        match self.slices.last_mut() {
            Some(last) if index <= last.index => last.join(value, value),
            _ => self.slices.push(Extremes { index, lowest: value, highest: value }),
        }
        while self.slices.len() > MAX_SLICES {
            self.double();
        }
    }

    fn double(&mut self) {
        self.slice_ns = self.slice_ns.saturating_mul(2);
        self.slices.iter_mut().for_each(|slice| slice.index /= 2);
        self.slices.dedup_by(|later, kept| {
            let is_same = later.index == kept.index;
            if is_same {
                kept.join(later.lowest, later.highest);
            }
            is_same
        });
    }

    /// Slices with values, in order.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = Slice> + '_ {
        let middle = |index: u64| {
            let since_ns = index.saturating_mul(self.slice_ns).saturating_add(self.slice_ns / 2);
            self.start_ns.saturating_add(since_ns)
        };
        self.slices.iter().map(move |slice| Slice {
            unix_ns: middle(slice.index),
            lowest: slice.lowest,
            highest: slice.highest,
        })
    }

    /// Bytes of memory behind it.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slices.capacity() * size_of::<Extremes>()
    }
}

/// Of times in nanoseconds since 1970, which rise, and values.
impl FromIterator<(u64, u64)> for Course {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(values: I) -> Self {
        let mut course = Self::default();
        values.into_iter().for_each(|(unix_ns, value)| course.add(unix_ns, value));
        course
    }
}

impl Extremes {
    fn join(&mut self, lowest: u64, highest: u64) {
        self.lowest = self.lowest.min(lowest);
        self.highest = self.highest.max(highest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive_longer_slices() {
        let mut course = Course::default();
        let value = |n: u64| 1000 + (n * 7919) % 500;
        for n in 0..100_000 {
            course.add(5 + n * 100_000, value(n));
        }
        let slices: Vec<_> = course.slices().collect();
        assert!(slices.len() <= MAX_SLICES && slices.len() > MAX_SLICES / 3, "{}", slices.len());
        // 10 s in slices of 32 ms: 320 values each.
        for (at, slice) in slices.iter().enumerate().take(slices.len() - 1) {
            let own = (0..100_000).filter(|n| n * 100_000 / 32_000_000 == at as u64).map(value);
            let (lowest, highest) =
                own.fold((u64::MAX, 0), |(low, high), v| (low.min(v), high.max(v)));
            let expected =
                Slice { unix_ns: 5 + at as u64 * 32_000_000 + 16_000_000, lowest, highest };
            assert_eq!(*slice, expected);
        }
    }

    #[test]
    fn times_of_attackers_cost_no_memory() {
        let mut course = Course::default();
        let mut time = 1_u64;
        for n in 0..5000_u64 {
            course.add(time, n);
            time = time.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
        }
        course.add(u64::MAX, 1);
        course.add(0, 2);
        assert!(course.slices().len() <= MAX_SLICES && course.heap_bytes() <= 1 << 16);
        let sparse = (0..2000_u64).map(|n| n * n * n * 1_000_000_000);
        let mut course = Course::default();
        sparse.for_each(|time| course.add(time, 7));
        assert!(course.slices().len() <= MAX_SLICES);
        assert!(course.slices().all(|slice| (slice.lowest, slice.highest) == (7, 7)));
    }
}
