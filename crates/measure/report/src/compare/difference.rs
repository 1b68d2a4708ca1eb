// SPDX-License-Identifier: GPL-2.0-or-later
//! A metric of two sides: means, the difference, and whether it is more than chance.
//!
//! Welch's t test decides, corrected by Holm for all tests of the comparison; the U test is shown next to it. Where neither
//! side varies there is nothing to test: the values are the same or they differ, by no chance.

use crate::{format, metric::write_mean};
use record::{
    metric::METRICS,
    stats::{
        mean_ci95,
        two_samples::{hedges_g, holm, mann_whitney, welch},
    },
};
use serde::Serialize;
use std::cmp::Ordering;

/// With a corrected probability of this or more, a difference is called chance.
pub const SIGNIFICANCE: f64 = 0.05;

/// What a difference is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// More than chance.
    Different,
    /// No more than chance explains.
    Chance,
    /// All values of both sides are equal.
    Same,
    /// All values of a side are equal, and those of the other side are others: a simulator that repeats itself is not a
    /// sample, so there is no test.
    Deterministic,
    /// A side has fewer than two values.
    TooFew,
    /// Flows of a side were cut off: only the quick ones have a completion time, so the means are not of the same flows.
    CutOff,
}

impl Verdict {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Different => "different",
            Self::Chance => "chance",
            Self::Same => "same",
            Self::Deterministic => "deterministic",
            Self::TooFew => "too few values",
            Self::CutOff => "cut off",
        }
    }
}

/// One side's values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The side.
    pub side: String,
    /// How many runs have a value.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % confidence interval, by Student's t; null below two values.
    pub ci95_half_width: Option<f64>,
}

/// A test of two samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// Its statistic, t or U.
    pub statistic: f64,
    /// The probability of such a difference or a larger one by chance.
    pub p: f64,
    /// The same, corrected for all tests of the comparison.
    pub p_corrected: f64,
}

/// A metric of two sides at equal parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// `run`, or the flow, hop, link or traffic, as in `lab export`.
    pub entity: String,
    /// A key of the summary.
    pub metric: String,
    /// Its unit.
    pub unit: &'static str,
    /// The side that the other is compared with.
    pub a: Estimate,
    /// The other side.
    pub b: Estimate,
    /// The second mean less the first.
    pub difference: f64,
    /// Half the width of its 95 % confidence interval, by Welch; null without a test.
    pub difference_half_width: Option<f64>,
    /// The difference in standard deviations, without the bias of small samples (Hedges' g); null without variance.
    pub hedges_g: Option<f64>,
    /// Welch's t test, which decides; null without variance.
    pub welch: Option<Test>,
    /// The Mann-Whitney U test; null without Welch's.
    pub mann_whitney: Option<Test>,
    /// What it is called.
    pub verdict: Verdict,
}

/// A side's name and its values of one metric.
#[derive(Debug, Clone)]
pub struct Sample {
    pub side: String,
    pub values: Vec<f64>,
}

impl Sample {
    fn estimate(&self) -> Option<Estimate> {
        let found = mean_ci95(&self.values)?;
        let (side, runs) = (self.side.clone(), self.values.len());
        Some(Estimate { side, runs, mean: found.mean, ci95_half_width: found.half_width })
    }

    fn varies(&self) -> bool {
        self.values.iter().any(|value| !are_equal(*value, self.values[0]))
    }
}

impl Estimate {
    /// Mean and interval with their unit: `94 ± 0.3 Mb/s`.
    pub fn text(&self, metric: &str) -> String {
        let mean = written(metric, self.mean);
        let half = self.ci95_half_width.filter(|half| *half > 0.0);
        half.map_or(mean.clone(), |half| format::plus_minus(&mean, &written(metric, half)))
    }
}

/// To the last digit: a deterministic run repeats itself exactly.
fn are_equal(a: f64, b: f64) -> bool {
    a.partial_cmp(&b) == Some(Ordering::Equal)
}

