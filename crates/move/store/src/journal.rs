// SPDX-License-Identifier: GPL-2.0-or-later
//! The journal's file. Each error ends it: the next round begins another journal, from what was promised so far.

use crate::{
    disk::{Disk, DiskFile, Folder, Place},
    record::{BEGINNING, Beginning, MOST_RECORDS, Record, round_to_bytes},
};
use std::io::{self, IoSlice};

/// A journal shorter than this, in bytes, is not written again.
const SHORTEST_DUE: u64 = 1 << 20;
/// How many times as long as at its beginning it grows.
const GROWTH: u64 = 4;

/// The file that rounds are added to.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` after an error.
    file: Option<Box<dyn DiskFile>>,
    length: u64,
    begun_with: u64,
    next_round: u64,
}

impl Journal {
    /// None yet: it has to be written before the first round, which has this number.
    pub(crate) fn absent(next_round: u64) -> Self {
        Self { file: None, length: 0, begun_with: 0, next_round }
    }

    /// Whether rounds can be added.
    pub(crate) fn is_usable(&self) -> bool {
        self.file.is_some()
    }

    /// Whether it has grown so much that it should be written again.
    pub(crate) fn is_due(&self) -> bool {
        self.length > SHORTEST_DUE.max(self.begun_with.saturating_mul(GROWTH))
    }

    /// Writes a journal with these states, and puts it in place of the one that is there.
    ///
    /// # Errors
    /// It is not certain which of the two is there after a crash. Both say the same of what was promised.
    pub(crate) fn begin(&mut self, disk: &dyn Disk, states: &[Record]) -> io::Result<()> {
        self.file = None;
        match disk.remove(Place::NewJournal) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(Place::NewJournal)?;
        let beginning =
            Beginning { first_round: self.next_round, sessions: states.len() as u64 }.to_bytes();
        file.write_at(&[IoSlice::new(&beginning)], 0)?;
        let mut length = BEGINNING as u64;
        let mut next_round = self.next_round;
        for records in states.chunks(MOST_RECORDS) {
            let bytes = round_to_bytes(next_round, records);
            file.write_at(&[IoSlice::new(&bytes)], length)?;
            length += bytes.len() as u64;
            next_round += 1;
        }
        file.sync()?;
        disk.rename(Place::NewJournal, Place::Journal)?;
        disk.sync_folder(Folder::Root)?;
        *self = Self { file: Some(file), length, begun_with: length, next_round };
        Ok(())
    }

    /// Adds records, and makes them durable.
    ///
    /// # Errors
    /// It is not known which of them are durable. The file is not used again.
    pub(crate) fn add(&mut self, records: &[Record]) -> io::Result<()> {
        // Taken, and put back only if all goes well: after an error nothing can be added behind a torn round.
        let file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        for part in records.chunks(MOST_RECORDS) {
            let bytes = round_to_bytes(self.next_round, part);
            file.write_at(&[IoSlice::new(&bytes)], self.length)?;
            // Before the next round is written: a good round behind a torn one would be taken for damage.
            file.sync()?;
            self.length += bytes.len() as u64;
            self.next_round += 1;
        }
        self.file = Some(file);
        Ok(())
    }
}
