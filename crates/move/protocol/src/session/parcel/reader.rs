// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a parcel as it comes, from its beginning or from a chunk on.
//!
//! Content is given as soon as its chunk is complete, and the last of it only after the hash was compared.

use super::{CHUNK, Chunks, HASH, HEAD, MAX_NOTE, NOTE_LENGTH, ParcelError, ParcelHead};
use crate::session::Prefix;
use bytes::{Buf, Bytes, BytesMut};
use std::fmt;

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParcelStep {
    /// The sender's description, once.
    Note(Vec<u8>),
    /// What follows of the content.
    Content(Bytes),
    /// All of it was given, and is what was sent.
    End,
}

/// A parcel that is being read.
pub struct ParcelReader {
    /// `None`: of one that is not encrypted.
    secret: Option<[u8; 32]>,
    /// Once the head has come.
    chunks: Option<Chunks>,
    /// Of the next chunk.
    number: u64,
    /// What came and was not opened.
    stored: BytesMut,
    /// What was opened and not given.
    body: BytesMut,
    /// How much of the next chunk was given by an earlier reader.
    skipped: usize,
    stage: Stage,
    /// Nothing follows what came.
    is_ended: bool,
    /// The last chunk was opened.
    is_whole: bool,
    content: Prefix,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Note,
    Content,
    Over,
}

impl ParcelReader {
    /// Reads from the first byte on.
    pub fn new(secret: Option<[u8; 32]>) -> Self {
        Self {
            secret,
            chunks: None,
            number: 0,
            stored: BytesMut::new(),
            body: BytesMut::new(),
            skipped: 0,
            stage: Stage::Note,
            is_ended: false,
            is_whole: false,
            content: Prefix::default(),
        }
    }

    /// Goes on behind content that is there, of a parcel with this head and a note of this length; with the position among
    /// the stored bytes from which on it needs them.
    ///
    /// # Errors
    /// It is encrypted, and there is no secret.
    pub fn resume(
        secret: Option<[u8; 32]>,
        head: ParcelHead,
        note: usize,
        content: Prefix,
    ) -> Result<(Self, u64), ParcelError> {
        let mut reader = Self { content, stage: Stage::Content, ..Self::new(secret) };
        let chunks = reader.chunks_behind(head)?;
        let before = ((NOTE_LENGTH + note) as u64).saturating_add(reader.content.length());
        reader.number = before / CHUNK as u64;
        reader.skipped = (before % CHUNK as u64) as usize;
        let from = chunks.position(reader.number);
        reader.chunks = Some(chunks);
        Ok((reader, from))
    }

    fn chunks_behind(&self, head: ParcelHead) -> Result<Chunks, ParcelError> {
        match &self.secret {
            None if head.is_encrypted() => Err(ParcelError::Encrypted),
            None => Ok(Chunks::new(head, &[0; 32])),
            Some(secret) => Ok(Chunks::new(head, secret)),
        }
    }

    /// Takes the stored bytes that follow.
    pub fn push(&mut self, stored: &[u8]) {
        self.stored.extend_from_slice(stored);
    }

    /// Nothing follows.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// The head, once it has come.
    pub fn head(&self) -> Option<&ParcelHead> {
        self.chunks.as_ref().map(Chunks::head)
    }

    /// The content that was given, hashed, with what an earlier reader has given.
    pub fn content(&self) -> &Prefix {
        &self.content
    }

    /// What comes next; `None` if more bytes are needed, or it was the end.
    ///
    /// # Errors
    /// It is not a parcel, or not the one that was sent.
    pub fn advance(&mut self) -> Result<Option<ParcelStep>, ParcelError> {
        loop {
            let step = match self.stage {
                Stage::Note => self.note()?,
                Stage::Content => self.next_content()?,
                Stage::Over => return Ok(None),
            };
            if step.is_some() || !self.open_next()? {
                return Ok(step);
            }
        }
    }

    /// Opens the next chunk, or the head before them; whether it is there.
    fn open_next(&mut self) -> Result<bool, ParcelError> {
        let Some(chunks) = &self.chunks else {
            let Some(head) = self.stored.first_chunk::<HEAD>() else {
                return if self.is_ended { Err(ParcelError::Cut) } else { Ok(false) };
            };
            self.chunks = Some(self.chunks_behind(ParcelHead::parse(head)?)?);
            self.stored.advance(HEAD);
            return Ok(true);
        };
        // Only what comes behind a whole chunk tells that it is not the last.
        let is_last = self.stored.len() <= chunks.stored_chunk();
        if is_last && !self.is_ended {
            return Ok(false);
        }
        let length = self.stored.len().min(chunks.stored_chunk());
        let mut chunk = self.stored.split_to(length);
        let length = chunks.open(self.number, is_last, &mut chunk)?;
        let skipped = std::mem::take(&mut self.skipped);
        let plain = chunk.get(skipped..length).ok_or(ParcelError::Cut)?;
        self.body.extend_from_slice(plain);
        self.number += 1;
        self.is_whole = is_last;
        Ok(true)
    }

    /// The opened content without its last bytes, which may be the hash.
    fn next_content(&mut self) -> Result<Option<ParcelStep>, ParcelError> {
        let Some(length) = self.body.len().checked_sub(HASH) else {
            return if self.is_whole { Err(ParcelError::Cut) } else { Ok(None) };
        };
        let content = self.body.split_to(length).freeze();
        self.content.extend(&content);
        if self.is_whole && self.content.root() != self.body[..] {
            return Err(ParcelError::Hash);
        }
        if !content.is_empty() {
            return Ok(Some(ParcelStep::Content(content)));
        }
        if !self.is_whole {
            return Ok(None);
        }
        self.stage = Stage::Over;
        Ok(Some(ParcelStep::End))
    }

    fn note(&mut self) -> Result<Option<ParcelStep>, ParcelError> {
        let more = if self.is_whole { Err(ParcelError::Cut) } else { Ok(None) };
        let Some(length) = self.body.first_chunk::<NOTE_LENGTH>() else { return more };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_NOTE {
            return Err(ParcelError::Note);
        }
        if self.body.len() < NOTE_LENGTH + length {
            return more;
        }
        self.body.advance(NOTE_LENGTH);
        self.stage = Stage::Content;
        Ok(Some(ParcelStep::Note(self.body.split_to(length).to_vec())))
    }
}

impl fmt::Debug for ParcelReader {
    /// Omits the secret: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.content.length();
        let mut shown = f.debug_struct("ParcelReader");
        shown.field("number", &self.number).field("given", &given).finish_non_exhaustive()
    }
}
