// SPDX-License-Identifier: GPL-2.0-or-later
//! The incomplete file, `NAME.part`, and its state, `NAME.part.json`.
//!
//! Both are in the directory of the final name. The part is locked, so that two transfers never mix. The sidecar
//! never says more than what is on disk: the data are flushed first, then it is replaced in one step. The final name
//! appears when everything is flushed, by a rename that replaces nothing unless it was asked to.
//!
//! Threats: others may write into the same directory. Links are not followed, files of other users are not used, and
//! nothing but a regular file with one name is.

use crate::{
    Error,
    answer::Validators,
    ranges::{Gap, RangeSet},
};
use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps,
        UTIME_OMIT,
    },
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, RwLock},
    time::{Duration, Instant, SystemTime},
};
use tokio::task::JoinHandle;

/// How often the sidecar is renewed: what a killed process loses.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// A sidecar has some hundred bytes.
const MAX_SIDECAR: u64 = 64 * 1024;
/// Bytes of the part that are truncated if the disk has no room for the sidecar.
const ROOM_FOR_SIDECAR: u64 = 64 * 1024;
/// Another process may rename the part at the moment at which it is opened.
const OPEN_ATTEMPTS: usize = 10;

/// Properties of the version of the file to which the held bytes belong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// As asked for, without credentials.
    pub url: String,
    #[serde(flatten)]
    pub validators: Validators,
    pub total: Option<u64>,
    /// As in `Repr-Digest`.
    pub digest: Option<String>,
    pub encoding: Option<String>,
}

/// State of a part, stored in a file of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sidecar {
    version: u32,
    #[serde(flatten)]
    pub identity: Identity,
    /// The bytes that are held.
    pub done: RangeSet,
}

/// Writes to the part, also from several tasks.
#[derive(Debug, Clone)]
pub(crate) struct PartWriter {
    file: Arc<File>,
    part: PathBuf,
    ranges: Arc<Mutex<RangeSet>>,
    /// How often the part has begun again: now, and when this writer was made. A connection's writer that outlives a
    /// version must not write into the next.
    beginnings: Arc<RwLock<u64>>,
    beginning: u64,
}

