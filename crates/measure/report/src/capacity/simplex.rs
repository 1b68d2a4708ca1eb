// SPDX-License-Identifier: GPL-2.0-or-later
//! The largest sum of shares under limits, by the simplex method.
//!
//! Maximise `sum x` over `x >= 0` with `sum w x <= bound` for each limit. All bounds are at least 0,
//! so all-zero shares are feasible and are the start. From there each step lets one more
//! share grow until a limit holds it, as in a dictionary (Chvátal, *Linear Programming*, 1983, chapter
//! 2). If several may, it takes the first: Bland's rule, which guarantees termination.

/// Below this, a coefficient is a rounding error: weights are small whole numbers.
const NOTHING: f64 = 1e-9;

/// One limit: a weighted sum of the shares is at most the bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Of each share; none is negative.
    pub weights: Vec<f64>,
    /// At least 0.
    pub bound: f64,
}

/// The largest sum of shares; none where a share has no limit, or there are no shares.
pub fn largest_sum(limits: &[Limit]) -> Option<f64> {
    Some(Dictionary::solved(limits)?.sum())
}

/// Each row's variable is its bound less its cells times the columns' variables, which are 0. The
/// last row is the sum, the last column the bounds.
#[derive(Debug)]
struct Dictionary {
    cells: Vec<Vec<f64>>,
    /// The variables of rows and columns: first the shares, then what each limit has left.
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// The largest bound, by which all are divided.
    scale: f64,
}

impl Dictionary {
    /// Of the largest sum; none where there is no largest.
    fn solved(limits: &[Limit]) -> Option<Self> {
        let mut dictionary = Self::new(limits)?;
        while let Some(column) = dictionary.growing() {
            let row = dictionary.holding(column)?;
            dictionary.swap(row, column);
        }
        Some(dictionary)
    }

    fn new(limits: &[Limit]) -> Option<Self> {
        let shares = limits.first()?.weights.len();
        let largest = limits.iter().map(|limit| limit.bound).fold(0.0, f64::max);
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let with_bound = |limit: &Limit| {
            let mut row = limit.weights.clone();
            row.push(limit.bound / scale);
            row
        };
        let mut cells: Vec<Vec<f64>> = limits.iter().map(with_bound).collect();
        let mut sum = vec![-1.0; shares];
        sum.push(0.0);
        cells.push(sum);
        let rows = (shares..shares + limits.len()).collect();
        (shares > 0).then(|| Self { cells, rows, columns: (0..shares).collect(), scale })
    }

    /// The sum as it is now.
    fn sum(&self) -> f64 {
        self.cells[self.rows.len()][self.columns.len()] * self.scale
    }

    /// A column whose variable adds to the sum as it grows.
    fn growing(&self) -> Option<usize> {
        let sum = &self.cells[self.rows.len()];
        let columns = (0..self.columns.len()).filter(|column| sum[*column] < -NOTHING);
        columns.min_by_key(|column| self.columns[*column])
    }

    /// The row whose variable is the first to be down to 0 as the column's grows.
    fn holding(&self, column: usize) -> Option<usize> {
        let bounds = self.columns.len();
        let room = |row: &usize| self.cells[*row][bounds] / self.cells[*row][column];
        let rows = (0..self.rows.len()).filter(|row| self.cells[*row][column] > NOTHING);
        rows.min_by(|a, b| room(a).total_cmp(&room(b)).then(self.rows[*a].cmp(&self.rows[*b])))
    }

