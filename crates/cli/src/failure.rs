// SPDX-License-Identifier: GPL-2.0-or-later
//! The failure of a command: a message, and the class that sets its exit code.

use std::{
    fmt::{self, Display},
    process::ExitCode,
};
use units::{ClassifyFailure, FailureClass};

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    class: FailureClass,
    /// An exit code other than the class's, as after a signal.
    exit_code: Option<u8>,
    text: String,
}

impl Failure {
    pub fn new(class: FailureClass, text: impl Display) -> Self {
        Self { class, exit_code: None, text: text.to_string() }
    }

    /// Sets an exit code that replaces the class's.
    pub fn with_exit_code(self, code: u8) -> Self {
        Self { exit_code: Some(code), ..self }
    }

    /// The command ran and failed.
    pub fn failed(text: impl Display) -> Self {
        Self::new(FailureClass::Failed, text)
    }

    /// The arguments or files given are wrong.
    pub fn usage(text: impl Display) -> Self {
        Self::new(FailureClass::Usage, text)
    }

    /// Received data differ from the data sent, or a ticket is not valid.
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
        errln!("longhaul: {self}");
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
    ::transfer::Error,
    ::congestion::file::FileError,
    ::depot::Error,
    ::depot::FetchError,
    ::kernel::Error,
    ::kernel::pace::PlanError,
    ::experiment::ExperimentError,
    ::report::Error,
    ::wan::WanError,
    ::wan::pacing_gateway::Error,
}

/// Names and numbers on the command line, or cards that it names.
impl From<::benchmark::BenchmarkError> for Failure {
    fn from(error: ::benchmark::BenchmarkError) -> Self {
        Self::usage(error)
    }
}

/// Unknown names on the command line.
impl From<::congestion::UnknownName> for Failure {
    fn from(error: ::congestion::UnknownName) -> Self {
        Self::usage(error)
    }
}