impl PartWriter {
    /// Which bytes are held.
    pub(crate) fn ranges(&self) -> MutexGuard<'_, RangeSet> {
        self.ranges.lock().expect("no panic while it is held")
    }

    /// Writes bytes to their place. What a full disk still takes is held.
    pub(crate) fn write(&self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
        let now = self.beginnings.read().expect("no panic while it is held");
        if *now != self.beginning {
            let error = io::Error::other("the download has begun again");
            return Err(Error::file("write", &self.part, error));
        }
        while !bytes.is_empty() {
            let written = match self.file.write_at(bytes, offset) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result,
            };
            let written = written.map_err(|error| Error::file("write", &self.part, error))?;
            self.ranges().insert(offset, offset + written as u64);
            offset += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// The part file, open and locked.
#[derive(Debug)]
pub(crate) struct PartFile {
    name: PathBuf,
    sidecar: PathBuf,
    writer: PartWriter,
    saved: Instant,
    saving: Option<JoinHandle<()>>,
}

/// A name with something appended.
pub(crate) fn appended(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl PartFile {
    /// Opens and locks the part of `name`, and reads what an earlier process has left of it.
    pub(crate) fn open(name: &Path, resume: bool) -> Result<(Self, Option<Identity>), Error> {
        let part = appended(name, ".part");
        let sidecar = appended(name, ".part.json");
        let file = open_locked(&part)?;
        let opened = Self {
            name: name.to_owned(),
            sidecar,
            writer: PartWriter {
                file: Arc::new(file),
                part,
                ranges: Arc::default(),
                beginnings: Arc::default(),
                beginning: 0,
            },
            saved: Instant::now(),
            saving: None,
        };
        let known = if resume { opened.read_sidecar() } else { None };
        let length = opened.writer.file.metadata().map_or(0, |data| data.len());
        let identity = known.filter(|known| {
            let most = known.identity.total.map_or(length, |total| total.min(length));
            known.version == 1 && known.done.end() <= most
        });
        let Some(Sidecar { identity, done, .. }) = identity else { return Ok((opened, None)) };
        *opened.writer.ranges() = done;
        Ok((opened, Some(identity)))
    }

    fn read_sidecar(&self) -> Option<Sidecar> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(&self.sidecar, flags, Mode::empty()).ok()?);
        let data = file.metadata().ok()?;
        if !data.is_file() || !is_own(&data) || data.len() > MAX_SIDECAR {
            return None;
        }
        let mut text = String::new();
        file.take(MAX_SIDECAR).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The name that it will have.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    pub(crate) fn ranges(&self) -> MutexGuard<'_, RangeSet> {
        self.writer.ranges()
    }

    pub(crate) fn writer(&self) -> &PartWriter {
        &self.writer
    }

    /// Holds all bytes of the part, also those that came after the last checkpoint. Only for callers
    /// that compare them.
    pub(crate) fn hold_all(&self) {
        let length = self.writer.file.metadata().map_or(0, |data| data.len());
        self.ranges().insert(0, length);
    }

    /// Holds no more than the beginning that a checkpoint has named, and cuts the rest off. For callers that cannot compare it.
    pub(crate) fn keep_held(&self) -> Result<(), Error> {
        let held = self.first_gap(None).map_or(0, |gap| gap.start);
        self.ranges().truncate(held);
        let cut = self.writer.file.set_len(held);
        cut.map_err(|error| Error::file("truncate", &self.writer.part, error))
    }

    pub(crate) fn first_gap(&self, total: Option<u64>) -> Option<Gap> {
        self.ranges().first_gap(total)
    }

    /// Throws away what is held.
    pub(crate) async fn reset(&mut self) -> Result<(), Error> {
        // Otherwise a late checkpoint would speak of bytes that are gone.
        self.settle().await;
        let beginnings = Arc::clone(&self.writer.beginnings);
        let mut now = beginnings.write().expect("no panic while it is held");
        *now += 1;
        self.writer.beginning = *now;
        self.ranges().clear();
        remove(&self.sidecar)?;
        self.writer
            .file
            .set_len(0)
            .map_err(|error| Error::file("truncate", &self.writer.part, error))
    }

    /// Reads bytes that are held.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let read = self.writer.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::file("read", &self.writer.part, error))
    }

    /// Another handle of the part, and its name for messages.
    pub(crate) fn reader(&self) -> (Arc<File>, PathBuf) {
        (Arc::clone(&self.writer.file), self.writer.part.clone())
    }

    /// Renews the sidecar in the background if it is time.
    pub(crate) fn checkpoint_if_due(&mut self, identity: &Identity) {
        let busy = self.saving.as_ref().is_some_and(|saving| !saving.is_finished());
        if busy || self.saved.elapsed() < CHECKPOINT {
            return;
        }
        self.saved = Instant::now();
        let (file, path) = (Arc::clone(&self.writer.file), self.sidecar.clone());
        let sidecar =
            Sidecar { version: 1, identity: identity.clone(), done: self.ranges().clone() };
        self.saving = Some(tokio::task::spawn_blocking(move || {
            // A sidecar that cannot be written costs a resume, not the transfer.
            let _ = save(&file, &path, &sidecar);
        }));
    }

    /// Waits for a checkpoint that is being made.
    async fn settle(&mut self) {
        if let Some(saving) = self.saving.take() {
            // It cannot panic, and is never cancelled.
            let _ = saving.await;
        }
    }

    /// Renews the sidecar now. On a full disk the last bytes make room for it.
    pub(crate) async fn checkpoint(&mut self, identity: &Identity) -> Result<(), Error> {
        self.settle().await;
        let mut sidecar =
            Sidecar { version: 1, identity: identity.clone(), done: self.ranges().clone() };
        let mut saved = save(&self.writer.file, &self.sidecar, &sidecar);
        let full = saved.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::StorageFull);
        let kept = self.ranges().end().saturating_sub(ROOM_FOR_SIDECAR);
        if full && self.writer.file.set_len(kept).is_ok() {
            sidecar.done.truncate(kept);
            saved = save(&self.writer.file, &self.sidecar, &sidecar);
        }
        saved.map_err(|error| Error::file("write", &self.sidecar, error))
    }

    /// Checks that the disk has room for the rest of `total` bytes.
    pub(crate) fn check_space(&self, total: u64) -> Result<(), Error> {
        let needed = total.saturating_sub(self.ranges().held());
        let Ok(disk) = rustix::fs::fstatvfs(&self.writer.file) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed <= free {
            return Ok(());
        }
        Err(Error::NoSpace { path: self.writer.part.clone(), needed, free })
    }

    /// Gives the complete file its name.
    pub(crate) async fn finish(
        &mut self,
        total: u64,
        modified: Option<SystemTime>,
        overwrite: bool,
    ) -> Result<(), Error> {
        self.settle().await;
        let failed = |doing, error: io::Error| Error::file(doing, &self.writer.part, error);
        self.writer.file.set_len(total).map_err(|error| failed("truncate", error))?;
        if let Some(modified) = modified {
            // Not every file system keeps every date.
            let _ = set_modified(&self.writer.file, modified);
        }
        let file = Arc::clone(&self.writer.file);
        let flushed = tokio::task::spawn_blocking(move || file.sync_all()).await;
        let flushed = flushed.map_err(io::Error::other).and_then(|flushed| flushed);
        flushed.map_err(|error| failed("flush", error))?;
        if overwrite {
            let renamed = fs::rename(&self.writer.part, &self.name);
            renamed.map_err(|error| Error::file("write", &self.name, error))?;
        } else {
            self.rename_without_replacing()?;
        }
        // The file is there: what follows cannot make it wrong.
        let _ = remove(&self.sidecar);
        let directory = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn rename_without_replacing(&self) -> Result<(), Error> {
        let renamed = rustix::fs::renameat_with(
            CWD,
            &self.writer.part,
            CWD,
            &self.name,
            RenameFlags::NOREPLACE,
        );
        let result = match renamed {
            // Some file systems cannot; a second name can be made on those.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(CWD, &self.writer.part, CWD, &self.name, AtFlags::empty())
                    .and_then(|()| rustix::fs::unlink(&self.writer.part))
            }
            result => result,
        };
        result.map_err(|error| match error {
            Errno::EXIST => Error::Exists {
                file: self.name.clone(),
                why: ": it appeared during the transfer".to_owned(),
            },
            error => Error::file("write", &self.name, error),
        })
    }

    /// Removes part and sidecar.
    pub(crate) async fn remove(&mut self) -> Result<(), Error> {
        self.settle().await;
        self.ranges().clear();
        remove(&self.sidecar)?;
        remove(&self.writer.part)
    }
}

