// SPDX-License-Identifier: GPL-2.0-or-later
//! A measure of all candidates: absolute, relative to the reference, and which candidates differ by more than chance.
//!
//! Under each seed, a candidate's score is the geometric mean over the cells that all candidates have. Everything else is of the
//! logarithms of these scores, seed by seed: means with 95 % confidence intervals by Student's t, and paired t tests of all pairs, with
//! Holm's correction within the measure.

use crate::{Better, Measure, Task, Unit, measures::Seen, outcomes::Outcomes, suite::COMMON};
use record::stats::{self, two_samples::holm};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Below this probability a difference is more than chance.
const SIGNIFICANCE: f64 = 0.05;

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The geometric mean over the seeds.
    pub mean: f64,
    /// Lower end of the interval; none with one seed.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// Of logarithms; `None` without values.
    pub(crate) fn of(logarithms: &[f64]) -> Option<Self> {
        let estimate = stats::mean_ci95(logarithms)?;
        Some(Self::around(estimate.mean, estimate.half_width))
    }

    /// Of the mean of logarithms, and half the width of its interval.
    pub(crate) fn around(mean: f64, half_width: Option<f64>) -> Self {
        let at = |offset: f64| (mean + offset).exp();
        Self { mean: at(0.0), low: half_width.map(|w| at(-w)), high: half_width.map(at) }
    }
}

/// A candidate's score in a measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateScore {
    /// The candidate.
    pub candidate: String,
    /// Its score under each seed, in the measure's unit.
    pub by_seed: Vec<f64>,
    /// In the measure's unit; none if it lacks runs.
    pub absolute: Option<Estimate>,
    /// Over the reference's; above 1 is better than that, whatever the measure.
    pub relative: Option<Estimate>,
}

impl CandidateScore {
    /// The logarithm of the score under each seed.
    pub(crate) fn logarithms(&self) -> Vec<f64> {
        self.by_seed.iter().map(|value| value.ln()).collect()
    }
}

/// Two candidates in a measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The one with the better mean.
    pub better: String,
    /// The other one.
    pub worse: String,
    /// By how much, as a ratio of 1 or more.
    pub ratio: f64,
    /// The probability of such a difference or a larger one by chance, corrected for the number of pairs.
    pub p: f64,
    /// Whether it is more than chance.
    pub differs: bool,
}

/// A measure of all candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureScores {
    /// For files.
    pub key: String,
    /// For people.
    pub title: String,
    /// Of absolute scores.
    pub unit: Unit,
    /// Which values are better.
    pub better: Better,
    /// The cells that all candidates have under all seeds.
    pub cells: Vec<String>,
    /// In the order of the candidates.
    pub scores: Vec<CandidateScore>,
    /// All pairs of candidates, with the reference among them.
    pub pairs: Vec<Pair>,
}

/// Logarithms by seed, of candidates in their order.
type Logarithms = Vec<Vec<f64>>;

impl MeasureScores {
    /// Of a task's measure; of one cell alone where that is named.
    pub(crate) fn of(
        task: &'static Task,
        measure: &Measure,
        (candidates, seeds): (&[String], u32),
        outcomes: &Outcomes,
        only: Option<&str>,
    ) -> Self {
        let values = |candidate: &str, seed| {
            let (own, common) = (
                outcomes.of(candidate, task.scenario, seed),
                outcomes.of(COMMON, task.scenario, seed),
            );
            let mut values = (measure.of)(&Seen { task, own, common });
            values.retain(|cell, value| {
                *value > 0.0 && value.is_finite() && only.is_none_or(|only| only == cell)
            });
            values
        };
        let all: Vec<Vec<BTreeMap<String, f64>>> = candidates
            .iter()
            .map(|candidate| (1..=seeds).map(|seed| values(candidate, seed)).collect())
            .collect();
        let cells = in_common(&all);
        let of_seed = |values: &BTreeMap<String, f64>| {
            let logarithms: Vec<f64> = cells.iter().map(|cell| values[*cell].ln()).collect();
            stats::mean(&logarithms)
        };
        let of_candidate = |seeds: &Vec<BTreeMap<String, f64>>| {
            let has_all = |values: &&BTreeMap<String, f64>| !values.is_empty();
            seeds.iter().filter(has_all).filter_map(of_seed).collect()
        };
        let logarithms: Logarithms = all.iter().map(of_candidate).collect();
        Self {
            key: measure.key.to_owned(),
            title: measure.title.to_owned(),
            unit: measure.unit,
            better: measure.better,
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            scores: scores(candidates, &logarithms, measure.better),
            pairs: pairs(candidates, &logarithms, measure.better),
        }
    }
}

/// The cells of all candidates that have any under all seeds.
fn in_common(all: &[Vec<BTreeMap<String, f64>>]) -> Vec<&str> {
    let mut with_any = all.iter().flatten().filter(|values| !values.is_empty());
    let first: BTreeSet<&str> = with_any
        .next()
        .map(|values| values.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let in_all = |cell: &&str| {
        all.iter().flatten().all(|values| values.is_empty() || values.contains_key(*cell))
    };
    first.into_iter().filter(in_all).collect()
}

/// Differences seed by seed; above zero is better.
pub(crate) fn advantages(one: &[f64], other: &[f64], better: Better) -> Vec<f64> {
    let sign = if better == Better::Less { -1.0 } else { 1.0 };
    one.iter().zip(other).map(|(one, other)| sign * (one - other)).collect()
}

fn scores(candidates: &[String], logarithms: &Logarithms, better: Better) -> Vec<CandidateScore> {
    let score = |(candidate, own): (&String, &Vec<f64>)| CandidateScore {
        candidate: candidate.clone(),
        by_seed: own.iter().map(|logarithm| logarithm.exp()).collect(),
        absolute: Estimate::of(own),
        relative: Estimate::of(&advantages(own, &logarithms[0], better)),
    };
    candidates.iter().zip(logarithms).map(score).collect()
}

fn pairs(candidates: &[String], logarithms: &Logarithms, better: Better) -> Vec<Pair> {
    let mut all = Vec::new();
    for (n, one) in candidates.iter().enumerate() {
        for (m, other) in candidates.iter().enumerate().skip(n + 1) {
            let advantages = advantages(&logarithms[n], &logarithms[m], better);
            let (Some(mean), Some(p)) =
                (stats::mean(&advantages), stats::mean_is_zero_p(&advantages))
            else {
                continue;
            };
            let (better, worse) = if mean < 0.0 { (other, one) } else { (one, other) };
            let (better, worse) = (better.clone(), worse.clone());
            all.push(Pair { better, worse, ratio: mean.abs().exp(), p, differs: false });
        }
    }
    correct(all.iter_mut().map(|pair| (&mut pair.p, &mut pair.differs)));
    all
}

/// Corrects the probabilities of tests that belong together, and says which differences are more than chance.
pub(crate) fn correct<'t>(tests: impl Iterator<Item = (&'t mut f64, &'t mut bool)>) {
    let tests: Vec<_> = tests.collect();
    let corrected = holm(&tests.iter().map(|(p, _)| **p).collect::<Vec<_>>());
    for ((p, differs), corrected) in tests.into_iter().zip(corrected) {
        (*p, *differs) = (corrected, corrected < SIGNIFICANCE);
    }
}
