// SPDX-License-Identifier: GPL-2.0-or-later
//! A directory as one stream that can be read at any place: a tar archive that is never written down.
//!
//! The archive's entries are listed first: what their headers are made of is kept in memory, contents stay in their files.
//! Entries come in the order of their names, so that two listings of the same directory are the same archive.

use super::date::Date;
use crate::{
    Error,
    source::{Copies, ends_elsewhere},
};
use rustix::fs::{Mode, OFlags};
use session::Stored;
use std::{
    collections::HashMap,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Mutex,
};
use tar::{Builder, EntryType, Header};

/// The size of a block of an archive.
const BLOCK: u64 = 512;
/// Length in bytes of an archive's end.
const END: usize = 1024;
/// What a header has room for in octal digits.
const MOST_OCTAL: i64 = 1 << 33;

/// A directory that is sent.
#[derive(Debug)]
pub(super) struct StoredTree {
    root: PathBuf,
    parts: Vec<Part>,
    length: u64,
    /// Contents whose length was not known in advance.
    copies: Option<Copies>,
    /// The file that was read last: parts are read in order.
    open: Mutex<Option<(usize, File)>>,
}

/// An entry in the archive.
#[derive(Debug)]
struct Part {
    /// Where it begins.
    from: u64,
    /// Length of its headers.
    headers: u64,
    entry: Entry,
    /// Where its content is, if it was copied.
    copied_to: Option<u64>,
}

impl Part {
    fn length(&self) -> u64 {
        self.headers + self.entry.size.next_multiple_of(BLOCK)
    }
}

/// What the headers of an entry are made of.
#[derive(Debug)]
struct Entry {
    name: PathBuf,
    kind: EntryType,
    link: Option<PathBuf>,
    mode: u32,
    date: Date,
    size: u64,
}

impl Entry {
    /// The header, with those that hold a long name or more of the date before it.
    fn headers(&self) -> io::Result<Vec<u8>> {
        let mut header = Header::new_gnu();
        header.set_entry_type(self.kind);
        header.set_mode(self.mode);
        header.set_size(self.size);
        // Who owns a file here means nothing elsewhere.
        header.set_uid(0);
        header.set_gid(0);
        set_seconds(&mut header, self.date.seconds);
        let mut builder = Builder::new(Vec::new());
        if self.date.needs_text() {
            let date = self.date.to_string();
            builder.append_pax_extensions([("mtime", date.as_bytes())])?;
        }
        match &self.link {
            Some(target) => builder.append_link(&mut header, &self.name, target)?,
            None => builder.append_data(&mut header, &self.name, io::empty())?,
        }
        // The end of an archive does not belong here.
        let mut bytes = builder.into_inner()?;
        bytes.truncate(bytes.len() - END);
        Ok(bytes)
    }
}

/// Sets the date in a header. Where octal digits do not do, it is a number in two's complement, as GNU tar has it.
fn set_seconds(header: &mut Header, seconds: i64) {
    if (0..MOST_OCTAL).contains(&seconds) {
        return header.set_mtime(seconds.unsigned_abs());
    }
    let (first, last) = header.as_old_mut().mtime.split_at_mut(4);
    first.fill(if seconds < 0 { 0xff } else { 0 });
    first[0] |= 0x80;
    last.copy_from_slice(&seconds.to_be_bytes());
}

impl StoredTree {
    /// Lists a directory.
    pub(super) fn list(root: &Path) -> Result<Self, Error> {
        let (parts, open) = (Vec::new(), Mutex::default());
        let mut tree = Self { root: root.to_owned(), parts, length: 0, copies: None, open };
        tree.add_directory(Path::new(""), &mut HashMap::new())?;
        tree.length += END as u64;
        Ok(tree)
    }

    fn push(&mut self, entry: Entry, copied_to: Option<u64>) -> io::Result<()> {
        let headers = entry.headers()?.len() as u64;
        let part = Part { from: self.length, headers, entry, copied_to };
        self.length = self.length.checked_add(part.length()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.parts.push(part);
        Ok(())
    }

    fn add_directory(
        &mut self,
        directory: &Path,
        names: &mut HashMap<(u64, u64), PathBuf>,
    ) -> Result<(), Error> {
        let path = self.root.join(directory);
        let failed = |error: io::Error| Error::file("read", &path, error);
        let entries = fs::read_dir(&path).map_err(failed)?;
        let entries: Result<Vec<_>, _> = entries.collect();
        let mut entries = entries.map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = directory.join(entry.file_name());
            let failed = |error: io::Error| Error::file("read", &self.root.join(&name), error);
            let data = entry.metadata().map_err(failed)?;
            let is_directory = data.is_dir();
            self.add(&name, &data, names)
                .map_err(|error| Error::file("read", &self.root.join(&name), error))?;
            if is_directory {
                self.add_directory(&name, names)?;
            }
        }
        Ok(())
    }

