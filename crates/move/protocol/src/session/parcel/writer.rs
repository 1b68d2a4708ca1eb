// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a parcel from content that comes in order, such as a pipe's.

use super::{CHUNK, Chunks, MAX_NOTE, ParcelError};
use crate::session::{Prefix, Value};

/// A parcel that is being written.
#[derive(Debug)]
pub struct ParcelWriter {
    chunks: Chunks,
    /// Of the chunk that is being filled.
    number: u64,
    /// A whole one stays until more of the body comes: it may be the last.
    chunk: Vec<u8>,
    content: Prefix,
}

impl ParcelWriter {
    /// Begins a parcel, and appends its first bytes to `out`.
    ///
    /// # Errors
    /// The note is too long.
    pub fn begin(chunks: Chunks, note: &[u8], out: &mut Vec<u8>) -> Result<Self, ParcelError> {
        out.extend_from_slice(chunks.head().as_bytes());
        let chunk = body_beginning(note)?;
        Ok(Self { chunks, number: 0, chunk, content: Prefix::default() })
    }

    /// Takes what follows of the content, and appends the chunks that are complete to `out`.
    pub fn push(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.content.extend(content);
        self.fill(content, out);
    }

    /// Ends it, and appends the rest to `out`; with the content's hash.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Value {
        let hash = self.content.root();
        self.fill(&hash, out);
        self.chunks.seal(self.number, true, &self.chunk, out);
        hash
    }

    fn fill(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.chunk.len() == CHUNK {
                self.chunks.seal(self.number, false, &self.chunk, out);
                self.number += 1;
                self.chunk.clear();
            }
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = rest;
        }
    }
}

/// What a body begins with: the note and, before it, its length.
///
/// # Errors
/// The note is too long.
pub fn body_beginning(note: &[u8]) -> Result<Vec<u8>, ParcelError> {
    let length = u32::try_from(note.len()).ok().filter(|_| note.len() <= MAX_NOTE);
    let length = length.ok_or(ParcelError::Note)?;
    Ok([&length.to_be_bytes(), note].concat())
}
