// SPDX-License-Identifier: GPL-2.0-or-later
//! What can go wrong, whose fault it is, and what to do.

use crate::{disk::Place, limits::Refusal};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use units::{ClassifyFailure, FailureClass};

/// Why a store cannot be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory itself.
    #[error("store {path}: {error}. Make the directory, owned by the depot's user, with mode 0700", path = path.display())]
    Directory {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another user could put files there.
    #[error("store {path}: another user can write it (user {uid}, mode {mode:o}). Run: chmod 0700 {path}", path = path.display())]
    OthersCanWrite {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its rights.
        mode: u32,
    },
    /// Another process has the lock.
    #[error(
        "store {path}: process {by} uses it. Stop that depot, or let this one take over from it",
        path = path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process's number, as it wrote it down.
        by: String,
    },
    /// A later version of longhaul has written it.
    #[error(
        "{file} has version {found} of the store's layout, this program knows up to {known}. Install the version of longhaul \
         that wrote it; nothing was changed"
    )]
    LaterVersion {
        /// The file that says so.
        file: Place,
        /// What it says.
        found: u64,
        /// What is known.
        known: u64,
    },
    /// A directory with something else in it, or without its most important file.
    #[error("{file}: {what}. This is not a store, or the file is damaged; nothing was changed")]
    NotAStore {
        /// The file that was read.
        file: Place,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried, and with which file.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

impl OpenError {
    pub(crate) fn directory(path: &Path, error: &io::Error) -> Self {
        let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
        Self::Directory { path: path.to_owned(), error }
    }

    pub(crate) fn io(verb: &str, file: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {file}");
        move |error| Self::Io { what, error }
    }
}

impl ClassifyFailure for OpenError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Directory { .. } | Self::OthersCanWrite { .. } => FailureClass::Usage,
            Self::LaterVersion { .. } => FailureClass::Lacks,
            Self::InUse { .. } | Self::NotAStore { .. } | Self::Io { .. } => FailureClass::Failed,
        }
    }
}

/// Why a session is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Its owner has dropped it.
    Dropped,
    /// Its time was over.
    Expired,
}

/// Why an operation on a session failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none, or this key may not use it: a stranger learns no more.
    #[error("no such session for this key")]
    Unknown,
    /// The id is taken.
    #[error("a session with this id exists already")]
    Exists,
    /// It has a writer.
    #[error("another connection is writing this session")]
    Busy,
    /// It is complete, or failed.
    #[error("the session takes no more bytes")]
    Ended,
    /// There is no space for it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What would be written is more than was reserved.
    #[error("the session has reserved {reserved} bytes, and this would be more")]
    OverReservation {
        /// The reservation.
        reserved: u64,
    },
    /// It would end later than any session may.
    #[error("sessions end at most {} s after they begin", .longest.as_secs())]
    TooLong {
        /// The limit.
        longest: std::time::Duration,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The disk could not store it. The session takes no more bytes; what was promised before can be read.
    #[error("storing the session has failed: {file}: {error}")]
    Failed {
        /// The file.
        file: String,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// It is not there any more.
    #[error("the session is gone: {}", match .0 { Gone::Dropped => "its owner has dropped it", Gone::Expired => "it has expired" })]
    Gone(Gone),
    /// Bytes on the disk are not those that were stored.
    #[error("{file} is damaged{}: {what}", .at.map(|at| format!(" at byte {at} of the session")).unwrap_or_default())]
    Damaged {
        /// The file.
        file: Place,
        /// The first byte of the session that is concerned.
        at: Option<u64>,
        /// What is wrong.
        what: &'static str,
    },
    /// The system could not do it. The session itself stays as it was.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried, and with which file.
        what: String,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The journal could not be written, so it is not known what it says of the session. It is written again soon.
    #[error("the store's journal could not be written last time. Try again in a second")]
    JournalInDoubt,
    /// The store is closed: another process uses it from now on.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    pub(crate) fn io(verb: &str, file: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {file}");
        move |error| Self::Io { what, error: Arc::new(error) }
    }

    pub(crate) fn failed(file: impl std::fmt::Display, error: io::Error) -> Self {
        Self::Failed { file: file.to_string(), error: Arc::new(error) }
    }
}
