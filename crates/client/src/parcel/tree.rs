// SPDX-License-Identifier: GPL-2.0-or-later
//! A directory as one stream that can be read at any place: a tar archive that is never written down.
//!
//! The archive's entries are listed first: headers are kept in memory, contents stay in their files. Entries come in
//! the order of their names, so that two listings of the same directory are the same archive.

use crate::Error;
use lsl::Stored;
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

/// A directory that is sent.
#[derive(Debug)]
pub(super) struct StoredTree {
    root: PathBuf,
    parts: Vec<Part>,
    length: u64,
    /// The file that was read last: parts are read in order.
    open: Mutex<Option<(usize, File)>>,
}

#[derive(Debug)]
struct Part {
    /// Where it begins in the archive.
    from: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Headers, and the end.
    Bytes(Vec<u8>),
    /// A file's content, with zeros up to the next block.
    File { path: PathBuf, length: u64 },
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => length.next_multiple_of(BLOCK),
        }
    }
}

impl StoredTree {
    /// Lists a directory.
    pub(super) fn list(root: &Path) -> Result<Self, Error> {
        let mut tree =
            Self { root: root.to_owned(), parts: Vec::new(), length: 0, open: Mutex::default() };
        tree.add_directory(Path::new(""), &mut HashMap::new())?;
        tree.push(Content::Bytes(vec![0; END]));
        Ok(tree)
    }

    fn push(&mut self, content: Content) {
        let length = content.length();
        match (&content, self.parts.last_mut()) {
            // Headers of empty files and directories follow each other.
            (Content::Bytes(more), Some(Part { content: Content::Bytes(bytes), .. })) => {
                bytes.extend_from_slice(more);
            }
            _ => self.parts.push(Part { from: self.length, content }),
        }
        self.length += length;
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
            let path = self.root.join(&name);
            let data = entry.metadata().map_err(|error| Error::file("read", &path, error))?;
            self.add(&name, &data, names)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &Path,
        data: &Metadata,
        names: &mut HashMap<(u64, u64), PathBuf>,
    ) -> Result<(), Error> {
        let path = self.root.join(name);
        let failed = |error: io::Error| Error::file("read", &path, error);
        let kind = data.file_type();
        let mut header = Header::new_gnu();
        header.set_metadata(data);
        // Who owns a file here means nothing elsewhere.
        header.set_uid(0);
        header.set_gid(0);
        if kind.is_dir() {
            let bytes = headers(&mut header, name, None).map_err(failed)?;
            self.push(Content::Bytes(bytes));
            return self.add_directory(name, names);
        }
        if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(failed)?;
            let bytes = headers(&mut header, name, Some(&target)).map_err(failed)?;
            self.push(Content::Bytes(bytes));
            return Ok(());
        }
        if !kind.is_file() {
            let text = "it is not a file, directory or link: remove it, or send the others";
            return Err(failed(io::Error::other(text)));
        }
        if data.nlink() > 1 {
            let first = names.entry((data.dev(), data.ino())).or_insert_with(|| name.to_owned());
            if first != name {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                let bytes = headers(&mut header, name, Some(first)).map_err(failed)?;
                self.push(Content::Bytes(bytes));
                return Ok(());
            }
        }
        let bytes = headers(&mut header, name, None).map_err(failed)?;
        self.push(Content::Bytes(bytes));
        if data.len() > 0 {
            self.push(Content::File { path, length: data.len() });
        }
        Ok(())
    }

    /// Reads a part of a file, and zeros behind its end.
    fn read_file(&self, part: usize, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Content::File { path, length } = &self.parts[part].content else { return Ok(()) };
        let of_file = (length.saturating_sub(at) as usize).min(buffer.len());
        let mut open = self.open.lock().expect("no panic while it is held");
        if open.as_ref().is_none_or(|(number, _)| *number != part) {
            *open = Some((part, File::open(path)?));
        }
        let (_, file) = open.as_ref().expect("it was just opened");
        file.read_exact_at(&mut buffer[..of_file], at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::other(format!("{} became shorter", path.display()))
            }
            _ => error,
        })?;
        buffer[of_file..].fill(0);
        Ok(())
    }
}

/// The header of an entry, with those that hold a long name before it.
fn headers(header: &mut Header, name: &Path, link: Option<&Path>) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    match link {
        Some(target) => builder.append_link(header, name, target)?,
        None => builder.append_data(header, name, io::empty())?,
    }
    // The end of an archive does not belong here.
    let mut bytes = builder.into_inner()?;
    bytes.truncate(bytes.len() - END);
    Ok(bytes)
}

impl Stored for StoredTree {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut part = self.parts.partition_point(|part| part.from <= offset).saturating_sub(1);
        while !buffer.is_empty() {
            let Part { from, content } = &self.parts[part];
            let at = offset - from;
            let length = ((content.length() - at) as usize).min(buffer.len());
            let (now, rest) = buffer.split_at_mut(length);
            match content {
                Content::Bytes(bytes) => {
                    now.copy_from_slice(&bytes[at as usize..at as usize + length]);
                }
                Content::File { .. } => self.read_file(part, at, now)?,
            }
            (buffer, offset, part) = (rest, offset + length as u64, part + 1);
        }
        Ok(())
    }
}
