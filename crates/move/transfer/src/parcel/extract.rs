// SPDX-License-Identifier: GPL-2.0-or-later
//! A tar archive becomes a directory, and nothing outside it.
//!
//! Entries that are replayed (see `archive_stream`) are there already, except the last one, of which a part may be missing.
//! They are compared, and get their attributes again. Everything else is removed from the directory before an entry is added,
//! so that it never differs from the result of an extraction without interruptions.
//!
//! Threats: an archive names any path, links anywhere, and goes through its own links. Each name is resolved beneath the
//! directory (see `beneath`), replayed or not. An entry that was replaced between two processes is not written to.

use super::{
    archive_stream::{ArchiveStream, Held},
    beneath,
    date::Date,
    sparse,
};
use crate::{Error, part::is_own, text::printable};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Component, Path, PathBuf},
};
use tar::{Archive, Entry, EntryType};

/// The longest path of an entry.
const MAX_PATH: usize = 4096;
/// What is copied of a content at a time.
const PIECE: usize = 256 << 10;

/// Puts the entries of an archive into a directory, which has those that are replayed, or is empty.
pub(super) fn extract(stream: &ArchiveStream, directory: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file("write", directory, error);
    let mut extraction = Extraction::begin(stream, directory).map_err(failed)?;
    let mut archive = Archive::new(stream);
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = path_of(&entry)?;
        let at = |error: io::Error| Error::file("write", &directory.join(&path), error);
        if let Some(attributes) = extraction.put(&path, &mut entry).map_err(at)? {
            extraction.directories.push((path, attributes));
        }
    }
    extraction.finish()
}

/// A directory that is filled.
struct Extraction<'a> {
    stream: &'a ArchiveStream,
    directory: &'a Path,
    root: OwnedFd,
    /// Directories, which get their attributes at the end.
    directories: Vec<(PathBuf, Attributes)>,
    /// The paths of what was replayed, until everything else is removed.
    replayed: Option<HashSet<PathBuf>>,
    buffer: Vec<u8>,
}

/// Permissions and date.
pub(super) struct Attributes {
    /// Without setuid and setgid bits, so that no entry becomes a program that runs as its owner.
    pub mode: u32,
    pub date: Option<Date>,
}

impl Attributes {
    fn of(entry: &mut Entry<'_, impl Read>) -> io::Result<Self> {
        let mut date = None;
        for extension in entry.pax_extensions()?.into_iter().flatten() {
            let extension = extension?;
            if extension.key_bytes() == b"mtime" {
                let text = extension.value().ok().and_then(Date::parse);
                date = Some(text.ok_or_else(|| io::Error::other("its date cannot be read"))?);
            }
        }
        let header = entry.header();
        // Before 1970 the number is negative, in two's complement.
        let seconds = header.mtime()?.cast_signed();
        let date = Some(date.unwrap_or(Date::from_seconds(seconds)));
        Ok(Self { mode: header.mode()? & 0o777, date })
    }

    pub(super) fn set(&self, file: &File) -> io::Result<()> {
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode & 0o777))?;
        match self.date {
            Some(date) => Ok(rustix::fs::futimens(file, &date.times())?),
            None => Ok(()),
        }
    }
}

