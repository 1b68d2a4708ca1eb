// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether two samples differ by more than chance: tests, effect sizes, and the correction for several tests.
//!
//! - Welch's t test: equal means of normal distributions, whose variances may differ (Welch 1947).
//! - Mann-Whitney U test: equal distributions of any form (Mann and Whitney 1947), with ranks shared by ties.
//! - Hedges' g: the difference in standard deviations, without the bias of small samples (Hedges 1981).
//! - Holm's correction: the chance of any false alarm among all tests stays as chosen (Holm 1979).
//!
//! Both tests have two sides. Their values are those of `scipy.stats`, which tests compare.

use super::{mean, sample_deviation, squares, student_t};
use std::cmp::Ordering;

/// Welch's t test of the means of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// The second sample's mean less the first one's.
    pub difference: f64,
    /// Half the width of the difference's 95 % confidence interval.
    pub half_width: f64,
    /// The difference in standard errors.
    pub t: f64,
    /// Degrees of freedom, by Welch and Satterthwaite.
    pub freedom: f64,
    /// The probability of such a difference or a larger one, were the means equal.
    pub p: f64,
}

/// Tests the means; `None` if a sample has fewer than two values, or neither varies.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let error = |sample: &[f64]| Some(sample_deviation(sample)?.powi(2) / sample.len() as f64);
    let (error_a, error_b) = (error(a)?, error(b)?);
    let error = error_a + error_b;
    if error <= 0.0 {
        return None;
    }
    // By shares, whose squares do not vanish where those of the errors would.
    let part = |part: f64, n: usize| (part / error).powi(2) / (n - 1) as f64;
    let freedom = 1.0 / (part(error_a, a.len()) + part(error_b, b.len()));
    let difference = mean(b)? - mean(a)?;
    let t = difference / error.sqrt();
    Some(Welch {
        difference,
        half_width: student_t::quantile_975(freedom) * error.sqrt(),
        t,
        freedom,
        p: student_t::two_sided_p(t, freedom),
    })
}

/// The Mann-Whitney U test of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the first sample's value is the larger one; a tie is half a pair.
    pub u: f64,
    /// The probability of ranks as uneven or more, were the distributions equal.
    pub p: f64,
    /// Whether `p` counts all orders of the values. Otherwise it is that of the normal distribution, corrected for
    /// ties and continuity.
    pub is_exact: bool,
}

/// With more values than this in the smaller sample, `p` is approximate.
const LARGEST_EXACT: usize = 8;
/// And with more than this in the other one, which `SciPy` counts all the same: the time grows with its square.
const LARGEST_OTHER_EXACT: usize = 400;

/// Tests the distributions; `None` if a sample is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let Ranks { sum_of_first, ties } = ranks(a, b);
    let all_pairs = (a.len() * b.len()) as f64;
    let u = sum_of_first - (a.len() * (a.len() + 1)) as f64 / 2.0;
    let larger = u.max(all_pairs - u);
    let (small, large) = (a.len().min(b.len()), a.len().max(b.len()));
    let is_exact = ties == 0.0 && small <= LARGEST_EXACT && large <= LARGEST_OTHER_EXACT;
    let tail = if is_exact {
        probabilities_of_u(small, large)[larger as usize..].iter().sum()
    } else {
        normal_tail(larger, all_pairs, (small + large) as f64, ties)
    };
    Some(MannWhitney { u, p: (2.0 * tail).min(1.0), is_exact })
}

/// The probability of this U or a larger one among `all_pairs` pairs, by the normal distribution.
fn normal_tail(larger: f64, all_pairs: f64, values: f64, ties: f64) -> f64 {
    let variance = all_pairs / 12.0 * (values + 1.0 - ties / (values * (values - 1.0)));
    if variance <= 0.0 {
        // If all values are equal, there is no order and no evidence.
        return 1.0;
    }
    let deviations = (larger - all_pairs / 2.0 - 0.5) / variance.sqrt();
    libm::erfc(deviations / std::f64::consts::SQRT_2) / 2.0
}

/// The ranks of the first sample among all values.
struct Ranks {
    sum_of_first: f64,
    /// `t^3 - t`, summed over the sets of `t` equal values.
    ties: f64,
}

fn ranks(a: &[f64], b: &[f64]) -> Ranks {
    let first = a.iter().map(|value| (*value, true));
    let mut all: Vec<(f64, bool)> = first.chain(b.iter().map(|value| (*value, false))).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (mut before, mut sum_of_first, mut ties) = (0.0, 0.0, 0.0);
    for equal in
        all.chunk_by(|(one, _), (other, _)| one.partial_cmp(other) == Some(Ordering::Equal))
    {
        let count = equal.len() as f64;
        let of_first = equal.iter().filter(|(_, is_first)| *is_first).count() as f64;
        sum_of_first += of_first * (before + f64::midpoint(count, 1.0));
        ties += count * count * count - count;
        before += count;
    }
    Ranks { sum_of_first, ties }
}

/// The probability of each U of samples of these sizes without ties. The largest of all values is of the one or the other
/// sample, which leaves samples with one value fewer (Mann and Whitney 1947, equation 1).
fn probabilities_of_u(m: usize, n: usize) -> Vec<f64> {
    // `rows[j]` is of i and j values, for the i at hand.
    let mut rows = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        for j in 0..=n {
            let share_of_first = i as f64 / (i + j) as f64;
            let mut of_u = vec![0.0; i * j + 1];
            for (u, p) in rows[j].iter().enumerate() {
                of_u[u + j] += share_of_first * p;
            }
            if j > 0 {
                for (u, p) in rows[j - 1].iter().enumerate() {
                    of_u[u] += (1.0 - share_of_first) * p;
                }
            }
            rows[j] = of_u;
        }
    }
    rows.pop().unwrap_or_default()
}

/// Hedges' g: how many standard deviations the second sample's mean is above the first one's. `None` if a sample has fewer
/// than two values, or neither varies.
pub fn hedges_g(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let freedom = (a.len() + b.len() - 2) as f64;
    let deviation = ((squares(a)? + squares(b)?) / freedom).sqrt();
    let unbiased = libm::exp(libm::lgamma(freedom / 2.0) - libm::lgamma((freedom - 1.0) / 2.0))
        / (freedom / 2.0).sqrt();
    let difference = mean(b)? - mean(a)?;
    (deviation > 0.0).then(|| unbiased * difference / deviation)
}

/// Probabilities of several tests, corrected so that the chance of one or more below a bound, where nothing differs, is at
/// most that bound. In the same order.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut least = 0.0_f64;
    for (done, index) in order.into_iter().enumerate() {
        let left = (probabilities.len() - done) as f64;
        least = least.max((left * probabilities[index]).min(1.0));
        corrected[index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests;
