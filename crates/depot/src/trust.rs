// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose tickets open the depot, and how often each was used.

use crate::{
    config::TrustFiles,
    watched::{FileError, Watched},
};
use session::ticket::{KeySet, Replays, TicketError, UnixTime, Verified};
use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// The keys, if there are any.
pub(crate) type Keys = Option<Watched<KeySet>>;

/// Reads the keys whose tickets count.
pub(crate) fn keys(files: &TrustFiles) -> Result<Keys, FileError> {
    let read = |files: &[PathBuf]| {
        let [file] = files else { unreachable!("keys stand in one file") };
        let text = fs::read_to_string(file).map_err(|error| FileError::new(file, &error))?;
        KeySet::parse(&text).map_err(|error| FileError::new(file, &error))
    };
    let watch = |file: &PathBuf| Watched::new("keys", vec![file.clone()], read, names);
    files.keys.as_ref().map(watch).transpose()
}

/// The names of keys, for the log.
fn names(keys: &KeySet) -> String {
    keys.kids().collect::<Vec<_>>().join(",")
}

/// How often tickets were used. Stays when the settings are read again.
#[derive(Debug)]
pub(crate) struct Uses(Mutex<Replays>);

impl Uses {
    /// None yet.
    pub(crate) fn new(files: &TrustFiles) -> Self {
        Self(Mutex::new(Replays::new(files.replays)))
    }

    /// Counts one use of a ticket, if it has one left.
    pub(crate) fn count(&self, verified: &Verified) -> Result<(), TicketError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(verified, now())
    }
}

/// What a token grants, if one of the keys signed it and it holds now.
pub(crate) fn verify(keys: &Keys, token: &str) -> Result<Verified, TicketError> {
    keys.as_ref().ok_or(TicketError::NoKeys)?.get().verify(token, now())
}

fn now() -> UnixTime {
    UnixTime::from(SystemTime::now())
}