/// A mean of a metric with its unit.
fn written(metric: &str, mean: f64) -> String {
    match METRICS.iter().find(|known| known.last_key() == metric) {
        Some(known) => write_mean(known, mean),
        None => format::digits(mean),
    }
}

impl Difference {
    /// Before it is known how many tests there are; `None` where a side has no value.
    pub fn new(
        entity: &str,
        metric: &str,
        unit: &'static str,
        a: &Sample,
        b: &Sample,
    ) -> Option<Self> {
        let (of_a, of_b) = (a.estimate()?, b.estimate()?);
        let are_few = a.values.len().min(b.values.len()) < 2;
        let vary = a.varies() || b.varies();
        let test = |statistic, p| Test { statistic, p, p_corrected: p };
        let by_means = welch(&a.values, &b.values).filter(|_| vary);
        let by_ranks = mann_whitney(&a.values, &b.values).filter(|_| by_means.is_some());
        let verdict = match (are_few, vary) {
            (true, _) => Verdict::TooFew,
            (false, true) => Verdict::Chance,
            (false, false) if are_equal(a.values[0], b.values[0]) => Verdict::Same,
            (false, false) => Verdict::Deterministic,
        };
        Some(Self {
            entity: entity.to_owned(),
            metric: metric.to_owned(),
            unit,
            difference: of_b.mean - of_a.mean,
            difference_half_width: by_means.map(|of| of.half_width),
            hedges_g: hedges_g(&a.values, &b.values).filter(|_| vary),
            welch: by_means.map(|of| test(of.t, of.p)),
            mann_whitney: by_ranks.map(|of| test(of.u, of.p)),
            verdict,
            a: of_a,
            b: of_b,
        })
    }

    /// The same without a test, since flows of a side were cut off.
    #[must_use]
    pub fn of_cut_off(self) -> Self {
        Self { welch: None, mann_whitney: None, verdict: Verdict::CutOff, ..self }
    }

    /// The difference in percent of the first mean, with its interval: `-15 % (-17 to -13)`. Empty if that mean is zero.
    pub fn relative_text(&self) -> String {
        let Some((share, half)) = self.relative() else { return String::new() };
        let percent = |share: f64| {
            let percent = 100.0 * share;
            format!("{:+.1}", if percent.abs() < 0.05 { 0.0 } else { percent })
        };
        let interval =
            half.map(|half| format!(" ({} to {})", percent(share - half), percent(share + half)));
        format!("{} %{}", percent(share), interval.unwrap_or_default())
    }

    /// The difference as a share of the first mean, which is taken as known, and half the width of its interval; `None` if
    /// that mean is zero.
    pub fn relative(&self) -> Option<(f64, Option<f64>)> {
        let mean = self.a.mean.abs();
        let share = |value: f64| value / mean;
        (mean > 0.0).then(|| (share(self.difference), self.difference_half_width.map(share)))
    }
}

/// A probability with two digits.
pub fn written_p(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format::significant(p, 2) }
}

/// Corrects the probabilities of all tests together and names each difference; returns the number of tests.
pub fn decide<'d>(differences: impl Iterator<Item = &'d mut Difference>) -> usize {
    let mut tested: Vec<&mut Difference> = differences.filter(|one| one.welch.is_some()).collect();
    correct(tested.iter_mut().filter_map(|one| one.welch.as_mut()));
    correct(tested.iter_mut().filter_map(|one| one.mann_whitney.as_mut()));
    for one in &mut tested {
        let is_significant = one.welch.as_ref().is_some_and(|test| test.p_corrected < SIGNIFICANCE);
        one.verdict = if is_significant { Verdict::Different } else { Verdict::Chance };
    }
    tested.len()
}

fn correct<'t>(tests: impl Iterator<Item = &'t mut Test>) {
    let tests: Vec<&mut Test> = tests.collect();
    let corrected = holm(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
    for (test, p) in tests.into_iter().zip(corrected) {
        test.p_corrected = p;
    }
}
