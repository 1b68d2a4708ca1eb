// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a gateway can't be, or is no more.

use host::{IprouteError, Lack};
use std::io;
use units::{ClassifyFailure, FailureClass};

/// An error of a gateway, by class of cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked for in the wrong way.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something.
    #[error(transparent)]
    Lacks(Lack),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(super) fn no_tun(name: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Lacks(Lack::tun()),
            io::ErrorKind::PermissionDenied => Self::Lacks(Lack::root("TUN devices require root")),
            io::ErrorKind::ResourceBusy => Self::Usage(format!("there is a device {name} already")),
            io::ErrorKind::InvalidInput => {
                Self::Usage(format!("no device can have the name \"{name}\""))
            }
            _ => Self::Failed(format!("could not make the device {name}: {error}")),
        }
    }

    pub(super) fn no_socket(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Self::Lacks(Lack::root("packet sockets require root"))
            }
            _ => Self::Failed(format!("could not open a packet socket: {error}")),
        }
    }
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Usage(_) => FailureClass::Usage,
            Self::Lacks(_) => FailureClass::Lacks,
            Self::Failed(_) => FailureClass::Failed,
        }
    }
}

impl From<IprouteError> for Error {
    fn from(error: IprouteError) -> Self {
        match error {
            IprouteError::Missing(lack) => Self::Lacks(lack),
            other => Self::Failed(other.to_string()),
        }
    }
}