/// Opens and locks a part or its sidecar. Ensures that no other process has renamed or removed it meanwhile.
pub(crate) fn open_locked(part: &Path) -> Result<File, Error> {
    let failed = |error: io::Error| Error::file("open", part, error);
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    for _ in 0..OPEN_ATTEMPTS {
        let opened = rustix::fs::open(part, flags, Mode::from_raw_mode(0o666));
        let file: OwnedFd = opened.map_err(|error| match error {
            Errno::LOOP => failed(io::Error::other("it is a symbolic link")),
            error => failed(error.into()),
        })?;
        let file = File::from(file);
        let data = file.metadata().map_err(failed)?;
        if FileType::from_raw_mode(data.mode()) != FileType::RegularFile {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        if !is_own(&data) {
            return Err(failed(io::Error::other("it belongs to another user")));
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::Locked(part.to_owned())),
            Err(error) => return Err(Error::file("lock", part, error)),
        }
        let now = fs::symlink_metadata(part);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == (data.dev(), data.ino())) {
            let names = file.metadata().map_err(failed)?.nlink();
            if names != 1 {
                return Err(failed(io::Error::other("it has a second name (hard link)")));
            }
            return Ok(file);
        }
    }
    Err(Error::Locked(part.to_owned()))
}

/// Whether a file belongs to this user.
pub(crate) fn is_own(data: &fs::Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Flushes the data, then replaces the sidecar.
fn save(file: &File, path: &Path, sidecar: &Sidecar) -> io::Result<()> {
    file.sync_data()?;
    let text = serde_json::to_vec(sidecar)?;
    let new = appended(path, "~");
    let _ = fs::remove_file(&new);
    // URLs may hold tickets: for the owner alone.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut written = File::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
    let result = written.write_all(&text).and_then(|()| fs::rename(&new, path));
    if result.is_err() {
        let _ = fs::remove_file(&new);
    }
    result
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn set_modified(file: &File, modified: SystemTime) -> Result<(), Errno> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: since.subsec_nanos().into() },
    };
    rustix::fs::futimens(file, &times)
}
