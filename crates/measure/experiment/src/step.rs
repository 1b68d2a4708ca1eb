// SPDX-License-Identifier: GPL-2.0-or-later
//! The steps of a run.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A step of a run, in their order. A method that has nothing to do in a step leaves it out.
///
/// Source: Guillier 2009, "Méthodologies et outils pour l'évaluation des protocoles de transport", steps of an experiment (paper 004).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Hosts are taken, so that no other experiment uses them.
    Reservation,
    /// Programs and settings are brought to hosts; emulated hosts and links come up.
    Deployment,
    /// Captures, pacing and servers are started, and settings read back.
    Configuration,
    /// What the scenario says takes place.
    Execution,
    /// Samples, logs and files are fetched, and settings put back.
    Collection,
    /// The record is computed.
    Analysis,
    /// The record is put where it stays.
    Archive,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Reservation,
        Self::Deployment,
        Self::Configuration,
        Self::Execution,
        Self::Collection,
        Self::Analysis,
        Self::Archive,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reservation => "reservation",
            Self::Deployment => "deployment",
            Self::Configuration => "configuration",
            Self::Execution => "execution",
            Self::Collection => "log collection",
            Self::Analysis => "analysis",
            Self::Archive => "archive",
        })
    }
}
