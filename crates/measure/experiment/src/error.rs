// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a scenario could not be run. A transfer that fails or is cut off is not an error: it is a
//! result, and part of the record.

use host::Lack;
use std::{io, path::PathBuf};
use units::{ClassifyFailure, FailureClass};

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The machine lacks something.
    #[error(transparent)]
    Lacks(Lack),
    /// The scenario asks for what this method can't do.
    #[error("{0}")]
    Unsupported(String),
    /// A user's congestion control made a mistake in the run of that name.
    #[error("{run}: {fault}")]
    Fault {
        /// Which run.
        run: String,
        /// What it did, with file and line.
        fault: Box<congestion::Fault>,
    },
    /// What only the method knows of failed.
    #[error(transparent)]
    OfMethod(Box<dyn std::error::Error + Send + Sync>),
    /// The record could not be written or an earlier one read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A file or a system call failed.
    #[error("could not {what}{}: {error}", path.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default())]
    System {
        /// What was tried.
        what: &'static str,
        /// On which file, if on one.
        path: Option<PathBuf>,
        /// The system's answer.
        error: io::Error,
    },
    /// Another engine runs into this folder.
    #[error(
        "another longhaul runs into {folder}: see longhaul lab status {folder}, or give another --out",
        folder = .0.display()
    )]
    Busy(PathBuf),
    /// Ctrl-C or SIGTERM.
    #[error(
        "interrupted; what was finished before is on record, and simulations as far as they went"
    )]
    Interrupted,
}

impl ExperimentError {
    /// A system call failed.
    pub fn system(what: &'static str, error: io::Error) -> Self {
        Self::System { what, path: None, error }
    }

    /// Something that was done with a file failed.
    pub fn file(what: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::System { what, path: Some(path.into()), error }
    }
}

impl ClassifyFailure for ExperimentError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Lacks(_) => FailureClass::Lacks,
            Self::Unsupported(_) => FailureClass::Usage,
            _ => FailureClass::Failed,
        }
    }
}
