// SPDX-License-Identifier: GPL-2.0-or-later
//! What was changed on this host, so that it can be taken back after any end of the program.
//!
//! A file for each network namespace in `/run/longhaul/doctor`, as long as the host runs. The old value is written and synced
//! before a change is made. An entry is taken back only while the host is as the change left it: what was changed again
//! since stays. A second `doctor` waits for nothing: it finds the lock taken and says so.

use crate::change::Change;
use host::{Namespace, RunDirectory};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Display,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
};
use units::{ClassifyFailure, FailureClass};

/// A change and its inverse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was or is about to be changed.
    pub made: Change,
    /// What takes it back.
    pub undo: Change,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// This user may not.
    #[error("{path}: changes of this host take root: run this with sudo")]
    Root {
        /// What may not be written.
        path: String,
    },
    /// Its file cannot be read or written, or a change cannot be taken back.
    #[error("{path}: {error}")]
    File {
        /// Where it is.
        path: String,
        /// The system's answer.
        error: io::Error,
    },
    /// Its file is not one.
    #[error(
        "the journal {path} cannot be read ({error}). Look at it, take back by hand what it lists, and remove it"
    )]
    Unreadable {
        /// Where it is.
        path: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Another process has it.
    #[error("another longhaul doctor is changing this host")]
    Busy,
}

impl JournalError {
    fn of(path: impl Display, error: io::Error) -> Self {
        let path = path.to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Root { path },
            _ => Self::File { path, error },
        }
    }
}

impl ClassifyFailure for JournalError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Root { .. } => FailureClass::Lacks,
            _ => FailureClass::Failed,
        }
    }
}

/// The journal of the calling thread's network namespace. It is locked while this is held.
#[derive(Debug)]
pub struct Journal {
    directory: RunDirectory,
    name: String,
    entries: Vec<Entry>,
    _lock: Lock,
}

/// A locked file, which goes with the lock.
#[derive(Debug)]
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// None where another process holds it.
    fn take(directory: &RunDirectory, name: &str) -> io::Result<Option<Self>> {
        let path = directory.path(name);
        loop {
            let file = directory.lock_file(name)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                locked => locked?,
            }
            // The last holder may have removed it between opening and locking.
            let there = fs::metadata(&path).ok().map(|metadata| metadata.ino());
            if there == Some(file.metadata()?.ino()) {
                return Ok(Some(Self { file, path }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked, so it is this one. What is left of a failure is an empty file.
        let _ = fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// How an entry was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// The value from before is in force again.
    Restored,
    /// It was in force already: the change was not made, or is gone.
    AsBefore,
    /// It has another value by now, which stays.
    ChangedSince,
}

impl Journal {
    /// Opens the journal and locks it.
    ///
    /// # Errors
    /// Not root, another process has it, or it is no journal.
    pub fn open() -> Result<Self, JournalError> {
        let failed = |error| JournalError::of(host::RUN_DIRECTORY, error);
        let directory = RunDirectory::open().and_then(|run| run.subdirectory("doctor"));
        Self::at(directory.map_err(failed)?)
    }

    /// The same in another directory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn at(directory: RunDirectory) -> Result<Self, JournalError> {
        let failed = |error| JournalError::of(directory.path("").display(), error);
        let name = name().map_err(failed)?;
        let lock = Lock::take(&directory, &format!("{name}.lock")).map_err(failed)?;
        let lock = lock.ok_or(JournalError::Busy)?;
        let entries = read(&directory, &name)?;
        Ok(Self { directory, name, entries, _lock: lock })
    }

    /// How many changes are in force that were not taken back. Needs no right but to read; 0 where nothing can be read.
    pub fn pending() -> usize {
        let directory = std::path::Path::new(host::RUN_DIRECTORY).join("doctor");
        let text = name().and_then(|name| fs::read(directory.join(name)));
        let entries = text.ok().and_then(|text| serde_json::from_slice::<Vec<Entry>>(&text).ok());
        entries.map_or(0, |entries| entries.len())
    }

    /// The changes in it, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds a change that is about to be made. When this returns, it is on the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.entries.push(entry);
        self.write()
    }

    /// Takes the newest change back. None where there is none.
    ///
    /// # Errors
    /// The host does not take the value from before, or the file cannot be written. The entry stays.
    pub fn undo_last(&mut self) -> Result<Option<(Entry, Undone)>, JournalError> {
        let Some(entry) = self.entries.last().cloned() else { return Ok(None) };
        let undone = if entry.undo.holds() == Some(true) {
            Undone::AsBefore
        } else if entry.made.holds() == Some(false) {
            Undone::ChangedSince
        } else {
            let failed = |error| JournalError::of(entry.undo.command(), error);
            entry.undo.make().map_err(failed)?;
            Undone::Restored
        };
        self.entries.pop();
        self.write()?;
        Ok(Some((entry, undone)))
    }

    fn write(&self) -> Result<(), JournalError> {
        let failed = |error| JournalError::of(self.directory.path(&self.name).display(), error);
        if self.entries.is_empty() {
            return self.directory.remove_synced(&self.name).map_err(failed);
        }
        let text = serde_json::to_vec_pretty(&self.entries).expect("plain data");
        self.directory.write_synced(&self.name, &text, 0o644).map(drop).map_err(failed)
    }
}

/// The file of the calling thread's network namespace.
fn name() -> io::Result<String> {
    Ok(format!("{}.json", Namespace::current_inode()?))
}

fn read(directory: &RunDirectory, name: &str) -> Result<Vec<Entry>, JournalError> {
    let path = || directory.path(name).display().to_string();
    match fs::read(directory.path(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(JournalError::of(path(), error)),
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| JournalError::Unreadable { path: path(), error }),
    }
}
