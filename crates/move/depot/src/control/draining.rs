// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots before this one that finish what they have accepted: they go on taking commands, at a socket of their own.
//!
//! ```text
//! control.sock                    the depot that serves
//! control.sock.draining.14007651  the one before it, until its last transfer is over
//! ```
//! The number is one of chance: two processes in containers may have the same process ID. The depot that serves lists
//! their transfers with its own, and passes commands on to them.

use super::{Answer, Command, ControlError, ask_within};
use crate::{
    config::Config,
    lifecycle::Phase,
    observe::Live,
    private_socket::PrivateSocket,
    state::Shared,
    status::{Draining, MOST_TRANSFERS, Transfer},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Timeout for the draining depots, which the operator's command waits for.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of draining depots that are asked.
const MOST: usize = 16;

/// Where depots of this configuration are found: next to the control socket, or to the handover socket.
pub(super) fn place(config: &Config) -> Option<&Path> {
    config.control.socket.as_deref().or(config.handover.as_deref())
}

fn path_of(place: &Path, instance: &str) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(".draining.");
    path.push(instance);
    PathBuf::from(path)
}

/// Listens where the depot that takes over looks.
pub(crate) fn socket(shared: &Shared) -> Option<io::Result<PrivateSocket>> {
    let path = path_of(place(&shared.started)?, &shared.lifecycle.sharing.instance().to_string());
    Some(PrivateSocket::new(&path))
}

/// What this depot is about while it drains.
pub(super) fn own(shared: &Shared) -> Draining {
    let transfers = shared.observer.transfers(|_| true);
    let left =
        shared.lifecycle.drains_until.get().map(|until| until.duration_since(Instant::now()));
    Draining {
        process: std::process::id(),
        seconds_left: left.unwrap_or_default().as_secs_f64(),
        live_transfers: transfers.len(),
        connections: shared.admission.gate.own().total,
        transfers: listed(&transfers, MOST_TRANSFERS, shared),
    }
}

/// The first ones of these transfers, as they are listed.
pub(super) fn listed(all: &[Arc<Live>], most: usize, shared: &Shared) -> Vec<Transfer> {
    let process = (shared.lifecycle.phase() == Phase::Succeeded).then(std::process::id);
    let listed = all.iter().take(most).map(|live| live.transfer(live.sockets()));
    listed.map(|transfer| Transfer { process, ..transfer }).collect()
}

/// Has the depots before this one carry a command out, if there are any.
pub(super) fn pass_on(command: &Command, shared: &Shared) -> Vec<Answer> {
    // One that drains has none before it that the depot which serves does not know.
    let Some(place) = place(&shared.started).filter(|_| shared.lifecycle.phase() == Phase::Serving)
    else {
        return Vec::new();
    };
    let asked = sockets(place).into_iter().map(|(_, path)| ask(&path, command));
    asked.filter_map(Result::ok).collect()
}

/// Asks one of them.
pub(super) fn ask(path: &Path, command: &Command) -> Result<Answer, ControlError> {
    let answer = ask_within(path, command, PATIENCE);
    if let Err(ControlError::Unreachable { error, .. }) = &answer
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        // The depot of this socket was killed.
        let _ = fs::remove_file(path);
    }
    answer
}

/// The sockets of depots that drain, or did, by their numbers.
pub(super) fn sockets(place: &Path) -> Vec<(u64, PathBuf)> {
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let prefix = path_of(Path::new(name), "");
    let prefix = prefix.as_os_str().as_encoded_bytes();
    let numbered = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix)?;
        Some((std::str::from_utf8(number).ok()?.parse().ok()?, entry.path()))
    });
    numbered.take(MOST).collect()
}
