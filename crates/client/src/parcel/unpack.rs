// SPDX-License-Identifier: GPL-2.0-or-later
//! A directory while it is incomplete, `NAME.part`, with the journal of its archive, `NAME.part.index`.
//!
//! ```text
//! open      journal and NAME.part ──▶ thread: replays what is here ──▶ Beginning, for WELCOME
//! receive   session ── pieces ──▶ the same thread unpacks the rest ──▶ rename, remove the journal
//! ```
//! Part and journal are kept if the session breaks off or the disk is full, and removed if the archive is refused. The part of
//! another transfer is kept until the sender's first verified bytes arrive, so that a stranger deletes nothing by a note.

use super::{
    archive_stream::{ArchiveStream, Live, Piece},
    extract::extract,
    journal::Journal,
};
use crate::{Error, parcel::Note, part::appended};
use lsl::{Beginning, Session, WholeDigest};
use rustix::io::Errno;
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, block_in_place, spawn_blocking},
};

/// Pieces of an archive that wait to be unpacked.
const QUEUE: usize = 16;

/// A directory that is received.
#[derive(Debug)]
pub(super) struct DirectoryPart {
    name: PathBuf,
    part: PathBuf,
    beginning: Beginning,
    pieces: mpsc::Sender<Piece>,
    thread: JoinHandle<Unpacked>,
}

/// What became of an archive, and its journal, which is locked until it is dropped.
#[derive(Debug)]
struct Unpacked {
    journal: Journal,
    result: Result<(), Error>,
}

impl DirectoryPart {
    /// Opens what is here of a directory, hashed for this further digest.
    pub(super) async fn open(
        name: &Path,
        note: &Note,
        digest: Option<WholeDigest>,
    ) -> Result<Self, Error> {
        let part = appended(name, ".part");
        if fs::symlink_metadata(&part).is_ok_and(|data| !data.is_dir()) {
            return Err(Error::file("write", &part, io::Error::from(ErrorKind::NotADirectory)));
        }
        let journal = Journal::open(&part)?;
        let (pieces, coming) = mpsc::channel(QUEUE);
        let (begin, begun) = oneshot::channel();
        let (note, directory) = (note.clone(), part.clone());
        let live = Live::new(begin, coming);
        let thread = spawn_blocking(move || unpack(journal, &note, &directory, digest, live));
        match begun.await {
            Ok(beginning) => Ok(Self { name: name.to_owned(), part, beginning, pieces, thread }),
            Err(_) => Err(match joined(thread).await {
                Ok(Unpacked { result: Err(error), .. }) | Err(error) => error,
                Ok(_) => Error::file("write", &part, io::Error::from(ErrorKind::Other)),
            }),
        }
    }

    /// What is here of the archive.
    pub(super) fn beginning(&self) -> &Beginning {
        &self.beginning
    }

    /// The name that it will have.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// There is no session after all: everything stays as it is.
    pub(super) async fn abandon(self) {
        drop(self.pieces);
        let _ = joined(self.thread).await;
    }

    /// Receives the rest, and gives the directory its name. `passed` hears of each piece's length.
    pub(super) async fn receive(
        self,
        session: &Session,
        overwrite: bool,
        passed: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { name, part, pieces, thread, .. } = self;
        let fed = feed(session, &pieces, passed).await;
        drop(pieces);
        let Unpacked { journal, result } = joined(thread).await?;
        match fed.and(result) {
            Ok(()) => block_in_place(|| {
                put(&part, &name, overwrite)?;
                // The directory is complete: a remaining journal does no harm.
                let _ = journal.remove();
                Ok(())
            }),
            Err(error) if may_be_continued(&error) => Err(error),
            Err(error) => {
                let discarded = block_in_place(|| discard(&part, &journal));
                // The next session would find the same again.
                if matches!(error, Error::Session(_)) {
                    discarded?;
                }
                Err(error)
            }
        }
    }
}

async fn joined(thread: JoinHandle<Unpacked>) -> Result<Unpacked, Error> {
    thread.await.map_err(|error| Error::Answer(error.to_string()))
}

/// Hands over what a session brings.
async fn feed(
    session: &Session,
    pieces: &mpsc::Sender<Piece>,
    mut passed: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    while let Some(chunk) = session.chunk().await? {
        passed(chunk.len())?;
        if pieces.send(Some(chunk)).await.is_err() {
            // It has failed, and says why.
            return Ok(());
        }
    }
    let _ = pieces.send(None).await;
    Ok(())
}

/// Unpacks an archive into a directory, behind what is there of it.
fn unpack(
    journal: Journal,
    note: &Note,
    directory: &Path,
    digest: Option<WholeDigest>,
    live: Live,
) -> Unpacked {
    let (mut journal, mut live) = (journal, live);
    if let Ok(Some(recorded)) = journal.recorded(note) {
        let stream = ArchiveStream::replaying(journal, recorded, Beginning::new(digest), live);
        let result = extract(&stream, directory);
        // Until the session goes on, what fails is what is here: then it is received from its beginning.
        let has_gone_on = !stream.is_replaying();
        (journal, live) = stream.into_parts();
        if has_gone_on {
            return Unpacked { journal, result };
        }
    }
    let failed = |error: io::Error| Error::file("write", directory, error);
    let begun = live.begin(Beginning::new(digest)).and_then(|()| live.fill()).map_err(failed);
    if let Err(error) = begun {
        journal.remove_if_empty();
        return Unpacked { journal, result: Err(error) };
    }
    let cleared = clear(directory).and_then(|()| journal.reset(note));
    if let Err(error) = cleared.and_then(|()| fs::create_dir(directory).map_err(failed)) {
        return Unpacked { journal, result: Err(error) };
    }
    let stream = ArchiveStream::new(journal, live);
    let result = extract(&stream, directory);
    Unpacked { journal: stream.into_parts().0, result }
}

/// Whether what is here is worth keeping after an error: the session broke off, or something was wrong with this machine
/// that may be right another time. Otherwise the archive is at fault, or not the one that is here.
fn may_be_continued(error: &Error) -> bool {
    match error {
        Error::Session(error) => !error.is_other_prefix(),
        Error::File { error, .. } => matches!(
            Errno::from_io_error(error),
            Some(
                Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::IO
                    | Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOMEM
                    | Errno::ROFS
            )
        ),
        error => matches!(error, Error::TooLarge(_)),
    }
}

/// Removes what was received.
fn discard(part: &Path, journal: &Journal) -> Result<(), Error> {
    clear(part)?;
    journal.remove()
}

/// Removes a directory, if there is one, also one whose directories have their final permissions already.
fn clear(directory: &Path) -> Result<(), Error> {
    let removed = match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            make_writable(directory).and_then(|()| fs::remove_dir_all(directory))
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", directory, error))
        }
        _ => Ok(()),
    }
}

fn make_writable(directory: &Path) -> io::Result<()> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            left.extend(entry.file_type()?.is_dir().then(|| entry.path()));
        }
    }
    Ok(())
}

/// Gives a directory its name.
fn put(part: &Path, name: &Path, overwrite: bool) -> Result<(), Error> {
    let failed = |error| Error::file("write", name, error);
    if overwrite && fs::symlink_metadata(name).is_ok_and(|data| data.is_dir()) {
        fs::remove_dir_all(name).map_err(failed)?;
    }
    fs::rename(part, name).map_err(failed)
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
