// SPDX-License-Identifier: GPL-2.0-or-later
//! Files below one directory, and none outside it, whatever links it contains.
//!
//! The kernel resolves each path below the directory (`openat2(2)`, `RESOLVE_BENEATH`), so that a link that is
//! changed between a look and an opening gains nothing. Links that stay inside are followed. Only regular
//! files are read: a FIFO would hold its reader up, and a device may do anything. A directory's entries are those that
//! can be asked for: what would be refused is not listed.

use rustix::{
    fd::{AsRawFd, OwnedFd},
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2},
};
use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncSeek, ReadBuf},
    task::spawn_blocking,
};
use tower_http::services::fs::{Backend, File};

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

    /// The entries of the directory at a path.
    pub(super) fn entries(&self, path: PathBuf) -> io::Result<Entries> {
        let found = self.look(&path)?;
        if !found.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Entries { root: self.clone(), dir: Dir::new(opened(&found)?)?, path })
    }
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
    type Metadata = Metadata;
    type OpenFuture = Task<Opened>;
    type MetadataFuture = Task<Metadata>;

    fn open(&self, path: PathBuf) -> Self::OpenFuture {
        let dir = self.clone();
        task(move || Ok(Opened(tokio::fs::File::from_std(dir.read(&path)?))))
    }

    fn metadata(&self, path: PathBuf) -> Self::MetadataFuture {
        let dir = self.clone();
        task(move || dir.look(&path)?.metadata())
    }
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Opened(tokio::fs::File);

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncSeek for Opened {
    fn start_seek(mut self: Pin<&mut Self>, position: io::SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.0).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.0).poll_complete(context)
    }
}

impl File for Opened {
    type Metadata = Metadata;
    type MetadataFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Metadata>> + Send + 'a>>;

    fn metadata(&self) -> Self::MetadataFuture<'_> {
        Box::pin(self.0.metadata())
    }
}
