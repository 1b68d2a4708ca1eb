// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a command failed, in the classes that its exit code tells apart.

use std::fmt::Display;

/// Why a command did not do what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// It was tried and failed.
    Failed,
    /// It was asked for in the wrong way.
    Usage,
    /// The machine lacks something; the message names it and how to get it.
    Lacks,
    /// Data arrived that are not what was sent, or a ticket is not good.
    Unverified,
}

impl FailureClass {
    /// The exit code of the command.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Lacks => 3,
            Self::Unverified => 4,
        }
    }
}

/// An error that knows its class. Its text is the message that the command prints.
pub trait ClassifyFailure: Display {
    /// The class.
    fn failure_class(&self) -> FailureClass;
}
