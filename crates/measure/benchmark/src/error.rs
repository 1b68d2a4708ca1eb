// SPDX-License-Identifier: GPL-2.0-or-later
//! Why there is no benchmark, or no comparison of two.

use scenario::Diagnostics;

/// Why there is no benchmark, or no comparison of two.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// A scenario of the suite does not take a candidate.
    #[error("{candidate} cannot be run: {problems}")]
    Candidate {
        /// The candidate.
        candidate: String,
        /// What is wrong.
        problems: Diagnostics,
    },
    /// A name that no task has.
    #[error("there is no task \"{name}\": the tasks are {}", known.join(", "))]
    NoSuchTask {
        /// As asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A candidate is named twice.
    #[error("{0} is named twice")]
    Twice(String),
    /// There is nothing to be run.
    #[error("{0} chains of depots: the suite has 0, 1 and 2")]
    NoSuchChain(u32),
    /// Cards of different suites.
    #[error(
        "one is of version {a} of the suite, the other of version {b}: run both again by one longhaul"
    )]
    Versions {
        /// Of the first card.
        a: u32,
        /// Of the second.
        b: u32,
    },
    /// Cards of different extents or methods.
    #[error("one is {a}, the other {b}: their scores are of different runs")]
    Extents {
        /// Of the first card.
        a: String,
        /// Of the second.
        b: String,
    },
    /// Cards that have nothing in common.
    #[error("no candidate is in both. Compare two candidates of one card by its own scores")]
    NothingInCommon,
}
