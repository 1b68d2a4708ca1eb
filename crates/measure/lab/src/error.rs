// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a scenario could not be emulated.

use experiment::ExperimentError;
use host::Lack;
use std::{io, path::PathBuf};

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The machine lacks something.
    #[error(transparent)]
    Lacks(Lack),
    /// The emulated network could not be brought up or taken down.
    #[error(transparent)]
    Wan(wan::WanError),
    /// A congestion control could not be brought into the kernel.
    #[error(transparent)]
    Kernel(kernel::Error),
    /// A server did not start.
    #[error("{name} did not come up: {reason}")]
    Server {
        /// Which.
        name: String,
        /// What it said, or how it ended.
        reason: String,
    },
    /// What is the same for all methods failed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A file or a system call of the lab's own failed.
    #[error("could not {what}{}: {error}", path.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default())]
    System {
        /// What was tried.
        what: &'static str,
        /// On which file, if on one.
        path: Option<PathBuf>,
        /// The system's answer.
        error: io::Error,
    },
}

impl LabError {
    pub(crate) fn system(what: &'static str, error: io::Error) -> Self {
        Self::System { what, path: None, error }
    }

    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::System { what, path: Some(path.into()), error }
    }
}

impl From<wan::WanError> for LabError {
    fn from(error: wan::WanError) -> Self {
        match error {
            wan::WanError::Lacks(what) => Self::Lacks(what),
            other => Self::Wan(other),
        }
    }
}

impl From<kernel::Error> for LabError {
    fn from(error: kernel::Error) -> Self {
        if error.is_lack() {
            Self::Lacks(Lack::from_text(error.to_string()))
        } else {
            Self::Kernel(error)
        }
    }
}

impl From<LabError> for ExperimentError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Lacks(lack) => Self::Lacks(lack),
            LabError::Experiment(error) => error,
            LabError::System { what, path, error } => Self::System { what, path, error },
            other => Self::OfMethod(Box::new(other)),
        }
    }
}
