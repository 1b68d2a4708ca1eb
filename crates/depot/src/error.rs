// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a depot does not start or go on.

use crate::{
    config::ConfigError, hop_sockets::TuneError, observe::AccessLogError, packet_pacing::NotPaced,
};
use host::FileError;
use session::DepotIdError;
use std::{io, net::SocketAddr, path::PathBuf};
use units::{ClassifyFailure, FailureClass};

/// Why a depot does not start or go on. The fault is with the configuration or the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A hop's socket settings cannot be had.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// Packets to a hop's peers are not paced as it says.
    #[error(transparent)]
    NotPaced(#[from] NotPaced),
    /// A file that the configuration names cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error} (is another program using it?)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The depot that runs here does not hand over, or its successor could not be offered to.
    #[error("cannot take over, or offer to be taken over from, at {}: {error}", path.display())]
    Handover {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Commands of operators cannot be listened for.
    #[error("cannot listen for commands at {} (`control.socket`): {error}", path.display())]
    Control {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// This host's name does not serve as an id.
    #[error("this host's name gives no id for the depot: {0}; set `id`")]
    Id(#[from] DepotIdError),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Config(_) | Self::Id(_) => FailureClass::Usage,
            Self::Tune(TuneError::Unknown { .. } | TuneError::Forbidden { .. })
            | Self::NotPaced(_) => FailureClass::Lacks,
            _ => FailureClass::Failed,
        }
    }
}
