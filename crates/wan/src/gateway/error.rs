// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a gateway can't be, or is no more.

use crate::error::{NO_IP, NO_TUN};
use std::io;
use units::{ClassifyFailure, FailureClass};

/// What went wrong, and whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked for in the wrong way.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something; the text says what, and how to get it.
    #[error("{0}")]
    Lacks(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(super) fn no_ip(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Lacks(NO_IP.to_owned()),
            _ => Self::Failed(format!("could not run ip: {error}")),
        }
    }

    pub(super) fn no_tun(name: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Lacks(NO_TUN.to_owned()),
            io::ErrorKind::PermissionDenied => {
                Self::Lacks("TUN devices take root: run this with sudo".to_owned())
            }
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
                Self::Lacks("packet sockets take root: run this with sudo".to_owned())
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
