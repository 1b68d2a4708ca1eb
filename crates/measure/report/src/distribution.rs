// SPDX-License-Identifier: GPL-2.0-or-later
//! What a box plot draws of a sample, and a sample in the order of a CDF.
//!
//! Quantiles are interpolated linearly between the order statistics (type 7 of Hyndman and Fan 1996,
//! numpy's and R's default): of a few repeats the nearest rank, which metrics use, would be one of the values, and a
//! box would jump. Whiskers are Tukey's: to the outermost values within 1.5 box lengths of the box.

use serde::Serialize;

/// Maximum length of a whisker, in box lengths.
const REACH: f64 = 1.5;

/// A sample as a box.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoxSummary {
    /// A quarter of the values are at or below it.
    pub lower_quartile: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters.
    pub upper_quartile: f64,
    /// The least value within 1.5 times the length of the box below it.
    pub lower_whisker: f64,
    /// The largest within as much above it.
    pub upper_whisker: f64,
    /// The values beyond the whiskers, in their order.
    pub outliers: Vec<f64>,
}

impl BoxSummary {
    /// None without values.
    pub fn of(sample: &[f64]) -> Option<Self> {
        let sorted = sorted(sample);
        let [lower_quartile, median, upper_quartile] =
            [0.25, 0.5, 0.75].map(|share| interpolated(&sorted, share));
        let (lower_quartile, median, upper_quartile) = (lower_quartile?, median?, upper_quartile?);
        let reach = REACH * (upper_quartile - lower_quartile);
        let near =
            |value: &&f64| (lower_quartile - reach..=upper_quartile + reach).contains(*value);
        let within = || sorted.iter().filter(near).copied();
        Some(Self {
            lower_quartile,
            median,
            upper_quartile,
            // Interpolated, a quartile may lie beyond all values within reach.
            lower_whisker: within().next().unwrap_or(lower_quartile).min(lower_quartile),
            upper_whisker: within().last().unwrap_or(upper_quartile).max(upper_quartile),
            outliers: sorted.iter().filter(|value| !near(value)).copied().collect(),
        })
    }
}

/// The values from the least to the most.
pub fn sorted(sample: &[f64]) -> Vec<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value below which a share of a sorted sample lies, between two values in proportion.
pub fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `numpy.percentile([12.4, 3.1, 7.7, 5.0, 30.2, 6.4, 8.8], [25, 50, 75])`, numpy 2: 5.7, 7.7 and 10.6; and of
    /// `matplotlib.cbook.boxplot_stats`: whiskers 3.1 and 12.4, flier 30.2.
    #[test]
    fn quartiles_and_whiskers_are_those_of_numpy_and_matplotlib() {
        let of = BoxSummary::of(&[12.4, 3.1, 7.7, 5.0, 30.2, 6.4, 8.8]).unwrap();
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        assert!(near(of.lower_quartile, 5.7) && near(of.median, 7.7), "{of:?}");
        assert!(near(of.upper_quartile, 10.6), "{of:?}");
        assert_eq!((of.lower_whisker, of.upper_whisker), (3.1, 12.4));
        assert_eq!(of.outliers, [30.2]);
    }

    /// Type 7 by its definition, another way: the piecewise linear function through (k / (n - 1), value k).
    #[test]
    fn quantile_is_the_line_through_the_order_statistics() {
        let values = [1.0, 4.0, 4.5, 9.0, 16.0];
        for percent in 0..=100 {
            let share = f64::from(percent) / 100.0;
            let segment = (1..4).take_while(|k| share > f64::from(*k) / 4.0).count();
            let from = segment as f64 / 4.0;
            let slope = (values[segment + 1] - values[segment]) * 4.0;
            let expected = values[segment] + slope * (share - from);
            let found = interpolated(&values, share).unwrap();
            assert!((found - expected).abs() < 1e-12, "{share}: {found}, {expected}");
        }
        assert_eq!(interpolated(&[], 0.5), None);
        assert_eq!(interpolated(&[3.0], 0.75), Some(3.0));
    }

    #[test]
    fn single_value_is_a_flat_box() {
        let of = BoxSummary::of(&[2.0]).unwrap();
        assert_eq!((of.lower_whisker, of.median, of.upper_whisker), (2.0, 2.0, 2.0));
        assert!(of.outliers.is_empty());
        assert_eq!(BoxSummary::of(&[]), None);
    }
}
