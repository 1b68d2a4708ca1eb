// SPDX-License-Identifier: GPL-2.0-or-later
//! Statistics of samples: mean, deviation, median and range, quantiles, the mean's confidence interval, and tests of two samples
//! ([`two_samples`]).

mod student_t;
pub mod two_samples;

/// The mean of a sample, and how far the true mean may be from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanEstimate {
    /// The sample's mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` below two values.
    pub half_width: Option<f64>,
}

/// The arithmetic mean; `None` without values.
pub fn mean(sample: &[f64]) -> Option<f64> {
    (!sample.is_empty()).then(|| sample.iter().sum::<f64>() / sample.len() as f64)
}

/// The standard deviation of the values as they are (divided by n, not by n - 1); `None` without
/// values.
pub fn deviation(sample: &[f64]) -> Option<f64> {
    Some((squares(sample)? / sample.len() as f64).sqrt())
}

/// The standard deviation of what the values are a sample of (divided by n - 1); `None` below two values.
pub fn sample_deviation(sample: &[f64]) -> Option<f64> {
    let freedom = sample.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    Some((squares(sample)? / freedom as f64).sqrt())
}

/// The value in the middle, or the mean of the two in the middle; `None` without values.
pub fn median(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(sorted[sorted.len() / 2 - 1], upper)
    })
}

/// The median of a sample and how far its values spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianRange {
    /// As [`median`] has it.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl MedianRange {
    /// Of these values; `None` without values.
    pub fn of_values(values: impl Iterator<Item = f64>) -> Option<Self> {
        Self::of(&values.collect::<Vec<_>>())
    }

    /// Of a sample; `None` without values.
    pub fn of(sample: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(sample)?,
            least: sample.iter().copied().fold(f64::INFINITY, f64::min),
            most: sample.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// The smallest value that at least the `share` (0 to 1) of the values do not exceed: the nearest
/// rank, so it is always one of the values; `None` without values.
pub fn quantile(sample: &[f64], share: f64) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied()
}

/// The mean with its 95 % confidence interval by Student's t, which takes the values for
/// independent and normally distributed; `None` without values.
pub fn mean_ci95(sample: &[f64]) -> Option<MeanEstimate> {
    let mean = mean(sample)?;
    let freedom = sample.len() - 1;
    let half_width = sample_deviation(sample).map(|deviation| {
        student_t::quantile_975(freedom as f64) * deviation / (sample.len() as f64).sqrt()
    });
    Some(MeanEstimate { mean, half_width })
}

/// The probability of a mean so far from zero or further, were the true mean zero, by Student's t; of differences of pairs, that of
/// the paired t test. `None` below two values.
pub fn mean_is_zero_p(sample: &[f64]) -> Option<f64> {
    let (mean, deviation) = (mean(sample)?, sample_deviation(sample)?);
    let error = deviation / (sample.len() as f64).sqrt();
    Some(match (mean == 0.0, error == 0.0) {
        (true, true) => 1.0,
        (false, true) => 0.0,
        _ => student_t::two_sided_p(mean / error, (sample.len() - 1) as f64),
    })
}

/// The sum of the squared distances from the mean.
fn squares(sample: &[f64]) -> Option<f64> {
    let mean = mean(sample)?;
    Some(sample.iter().map(|v| (v - mean) * (v - mean)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_deviation_and_median_by_hand() {
        let sample = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&sample), Some(5.0));
        assert_eq!(deviation(&sample), Some(2.0));
        assert_eq!(median(&sample), Some(4.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        // Sample deviation sqrt(32/7), t(7) = 2.3646: 2.3646 * 2.1381 / sqrt 8.
        let estimate = mean_ci95(&sample).unwrap();
        assert!((estimate.half_width.unwrap() - 1.7875).abs() < 1e-4, "{estimate:?}");
    }

    #[test]
    fn means_far_from_zero_are_not_chance() {
        // scipy.stats.ttest_1samp([1, 2, 3, 4], 0): t 3.873, p 0.03047.
        let p = mean_is_zero_p(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((p - 0.030_466).abs() < 1e-5, "{p}");
        assert_eq!(mean_is_zero_p(&[2.0, 2.0]), Some(0.0));
        assert_eq!(mean_is_zero_p(&[0.0, 0.0]), Some(1.0));
        assert_eq!((mean_is_zero_p(&[1.0]), mean_is_zero_p(&[])), (None, None));
    }

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (share, value) in [(0.0, 1.0), (0.01, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(quantile(&hundred, share), Some(value), "{share}");
        }
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_median_with_its_range() {
        let range = MedianRange::of(&[5.0, 1.0, 4.0]).unwrap();
        assert_eq!((range.median, range.least, range.most), (4.0, 1.0, 5.0));
        assert_eq!(MedianRange::of(&[]), None);
    }

    #[test]
    fn small_samples_claim_nothing() {
        assert_eq!(
            (mean(&[]), deviation(&[]), median(&[]), mean_ci95(&[])),
            (None, None, None, None)
        );
        assert_eq!(mean_ci95(&[3.0]), Some(MeanEstimate { mean: 3.0, half_width: None }));
    }
}
