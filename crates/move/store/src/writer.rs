// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end of a session: bytes go to its data file, and promises to the next round.

use crate::{
    blocks::{self, BlockSum, MARK, Mark, TRAILER},
    catalogue::{Ending, Need},
    commit::{Runner, remove_abandoned, submit},
    disk::{DiskFile, Place},
    error::StoreError,
    limits::{Allowance, Refusal},
    promise::{Promise, promise, refused},
    record::State,
    shared::{DataFile, NewHeader, Request, Shared, Wish, Written, why_ended},
};
use protocol::session::SessionId;
use std::{
    fmt,
    io::{self, IoSlice},
    sync::Arc,
};
use units::Bytes;

/// Blocks that one system call writes.
const BLOCKS_AT_ONCE: usize = 16;
/// Bytes after which the kernel is asked to write, so that a promise does not wait for all of a long session.
const WRITE_BACK: u64 = 8 << 20;

/// The one that may add bytes to a session. Dropping it keeps what is promised; [`crate::Store::writer`] continues.
pub struct Writer {
    shared: Arc<Shared>,
    runner: Arc<dyn Runner>,
    id: SessionId,
    ending: Ending,
    file: Arc<DataFile>,
    header: Option<Arc<NewHeader>>,
    allowance: Option<Allowance>,
    sum: BlockSum,
    length: u64,
    promised: u64,
    reserved: u64,
    written_back: u64,
}

