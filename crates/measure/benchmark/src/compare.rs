// SPDX-License-Identifier: GPL-2.0-or-later
//! Two cards, or two candidates, measure by measure: two versions of longhaul, or of an algorithm.

use crate::{
    BenchmarkError, Card,
    score::{CandidateScore, Estimate, MeasureScores, advantages, correct},
};
use record::stats::{self, two_samples::welch};
use serde::Serialize;

/// A candidate of a card.
#[derive(Debug, Clone, Copy)]
pub struct Side<'c> {
    /// The card.
    pub card: &'c Card,
    /// The candidate.
    pub candidate: &'c str,
}

/// A measure of two candidates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The first candidate.
    pub from: String,
    /// The second.
    pub to: String,
    /// The task.
    pub task: String,
    /// The measure.
    pub measure: String,
    /// How many times better the second one is; below 1, it is worse.
    pub better: Estimate,
    /// The probability of such a difference or a larger one by chance, corrected for the number of measures.
    pub p: f64,
    /// Whether it is more than chance.
    pub differs: bool,
}

/// All candidates that two cards have in common.
///
/// # Errors
/// The cards are not of the same runs, or have none in common.
pub fn cards(a: &Card, b: &Card) -> Result<Vec<Change>, BenchmarkError> {
    let common = a.candidates.iter().filter(|candidate| b.candidates.contains(candidate));
    let sides = common.map(|it| (Side { card: a, candidate: it }, Side { card: b, candidate: it }));
    let sides: Vec<_> = sides.collect();
    if sides.is_empty() {
        return Err(BenchmarkError::NothingInCommon);
    }
    changes(&sides)
}

/// Pairs of candidates, of one card or of two.
///
/// # Errors
/// The cards are not of the same runs.
pub fn changes(pairs: &[(Side<'_>, Side<'_>)]) -> Result<Vec<Change>, BenchmarkError> {
    let mut all = Vec::new();
    for (from, to) in pairs {
        check(from.card, to.card)?;
        for task in &from.card.tasks {
            let other = to.card.tasks.iter().find(|it| it.name == task.name);
            let Some(other) = other else { continue };
            // A card lacks measures of which it has no values.
            for measure in &task.measures {
                let with = other.measures.iter().find(|it| it.key == measure.key);
                all.extend(with.and_then(|it| change((from, measure), (to, it), &task.name)));
            }
        }
    }
    correct(all.iter_mut().map(|change| (&mut change.p, &mut change.differs)));
    Ok(all)
}

/// Whether scores are of the same scenarios.
fn check(a: &Card, b: &Card) -> Result<(), BenchmarkError> {
    if a.suite != b.suite {
        return Err(BenchmarkError::Versions { a: a.suite, b: b.suite });
    }
    let extent = |card: &Card| format!("{:?} by {}", card.extent, card.method).to_lowercase();
    if extent(a) != extent(b) {
        return Err(BenchmarkError::Extents { a: extent(a), b: extent(b) });
    }
    Ok(())
}

fn change(
    (from, a): (&Side<'_>, &MeasureScores),
    (to, b): (&Side<'_>, &MeasureScores),
    task: &str,
) -> Option<Change> {
    let logarithms = |of: &MeasureScores, candidate: &str| {
        let is_it = |score: &&CandidateScore| score.candidate == candidate;
        Some(of.scores.iter().find(is_it)?.logarithms())
    };
    let (one, other) = (logarithms(a, from.candidate)?, logarithms(b, to.candidate)?);
    // Scores of other cells are not to be compared.
    if a.cells != b.cells || one.is_empty() || other.is_empty() {
        return None;
    }
    let same_seeds = from.card.first_seed == to.card.first_seed && one.len() == other.len();
    let (better, p) = if same_seeds {
        let advantages = advantages(&other, &one, a.better);
        (Estimate::of(&advantages)?, stats::mean_is_zero_p(&advantages).unwrap_or(1.0))
    } else {
        apart(&one, &other, a)
    };
    Some(Change {
        from: from.candidate.to_owned(),
        to: to.candidate.to_owned(),
        task: task.to_owned(),
        measure: a.key.clone(),
        better,
        p,
        differs: false,
    })
}

/// Under other seeds, by Welch's test.
fn apart(one: &[f64], other: &[f64], measure: &MeasureScores) -> (Estimate, f64) {
    let mean = |values: &[f64]| stats::mean(values).unwrap_or(0.0);
    let mean = advantages(&[mean(other)], &[mean(one)], measure.better)[0];
    let test = welch(one, other);
    let estimate = Estimate::around(mean, test.map(|test| test.half_width));
    // Where neither varies, any difference is one.
    let p = test.map_or(if mean == 0.0 { 1.0 } else { 0.0 }, |test| test.p);
    (estimate, p)
}
