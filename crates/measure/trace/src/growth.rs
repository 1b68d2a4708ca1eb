// SPDX-License-Identifier: GPL-2.0-or-later
//! Sequence growth: how the high-water mark of a direction rises, of one connection or as the mean of many.
//!
//! The mean is that of technical report 2002-24 (figures 11 to 27): sequence numbers from 0, times from each curve's origin. A
//! connection that has ended stays at its last value, so the mean flattens where some have ended and others have not, as in the
//! report's figure 14.
//! Limits: [`MAX_POINTS`] points a curve. Beyond, every other one goes, and what follows is as coarse.

/// Points of a curve.
pub const MAX_POINTS: usize = 2048;

/// A curve of bytes over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Growth {
    points: Vec<(u64, u64)>,
    /// Points are at least so far apart, but for the last.
    step_ns: u64,
}

impl Growth {
    /// The curve rises: at this time, in nanoseconds since 1970, to so many bytes.
    pub(crate) fn add(&mut self, unix_ns: u64, bytes: u64) {
        if let [.., before, last] = &mut self.points[..]
            && last.0.saturating_sub(before.0) < self.step_ns
        {
            *last = (unix_ns.max(last.0), bytes);
            return;
        }
        let unix_ns = self.points.last().map_or(unix_ns, |last| unix_ns.max(last.0));
        self.points.push((unix_ns, bytes));
        if self.points.len() > MAX_POINTS {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let [Some(first), Some(last)] = [self.points.first(), self.points.last()] else { return };
        let even_ns = (last.0 - first.0) / (MAX_POINTS as u64 / 2);
        self.step_ns = even_ns.max(2 * self.step_ns).max(1);
        let (step_ns, last) = (self.step_ns, *last);
        let mut kept = first.0;
        self.points.retain(|(unix_ns, _)| {
            let is_kept = *unix_ns == kept || *unix_ns >= kept + step_ns;
            if is_kept {
                kept = *unix_ns;
            }
            is_kept
        });
        // Of several at one time, the highest.
        self.points.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                kept.1 = kept.1.max(later.1);
            }
            is_same
        });
        if self.points.last() != Some(&last) {
            self.points.push(last);
        }
    }

    /// Times in nanoseconds since 1970, and bytes.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    /// When it begins, in nanoseconds since 1970.
    pub fn start_ns(&self) -> Option<u64> {
        self.points.first().map(|(unix_ns, _)| *unix_ns)
    }

    /// Bytes of memory behind it.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.points.capacity() * size_of::<(u64, u64)>()
    }

    /// Bytes at a time: between two points on the line that connects them.
    fn at(&self, unix_ns: u64) -> f64 {
        let next = self.points.partition_point(|(point_ns, _)| *point_ns <= unix_ns);
        match (next.checked_sub(1).map(|at| self.points[at]), self.points.get(next)) {
            (None, _) => 0.0,
            (Some((_, bytes)), None) => bytes as f64,
            (Some((begin_ns, begin)), Some((end_ns, end))) => {
                let share = (unix_ns - begin_ns) as f64 / (end_ns - begin_ns) as f64;
                begin as f64 + share * (end.saturating_sub(begin)) as f64
            }
        }
    }
}

/// Of times in nanoseconds since 1970 and bytes, both rising.
impl FromIterator<(u64, u64)> for Growth {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(points: I) -> Self {
        let mut growth = Self::default();
        points.into_iter().for_each(|(unix_ns, bytes)| growth.add(unix_ns, bytes));
        growth
    }
}

/// The mean of curves, each with the time in nanoseconds since 1970 at which its clock begins: seconds and bytes, at
/// `points` times from 0 to the end of the longest.
pub fn mean_growth(curves: &[(&Growth, u64)], points: usize) -> Vec<(f64, f64)> {
    let ends = curves
        .iter()
        .filter_map(|(curve, origin_ns)| Some(curve.points.last()?.0.saturating_sub(*origin_ns)));
    let (Some(end_ns), true) = (ends.max(), points > 1) else { return Vec::new() };
    let mean = |n: usize| {
        let since_ns = (u128::from(end_ns) * n as u128 / (points as u128 - 1)) as u64;
        let values = curves.iter().map(|(curve, origin)| curve.at(origin.saturating_add(since_ns)));
        (since_ns as f64 / 1e9, values.sum::<f64>() / curves.len() as f64)
    };
    (0..points).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_holds_what_has_ended() {
        let curve = |points: &[(u64, u64)]| points.iter().copied().collect::<Growth>();
        let fast = curve(&[(1000, 0), (1_000_001_000, 1000)]);
        let slow = curve(&[(5000, 0), (2_000_005_000, 1000)]);
        let mean = mean_growth(&[(&fast, 1000), (&slow, 5000)], 5);
        let expected = [(0.0, 0.0), (0.5, 375.0), (1.0, 750.0), (1.5, 875.0), (2.0, 1000.0)];
        assert_eq!(mean, expected);
        // The second sublink of a chain begins later on the first one's clock.
        let late = curve(&[(1_000_001_000, 0), (2_000_001_000, 1000)]);
        assert_eq!(mean_growth(&[(&late, 1000)], 3), [(0.0, 0.0), (1.0, 0.0), (2.0, 1000.0)]);
        assert_eq!(mean_growth(&[], 5), []);
    }

    #[test]
    fn points_are_bounded_and_stay_near_the_curve() {
        let mut growth = Growth::default();
        let truth = |n: u64| n * n / 1000;
        for n in 0..200_000 {
            growth.add(n * 1000 + n % 7, truth(n));
        }
        assert!(growth.points.len() <= MAX_POINTS, "{}", growth.points.len());
        assert!(growth.points.is_sorted());
        assert_eq!(growth.points.last(), Some(&(199_999 * 1000 + 199_999 % 7, truth(199_999))));
        for n in (0..200_000).step_by(997) {
            let (found, expected) = (growth.at(n * 1000), truth(n) as f64);
            assert!((found - expected).abs() < 0.003 * 40_000_000.0, "{n}: {found}, {expected}");
        }
        let mut still = Growth::default();
        (0..10_000).for_each(|n| still.add(5, n));
        assert!(still.points.len() <= MAX_POINTS);
    }
}
