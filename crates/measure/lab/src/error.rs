// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a scenario could not be emulated.

use experiment::ExperimentError;
use host::Lack;
use std::{io, path::PathBuf};

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
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
}

impl LabError {
    pub(crate) fn lacks(lack: Lack) -> Self {
        ExperimentError::Lacks(lack).into()
    }

    pub(crate) fn system(what: &'static str, error: io::Error) -> Self {
        ExperimentError::system(what, error).into()
    }

    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        ExperimentError::file(what, path, error).into()
    }
}

impl From<wan::WanError> for LabError {
    fn from(error: wan::WanError) -> Self {
        match error {
            wan::WanError::Lacks(what) => Self::lacks(what),
            other => Self::Wan(other),
        }
    }
}

impl From<kernel::Error> for LabError {
    fn from(error: kernel::Error) -> Self {
        if error.is_lack() {
            Self::lacks(Lack::from_text(error.to_string()))
        } else {
            Self::Kernel(error)
        }
    }
}

impl From<LabError> for ExperimentError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Experiment(error) => error,
            other => Self::OfMethod(Box::new(other)),
        }
    }
}
