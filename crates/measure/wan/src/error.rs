// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors of bringing a scenario's network up.

use host::{IprouteError, Lack};
use std::io;
use units::{ClassifyFailure, FailureClass};

/// Why an emulated network could not be brought up, used or taken down.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The machine lacks something.
    #[error(transparent)]
    Lacks(Lack),
    /// A node was named that the network doesn't have.
    #[error("there is no node \"{name}\"; there are: {}", known.join(", "))]
    NoSuchNode {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// A setting of the kernel's was not taken: the scenario asks for what this kernel lacks.
    #[error("node {node}: the kernel refused {key} = \"{value}\": {error}")]
    Sysctl {
        /// The node.
        node: String,
        /// The setting.
        key: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// iproute2 refused to configure a node.
    #[error("node {node}: ip: {message}")]
    Configure {
        /// The node.
        node: String,
        /// The message of `ip`.
        message: String,
    },
    /// A system call failed that should not on a working machine.
    #[error("could not {what}: {error}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A command on a node could not be started.
    #[error("could not run {program}: {error}")]
    Command {
        /// The program.
        program: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// What was asked for contradicts itself or the machine.
    #[error("{0}")]
    Usage(String),
    /// No network of that name is up, or one is already.
    #[error("{0}")]
    State(String),
}

impl WanError {
    pub(crate) fn system(what: &'static str, error: io::Error) -> Self {
        Self::System { what, error }
    }

    pub(crate) fn no_namespace(error: io::Error) -> Self {
        use rustix::io::Errno;
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => {
                Self::Lacks(Lack::root("network namespaces require root here"))
            }
            Some(Errno::INVAL | Errno::NOSYS) => Self::Lacks(Lack::new(
                format_args!("this kernel makes no network namespace ({error})"),
                "it needs CONFIG_NET_NS",
            )),
            _ => Self::system("make a network namespace", error),
        }
    }

    pub(crate) fn of_ip(node: &str, error: IprouteError) -> Self {
        match error {
            IprouteError::Missing(lack) => Self::Lacks(lack),
            IprouteError::Start { error, .. } => Self::system("run ip", error),
            IprouteError::Refused { message, .. } => {
                Self::Configure { node: node.to_owned(), message }
            }
            IprouteError::Unreadable { error, .. } => Self::system("run ip", error.into()),
        }
    }

    pub(crate) fn no_tap(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Lacks(Lack::tun()),
            io::ErrorKind::PermissionDenied => {
                Self::Lacks(Lack::root("TAP devices require root here"))
            }
            _ => Self::system("make a TAP device", error),
        }
    }
}

impl From<IprouteError> for WanError {
    fn from(error: IprouteError) -> Self {
        match error {
            IprouteError::Missing(lack) => Self::Lacks(lack),
            other => Self::State(other.to_string()),
        }
    }
}

impl ClassifyFailure for WanError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Lacks(_) => FailureClass::Lacks,
            Self::NoSuchNode { .. } | Self::Usage(_) => FailureClass::Usage,
            _ => FailureClass::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_capabilities_are_reported_as_lacking() {
        for (number, expected) in [
            (libc::EPERM, "root"),
            (libc::EINVAL, "CONFIG_NET_NS"),
            (libc::ENOSYS, "CONFIG_NET_NS"),
            (libc::EMFILE, "could not make"),
            (libc::ENOSPC, "could not make"),
        ] {
            let error = WanError::no_namespace(io::Error::from_raw_os_error(number));
            assert!(error.to_string().contains(expected), "{error}");
            let lacks = expected != "could not make";
            assert_eq!(matches!(error, WanError::Lacks(_)), lacks, "{error}");
        }
    }
}
