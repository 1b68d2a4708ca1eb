// SPDX-License-Identifier: GPL-2.0-or-later
//! One series, many predictors, and the one with the lowest error of late: the method of the Network Weather Service.
//!
//! Sources: Wolski, Spring, Hayes, "The Network Weather Service", Future Generation Computer Systems 15, 1999 (the family, and
//! its choice by error); He, Dovrolis, Ammar, "On the predictability of large transfer TCP throughput", SIGCOMM 2005
//! (Holt-Winters, and that a level shift makes what came before useless).

use std::collections::VecDeque;

/// The most values that are kept.
const KEPT: usize = 64;
/// The weight of an error after one more value.
const ERROR_DECAY: f64 = 0.93;
/// What of a trend is expected to go on.
const DAMPED: f64 = 0.7;
/// The weight of the newest value in the long run's average.
const LONG_RUN: f64 = 0.04;
/// Values of the same side in a row that make a level shift.
const SHIFT: usize = 3;
/// Such values differ by more than so many typical errors, and by more than this.
const SHIFT_ERRORS: f64 = 2.0;
const LEAST_SHIFT: f64 = 0.1;

/// How a value is predicted from those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// It is the one before.
    Last,
    /// The mean of all since the last level shift.
    Mean,
    /// The median of all since the last level shift.
    Median,
    /// The mean of the last 5.
    ShortMean,
    /// The mean of the last 20.
    LongMean,
    /// The median of the last 5.
    ShortMedian,
    /// The median of the last 21.
    LongMedian,
    /// Exponentially weighted, 0.1 for the newest.
    SlowAverage,
    /// Exponentially weighted, 0.3 for the newest.
    FastAverage,
    /// Double exponential (Holt-Winters without seasons): level and trend.
    Trend,
}

impl Predictor {
    /// All, in the order in which they win at equal errors.
    pub const ALL: [Self; 10] = [
        Self::Mean,
        Self::LongMean,
        Self::SlowAverage,
        Self::Median,
        Self::LongMedian,
        Self::FastAverage,
        Self::ShortMean,
        Self::ShortMedian,
        Self::Trend,
        Self::Last,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::ShortMean => "mean of 5",
            Self::LongMean => "mean of 20",
            Self::ShortMedian => "median of 5",
            Self::LongMedian => "median of 21",
            Self::SlowAverage => "average, 0.1",
            Self::FastAverage => "average, 0.3",
            Self::Trend => "Holt-Winters",
        }
    }

    /// Of how many independent values its prediction is the mean, about, if there are `n`.
    fn averages(self, n: f64) -> f64 {
        match self {
            Self::Last => 1.0,
            Self::Mean => n,
            // The median's variance is larger by pi / 2.
            Self::Median => n / 1.57,
            Self::ShortMean => n.min(5.0),
            Self::LongMean => n.min(20.0),
            Self::ShortMedian => n.min(5.0) / 1.57,
            Self::LongMedian => n.min(21.0) / 1.57,
            Self::SlowAverage => n.min(19.0),
            Self::FastAverage => n.min(5.7),
            Self::Trend => n.min(2.0),
        }
        .max(1.0)
    }
}

/// The predictors of a series.
#[derive(Debug, Clone, Default)]
pub struct Family {
    /// Since the last level shift, the newest last.
    values: VecDeque<f64>,
    /// Not since the last level shift, but of all values: their weighted sum, and that of weights.
    long_run: (f64, f64),
    slow: f64,
    fast: f64,
    level: f64,
    trend: f64,
    /// Of each predictor: sum of weighted errors, and of weights.
    errors: [(f64, f64); Predictor::ALL.len()],
    /// Errors of late that were all above or all below, and large.
    outside: Vec<f64>,
}

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The next value.
    pub value: f64,
    /// By which predictor.
    pub by: Predictor,
    /// Its mean absolute error so far; none before there is one.
    pub error: Option<f64>,
    /// Of how many values this is the mean, about.
    pub averages: f64,
}

impl Family {
    /// Values since the last level shift, at most 64.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The next value; none without any before it.
    pub fn predict(&self) -> Option<Prediction> {
        if self.values.is_empty() {
            return None;
        }
        let error = |at: usize| match self.errors[at] {
            (sum, weight) if weight > 0.0 => Some(sum / weight),
            _ => None,
        };
        // Few errors are lower by chance, most of all those of predictors that follow each value.
        let n = self.values.len() as f64;
        let handicap = |at: usize| match Predictor::ALL[at].averages(f64::INFINITY) {
            averages if averages < 10.0 => 1.05 + 2.0 / n,
            _ => 1.0,
        };
        let counted = |at: usize| error(at).unwrap_or(0.0) * handicap(at);
        let better = |one: &usize, other: &usize| counted(*one).total_cmp(&counted(*other));
        // Of equals the first.
        let at = (0..Predictor::ALL.len()).min_by(better)?;
        let by = Predictor::ALL[at];
        let averages = by.averages(self.values.len() as f64);
        Some(Prediction { value: self.value_of(by), by, error: error(at), averages })
    }

    /// A further value.
    pub fn add(&mut self, value: f64) {
        if let Some(prediction) = self.predict() {
            let all = Predictor::ALL.map(|predictor| self.value_of(predictor));
            for (of, predicted) in self.errors.iter_mut().zip(all) {
                of.0 = of.0 * ERROR_DECAY + (value - predicted).abs();
                of.1 = of.1 * ERROR_DECAY + 1.0;
            }
            self.watch_level(value - prediction.value, prediction.error);
        }
        let (sum, weight) = self.long_run;
        self.long_run = (sum * (1.0 - LONG_RUN) + value, weight * (1.0 - LONG_RUN) + 1.0);
        self.take(value);
    }

