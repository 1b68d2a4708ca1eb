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
    text: String,
}

impl Failure {
    pub fn new(class: FailureClass, text: impl Display) -> Self {
        Self { class, text: text.to_string() }
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
        eprintln!("longhaul: {self}");
        ExitCode::from(self.class.exit_code())
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
