// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose tickets open the depot, and how often each was used.

use crate::{config::TrustFiles, observe::status::Reload};
use host::{FileError, ReloadingFile, SettingFile};
pub(crate) use protocol::ticket::UsesSoFar;
use protocol::ticket::{KeySet, Replays, RevocationList, TicketError, UnixTime, Verified};
use std::{
    fs,
    io::Read,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// Whose tickets count, and which do not.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// The keys, if there are any.
    keys: Option<ReloadingFile<KeySet>>,
    /// Revoked tickets.
    revoked: Option<ReloadingFile<RevocationList>>,
}

/// A longer list of revoked tickets, or set of keys, than this is no such file.
const LONGEST: u64 = 256 << 20;

impl Trust {
    /// Reads the files.
    pub(crate) fn new(files: &TrustFiles) -> Result<Self, FileError> {
        let keys = |file: &PathBuf| {
            let made = ReloadingFile::new(
                "keys",
                vec![SettingFile::new("trust.keys", file)],
                |files| read(files, KeySet::parse),
                names,
            );
            // An operator who removes the file revokes all its keys.
            made.map(|made| made.or_else_gone(KeySet::default))
        };
        let revoked = |file: &PathBuf| {
            let make = |files: &[PathBuf]| read(files, RevocationList::parse);
            let files = vec![SettingFile::new("trust.revoked", file)];
            ReloadingFile::new("revoked tickets", files, make, |all| all.len().to_string())
        };
        Ok(Self {
            keys: files.keys.as_ref().map(keys).transpose()?,
            revoked: files.revoked.as_ref().map(revoked).transpose()?,
        })
    }

    /// Whether there are keys, be it none of them: then a stranger may bring a ticket.
    pub(crate) fn takes_tickets(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether a ticket of this name, signed with this key, would still be taken.
    pub(crate) fn still_takes(&self, id: &str, key: &str) -> bool {
        let has_key = self.keys.as_ref().is_some_and(|keys| keys.get().has(key));
        has_key && self.revoked.as_ref().is_none_or(|revoked| !revoked.get().has(id))
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self) {
        self.keys.iter().for_each(ReloadingFile::refresh);
        self.revoked.iter().for_each(ReloadingFile::refresh);
    }

    /// How it went when they were read last.
    pub(crate) fn reloads(&self) -> impl Iterator<Item = Reload> {
        let keys = self.keys.iter().map(ReloadingFile::last_read);
        keys.chain(self.revoked.iter().map(ReloadingFile::last_read)).map(Reload::of)
    }

    /// What a token grants, if one of the keys signed it, it holds now and was not taken back.
    pub(crate) fn verify(&self, token: &str) -> Result<Verified, TicketError> {
        let keys = self.keys.as_ref().ok_or(TicketError::NoKeys)?.get();
        let verified = keys.verify(token, now())?;
        if let Some(revoked) = &self.revoked {
            revoked.get().check(&verified)?;
        }
        Ok(verified)
    }
}

/// Reads the one file of those.
pub(super) fn read<T, E: ToString>(
    files: &[PathBuf],
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, FileError> {
    let [file] = files else { unreachable!("one file") };
    let mut text = String::new();
    let opened = fs::File::open(file).map(|opened| opened.take(LONGEST));
    let read = opened.and_then(|mut opened| opened.read_to_string(&mut text));
    read.map_err(|error| FileError::io(file, &error))?;
    parse(&text).map_err(|error| FileError::new(file, &error))
}

/// The names of keys, for the log.
fn names(keys: &KeySet) -> String {
    let names = keys.kids().collect::<Vec<_>>().join(",");
    if names.is_empty() { "none: no ticket opens the depot".to_owned() } else { names }
}

/// How often tickets were used. Stays when the settings are read again.
#[derive(Debug)]
pub(crate) struct Uses(Mutex<Replays>);

impl Uses {
    /// None yet.
    pub(crate) fn new(files: &TrustFiles) -> Self {
        Self(Mutex::new(Replays::new(files.replays)))
    }

    /// The uses so far, for a successor.
    pub(crate) fn so_far(&self) -> UsesSoFar {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).so_far()
    }

    /// Adds the uses at a depot before this one.
    pub(crate) fn add(&self, uses: UsesSoFar) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(uses);
    }

    /// Counts one use of a ticket, if it has one left.
    pub(crate) fn count(&self, verified: &Verified) -> Result<(), TicketError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(verified, now())
    }
}

fn now() -> UnixTime {
    UnixTime::from(SystemTime::now())
}
