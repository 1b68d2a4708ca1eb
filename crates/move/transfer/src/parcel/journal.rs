// SPDX-License-Identifier: GPL-2.0-or-later
//! The journal of an archive that is being unpacked, `NAME.part.index`: the archive without the contents of its files.
//!
//! ```text
//! longhaul archive 1⏎   the transfer's note, as JSON⏎   headers, long names and padding as they came, without a gap
//! ```
//! Together with the files in `NAME.part` it gives the beginning of the archive again. It has neither lengths nor paths of its
//! own: the headers say which content belongs where, so that a journal leads nowhere but where an archive can.
//!
//! A header is written before its entry is created, by one call and unbuffered: after `kill -9` the directory has no entry
//! that is not in the journal. The journal may end anywhere, also within a header. It is not trusted: the sender compares
//! the beginning that it gives with its own archive, as it does with a file. It is locked, so that two transfers never mix,
//! and private like the names in it.

use super::private;
use crate::{
    Error,
    parcel::Note,
    part::{appended, remove},
};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// What it begins with: its kind and version.
const MAGIC: &[u8] = b"longhaul archive 1\n";

/// An open and locked journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Where the next header goes.
    end: u64,
}

/// What a journal has of an archive, to be read once.
#[derive(Debug)]
pub(super) struct Recorded {
    reader: BufReader<File>,
    /// Where in the journal the next byte is.
    position: u64,
}

impl Journal {
    /// Opens and locks the journal of a directory, `NAME.part`; an empty one if there is none.
    pub(super) fn open(part: &Path) -> Result<Self, Error> {
        let path = appended(part, ".index");
        Ok(Self { file: private::open(&path)?, path, end: 0 })
    }

    /// What it has of this transfer's archive; `None` if it is another transfer's, or none at all.
    pub(super) fn recorded(&self, note: &Note) -> io::Result<Option<Recorded>> {
        let expected = beginning(note);
        let mut reader = BufReader::new(self.file.try_clone()?);
        reader.seek(SeekFrom::Start(0))?;
        let mut found = Vec::new();
        reader.by_ref().take(expected.len() as u64).read_to_end(&mut found)?;
        let position = expected.len() as u64;
        Ok((found == expected).then_some(Recorded { reader, position }))
    }

    /// Begins it for this transfer, without what it had.
    pub(super) fn reset(&mut self, note: &Note) -> Result<(), Error> {
        let beginning = beginning(note);
        self.end = beginning.len() as u64;
        let written = self.file.set_len(0).and_then(|()| self.file.write_all_at(&beginning, 0));
        written.map_err(|error| Error::file("write", &self.path, error))
    }

    /// Continues it behind what was read of it.
    pub(super) fn continue_behind(&mut self, recorded: &Recorded) -> io::Result<()> {
        self.end = recorded.position;
        self.file.set_len(self.end)
    }

    /// Appends headers.
    pub(super) fn append(&mut self, headers: &[u8]) -> io::Result<()> {
        self.file.write_all_at(headers, self.end)?;
        self.end += headers.len() as u64;
        Ok(())
    }

    /// Removes it.
    pub(super) fn remove(&self) -> Result<(), Error> {
        remove(&self.path)
    }

    /// Removes it if no transfer has begun it.
    pub(super) fn remove_if_empty(&self) {
        if self.file.metadata().is_ok_and(|data| data.len() == 0) {
            // An empty one does no harm.
            let _ = self.remove();
        }
    }
}

impl Read for Recorded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.position += length as u64;
        Ok(length)
    }
}

/// What the journal of a transfer begins with.
fn beginning(note: &Note) -> Vec<u8> {
    [MAGIC, &note.to_bytes(), b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Kind;

    fn note(bytes: u64) -> Note {
        let name = Some("tree".to_owned());
        Note { name, bytes: Some(bytes), ..Note::of(Kind::Directory) }
    }

    fn read(journal: &Journal, note: &Note) -> Option<Vec<u8>> {
        let mut found = Vec::new();
        journal.recorded(note).unwrap()?.read_to_end(&mut found).unwrap();
        Some(found)
    }

    #[test]
    fn journal_is_read_only_for_the_transfer_that_wrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let part = directory.path().join("tree.part");
        let mut journal = Journal::open(&part).unwrap();
        assert_eq!(read(&journal, &note(1)), None, "it is empty");
        journal.reset(&note(1)).unwrap();
        journal.append(b"one").unwrap();
        journal.append(b"two").unwrap();
        assert_eq!(read(&journal, &note(1)).unwrap(), b"onetwo");
        assert_eq!(read(&journal, &note(2)), None, "another length is another transfer");
        assert!(matches!(Journal::open(&part), Err(Error::Locked(_))));
        let mut recorded = journal.recorded(&note(1)).unwrap().unwrap();
        recorded.read_exact(&mut [0; 4]).unwrap();
        journal.continue_behind(&recorded).unwrap();
        journal.append(b"hree").unwrap();
        assert_eq!(read(&journal, &note(1)).unwrap(), b"onethree");
        // With an invalid beginning, whatever it is, nothing is read.
        let whole = std::fs::read(&journal.path).unwrap();
        for length in 0..beginning(&note(1)).len() {
            std::fs::write(&journal.path, &whole[..length]).unwrap();
            assert_eq!(read(&journal, &note(1)), None, "{length} bytes");
        }
    }
}
