// SPDX-License-Identifier: GPL-2.0-or-later
//! Local files that are sent, up to their real end.
//!
//! The length by `stat(2)` is a hint: files of `/proc` and of some FUSE file systems have 0 there, those of `/sys` 4096. If
//! a file ends elsewhere, it is read to its end into a copy, whose length is known: a temporary file without a name.

#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::FileExt,
};

/// The longest content that is copied.
const MOST: u64 = 1 << 30;
/// What is copied at a time.
const PIECE: usize = 256 << 10;

/// Whether a file does not end where `stat` says. It may block, as reads of some files of `/sys` do.
pub(crate) fn ends_elsewhere(file: &File, length: u64) -> io::Result<bool> {
    let has_byte_at = |offset| read_byte(file, offset);
    let is_shorter = match length.checked_sub(1) {
        Some(last) => !has_byte_at(last)?,
        None => false,
    };
    Ok(is_shorter || has_byte_at(length)?)
}

fn read_byte(file: &File, offset: u64) -> io::Result<bool> {
    loop {
        match file.read_at(&mut [0], offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // No file ends behind the last offset that the system has.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && offset > 0 => {
                return Ok(false);
            }
            read => return Ok(read? > 0),
        }
    }
}

/// Copies of contents, one behind the other.
#[derive(Debug)]
pub(crate) struct Copies {
    file: File,
    length: u64,
}

impl Copies {
    /// No copies yet.
    ///
    /// # Errors
    /// There is no place for temporary files.
    pub(crate) fn new() -> io::Result<Self> {
        let file = tempfile::tempfile().map_err(|error| {
            let place = std::env::temp_dir();
            io::Error::other(format!("no temporary file in {}: {error}", place.display()))
        })?;
        Ok(Self { file, length: 0 })
    }

    /// Copies a file from where it stands to its end; with the length of the content.
    ///
    /// # Errors
    /// It cannot be read, or there is no room for it.
    pub(crate) fn add(&mut self, mut from: &File) -> io::Result<u64> {
        let (begin, mut piece) = (self.length, vec![0; PIECE]);
        loop {
            let length = match from.read(&mut piece) {
                Ok(0) => return Ok(self.length - begin),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if self.length + length as u64 > MOST {
                let text = "its length is not known in advance, and it has more than 1 GiB: send it from a pipe";
                return Err(io::Error::other(text));
            }
            self.file.write_all(&piece[..length])?;
            self.length += length as u64;
        }
    }

    /// Length of all contents.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The contents.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The contents as one file.
    pub(crate) fn into_file(self) -> File {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_a_file_is_only_a_hint() {
        for (path, stat) in [
            ("/proc/self/status", 0),
            ("/sys/kernel/mm/transparent_hugepage/enabled", 4096),
            ("/proc/self/cmdline", 0),
        ] {
            let Ok(file) = File::open(path) else { continue };
            assert_eq!(file.metadata().unwrap().len(), stat, "{path}");
            assert!(ends_elsewhere(&file, stat).unwrap(), "{path}");
            let mut copies = Copies::new().unwrap();
            assert!(copies.add(&file).unwrap() > 0, "{path}");
            assert!(!ends_elsewhere(copies.file(), copies.length).unwrap());
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for length in [0, 1, 5000] {
            std::fs::write(&path, vec![7; length]).unwrap();
            let file = File::open(&path).unwrap();
            for (told, elsewhere) in [(0, length > 0), (length, false), (length + 1, true)] {
                let found = ends_elsewhere(&file, told as u64).unwrap();
                assert_eq!(found, elsewhere, "{length} bytes, {told} told");
            }
        }
    }
}