/// The path of an entry, if it stays inside.
fn path_of(entry: &Entry<'_, impl Read>) -> Result<PathBuf, Error> {
    let bytes = entry.path_bytes();
    let refused = |why: &str| {
        let name = printable(&String::from_utf8_lossy(&bytes), 200);
        Error::Answer(format!("the archive's entry {name:?} is refused: {why}"))
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
    if bytes.is_empty() || bytes.len() > MAX_PATH {
        return Err(refused("its path is empty or too long"));
    }
    for component in path.components() {
        if !matches!(component, Component::Normal(_)) {
            return Err(refused("its path leads outside"));
        }
    }
    Ok(path.components().collect())
}

impl<'a> Extraction<'a> {
    fn begin(stream: &'a ArchiveStream, directory: &'a Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let replayed = stream.is_replaying().then(HashSet::new);
        if replayed.is_some() && !is_own(&File::from(root.try_clone()?).metadata()?) {
            return Err(io::Error::other("it belongs to another user"));
        }
        // Until it is complete nobody else reads it, whatever its own permissions are.
        rustix::fs::fchmod(&root, Mode::RWXU)?;
        let (directories, buffer) = (Vec::new(), vec![0; PIECE]);
        Ok(Self { stream, directory, root, directories, replayed, buffer })
    }

    /// Puts an entry in its place; with the attributes of a directory, which are set at the end.
    fn put(
        &mut self,
        path: &Path,
        entry: &mut Entry<'_, impl Read>,
    ) -> io::Result<Option<Attributes>> {
        let attributes = Attributes::of(entry)?;
        let kind = entry.header().entry_type();
        let is_replayed = self.stream.is_replaying();
        if is_replayed {
            self.remember(path, kind)?;
        } else {
            self.remove_others()?;
            self.stream.record()?;
        }
        let (parent, name) = beneath::place_of(self.root.as_fd(), path)?;
        match kind {
            EntryType::Directory => {
                beneath::make_directory(parent.as_fd(), name)?;
                let flags = OFlags::DIRECTORY | OFlags::PATH;
                beneath::open(parent.as_fd(), name, flags, Mode::empty())?;
                return Ok(Some(attributes));
            }
            EntryType::Symlink => {
                let target = link_of(entry)?;
                if beneath::leads_out(path, &target) {
                    return Err(io::Error::other("the link leads outside"));
                }
                match rustix::fs::symlinkat(&target, &parent, name) {
                    Err(Errno::EXIST) if is_replayed => is_link(&parent, name, &target)?,
                    made => made?,
                }
                if let Some(date) = attributes.date {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::utimensat(&parent, name, &date.times(), flags)?;
                }
            }
            EntryType::Link => {
                let place = (parent.as_fd(), name);
                beneath::hard_link(self.root.as_fd(), &link_of(entry)?, place, is_replayed)?;
            }
            EntryType::Regular | EntryType::Continuous => {
                let size = entry.size();
                let held = if is_replayed { held(parent.as_fd(), name, size)? } else { None };
                let file = self.copy(parent.as_fd(), name, held, size, entry)?;
                attributes.set(&file)?;
            }
            other => {
                return Err(io::Error::other(format!("entries of type {other:?} are not taken")));
            }
        }
        Ok(None)
    }

    /// Writes a file behind what is here of it; with the file.
    fn copy(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        held: Option<Held>,
        size: u64,
        entry: &mut Entry<'_, impl Read>,
    ) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::NOFOLLOW;
        let mut from = 0;
        let file = match &held {
            // It may be read-only by now, and is not written to any more.
            Some(held) if held.length == size => {
                from = size;
                held.file.try_clone()?
            }
            Some(held) => {
                from = held.length;
                File::from(beneath::open(parent, name, flags, Mode::empty())?)
            }
            None => {
                flags |= OFlags::CREATE | OFlags::EXCL;
                File::from(beneath::open(parent, name, flags, Mode::RUSR | Mode::WUSR)?)
            }
        };
        self.stream.begin_content(held);
        let mut at = 0;
        loop {
            let length = entry.read(&mut self.buffer)?;
            if length == 0 {
                break;
            }
            // No piece is partly from the file and partly from the session.
            if at >= from {
                write_sparsely(&file, &self.buffer[..length], at)?;
            }
            at += length as u64;
        }
        if at != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.stream.end_content();
        Ok(file)
    }

    /// Remembers what was replayed.
    fn remember(&mut self, path: &Path, kind: EntryType) -> io::Result<()> {
        let Some(replayed) = &mut self.replayed else { return Ok(()) };
        if !replayed.insert(path.to_owned()) && kind != EntryType::Directory {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        for above in path.ancestors().skip(1) {
            if above.as_os_str().is_empty() || !replayed.insert(above.to_owned()) {
                break;
            }
        }
        Ok(())
    }

    /// Removes what is there and was not replayed: a machine that lost its power may have kept entries whose headers it
    /// has lost, and others may have put something there.
    fn remove_others(&mut self) -> io::Result<()> {
        let Some(replayed) = self.replayed.take() else { return Ok(()) };
        let (mut left, mut others) = (vec![PathBuf::from(".")], Vec::new());
        while let Some(directory) = left.pop() {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY;
            let opened = beneath::open(self.root.as_fd(), &directory, flags, Mode::empty())?;
            for item in Dir::read_from(&opened)? {
                let item = item?;
                let name = OsStr::from_bytes(item.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let path: PathBuf = directory.join(name).components().skip(1).collect();
                let is_other = !replayed.contains(&path);
                let found = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                    left.push(Path::new(".").join(&path));
                    others.extend(is_other.then_some(path));
                } else if is_other {
                    rustix::fs::unlinkat(&opened, name, AtFlags::empty())?;
                }
            }
        }
        // Those within others come behind them.
        for path in others.iter().rev() {
            let (parent, name) = beneath::place_of(self.root.as_fd(), path)?;
            rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// All entries are there.
    fn finish(mut self) -> Result<(), Error> {
        let failed = |error: io::Error| Error::file("write", self.directory, error);
        if self.stream.is_replaying() {
            // Its end is not in the journal: this is not the beginning of an archive.
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        self.stream.end_entries();
        self.remove_others().map_err(failed)?;
        // What fills up the last record of an archive.
        let mut rest = self.stream;
        io::copy(&mut rest, &mut io::sink()).map_err(failed)?;
        // Last, and from within: putting something in changes a directory's date, and may need its permission.
        for (path, attributes) in self.directories.into_iter().rev() {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY;
            let set = beneath::open(self.root.as_fd(), &path, flags, Mode::empty())
                .and_then(|file| attributes.set(&File::from(file)));
            set.map_err(|error| Error::file("write", &self.directory.join(&path), error))?;
        }
        Ok(())
    }
}

/// Writes behind the end of a file, without its blocks of zeros.
fn write_sparsely(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    for (piece, is_zero) in sparse::pieces(at, bytes) {
        let (from, to) = (at + piece.start as u64, at + piece.end as u64);
        if is_zero {
            sparse::lengthen(file, to)?;
        } else {
            file.write_all_at(&bytes[piece], from)?;
        }
    }
    Ok(())
}

/// What is here of a file of this size; `None` if it is not there.
fn held(parent: BorrowedFd<'_>, name: &OsStr, size: u64) -> io::Result<Option<Held>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match beneath::open(parent, name, flags, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => File::from(file?),
    };
    let data = file.metadata()?;
    let length = data.len();
    if !data.is_file() || !is_own(&data) || length > size {
        return Err(io::Error::other("it is another file now"));
    }
    if length < size {
        if data.nlink() > 1 {
            // Links are made to whole files: the other name is not from the archive.
            return Err(io::Error::other("it has a second name (hard link)"));
        }
        // A machine that lost its power may have kept its final permissions, but not all of its bytes.
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    }
    Ok(Some(Held { file, length }))
}

/// A symbolic link is this one.
fn is_link(parent: &OwnedFd, name: &OsStr, target: &Path) -> io::Result<()> {
    let found = rustix::fs::readlinkat(parent, name, Vec::new())?;
    if found.as_bytes() == target.as_os_str().as_bytes() {
        return Ok(());
    }
    Err(io::Error::other("it is another link now"))
}

fn link_of(entry: &Entry<'_, impl Read>) -> io::Result<PathBuf> {
    let target = entry.link_name_bytes().filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| io::Error::other("the link leads nowhere"))?;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&target)))
}
