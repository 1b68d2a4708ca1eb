// SPDX-License-Identifier: GPL-2.0-or-later
//! A benchmark of congestion controls and depots for users: a fixed set of tasks, scores with intervals, and comparisons.
//!
//! ```text
//! suite      the scenarios (scenarios/benchmark), what a plan runs of them for which candidates
//! task       the tasks, each with its measures
//!   measures   numbers of one seed's runs
//! outcomes   the runs of all candidates, by scenario and seed
//! score      a measure of all candidates: absolute, relative to the reference, and which differ by more than chance
//! card       all scores as one document
//! compare    two cards
//! ```
//! A candidate's score in a measure is the geometric mean over the task's cells, for each seed; all candidates meet the same
//! chance under a seed, so they are compared seed by seed. Larger relative scores are better, whatever the measure.
//!
//! Nothing here runs anything, and there is no I/O.

pub mod card;
pub mod compare;
mod error;
mod measures;
mod outcomes;
pub mod score;
mod suite;
mod task;

pub use card::Card;
pub use error::BenchmarkError;
pub use outcomes::{Cell, Outcomes};
pub use score::{Estimate, MeasureScores, Pair};
pub use suite::{Batch, Extent, Plan, REFERENCE, VERSION};
pub use task::{Better, Measure, TASKS, Task, Unit};
