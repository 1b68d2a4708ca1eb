// SPDX-License-Identifier: GPL-2.0-or-later
//! How a command fails: a message, and the class that its exit code tells.

use std::{
    fmt::{self, Display},
    process::ExitCode,
};
use units::{ClassifyFailure, FailureClass};

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    class: FailureClass,
    /// Where it is not that of the class: after a signal.
    exit_code: Option<u8>,
    text: String,
}

impl Failure {
    pub fn new(class: FailureClass, text: impl Display) -> Self {
        Self { class, exit_code: None, text: text.to_string() }
    }

    /// With an exit code that is not the class's.
    pub fn with_exit_code(self, code: u8) -> Self {
        Self { exit_code: Some(code), ..self }
    }

    /// It was tried and failed.
    pub fn failed(text: impl Display) -> Self {
        Self::new(FailureClass::Failed, text)
    }

    /// It was asked for in the wrong way.
    pub fn usage(text: impl Display) -> Self {
        Self::new(FailureClass::Usage, text)
    }

    /// Data arrived that are not what was sent, or a ticket is not good.
    pub fn unverified(text: impl Display) -> Self {
        Self::new(FailureClass::Unverified, text)
    }

    /// Prints the message to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        self.print();
        ExitCode::from(self.exit_code.unwrap_or(self.class.exit_code()))
    }

    /// Prints the message to standard error.
    pub fn print(&self) {
        eprintln!("longhaul: {self}");
    }
}

impl ClassifyFailure for Failure {
    fn failure_class(&self) -> FailureClass {
        self.class
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Errors of other crates that know their class.
macro_rules! from_classified {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.failure_class(), error)
            }
        })*
    };
}

from_classified! {
    ::client::Error,
    ::congestion::file::FileError,
    ::depot::Error,
    ::depot::FetchError,
    ::kernel::Error,
    ::kernel::pace::PlanError,
    ::lab::LabError,
    ::report::Error,
    ::wan::WanError,
    ::wan::pacing_gateway::Error,
}

/// Names on the command line that nothing has.
impl From<::congestion::UnknownName> for Failure {
    fn from(error: ::congestion::UnknownName) -> Self {
        Self::usage(error)
    }
}
