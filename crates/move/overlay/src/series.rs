// SPDX-License-Identifier: GPL-2.0-or-later
//! A forecast with its interval, from what was seen and from what was to be expected before that.
//!
//! Values are logarithms of ratios: a completion time by the closed form's. So 0 is the closed form itself, and errors of
//! short and of long times weigh the same.
//!
//! The interval is conformal: quantiles of the forecast's own errors of late, whatever their distribution. Their level follows how
//! often intervals have missed, so that nine of ten hold also where the path changes.
//! Source: Gibbs, Candes, "Adaptive conformal inference under distribution shift", 2021.

use crate::predictors::{Family, Prediction};
use std::collections::VecDeque;

/// The variance of what a closed form says of a path that was never measured: a factor of about two either way.
const PRIOR_VARIANCE: f64 = 0.5;
/// The share of it that routes to the same destination have in common.
const SHARED: f64 = 0.6;
/// A path's times of one size, by those of the next one: the variance that this adds.
const OTHER_SIZE_VARIANCE: f64 = 0.25;
/// What values are taken to deviate by before there are errors to tell.
const USUAL_DEVIATION: f64 = 0.35;
/// The least that they are taken to deviate by.
const LEAST_DEVIATION: f64 = 0.03;
/// Of a normal distribution, the deviation is so much more than the mean absolute error.
const DEVIATION_OF_ERROR: f64 = 1.25;

/// How often an interval may miss on each side.
const MISSES: f64 = 0.05;
/// How fast its level follows.
const STEP: f64 = 0.02;
/// Where its level stays.
const LEVELS: std::ops::RangeInclusive<f64> = 0.002..=0.2;
/// The most errors that are kept.
const ERRORS: usize = 60;
/// From so many errors on, they alone make the interval.
const ENOUGH: usize = 20;
/// Until then, as if there had been these: nothing is known of a path, but that closed forms are often wrong by a factor of two.
const ASSUMED_ERROR: f64 = 0.8;
/// Errors beyond this count as this in a mean.
const MOST_ERROR: f64 = 2.0;
/// The mean ratio of times to forecasts with the usual deviation; it counts as much as so many errors.
const USUAL_RATIO: f64 = 1.06;
const FEW: f64 = 6.0;

/// What is known of a value before it is seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The value.
    pub center: f64,
    /// The variance of that.
    pub variance: f64,
}

impl Expected {
    /// What the closed form says.
    pub const CLOSED_FORM: Self = Self { center: 0.0, variance: PRIOR_VARIANCE };

    /// What closed forms are wrong by, where they are by so much for routes that share much with this one.
    pub fn by_others(biases: &[f64]) -> Self {
        let n = biases.len() as f64;
        // The closed form's own word counts as one more.
        let center = biases.iter().sum::<f64>() / (n + 1.0);
        let shared = PRIOR_VARIANCE * SHARED;
        Self { center, variance: PRIOR_VARIANCE - shared + shared / (n + 1.0) }
    }

    /// What a series of one size says of another, so many size classes away; other routes differ so much between the two.
    #[must_use]
    pub fn for_other_size(self, distance: usize, differences: &[f64]) -> Self {
        let n = differences.len() as f64;
        let difference = differences.iter().sum::<f64>() / (n + 1.0);
        let further = OTHER_SIZE_VARIANCE * distance as f64 / (n + 1.0);
        let variance = (self.variance + further).min(PRIOR_VARIANCE);
        Self { center: self.center + difference, variance }
    }
}

/// A series of values.
#[derive(Debug, Clone, Default)]
pub struct Series {
    family: Family,
    interval: Interval,
}

impl Series {
    /// How many values were seen, since the last level shift and at most 64.
    pub fn len(&self) -> usize {
        self.family.len()
    }

    /// Whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.family.is_empty()
    }

    /// By which predictor the next value is forecast; none before there is one.
    pub fn prediction(&self) -> Option<Prediction> {
        self.family.predict()
    }

    /// The next value: what was seen, weighed with what was expected.
    pub fn forecast(&self, expected: Expected) -> Expected {
        let Some(seen) = self.family.predict() else { return expected };
        let error = seen.error.map_or(USUAL_DEVIATION, |error| error * DEVIATION_OF_ERROR);
        // A few errors say little of the next ones.
        let n = self.family.len() as f64;
        let deviation = ((error * n + 2.0 * USUAL_DEVIATION) / (n + 2.0)).max(LEAST_DEVIATION);
        let of_mean = deviation * deviation / seen.averages;
        // What is far off the closed form shows how wrong that is here.
        let off = seen.value - expected.center;
        let before = expected.variance.max(off * off / 2.0);
        let weight = before / (before + of_mean);
        Expected {
            center: weight * seen.value + (1.0 - weight) * expected.center,
            variance: weight * of_mean,
        }
    }

    /// The average in the long run; none before there are values.
    pub fn long_run(&self) -> Option<f64> {
        self.family.long_run()
    }

    /// Takes a value.
    pub fn add(&mut self, value: f64) {
        self.family.add(value);
    }

    /// The interval around forecasts.
    pub fn interval(&self) -> &Interval {
        &self.interval
    }

    /// The forecast for this value was wrong by so much.
    pub fn missed_by(&mut self, error: f64) {
        self.interval.missed_by(error);
    }
}

