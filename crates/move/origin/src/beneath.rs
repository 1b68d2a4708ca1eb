// SPDX-License-Identifier: GPL-2.0-or-later
//! Files below one directory, and none outside it, whatever links it contains.
//!
//! The kernel resolves each path below the directory (`openat2(2)`, `RESOLVE_BENEATH`), so that a link that is
//! changed between a look and an opening gains nothing. Links that stay inside are followed. Only regular
//! files are read: a FIFO would hold its reader up, and a device may do anything. A directory's entries are those that
//! can be asked for: what would be refused is not listed.
//!
//! The length by `stat(2)` is a hint: files of `/proc`, `/sys` and some FUSE file systems have other contents. Those are read
//! to their end before they are served, if they are short, and refused otherwise. Dates that HTTP cannot write are left out.

use rustix::{
    fd::{AsRawFd, OwnedFd},
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2},
};
use std::{
    io::{self, Cursor, Read},
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::SystemTime,
};
use tokio::{
    io::{AsyncRead, AsyncSeek, ReadBuf},
    task::spawn_blocking,
};
use tower_http::services::fs::{Backend, File, Metadata};

/// The longest content that is read before it is served.
const MOST_COPIED: u64 = 1 << 20;
/// The years 1970 to 9999, which dates of HTTP have (RFC 9110, section 5.6.7), in seconds since 1970.
const YEARS: Range<i64> = 0..253_402_300_800;

/// A directory.
#[derive(Debug, Clone)]
pub(super) struct Beneath(Arc<OwnedFd>);

impl Beneath {
    /// Opens the directory at a path.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(Arc::new(open(dir, flags, Mode::empty())?)))
    }

    /// Metadata of a path, without opening it.
    fn look(&self, path: &Path) -> io::Result<std::fs::File> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // An empty path is the directory itself.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = openat2(&*self.0, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
        match found {
            // It leads out of the directory.
            Err(rustix::io::Errno::XDEV | rustix::io::Errno::LOOP) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            found => Ok(found?.into()),
        }
    }

    fn read(&self, path: &Path) -> io::Result<std::fs::File> {
        let found = self.look(path)?;
        if !found.metadata()?.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(opened(&found)?.into())
    }

    /// A file to be served, with its real length.
    fn serve(&self, path: &Path) -> io::Result<(Content, Facts)> {
        let file = self.read(path)?;
        let data = file.metadata()?;
        let facts = Facts::of(&data);
        // What is on a disk has the length that it says.
        if data.blocks() > 0 || !ends_elsewhere(&file, facts.length)? {
            return Ok((Content::File(tokio::fs::File::from_std(file)), facts));
        }
        let mut copy = Vec::new();
        (&file).take(MOST_COPIED + 1).read_to_end(&mut copy)?;
        if copy.len() as u64 > MOST_COPIED {
            tracing::warn!(path = %path.display(), "refused: it is longer than its length says");
            return Err(io::Error::other("it is longer than its length says"));
        }
        // Its date says nothing about its content.
        let facts = Facts { length: copy.len() as u64, modified: None, ..facts };
        Ok((Content::Copy(Cursor::new(copy)), facts))
    }

    /// The entries of the directory at a path.
    pub(super) fn entries(&self, path: PathBuf) -> io::Result<Entries> {
        let found = self.look(&path)?;
        if !found.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Entries { root: self.clone(), dir: Dir::new(opened(&found)?)?, path })
    }
}

/// Whether a file does not end where `stat` says.
fn ends_elsewhere(file: &std::fs::File, length: u64) -> io::Result<bool> {
    let has_byte_at = |offset| file.read_at(&mut [0], offset).map(|read| read > 0);
    let is_shorter = match length.checked_sub(1) {
        Some(last) => !has_byte_at(last)?,
        None => false,
    };
    Ok(is_shorter || has_byte_at(length)?)
}

