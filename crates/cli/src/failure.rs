// SPDX-License-Identifier: GPL-2.0-or-later
//! How a command ends when it does not end well: the exit codes of the command line's contract.

use ::wan::WanError;
use std::{
    fmt::{self, Display},
    process::ExitCode,
};

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// It was tried and failed.
    Failed(String),
    /// It was asked for in the wrong way.
    Usage(String),
    /// The machine lacks something; the text names it and how to get it.
    Lacks(String),
    /// Data arrived that are not what was sent, or a ticket is not good.
    Unverified(String),
}

impl Failure {
    pub fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    pub fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// The same, in other words.
    pub fn with(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(words(text)),
            Self::Usage(text) => Self::Usage(words(text)),
            Self::Lacks(text) => Self::Lacks(words(text)),
            Self::Unverified(text) => Self::Unverified(words(text)),
        }
    }

    /// Says it on standard error.
    pub fn report(&self) -> ExitCode {
        let code = match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Lacks(_) => 3,
            Self::Unverified(_) => 4,
        };
        eprintln!("longhaul: {self}");
        ExitCode::from(code)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Failed(text) | Self::Usage(text) | Self::Lacks(text) | Self::Unverified(text)) =
            self;
        f.write_str(text)
    }
}

impl From<WanError> for Failure {
    fn from(error: WanError) -> Self {
        match error {
            WanError::Lacks(what) => Self::Lacks(what),
            WanError::NoSuchNode { .. } => Self::usage(error),
            other => Self::failed(other),
        }
    }
}