    /// Adds an entry without what is in it.
    fn add(
        &mut self,
        name: &Path,
        data: &Metadata,
        names: &mut HashMap<(u64, u64), PathBuf>,
    ) -> io::Result<()> {
        let kind = data.file_type();
        let entry = Entry {
            name: name.to_owned(),
            kind: EntryType::Regular,
            link: None,
            mode: data.mode() & 0o777,
            date: Date::of(data),
            size: 0,
        };
        if kind.is_dir() {
            return self.push(Entry { kind: EntryType::Directory, ..entry }, None);
        }
        if kind.is_symlink() {
            let link = Some(fs::read_link(self.root.join(name))?);
            return self.push(Entry { kind: EntryType::Symlink, link, ..entry }, None);
        }
        if !kind.is_file() {
            let text = "it is not a file, directory or link: remove it, or send the others";
            return Err(io::Error::other(text));
        }
        if data.nlink() > 1 {
            let first = names.entry((data.dev(), data.ino())).or_insert_with(|| name.to_owned());
            if first != name {
                let link = Some(first.clone());
                return self.push(Entry { kind: EntryType::Link, link, ..entry }, None);
            }
        }
        let (size, copied_to) = self.measure(name, data)?;
        self.push(Entry { size, ..entry }, copied_to)
    }

    /// The length of a file, and where it is if it had to be copied.
    fn measure(&mut self, name: &Path, data: &Metadata) -> io::Result<(u64, Option<u64>)> {
        // Where a length is only a hint nothing is on a disk: others need not be opened to be listed.
        if data.blocks() > 0 {
            return Ok((data.len(), None));
        }
        let file = open(&self.root.join(name))?;
        if !ends_elsewhere(&file, data.len())? {
            return Ok((data.len(), None));
        }
        let copies = match &mut self.copies {
            Some(copies) => copies,
            none => none.insert(Copies::new()?),
        };
        let at = copies.length();
        Ok((copies.add(&file)?, Some(at)))
    }

    /// Reads a part of a content, and zeros behind its end.
    fn read_content(&self, number: usize, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Part { entry: Entry { name, size, .. }, copied_to, .. } = &self.parts[number];
        let of_file = size.saturating_sub(at).min(buffer.len() as u64) as usize;
        let (content, padding) = buffer.split_at_mut(of_file);
        padding.fill(0);
        match (copied_to, &self.copies) {
            (Some(begin), Some(copies)) => copies.file().read_exact_at(content, begin + at),
            _ => self.read_file((number, &self.root.join(name), *size), at, content),
        }
    }

    fn read_file(
        &self,
        (number, path, size): (usize, &Path, u64),
        at: u64,
        content: &mut [u8],
    ) -> io::Result<()> {
        let mut opened = self.open.lock().expect("no panic while it is held");
        if opened.as_ref().is_none_or(|(last, _)| *last != number) {
            *opened = Some((number, open(path)?));
        }
        let (_, file) = opened.as_ref().expect("it was just opened");
        file.read_exact_at(content, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::other(format!("{} became shorter", path.display()))
            }
            _ => error,
        })?;
        // A file that grows meanwhile has more content; so has one whose length is only a hint.
        let is_last = at + content.len() as u64 == size;
        if is_last && file.read_at(&mut [0], size)? > 0 && file.metadata()?.len() == size {
            let text = format!("{} has more than its length says: send it alone", path.display());
            return Err(io::Error::other(text));
        }
        Ok(())
    }
}

/// Opens a file that is to be one still, and not wait like a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

impl Stored for StoredTree {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut number = self.parts.partition_point(|part| part.from <= offset).saturating_sub(1);
        while !buffer.is_empty() {
            // The end of the archive is behind the last part.
            let Some(part) =
                self.parts.get(number).filter(|part| offset < part.from + part.length())
            else {
                buffer.fill(0);
                return Ok(());
            };
            let at = offset - part.from;
            let is_header = at < part.headers;
            let left = if is_header { part.headers } else { part.length() } - at;
            let (now, rest) = buffer.split_at_mut(left.min(buffer.len() as u64) as usize);
            if is_header {
                let from = at as usize;
                now.copy_from_slice(&part.entry.headers()?[from..from + now.len()]);
            } else {
                self.read_content(number, at - part.headers, now)?;
            }
            offset += now.len() as u64;
            number += usize::from(offset == part.from + part.length());
            buffer = rest;
        }
        Ok(())
    }
}
