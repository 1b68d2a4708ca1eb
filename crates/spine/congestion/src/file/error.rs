// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a file gives no algorithm.

use std::io;
use units::{ClassifyFailure, FailureClass};

/// Why a file gives no algorithm.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read, is not a text file, or has no algorithm.
    #[error("{file}: {why}")]
    Unusable {
        /// The file as it was named.
        file: String,
        /// Why.
        why: String,
    },
    /// The compiler refuses it.
    #[error("{file} does not compile:\n{said}")]
    DoesNotCompile {
        /// The file as it was named.
        file: String,
        /// The compiler's messages.
        said: String,
    },
    /// There is no compiler.
    #[error(
        "no C compiler: {compiler}: {error}. Install one (Debian, Ubuntu: apt-get install gcc; Fedora: dnf install \
         gcc) or name it: CC=/path/to/gcc"
    )]
    NoCompiler {
        /// The compiler's command.
        compiler: String,
        /// The system's answer.
        error: io::Error,
    },
    /// Something of this machine failed.
    #[error("could not {what}: {error}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

impl FileError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

impl ClassifyFailure for FileError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Unusable { .. } | Self::DoesNotCompile { .. } => FailureClass::Usage,
            Self::NoCompiler { .. } => FailureClass::Lacks,
            Self::System { .. } => FailureClass::Failed,
        }
    }
}
