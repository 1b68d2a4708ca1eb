// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots before this one that finish what they have accepted: they go on taking commands, at a socket of their own.
//!
//! ```text
//! control.sock                the depot that serves
//! control.sock.draining.4711  the one before it, until its last transfer is over
//! ```
//! The depot that serves lists their transfers with its own, and passes commands on to them.

use super::{Answer, Command, ControlError, ask_within};
use crate::{
    config::Config,
    private_socket::PrivateSocket,
    state::{Phase, Shared},
    status::{Draining, MOST_TRANSFERS},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Timeout for the draining depots, which the operator's command waits for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of draining depots that are asked.
const MOST: usize = 16;

/// Where depots of this configuration are found: next to the control socket, or to the handover socket.
fn place(config: &Config) -> Option<&Path> {
    config.control.socket.as_deref().or(config.handover.as_deref())
}

fn path_of(place: &Path, process: &str) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(".draining.");
    path.push(process);
    PathBuf::from(path)
}

/// Listens where the depot that has taken over looks.
pub(crate) fn socket(config: &Config) -> Option<io::Result<PrivateSocket>> {
    let path = path_of(place(config)?, &std::process::id().to_string());
    Some(PrivateSocket::new(&path))
}

/// What this depot is about while it drains.
pub(super) fn own(shared: &Shared) -> Draining {
    let transfers = shared.observer.transfers(|_| true);
    let left = shared.drains_until.get().map(|until| until.duration_since(Instant::now()));
    Draining {
        process: std::process::id(),
        seconds_left: left.unwrap_or_default().as_secs_f64(),
        live_transfers: transfers.len(),
        transfers: transfers
            .iter()
            .take(MOST_TRANSFERS)
            .map(|live| live.transfer(live.sockets()))
            .collect(),
    }
}

/// What the depots before this one are about.
pub(crate) fn all(shared: &Shared) -> Vec<Draining> {
    let answers = pass_on(&Command::Draining, shared);
    let draining = answers.into_iter().filter_map(|answer| match answer {
        Answer::Draining(draining) => Some(draining),
        _ => None,
    });
    draining.collect()
}

/// Has the depots before this one carry a command out, if there are any.
pub(super) fn pass_on(command: &Command, shared: &Shared) -> Vec<Answer> {
    // One that drains has none before it that the depot which serves does not know.
    let Some(place) = place(&shared.started).filter(|_| shared.phase() == Phase::Serving) else {
        return Vec::new();
    };
    let asked = sockets(place).into_iter().take(MOST).map(|path| {
        let answer = ask_within(&path, command, PATIENCE);
        if let Err(ControlError::Unreachable { error, .. }) = &answer
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            // The depot of this socket was killed.
            let _ = fs::remove_file(&path);
        }
        answer
    });
    asked.filter_map(Result::ok).collect()
}

/// The sockets of depots that drain, or did.
fn sockets(place: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let prefix = path_of(Path::new(name), "");
    let prefix = prefix.as_os_str().as_encoded_bytes();
    let named = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let process = name.as_encoded_bytes().strip_prefix(prefix);
        process.is_some_and(|process| process.iter().all(u8::is_ascii_digit))
    });
    named.map(|entry| entry.path()).collect()
}