    /// The average in the long run, across level shifts; none without values.
    pub fn long_run(&self) -> Option<f64> {
        let (sum, weight) = self.long_run;
        (weight > 0.0).then(|| sum / weight)
    }

    fn take(&mut self, value: f64) {
        if self.values.is_empty() {
            (self.slow, self.fast, self.level, self.trend) = (value, value, value, 0.0);
        } else {
            self.slow += 0.1 * (value - self.slow);
            self.fast += 0.3 * (value - self.fast);
            let level = 0.5 * value + 0.5 * (self.level + self.trend);
            self.trend = 0.2 * (level - self.level) + 0.8 * self.trend;
            self.level = level;
        }
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// Several large errors in a row to the same side: what came before them does not count any more.
    fn watch_level(&mut self, error: f64, typical: Option<f64>) {
        let Some(typical) = typical else { return };
        let is_large = error.abs() > (SHIFT_ERRORS * typical).max(LEAST_SHIFT);
        let is_same = self.outside.last().is_none_or(|before| before.signum() == error.signum());
        if !is_large || !is_same {
            self.outside.clear();
        }
        if !is_large {
            return;
        }
        self.outside.push(error);
        // The newest is about to be taken.
        if self.outside.len() == SHIFT {
            let newest = self.values.len() + 1 - SHIFT;
            let kept: Vec<f64> = self.values.drain(..).skip(newest).collect();
            for value in kept {
                self.take(value);
            }
            self.outside.clear();
            self.errors = Default::default();
        }
    }

    fn value_of(&self, predictor: Predictor) -> f64 {
        let last = |n: usize| self.values.iter().rev().take(n).copied();
        match predictor {
            Predictor::Last => last(1).next().unwrap_or_default(),
            Predictor::Mean => mean(last(KEPT)),
            Predictor::Median => median(last(KEPT).collect()),
            Predictor::ShortMean => mean(last(5)),
            Predictor::LongMean => mean(last(20)),
            Predictor::ShortMedian => median(last(5).collect()),
            Predictor::LongMedian => median(last(21).collect()),
            Predictor::SlowAverage => self.slow,
            Predictor::FastAverage => self.fast,
            Predictor::Trend => self.level + DAMPED * self.trend,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / n
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::assert_close;

    fn of(values: &[f64]) -> Family {
        let mut family = Family::default();
        for value in values {
            family.add(*value);
        }
        family
    }

    #[test]
    fn predictors_by_hand() {
        let family = of(&[1.0, 2.0, 6.0]);
        let value = |predictor| family.value_of(predictor);
        assert_close(value(Predictor::Last), 6.0);
        assert_close(value(Predictor::Mean), 3.0);
        assert_close(value(Predictor::Median), 2.0);
        assert_close(value(Predictor::ShortMedian), 2.0);
        // 1, then 1.1, then 1.59.
        assert!((value(Predictor::SlowAverage) - 1.59).abs() < 1e-12);
        // Level 1, trend 0; level 1.5, trend 0.1; level (6 + 1.6) / 2, trend 0.2 * 2.3 + 0.08.
        assert!((value(Predictor::Trend) - (3.8 + 0.7 * 0.54)).abs() < 1e-12);
        // Weights 0.96 squared, 0.96 and 1.
        let all = 0.96 * 0.96 + 0.96 * 2.0 + 6.0;
        assert!((family.long_run().unwrap() - all / (0.96 * 0.96 + 0.96 + 1.0)).abs() < 1e-12);
        assert_eq!(of(&[]).predict(), None);
        assert_eq!(of(&[4.0]).predict().map(|it| (it.value, it.error)), Some((4.0, None)));
    }

    #[test]
    fn winner_fits_the_series() {
        let seed = 11;
        println!("seed {seed}");
        let mut noise = crate::noise::Noise::of_seed(seed);
        let around = of(&(0..60).map(|_| 5.0 + noise.normal()).collect::<Vec<_>>());
        let steady = around.predict().unwrap();
        assert!(steady.averages >= 10.0, "noise around a level is averaged: {steady:?}");
        let rising = of(&(0..60).map(|n| 0.5 * f64::from(n)).collect::<Vec<_>>());
        assert_eq!(rising.predict().unwrap().by, Predictor::Trend);
        // Of a random walk the last value is the best forecast.
        let (mut family, mut at, mut errors) = (Family::default(), 0.0, [0.0, 0.0]);
        for _ in 0..500 {
            let (predicted, before) = (family.predict(), at);
            at += noise.normal();
            let predicted = predicted.map_or(0.0, |it| it.value);
            errors[0] += (at - predicted).abs();
            errors[1] += (at - before).abs();
            family.add(at);
        }
        assert!(errors[0] < 1.25 * errors[1], "{errors:?}");
    }

    #[test]
    fn level_shift_is_followed_within_a_few_values_and_an_outlier_is_not() {
        let seed = 12;
        println!("seed {seed}");
        let mut noise = crate::noise::Noise::of_seed(seed);
        let mut family = of(&(0..40).map(|_| 1.0 + 0.05 * noise.normal()).collect::<Vec<_>>());
        family.add(9.0);
        assert!((family.predict().unwrap().value - 1.0).abs() < 0.5, "{:?}", family.predict());
        (0..10).for_each(|_| family.add(1.0 + 0.05 * noise.normal()));
        (0..4).for_each(|_| family.add(3.0 + 0.05 * noise.normal()));
        let after = family.predict().unwrap();
        assert!((after.value - 3.0).abs() < 0.2 && family.len() <= 5, "{after:?}");
    }

    #[test]
    fn values_are_bounded() {
        let family = of(&[1.0; 1000]);
        assert_eq!(family.len(), KEPT);
    }
}
