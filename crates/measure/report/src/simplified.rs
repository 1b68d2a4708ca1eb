// SPDX-License-Identifier: GPL-2.0-or-later
//! Curves with fewer points, for drawings.
//!
//! Swinging door (Bristol, 1990): from the last kept point, the slopes that pass every later point within the tolerance become
//! fewer with each. The first point that leaves none begins a new stretch at the one before it. Linear in the number of points.

/// Of a curve whose first coordinate does not fall, points between which straight lines pass all others at a distance of at most
/// `tolerance`, upright.
pub fn simplified(points: &[[f64; 2]], tolerance: f64) -> Vec<[f64; 2]> {
    let mut kept: Vec<[f64; 2]> = points.iter().take(1).copied().collect();
    let mut last = None;
    let mut door = Door::OPEN;
    for point in points.iter().skip(1) {
        let from = kept[kept.len() - 1];
        if !door.passes(from, *point)
            && let Some(last) = last.take()
        {
            kept.push(last);
            door = Door::OPEN;
        }
        let from = kept[kept.len() - 1];
        if door.passes(from, *point) {
            door.narrow(from, *point, tolerance);
            last = Some(*point);
        } else {
            // Right above the last one.
            kept.push(*point);
            door = Door::OPEN;
        }
    }
    kept.extend(last);
    kept
}

/// Slopes of straight lines that pass all points so far.
struct Door {
    lowest: f64,
    highest: f64,
}

impl Door {
    const OPEN: Self = Self { lowest: f64::NEG_INFINITY, highest: f64::INFINITY };

    fn passes(&self, from: [f64; 2], point: [f64; 2]) -> bool {
        let along = point[0] - from[0];
        along > 0.0 && (self.lowest..=self.highest).contains(&((point[1] - from[1]) / along))
    }

    fn narrow(&mut self, from: [f64; 2], point: [f64; 2], tolerance: f64) {
        let (along, up) = (point[0] - from[0], point[1] - from[1]);
        self.lowest = self.lowest.max((up - tolerance) / along);
        self.highest = self.highest.min((up + tolerance) / along);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    fn at(kept: &[[f64; 2]], x: f64) -> f64 {
        let next = kept.partition_point(|point| point[0] <= x).clamp(1, kept.len() - 1);
        let [[x0, y0], [x1, y1]] = [kept[next - 1], kept[next]];
        if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 }
    }

    #[test]
    fn simplified_curve_stays_within_the_tolerance() {
        let seed = 20_261_127;
        println!("seed {seed}");
        let mut random = Pcg64::seed_from_u64(seed);
        for tolerance in [0.5, 5.0, 50.0] {
            let (mut x, mut y) = (0.0, 0.0);
            let points: Vec<[f64; 2]> = (0..2000)
                .map(|_| {
                    x += 1.0 + f64::from(random.next_u32() % 10);
                    let step = f64::from(random.next_u32() % 10);
                    y += if random.next_u32() % 50 == 0 { 40.0 * step } else { step };
                    [x, y]
                })
                .collect();
            let kept = simplified(&points, tolerance);
            assert_eq!([kept.first(), kept.last()], [points.first(), points.last()]);
            for [x, y] in &points {
                let found = at(&kept, *x);
                assert!((found - y).abs() <= tolerance + 1e-6, "{x}: {found}, {y}, {tolerance}");
            }
            assert!(tolerance < 50.0 || kept.len() < points.len() / 10, "{}", kept.len());
        }
    }

    #[test]
    fn short_and_upright_curves_keep_their_ends() {
        assert_eq!(simplified(&[], 1.0), Vec::<[f64; 2]>::new());
        assert_eq!(simplified(&[[1.0, 2.0]], 1.0), [[1.0, 2.0]]);
        let line: Vec<_> = (0..100).map(|n| [f64::from(n), 3.0 * f64::from(n)]).collect();
        assert_eq!(simplified(&line, 0.1), [[0.0, 0.0], [99.0, 297.0]]);
        let step = [[0.0, 0.0], [5.0, 0.0], [5.0, 9.0], [9.0, 9.0]];
        assert_eq!(simplified(&step, 0.1), step);
    }
}
