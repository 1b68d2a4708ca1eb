// SPDX-License-Identifier: GPL-2.0-or-later
//! What goes wrong with hosts.

use crate::message::Reservation;
use experiment::ExperimentError;
use units::{ClassifyFailure, FailureClass};

/// What went wrong with a host.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// ssh did not get there.
    #[error("{node}: ssh {ssh} does not get there: {why}")]
    Unreached {
        /// The node.
        node: String,
        /// Where ssh was to go.
        ssh: String,
        /// What ssh said.
        why: String,
    },
    /// It lacks something.
    #[error("{node}: {lacks}")]
    Lacks {
        /// The node.
        node: String,
        /// What, and what to do.
        lacks: String,
    },
    /// Another experiment has it.
    #[error("{node}: {by}")]
    Busy {
        /// The node.
        node: String,
        /// Which.
        by: Reservation,
    },
    /// A setting was not made, or not put back.
    #[error("{node}: {what}")]
    Setting {
        /// The node.
        node: String,
        /// Which, and why.
        what: String,
    },
    /// A path to another host cannot be measured.
    #[error("{node}: {why}")]
    Path {
        /// The node.
        node: String,
        /// Which path, and why.
        why: String,
    },
    /// Its part of a run did not take place.
    #[error("{node}: {why}")]
    Part {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// The connection to its guard ended, or said nothing for too long.
    #[error("{node}: the guard is gone: {why}")]
    Gone {
        /// The node.
        node: String,
        /// How that showed.
        why: String,
    },
    /// It answers what was not asked.
    #[error("{node}: unexpected answer of the guard: {what}")]
    Answer {
        /// The node.
        node: String,
        /// What.
        what: String,
    },
    /// A file of this host cannot be read or written.
    #[error("{0}")]
    Own(String),
}

impl ClassifyFailure for FieldError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Lacks { .. } => FailureClass::Lacks,
            _ => FailureClass::Failed,
        }
    }
}

impl From<FieldError> for ExperimentError {
    fn from(error: FieldError) -> Self {
        Self::OfMethod(Box::new(error))
    }
}
