// SPDX-License-Identifier: GPL-2.0-or-later
//! What is sent: a file, directory or pipe, opened and described.

use super::{
    date::Date,
    follow::{Follow, Followed},
    note::{Kind, MAX_HEADER, Note},
    tree::StoredTree,
};
use crate::{
    Error,
    source::{Copies, ends_elsewhere},
};
use session::{Stored, StoredFile};
use std::{
    fmt,
    fs::{File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use units::Bytes;

/// What is sent.
pub enum Parcel {
    /// A file or directory.
    Path(PathBuf),
    /// The bytes of a pipe.
    Pipe(Box<dyn Read + Send>),
    /// A file that is still written, until a rule ends it. Not for a depot's store.
    Growing(PathBuf, Follow),
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Pipe(_) => f.write_str("Pipe"),
            Self::Growing(path, follow) => {
                f.debug_tuple("Growing").field(path).field(follow).finish()
            }
        }
    }
}

/// The opened content.
pub(super) enum Content {
    Stored(Arc<dyn Stored>),
    Pipe(Box<dyn Read + Send>),
}

/// What is sent, and its description.
pub(super) struct Opened {
    pub content: Content,
    pub note: Note,
    pub watched: Option<Watched>,
    pub followed: Option<Arc<Followed>>,
}

/// Opens and describes the content.
pub(super) fn open(parcel: Parcel, name: Option<String>) -> Result<Opened, Error> {
    let path = match parcel {
        Parcel::Pipe(pipe) => {
            let note = Note { name, ..Note::of(Kind::Pipe) };
            let content = Content::Pipe(pipe);
            return Ok(Opened { content, note, watched: None, followed: None });
        }
        Parcel::Path(path) => path,
        Parcel::Growing(path, follow) => return open_growing(&path, follow, name),
    };
    let failed = |error| Error::file("read", &path, error);
    let data = looked_at(&path)?;
    let name = name_of(&path, name)?;
    let (kind, stored, watched): (_, Arc<dyn Stored>, _) = if data.is_dir() {
        (Kind::Directory, Arc::new(StoredTree::list(&path)?), None)
    } else if data.is_file() {
        let (file, is_copy) = open_file(&path, data.len()).map_err(failed)?;
        let stored = StoredFile::new(file).map_err(failed)?;
        let watched = Watched { path: path.clone(), before: data.clone(), is_copy };
        (Kind::File, Arc::new(stored), Some(watched))
    } else {
        let text =
            "it is not a file or directory. To send what comes from it: longhaul send - < FILE";
        return Err(Error::file("send", &path, std::io::Error::other(text)));
    };
    let (name, bytes, mode) = (Some(name), Some(stored.length()), Some(data.mode() & 0o777));
    let note = Note { name, bytes, mode, ..Note::of(kind) }.dated(Date::of(&data));
    Ok(Opened { content: Content::Stored(stored), note, watched, followed: None })
}

/// Opens a file that is still written. Its note has nothing that changes while it grows.
fn open_growing(path: &Path, follow: Follow, name: Option<String>) -> Result<Opened, Error> {
    let failed = |error| Error::file("read", path, error);
    if !looked_at(path)?.is_file() {
        let text = "only a file can be followed";
        return Err(Error::file("follow", path, std::io::Error::other(text)));
    }
    let name = name_of(path, name)?;
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    let header_last = follow.header_last.map(Bytes::get);
    if header_last.is_some_and(|bytes| !(1..=MAX_HEADER).contains(&bytes)) {
        return Err(Error::Usage("--header-last: 1B to 16MiB".to_owned()));
    }
    let kind = if header_last.is_some() { Kind::Growing } else { Kind::File };
    let followed = Arc::new(Followed::new(file, path, follow)?);
    let note = Note { name: Some(name), mode: Some(mode), header_last, ..Note::of(kind) };
    let content = Content::Stored(Arc::clone(&followed) as Arc<dyn Stored>);
    Ok(Opened { content, note, watched: None, followed: Some(followed) })
}

/// The name for the receiver: this one, or the file's own.
fn name_of(path: &Path, name: Option<String>) -> Result<String, Error> {
    let whole = path.canonicalize().map_err(|error| Error::file("read", path, error))?;
    let own = whole.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.or(own).ok_or_else(|| {
        Error::Usage(format!("{}: its name is not UTF-8. Name it: --name", path.display()))
    })
}

/// Opens a file, or a copy of one whose length is only a hint.
fn open_file(path: &Path, length: u64) -> std::io::Result<(File, bool)> {
    let file = File::open(path)?;
    if !ends_elsewhere(&file, length)? {
        return Ok((file, false));
    }
    let mut copies = Copies::new()?;
    copies.add(&file)?;
    Ok((copies.into_file(), true))
}

/// A file that must not change while it is sent.
pub(super) struct Watched {
    path: PathBuf,
    before: Metadata,
    /// What is sent is a copy: the file system may say any date.
    is_copy: bool,
}

impl Watched {
    pub(super) fn unchanged(&self) -> Result<(), Error> {
        let Self { path, before, is_copy } = self;
        let date = |data: &Metadata| (data.mtime(), data.mtime_nsec());
        let now = looked_at(path)?;
        if now.len() == before.len() && (*is_copy || date(&now) == date(before)) {
            return Ok(());
        }
        let why = "its date or length is another one now".to_owned();
        Err(Error::SourceChanged { file: path.clone(), why })
    }
}

fn looked_at(path: &Path) -> Result<Metadata, Error> {
    std::fs::metadata(path).map_err(|error| Error::file("read", path, error))
}