/// What a writer begins with.
pub(crate) struct Beginning {
    pub id: SessionId,
    pub ending: Ending,
    pub file: Box<dyn DiskFile>,
    pub header: Option<Arc<NewHeader>>,
    pub allowance: Option<Allowance>,
    /// The block that the next byte belongs to.
    pub sum: BlockSum,
    pub length: u64,
    pub reserved: u64,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, runner: Arc<dyn Runner>, begin: Beginning) -> Self {
        let Beginning { id, ending, file, header, allowance, sum, length, reserved } = begin;
        let (promised, written_back) = (length, length);
        let file = DataFile::new(file);
        Self {
            shared,
            runner,
            id,
            ending,
            file,
            header,
            allowance,
            sum,
            length,
            promised,
            reserved,
            written_back,
        }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Bytes so far, promised or not. The next one is stored behind them.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that were promised when this writer began.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Bytes that the session may have.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Adds bytes at the end. Blocks as a write to a file does.
    ///
    /// # Errors
    /// It has ended, they are more than was reserved, or the disk cannot take them. After [`Refusal::DiskFull`] an unknown
    /// part of them is stored, [`Self::length`] says how many; they can be added again from there.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.usable_file()?;
        if bytes.len() as u64 > self.reserved.saturating_sub(self.length) {
            return Err(StoreError::OverReservation { reserved: self.reserved });
        }
        let shared = Arc::clone(&self.shared);
        let mut rest = bytes;
        while !rest.is_empty() {
            let _changing = shared.changing()?;
            let written = self.append_blocks(&*file, rest);
            match written {
                Ok(taken) => rest = &rest[taken..],
                Err(error) if is_full(&error) => return Err(Refusal::DiskFull.into()),
                Err(error) => {
                    self.file.give_up();
                    return Err(StoreError::failed(Place::Data(self.id), error));
                }
            }
        }
        if self.length - self.written_back >= WRITE_BACK {
            let from = blocks::position(self.written_back);
            file.begin_write_back(from, blocks::position(self.length) - from);
            self.written_back = self.length;
        }
        Ok(())
    }

    /// Writes the first of these bytes, and returns how many.
    fn append_blocks(&mut self, file: &dyn DiskFile, bytes: &[u8]) -> io::Result<usize> {
        let mut sum = self.sum.clone();
        let mut trailers: Vec<[u8; TRAILER]> = Vec::with_capacity(BLOCKS_AT_ONCE);
        let mut parts: Vec<&[u8]> = Vec::with_capacity(BLOCKS_AT_ONCE);
        let mut rest = bytes;
        while !rest.is_empty() && parts.len() < BLOCKS_AT_ONCE {
            let (part, others) = rest.split_at(rest.len().min(sum.space() as usize));
            sum.add(part);
            parts.push(part);
            if sum.space() == 0 {
                trailers.push(sum.close());
            }
            rest = others;
        }
        // Each part but the last one ends a block.
        let mut slices = Vec::with_capacity(2 * parts.len());
        for (n, part) in parts.iter().enumerate() {
            slices.push(IoSlice::new(part));
            slices.extend(trailers.get(n).map(|trailer| IoSlice::new(trailer)));
        }
        file.write_at(&slices, blocks::position(self.length))?;
        let taken = bytes.len() - rest.len();
        self.sum = sum;
        self.length += taken as u64;
        Ok(taken)
    }

    /// Reserves space for more bytes; the next promise makes the reservation durable.
    ///
    /// # Errors
    /// There is none: [`StoreError::Refused`], or the session has ended.
    pub fn reserve(&mut self, reserved: Bytes) -> Result<(), StoreError> {
        let _changing = self.shared.changing()?;
        let file = self.usable_file()?;
        let (before, reserved) = (self.reserved, reserved.get());
        if reserved <= before {
            return Ok(());
        }
        if reserved > blocks::MAX_LENGTH {
            return Err(StoreError::Invalid("a session of that size is too long"));
        }
        {
            let free = self.shared.disk.free_bytes();
            let free = free.map_err(StoreError::io("measure", "the disk"))?;
            let mut catalogue = self.shared.catalogue();
            let entry = catalogue.get(self.id).ok_or_else(|| why_ended(&self.ending))?;
            let bytes = blocks::file_bytes(reserved) - blocks::file_bytes(before);
            let account = entry.account;
            let allowance = self.allowance.unwrap_or(catalogue.limits.key);
            catalogue.check_space(&account, allowance, Need { bytes, sessions: 0 }, free)?;
            catalogue.change(self.id, |entry| {
                (entry.reserved, entry.is_backed) = (reserved, false);
            });
        }
        let allocated = file.allocate(blocks::position(reserved) + MARK as u64);
        let change = |reserved, is_backed| {
            self.shared.catalogue().change(self.id, |entry| {
                (entry.reserved, entry.is_backed) = (reserved, is_backed);
            });
        };
        match allocated {
            Ok(is_backed) => change(reserved, is_backed),
            Err(error) if is_full(&error) => {
                change(before, false);
                return Err(Refusal::DiskFull.into());
            }
            Err(_) => change(reserved, false),
        }
        self.reserved = reserved;
        Ok(())
    }

    /// Gives back reserved space that has no bytes, which the next promise makes durable: for a sender that has gone, and may come
    /// back. [`Self::reserve`] asks for space again.
    ///
    /// # Errors
    /// The session has ended.
    pub fn give_back(&mut self) -> Result<(), StoreError> {
        let _changing = self.shared.changing()?;
        self.usable_file()?;
        self.reserved = self.length;
        self.shared.catalogue().change(self.id, |entry| {
            (entry.reserved, entry.is_backed) = (self.reserved, false);
        });
        Ok(())
    }

    /// Promises all bytes so far: when this is ready, they outlast a crash. Resolves to how many they are. Several promises
    /// may wait, and more bytes may be added meanwhile.
    ///
    /// After [`StoreError::Failed`] the session takes no more bytes. After other errors it may be asked again.
    pub fn promise(&mut self) -> Promise<u64> {
        self.ask(false)
    }

    /// The same, and these are all bytes of the session: from then on readers come to its end.
    ///
    /// If it cannot be promised, the session may be continued by [`crate::Store::writer`], unless it was new.
    pub fn complete(mut self) -> Promise<u64> {
        self.ask(true)
    }

    fn ask(&mut self, is_complete: bool) -> Promise<u64> {
        let read = |state: State| state.length;
        let prepared = self.prepare(is_complete);
        let written = match prepared {
            Ok(written) => written,
            Err(error) => return refused(error, read),
        };
        let (promise, answer) = promise(read);
        let request = Request { wish: Wish::Promise(written), answer };
        submit(&self.shared, &*self.runner, request);
        promise
    }

    /// What a round has to know.
    fn prepare(&self, is_complete: bool) -> Result<Written, StoreError> {
        // A file that has failed is left to the round, which tells the journal.
        if let Some(why) = self.ending.get() {
            return Err(StoreError::Gone(*why));
        }
        if let Some(file) = self.file.get() {
            let _changing = self.shared.changing()?;
            let mark = Mark { length: self.length, tail: self.sum.get(), is_complete };
            // It helps only where the journal is lost, so a full disk does not fail the promise. Other errors come back at sync.
            let at = blocks::position(self.length);
            let _ = file.write_at(&[IoSlice::new(&mark.to_bytes(self.id))], at);
            if is_complete || self.reserved == self.length {
                // Gives back what was allocated and is not needed.
                let _ = file.set_length(at + MARK as u64);
            }
        }
        let counted =
            self.shared.catalogue().attach(self.id, |in_use| in_use.requests += 1).is_some();
        if !counted {
            return Err(why_ended(&self.ending));
        }
        Ok(Written {
            id: self.id,
            ending: Arc::clone(&self.ending),
            file: Arc::clone(&self.file),
            header: self.header.clone(),
            length: self.length,
            tail: self.sum.get(),
            reserved: self.reserved,
            is_complete,
        })
    }

    fn usable_file(&self) -> Result<Arc<dyn DiskFile>, StoreError> {
        if let Some(why) = self.ending.get() {
            return Err(StoreError::Gone(*why));
        }
        self.file.get().ok_or_else(|| {
            let catalogue = self.shared.catalogue();
            let failure = catalogue.get(self.id).and_then(|entry| entry.failure(self.id));
            failure.unwrap_or(StoreError::Ended)
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut catalogue = self.shared.catalogue();
        if self.ending.get().is_none() {
            catalogue.attach(self.id, |in_use| in_use.has_writer = false);
            drop(catalogue);
            // Nothing was promised of a new session, so nothing stays of it.
            remove_abandoned(&self.shared, self.id);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("id", &self.id)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Whether an error says that there is no space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