    /// Row and column change their variables.
    fn swap(&mut self, row: usize, column: usize) {
        let pivot = self.cells[row][column];
        for cell in &mut self.cells[row] {
            *cell /= pivot;
        }
        self.cells[row][column] = 1.0 / pivot;
        let swapped = self.cells[row].clone();
        for (_, cells) in self.cells.iter_mut().enumerate().filter(|(other, _)| *other != row) {
            let factor = std::mem::take(&mut cells[column]);
            for (cell, swapped) in cells.iter_mut().zip(&swapped) {
                *cell -= factor * swapped;
            }
        }
        std::mem::swap(&mut self.rows[row], &mut self.columns[column]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(weights: &[f64], bound: f64) -> Limit {
        Limit { weights: weights.to_vec(), bound }
    }

    #[test]
    fn sums_by_hand() {
        // One limit for both; each its own; a third over two that cross different ones.
        assert_eq!(largest_sum(&[limit(&[1.0, 1.0], 10.0)]), Some(10.0));
        assert_eq!(largest_sum(&[limit(&[1.0, 0.0], 3.0), limit(&[0.0, 1.0], 4.0)]), Some(7.0));
        let line = [limit(&[1.0, 0.0, 1.0], 5.0), limit(&[0.0, 1.0, 1.0], 8.0)];
        assert_eq!(largest_sum(&line), Some(13.0), "the long one gets nothing");
        // Three that cross two of three limits each: half a unit each, 1.5 in all.
        let ring = [
            limit(&[1.0, 1.0, 0.0], 1.0),
            limit(&[0.0, 1.0, 1.0], 1.0),
            limit(&[1.0, 0.0, 1.0], 1.0),
        ];
        assert!((largest_sum(&ring).unwrap() - 1.5).abs() < 1e-12);
        // Twice over the same.
        assert_eq!(largest_sum(&[limit(&[2.0], 10.0)]), Some(5.0));
        assert_eq!(largest_sum(&[limit(&[1.0, 0.0], 10.0)]), None, "the second has no limit");
        assert_eq!(largest_sum(&[limit(&[1.0], 0.0)]), Some(0.0));
        assert_eq!(largest_sum(&[]), None);
    }

    /// That a sum is the largest is proved by prices of the limits: where each share's limits cost at
    /// least 1 in all, no sum can be above what all bounds cost (weak duality).
    fn prove(limits: &[Limit]) {
        let shares = limits[0].weights.len();
        let dictionary = Dictionary::solved(limits).unwrap();
        let Dictionary { cells, rows, columns, scale } = &dictionary;
        let (mut x, mut prices) = (vec![0.0; shares], vec![0.0; limits.len()]);
        for (row, variable) in rows.iter().enumerate().filter(|(_, v)| **v < shares) {
            x[*variable] = cells[row][shares];
        }
        for (column, variable) in columns.iter().enumerate().filter(|(_, v)| **v >= shares) {
            prices[variable - shares] = cells[limits.len()][column];
        }
        assert!(x.iter().chain(&prices).all(|v| *v >= -1e-9), "{limits:?}: {x:?} {prices:?}");
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let bounds: Vec<f64> = limits.iter().map(|limit| limit.bound / scale).collect();
        for (limit, bound) in limits.iter().zip(&bounds) {
            assert!(dot(&limit.weights, &x) <= bound + 1e-6, "{limits:?}: {x:?}");
        }
        for share in 0..shares {
            let weights: Vec<f64> = limits.iter().map(|limit| limit.weights[share]).collect();
            assert!(dot(&weights, &prices) >= 1.0 - 1e-6, "{limits:?}: {prices:?}");
        }
        let sum = largest_sum(limits).unwrap() / scale;
        assert!((x.iter().sum::<f64>() - sum).abs() < 1e-6, "{limits:?}: {x:?}");
        assert!((dot(&bounds, &prices) - sum).abs() < 1e-6, "{limits:?}: {prices:?}");
    }

    #[test]
    fn simplex_shares_are_optimal_by_duality() {
        use rand_core::{Rng, SeedableRng};
        let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        eprintln!("LONGHAUL_SEED={seed}");
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        let mut draw = |n: u32| f64::from(random.next_u32() % n);
        for _ in 0..2000 {
            let shares = 1 + draw(8) as usize;
            // Every share has one.
            let mut limits = vec![limit(&vec![1.0; shares], 1e10)];
            for _ in 0..=(draw(8) as usize) {
                let weights: Vec<f64> = (0..shares).map(|_| (draw(4) - 1.0).max(0.0)).collect();
                limits.push(limit(&weights, draw(5) * 1e9));
            }
            prove(&limits);
        }
    }
}
