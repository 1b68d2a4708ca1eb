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
    beneath,
    extract::{Attributes, extract},
    journal::Journal,
    private,
};
use crate::{
    Error,
    parcel::{note::Note, pieces::Pieces},
    part::appended,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};
use session::{Beginning, WholeDigest};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
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
    note: Note,
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
        let (described, directory) = (note.clone(), part.clone());
        let live = Live::new(begin, coming);
        let thread = spawn_blocking(move || unpack(journal, &described, &directory, digest, live));
        let (name, note) = (name.to_owned(), note.clone());
        match begun.await {
            Ok(beginning) => Ok(Self { name, note, part, beginning, pieces, thread }),
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

    /// Receives the rest, and gives the directory its name. `passed` hears of each piece's length, and of the number of depots.
    pub(super) async fn receive(
        self,
        from: &mut impl Pieces,
        overwrite: bool,
        passed: impl FnMut(usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { name, note, part, pieces, thread, .. } = self;
        let fed = feed(from, &pieces, passed).await;
        drop(pieces);
        let Unpacked { journal, result } = joined(thread).await?;
        match fed.and(result) {
            Ok(()) => block_in_place(|| {
                put(&part, &name, &note, overwrite)?;
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

/// Hands over what comes.
async fn feed(
    from: &mut impl Pieces,
    pieces: &mpsc::Sender<Piece>,
    mut passed: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    while let Some(chunk) = from.next().await? {
        passed(chunk.len(), from.hops())?;
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
    if let Err(error) = cleared.and_then(|()| create(directory).map_err(failed)) {
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
        error => matches!(error, Error::TooLarge(_) | Error::Stopped),
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

/// Makes all directories of one writable for their owner, through no symbolic link.
fn make_writable(directory: &Path) -> io::Result<()> {
    let root = open_directory(CWD, directory.as_os_str())?;
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let opened = if path.as_os_str().is_empty() {
            root.try_clone()?
        } else {
            let (parent, name) = beneath::place_of(root.as_fd(), &path)?;
            open_directory(parent.as_fd(), name)?
        };
        for item in Dir::read_from(&opened)? {
            let item = item?;
            let name = OsStr::from_bytes(item.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let found = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            left.extend(is_directory.then(|| path.join(name)));
        }
    }
    Ok(())
}

/// Opens a directory, which its owner alone may read and write from then on.
fn open_directory(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                return Err(ErrorKind::NotADirectory.into());
            }
            rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(at, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    rustix::fs::fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

/// Creates a directory that only its owner may read.
fn create(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}

/// Gives a directory its own permissions, its date and its name.
fn put(part: &Path, name: &Path, note: &Note, overwrite: bool) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file("write", name, error);
    let opened = File::from(open_directory(CWD, part.as_os_str()).map_err(failed)?);
    let mode = note.mode.unwrap_or_else(private::usual_directory_mode);
    Attributes { mode, date: note.date() }.set(&opened).map_err(failed)?;
    if overwrite {
        if fs::symlink_metadata(name).is_ok_and(|data| data.is_dir()) {
            fs::remove_dir_all(name).map_err(failed)?;
        }
        return fs::rename(part, name).map_err(failed);
    }
    match rustix::fs::renameat_with(CWD, part, CWD, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::rename(part, name).map_err(failed)
        }
        Err(Errno::EXIST) => {
            let why = ": it appeared during the transfer".to_owned();
            Err(Error::Exists { file: name.to_owned(), why })
        }
        renamed => renamed.map_err(|error| failed(error.into())),
    }
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;
