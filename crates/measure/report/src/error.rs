// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a report, a figure or a table could not be made.

use std::{io, path::PathBuf};
use units::{ClassifyFailure, FailureClass};

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// There is nothing to report on: the folder is not one that records were written into.
    #[error("there is no record at or below {}", .0.display())]
    Empty(PathBuf),
    /// The records do not give the figure that was asked for; the text says why.
    #[error("{0}")]
    Figure(String),
    /// Nothing is left without the warm-up; the text says why.
    #[error("{0}")]
    WarmUp(String),
    /// The records cannot be compared; the text says why and what to do.
    #[error("{0}")]
    Comparison(String),
    /// There is no image of pixels; the text says why.
    #[error("{0}")]
    Png(String),
    /// The page cannot be written: disk full, or the caller may not.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The page's path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Figure(_) | Self::WarmUp(_) | Self::Comparison(_) => FailureClass::Usage,
            _ => FailureClass::Failed,
        }
    }
}
