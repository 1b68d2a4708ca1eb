// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparing two samples.

/// The Kolmogorov-Smirnov statistic of two samples: the greatest distance between their empirical
/// distribution functions, between 0 and 1. `None` when one of them is empty.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (sorted(a)?, sorted(b)?);
    let share =
        |sample: &[f64], at: f64| sample.partition_point(|v| *v <= at) as f64 / sample.len() as f64;
    // The functions only change at values, so the greatest distance is at one of them.
    let distance = |at: &f64| (share(&a, *at) - share(&b, *at)).abs();
    a.iter().chain(&b).map(distance).reduce(f64::max)
}

fn sorted(sample: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then_some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // After 2.0: all of a, a third of b.
        assert_eq!(kolmogorov_smirnov(&[2.0, 1.0], &[2.0, 3.0, 4.0]), Some(1.0 - 1.0 / 3.0));
        assert_eq!(kolmogorov_smirnov(&[1.0, 2.0], &[2.0, 1.0]), Some(0.0));
        assert_eq!(kolmogorov_smirnov(&[1.0], &[5.0, 6.0]), Some(1.0));
        assert_eq!(kolmogorov_smirnov(&[], &[5.0]), None);
    }
}
