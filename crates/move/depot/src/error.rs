// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a depot does not start or go on.

use crate::{
    config::ConfigError, hop_sockets::TuneError, observe::AccessLogError, packet_pacing::NotPaced,
};
use host::{FileError, User, sysctl};
use protocol::DepotIdError;
use std::{io, net::SocketAddr, path::PathBuf};
use units::{ClassifyFailure, FailureClass};

/// The first port that a process without `CAP_NET_BIND_SERVICE` may listen at.
const FIRST_FREE_PORT: &str = "net.ipv4.ip_unprivileged_port_start";

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
    /// The store of sessions cannot be used.
    #[error("`store.path`: {0}")]
    Store(#[from] store::OpenError),
    /// An address cannot be listened on.
    #[error("`{setting}`: cannot listen on {address}: {}", cannot_listen(*address, error))]
    Listen {
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The depot that runs here does not hand over, or its successor could not be offered to.
    #[error("cannot take over, or offer to be taken over from, at {}: {error}", path.display())]
    Handover {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Commands of operators cannot be listened for.
    #[error("cannot listen for commands at {} (`control.socket`): {error}{}", path.display(), directory_hint(error))]
    Control {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// This host's name does not serve as an id.
    #[error("this host's name gives no id for the depot: {0}; set `id`")]
    Id(#[from] DepotIdError),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

fn directory_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            ". Its directory is missing: longhaul-depot.service makes /run/longhaul-depot. Otherwise create one, or remove \
             the setting"
        }
        _ => "",
    }
}

/// Why an address cannot be listened on, and what to do.
fn cannot_listen(address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{error}: another program or another listener of this depot has it. `ss -ltnp 'sport = :{port}'` shows which"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("{error}: `ip address` lists the addresses of this host")
        }
        io::ErrorKind::PermissionDenied => {
            let first = sysctl::read(FIRST_FREE_PORT).ok().and_then(|first| first.parse().ok());
            // The kernel's default, if it cannot be read.
            let first = first.unwrap_or(1024_u16);
            if port >= first {
                return format!("{error}: a security module (SELinux, AppArmor) may forbid it");
            }
            format!(
                "{error}: {} may not listen at ports below {first} ({FIRST_FREE_PORT}). Have systemd open the port \
                 (longhaul-depot.socket), give the depot CAP_NET_BIND_SERVICE (longhaul-depot-low-ports.conf), or \
                 allow the port to all users: sysctl -w {FIRST_FREE_PORT}={port}",
                User::current()
            )
        }
        _ => error.to_string(),
    }
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Config(_) | Self::Id(_) => FailureClass::Usage,
            Self::Store(error) => error.failure_class(),
            Self::Tune(
                TuneError::Unknown { .. } | TuneError::Forbidden { .. } | TuneError::Source { .. },
            )
            | Self::NotPaced(_) => FailureClass::Lacks,
            _ => FailureClass::Failed,
        }
    }
}
