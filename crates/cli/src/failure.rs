// SPDX-License-Identifier: GPL-2.0-or-later
//! How a command ends when it does not end well: the exit codes of the command line's contract.

use ::wan::WanError;
use std::{fmt::Display, process::ExitCode};

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// It was tried and failed.
    Failed(String),
    /// It was asked for in the wrong way.
    Usage(String),
    /// The machine lacks something; the text names it and how to get it.
    Lacks(String),
    /// Data arrived that are not what was sent.
    Unverified(String),
}

impl Failure {
    pub fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    pub fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// Says it on standard error.
    pub fn report(&self) -> ExitCode {
        let (code, text) = match self {
            Self::Failed(text) => (1, text),
            Self::Usage(text) => (2, text),
            Self::Lacks(text) => (3, text),
            Self::Unverified(text) => (4, text),
        };
        eprintln!("longhaul: {text}");
        ExitCode::from(code)
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