/// A checked file, opened for reading.
fn opened(found: &std::fs::File) -> rustix::io::Result<OwnedFd> {
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::openat(CWD, same, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The servable entries of a directory, unsorted.
pub(super) struct Entries {
    root: Beneath,
    path: PathBuf,
    dir: Dir,
}

/// A file or directory below the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub name: String,
    pub is_dir: bool,
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.dir.read()? {
                Ok(found) => found,
                Err(error) => return Some(Err(error.into())),
            };
            // Other names cannot be asked for.
            let Ok(name) = found.file_name().to_str() else { continue };
            if [".", ".."].contains(&name) {
                continue;
            }
            let name = name.to_owned();
            if let Some(is_dir) = self.is_dir(&name, found.file_type()) {
                return Some(Ok(Entry { name, is_dir }));
            }
        }
    }
}

impl Entries {
    /// Whether an entry is a directory. `None` if it is not servable.
    fn is_dir(&self, name: &str, seen: FileType) -> Option<bool> {
        match seen {
            FileType::RegularFile => Some(false),
            FileType::Directory => Some(true),
            // A link that leads out of the root, or nowhere, cannot be asked for either.
            FileType::Symlink | FileType::Unknown => {
                let target = self.root.look(&self.path.join(name)).ok()?.metadata().ok()?;
                (target.is_dir() || target.is_file()).then(|| target.is_dir())
            }
            _ => None,
        }
    }
}

type Task<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// Runs blocking disk work on a thread where only its own caller waits.
fn task<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Task<T> {
    Box::pin(async { spawn_blocking(work).await? })
}

impl Backend for Beneath {
    type File = Opened;
    type Metadata = Facts;
    type OpenFuture = Task<Opened>;
    type MetadataFuture = Task<Facts>;

    fn open(&self, path: PathBuf) -> Self::OpenFuture {
        let dir = self.clone();
        task(move || dir.serve(&path).map(|(content, facts)| Opened { content, facts }))
    }

    fn metadata(&self, path: PathBuf) -> Self::MetadataFuture {
        let dir = self.clone();
        task(move || {
            let data = dir.look(&path)?.metadata()?;
            if data.is_file() { Ok(dir.serve(&path)?.1) } else { Ok(Facts::of(&data)) }
        })
    }
}

/// What clients are told of a file or directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    is_dir: bool,
    length: u64,
    modified: Option<SystemTime>,
}

impl Facts {
    fn of(data: &std::fs::Metadata) -> Self {
        let modified = YEARS.contains(&data.mtime()).then(|| data.modified().ok()).flatten();
        Self { is_dir: data.is_dir(), length: data.len(), modified }
    }
}

impl Metadata for Facts {
    fn is_dir(&self) -> bool {
        self.is_dir
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.modified.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> u64 {
        self.length
    }
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Opened {
    content: Content,
    facts: Facts,
}

#[derive(Debug)]
enum Content {
    File(tokio::fs::File),
    /// What a file had whose length is only a hint.
    Copy(Cursor<Vec<u8>>),
}

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.content {
            Content::File(file) => Pin::new(file).poll_read(context, buffer),
            Content::Copy(copy) => Pin::new(copy).poll_read(context, buffer),
        }
    }
}

impl AsyncSeek for Opened {
    fn start_seek(mut self: Pin<&mut Self>, position: io::SeekFrom) -> io::Result<()> {
        match &mut self.content {
            Content::File(file) => Pin::new(file).start_seek(position),
            Content::Copy(copy) => Pin::new(copy).start_seek(position),
        }
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        match &mut self.content {
            Content::File(file) => Pin::new(file).poll_complete(context),
            Content::Copy(copy) => Pin::new(copy).poll_complete(context),
        }
    }
}

impl File for Opened {
    type Metadata = Facts;
    type MetadataFuture<'a> = std::future::Ready<io::Result<Facts>>;

    fn metadata(&self) -> Self::MetadataFuture<'_> {
        std::future::ready(Ok(self.facts))
    }
}
