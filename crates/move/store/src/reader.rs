// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving ends of a session: promised bytes, verified block by block, also while more arrive.
//!
//! Bytes that are not promised are not shown: a crash could take them back after a receiver has them. A reader keeps its
//! file open, so what it may still read stays on disk. Memory: one block.

use crate::{
    blocks::{self, BLOCK, BlockSum, TRAILER},
    catalogue::{Condition, Ending},
    disk::{DiskFile, Place},
    error::StoreError,
    promise::block_on,
    record::{State, Status},
    shared::{Shared, why_ended},
};
use protocol::session::SessionId;
use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// What is at some offset of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read<'a> {
    /// At least one byte, at most [`BLOCK`].
    Bytes(&'a [u8]),
    /// More may come: [`Reader::poll_past`].
    NotYet,
    /// The session is complete and has no byte there.
    End,
}

/// Reads a session. Several may, each from where it wants.
pub struct Reader {
    shared: Arc<Shared>,
    id: SessionId,
    /// Its name among the session's readers.
    number: u64,
    ending: Ending,
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    /// The block in the buffer, and how many verified bytes it has.
    held: Option<(u64, usize)>,
}

impl Reader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (id, number): (SessionId, u64),
        ending: Ending,
        file: Box<dyn DiskFile>,
    ) -> Self {
        Self { shared, id, number, ending, file, buffer: Vec::new(), held: None }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Bytes that can be read now.
    ///
    /// # Errors
    /// [`StoreError::Gone`].
    pub fn length(&self) -> Result<u64, StoreError> {
        Ok(self.state()?.0.length)
    }

    /// Reads bytes from an offset up to the end of their block.
    ///
    /// # Errors
    /// The session is gone, it has failed and has no more bytes, or the block is damaged: then none of it is shown.
    pub fn read(&mut self, offset: u64) -> Result<Read<'_>, StoreError> {
        let (state, is_closed) = self.state()?;
        if offset >= state.length {
            return match state.status {
                Status::Complete => Ok(Read::End),
                Status::Arriving if is_closed => Err(StoreError::Closed),
                Status::Arriving => Ok(Read::NotYet),
                Status::Failed | Status::Gone => {
                    let catalogue = self.shared.catalogue();
                    let failure = catalogue.get(self.id).and_then(|entry| entry.failure(self.id));
                    Err(failure.unwrap_or(StoreError::Ended))
                }
            };
        }
        let block = blocks::block_of(offset);
        let here = (state.length - block * BLOCK).min(BLOCK) as usize;
        if self.held.is_none_or(|(held, length)| held != block || length < here) {
            self.held = None;
            self.load(block, here, state.tail)?;
            self.held = Some((block, here));
        }
        let (_, length) = self.held.unwrap_or_default();
        Ok(Read::Bytes(&self.buffer[(offset % BLOCK) as usize..length]))
    }

    /// Reads and verifies a block's first bytes: all of it, or up to what is promised.
    fn load(&mut self, block: u64, length: usize, tail: u32) -> Result<(), StoreError> {
        let is_full = length as u64 == BLOCK;
        let wanted = if is_full { length + TRAILER } else { length };
        self.buffer.resize(BLOCK as usize + TRAILER, 0);
        let buffer = &mut self.buffer[..wanted];
        let at = blocks::position(block * BLOCK);
        let got = self.file.read_at(buffer, at);
        let got = got.map_err(StoreError::io("read", Place::Data(self.id)))?;
        let what = if got < wanted {
            "the file is too short"
        } else if is_full && !blocks::is_whole(self.id, block, buffer) {
            "a block is not the one that was stored"
        } else if !is_full && tail_sum(self.id, block, buffer) != tail {
            "the last block is not the one that was stored"
        } else {
            return Ok(());
        };
        let mut catalogue = self.shared.catalogue();
        if self.ending.get().is_none() {
            catalogue.change(self.id, |entry| entry.condition = Condition::Damaged(what));
        }
        Err(StoreError::Damaged { file: Place::Data(self.id), at: Some(block * BLOCK), what })
    }

    /// Ready when there may be more at this offset than before: bytes, an end, an error. Only the last caller is woken.
    pub fn poll_past(&mut self, offset: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut catalogue = self.shared.catalogue();
        if self.ending.get().is_some() {
            return Poll::Ready(());
        }
        let waits = catalogue.get(self.id).is_some_and(|entry| {
            entry.state.length <= offset && entry.state.status == Status::Arriving
        });
        if !waits || catalogue.is_closed {
            return Poll::Ready(());
        }
        catalogue.attach(self.id, |in_use| {
            in_use.readers.insert(self.number, Some(cx.waker().clone()));
        });
        Poll::Pending
    }

    /// Blocks until [`Self::poll_past`] is ready, at most this long. Returns whether it is.
    pub fn wait_past(&mut self, offset: u64, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        block_on(poll_fn(|cx| self.poll_past(offset, cx)), Some(until)).is_some()
    }

    /// What is on disk, and whether the store is closed.
    fn state(&self) -> Result<(State, bool), StoreError> {
        let catalogue = self.shared.catalogue();
        if let Some(why) = self.ending.get() {
            return Err(StoreError::Gone(*why));
        }
        let entry = catalogue.get(self.id).ok_or_else(|| why_ended(&self.ending))?;
        Ok((entry.state, catalogue.is_closed))
    }
}

/// The checksum of the beginning of a block.
pub(crate) fn tail_sum(id: SessionId, block: u64, bytes: &[u8]) -> u32 {
    let mut sum = BlockSum::new(id, block);
    sum.add(bytes);
    sum.get()
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut catalogue = self.shared.catalogue();
        if self.ending.get().is_none() {
            let number = self.number;
            catalogue.attach(self.id, |in_use| in_use.readers.remove(&number));
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("id", &self.id).finish_non_exhaustive()
    }
}
