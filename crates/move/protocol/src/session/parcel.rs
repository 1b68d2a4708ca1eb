// SPDX-License-Identifier: GPL-2.0-or-later
//! The bytes of a session that a depot keeps, as the sender writes them and collectors read them (docs/lsl.md, section 14).
//!
//! ```text
//! stored  head | chunk 0 | chunk 1 | ... | last chunk      each chunk: 65 536 bytes of the body, encrypted, and a tag
//! body    length of the note | note | content | BLAKE3 of the content
//! ```
//! The depot does not look at them. A chunk's number and whether it is the last are part of its nonce, and the head is
//! authenticated with each, so no chunk can be changed, left out, added, or moved. This is the STREAM construction of Hoang,
//! Reyhanitabar, Rogaway and Vizár ("Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance", section 7) with
//! AES-256-GCM. Without encryption the body follows the head as it is, and only the hash protects it.
//! Limits: a note has at most [`MAX_NOTE`] bytes. Reader and writer keep one chunk and what they were given last.

mod chunks;
mod reader;
mod writer;

pub use chunks::Chunks;
pub use reader::{ParcelReader, ParcelStep};
pub use writer::{ParcelWriter, body_beginning};

use crate::session::SessionId;
use std::fmt;

/// Length of the head in bytes.
pub const HEAD: usize = 42;
/// Bytes of the body in a chunk; the last one may have fewer, but not 0.
pub const CHUNK: usize = 65_536;
/// The longest note in bytes.
pub const MAX_NOTE: usize = 4096;
/// Length in bytes of the hash behind the content.
pub const HASH: usize = 32;
/// Length in bytes of the note's length.
pub const NOTE_LENGTH: usize = 4;

/// What a head begins with, and the version.
const MAGIC: &[u8; 9] = b"LHparcel\x01";

/// What stored bytes begin with: the version, whether they are encrypted, and the salt of their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelHead([u8; HEAD]);

/// What sender and collectors derive from a code. Only the name is for others.
#[derive(Clone, PartialEq, Eq)]
pub struct ParcelKeys {
    /// The name of the stored session.
    pub session: SessionId,
    /// The seed of the collectors' Ed25519 key.
    pub collector: [u8; 32],
    /// What, with the salt, encrypts the body.
    pub secret: [u8; 32],
}

/// Why stored bytes are not a parcel, or not the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParcelError {
    /// The head is not one.
    #[error("it was not left by longhaul send --detach, or by a later version")]
    Head,
    /// It is encrypted, and the reader has no secret.
    #[error("it is encrypted: its code is needed")]
    Encrypted,
    /// A chunk is not the one that was sent in that place.
    #[error("chunk {0} is not as it was sent")]
    Chunk(u64),
    /// It ends before its end, or goes on behind it.
    #[error("it ends in the wrong place")]
    Cut,
    /// The note is longer than notes are.
    #[error("its note is too long")]
    Note,
    /// The content has another hash than its sender has said.
    #[error("its content differs from what was sent")]
    Hash,
}

impl ParcelHead {
    /// A head. The salt is random, and fresh for each process that sends: a key encrypts one body only.
    pub fn new(is_encrypted: bool, salt: [u8; 32]) -> Self {
        let mut head = [0; HEAD];
        head[..MAGIC.len()].copy_from_slice(MAGIC);
        head[MAGIC.len()] = is_encrypted.into();
        head[MAGIC.len() + 1..].copy_from_slice(&salt);
        Self(head)
    }

    /// Reads a head.
    ///
    /// # Errors
    /// It is none, or of a version or mode that is unknown.
    pub fn parse(bytes: &[u8; HEAD]) -> Result<Self, ParcelError> {
        let is_known = bytes.starts_with(MAGIC) && bytes[MAGIC.len()] <= 1;
        is_known.then_some(Self(*bytes)).ok_or(ParcelError::Head)
    }

    /// Whether the body is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0[MAGIC.len()] == 1
    }

    /// As it is stored.
    pub fn as_bytes(&self) -> &[u8; HEAD] {
        &self.0
    }

    fn salt(&self) -> &[u8] {
        &self.0[MAGIC.len() + 1..]
    }
}

impl ParcelKeys {
    /// Those of a code of 20 characters: lower case, without hyphens.
    pub fn of_code(code: &[u8]) -> Self {
        let name = blake3::derive_key("longhaul lsl 1 stored id", code);
        Self {
            session: SessionId(*name.first_chunk().expect("32 bytes")),
            collector: blake3::derive_key("longhaul lsl 1 stored collector", code),
            secret: blake3::derive_key("longhaul lsl 1 stored secret", code),
        }
    }
}

impl fmt::Debug for ParcelKeys {
    /// Omits what is secret: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParcelKeys({})", self.session)
    }
}
