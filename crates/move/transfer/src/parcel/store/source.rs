// SPDX-License-Identifier: GPL-2.0-or-later
//! Content that can be read again, as it is stored: sealed when it is read.
//!
//! It is sealed in order, block by block. What a depot lacks after a failure is read and sealed again, and must be the same
//! then: a nonce is for one text only. So each block's fingerprint is kept, 16 bytes for 4 MiB, and a block is compared as a
//! whole before any of it leaves. The latest block stays in memory, since the session reads in pieces of another length.

use protocol::session::{
    Value,
    parcel::{CHUNK, Chunks, HEAD},
};
use session::Stored;
use std::{
    fmt, io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Chunks in a block.
const CHUNKS: u64 = 64;
/// Bytes of the body in a block.
const BLOCK: u64 = CHUNKS * CHUNK as u64;

/// Length and hash of a content, once all of it was read.
pub(super) type Whole = Arc<OnceLock<(u64, Value)>>;

/// Content as it is stored.
pub(in crate::parcel) struct ParcelSource {
    inner: Arc<dyn Stored>,
    /// What precedes the content in the body.
    beginning: Vec<u8>,
    chunks: Chunks,
    whole: Whole,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Hashes the content, as far as blocks were sealed.
    content: blake3::Hasher,
    /// Of each block that was sealed.
    fingerprints: Vec<[u8; 16]>,
    /// The latest block that was sealed.
    latest: Option<(u64, Vec<u8>)>,
}

impl ParcelSource {
    pub(super) fn new(
        inner: Arc<dyn Stored>,
        beginning: Vec<u8>,
        chunks: Chunks,
        whole: Whole,
    ) -> Self {
        Self { inner, beginning, chunks, whole, state: Mutex::default() }
    }

    /// Where the content ends in the body.
    fn content_end(&self) -> u64 {
        self.beginning.len() as u64 + self.inner.length()
    }

    /// Length of the body.
    fn body(&self) -> u64 {
        self.content_end() + size_of::<Value>() as u64
    }

    /// Makes a block the latest.
    fn load(&self, state: &mut State, block: u64) -> io::Result<()> {
        if state.latest.as_ref().is_some_and(|(latest, _)| *latest == block) {
            return Ok(());
        }
        while (state.fingerprints.len() as u64) < block {
            let next = state.fingerprints.len() as u64;
            let sealed = self.seal(state, next)?;
            state.fingerprints.push(self.fingerprint(&sealed));
        }
        let is_new = state.fingerprints.len() as u64 == block;
        let sealed = self.seal(state, block)?;
        let fingerprint = self.fingerprint(&sealed);
        if is_new {
            state.fingerprints.push(fingerprint);
        } else if state.fingerprints[block as usize] != fingerprint {
            return Err(io::Error::other("it changed while it was sent. Send it again"));
        }
        state.latest = Some((block, sealed));
        Ok(())
    }

    /// Reads a block and seals it. Those before it were sealed already.
    fn seal(&self, state: &mut State, block: u64) -> io::Result<Vec<u8>> {
        let from = block * BLOCK;
        let mut plain = vec![0; (self.body() - from).min(BLOCK) as usize];
        self.fill(state, block, &mut plain)?;
        let last = (self.body() - 1) / CHUNK as u64;
        let mut sealed = Vec::with_capacity(CHUNKS as usize * self.chunks.stored_chunk());
        for (number, chunk) in (block * CHUNKS..).zip(plain.chunks(CHUNK)) {
            self.chunks.seal(number, number == last, chunk, &mut sealed);
        }
        Ok(sealed)
    }

    /// Reads a block of the body.
    fn fill(&self, state: &mut State, block: u64, plain: &mut [u8]) -> io::Result<()> {
        let (from, to) = (block * BLOCK, block * BLOCK + plain.len() as u64);
        let (begin, end) = (self.beginning.len() as u64, self.content_end());
        // What lies between two places of the body.
        let within = |first: u64, last: u64| {
            let (first, last) = (first.clamp(from, to), last.clamp(from, to));
            ((first - from) as usize..(last - from) as usize, first)
        };
        let (range, at) = within(0, begin);
        plain[range.clone()]
            .copy_from_slice(&self.beginning[at.min(begin) as usize..][..range.len()]);
        let (range, at) = within(begin, end);
        if !range.is_empty() {
            self.inner.read_at(at - begin, &mut plain[range.clone()])?;
            if state.fingerprints.len() as u64 == block {
                state.content.update(&plain[range]);
            }
        }
        let (range, at) = within(end, self.body());
        if !range.is_empty() {
            let hash = || (self.inner.length(), state.content.finalize().into());
            let (_, hash) = self.whole.get_or_init(hash);
            plain[range.clone()].copy_from_slice(&hash[(at - end) as usize..][..range.len()]);
        }
        Ok(())
    }

    /// What a block is known by: its tags, which authenticate it, or its hash.
    fn fingerprint(&self, sealed: &[u8]) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        match self.chunks.tag() {
            0 => {
                hasher.update(sealed);
            }
            tag => {
                for chunk in sealed.chunks(self.chunks.stored_chunk()) {
                    hasher.update(&chunk[chunk.len() - tag..]);
                }
            }
        }
        *hasher.finalize().as_bytes().first_chunk().expect("32 bytes")
    }
}

impl Stored for ParcelSource {
    fn length(&self) -> u64 {
        self.chunks.stored_length(self.body())
    }

    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let block_length = CHUNKS * self.chunks.stored_chunk() as u64;
        while !buffer.is_empty() {
            let bytes = match offset.checked_sub(HEAD as u64) {
                None => &self.chunks.head().as_bytes()[offset as usize..],
                Some(at) => {
                    self.load(state, at / block_length)?;
                    let sealed = state.latest.as_ref().map_or(&[][..], |(_, sealed)| sealed);
                    &sealed[(at % block_length) as usize..]
                }
            };
            let length = bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            offset += length as u64;
            buffer = &mut buffer[length..];
        }
        Ok(())
    }
}

impl fmt::Debug for ParcelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParcelSource").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