/// The errors of forecasts, and the interval that holds nine of ten.
#[derive(Debug, Clone)]
pub struct Interval {
    errors: VecDeque<f64>,
    /// How often to miss, below and above, so that it comes out at [`MISSES`].
    levels: [f64; 2],
}

impl Default for Interval {
    fn default() -> Self {
        Self { errors: VecDeque::new(), levels: [MISSES; 2] }
    }
}

impl Interval {
    /// Whether it rests on errors of its own alone.
    pub fn is_known(&self) -> bool {
        self.errors.len() >= ENOUGH
    }

    /// What to add to a forecast for its lower and for its upper end.
    pub fn ends(&self) -> (f64, f64) {
        let mut sorted: Vec<f64> = self.errors.iter().copied().collect();
        if sorted.len() < ENOUGH {
            sorted.extend([-ASSUMED_ERROR, ASSUMED_ERROR]);
        }
        sorted.sort_by(f64::total_cmp);
        let [low, high] = self.levels;
        (quantile(&sorted, low).min(0.0), quantile(&sorted, 1.0 - high).max(0.0))
    }

    /// The mean of what times are by their forecasts: more than 1, as times that are longer are longer by more.
    pub fn mean_ratio(&self) -> f64 {
        let ratios = self.errors.iter().map(|error| error.clamp(-MOST_ERROR, MOST_ERROR).exp());
        (ratios.sum::<f64>() + FEW * USUAL_RATIO) / (self.errors.len() as f64 + FEW)
    }

    /// A forecast was wrong by so much.
    pub fn missed_by(&mut self, error: f64) {
        let (low, high) = self.ends();
        for (level, is_missed) in self.levels.iter_mut().zip([error < low, error > high]) {
            let missed = if is_missed { 1.0 } else { 0.0 };
            *level = (*level + STEP * (MISSES - missed)).clamp(*LEVELS.start(), *LEVELS.end());
        }
        if self.errors.len() == ERRORS {
            self.errors.pop_front();
        }
        self.errors.push_back(error);
    }
}

/// Of sorted values, the one below which this share of further values is. Beyond the ends it grows by the last gap.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    // A further value is equally likely to come into each of the gaps, those at both ends included.
    let at = share * (sorted.len() as f64 + 1.0) - 1.0;
    if at <= 0.0 {
        return sorted[0] + at * (sorted[1.min(last)] - sorted[0]).abs();
    }
    if at >= last as f64 {
        let beyond = at - last as f64;
        return sorted[last] + beyond * (sorted[last] - sorted[last.saturating_sub(1)]).abs();
    }
    let below = at.floor();
    let (one, other) = (sorted[below as usize], sorted[below as usize + 1]);
    one + (at - below) * (other - one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, assert_close};

    #[test]
    fn quantiles_by_hand() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_close(quantile(&sorted, 0.5), 2.5);
        assert_close(quantile(&sorted, 0.2), 1.0);
        assert_close(quantile(&sorted, 0.8), 4.0);
        assert_close(quantile(&sorted, 0.1), 0.5);
        assert_close(quantile(&sorted, 1.0), 5.0);
        assert_close(quantile(&[7.0], 0.01), 7.0);
    }

    #[test]
    fn what_was_seen_replaces_what_was_expected() {
        let mut series = Series::default();
        assert_eq!(series.forecast(Expected::CLOSED_FORM), Expected::CLOSED_FORM);
        series.add(1.0);
        let one = series.forecast(Expected::CLOSED_FORM);
        assert!(one.center > 0.7 && one.center < 1.0 && one.variance < PRIOR_VARIANCE, "{one:?}");
        (0..20).for_each(|_| series.add(1.0));
        let many = series.forecast(Expected::CLOSED_FORM);
        assert!(many.center > 0.99 && many.variance < one.variance / 10.0, "{many:?}");
    }

    /// Whatever the errors are like: normal, skewed, or ever larger.
    #[test]
    fn nine_of_ten_are_within() {
        for seed in 1..=5 {
            println!("seed {seed}");
            let mut noise = Noise::of_seed(seed);
            let kinds: [fn(&mut Noise, f64) -> f64; 3] = [
                |noise, _| 0.3 * noise.normal(),
                |noise, _| (0.5 * noise.normal()).exp() - 1.0,
                |noise, n| (0.1 + n / 1000.0) * noise.normal(),
            ];
            for (kind, of) in kinds.into_iter().enumerate() {
                let (mut interval, mut within, all) = (Interval::default(), 0, 2000);
                for n in 0..all {
                    let error = of(&mut noise, f64::from(n));
                    let (low, high) = interval.ends();
                    within += u32::from(n >= 100 && error >= low && error <= high);
                    interval.missed_by(error);
                }
                let share = f64::from(within) / f64::from(all - 100);
                assert!((0.88..0.93).contains(&share), "kind {kind}: {share}");
            }
        }
    }
}
