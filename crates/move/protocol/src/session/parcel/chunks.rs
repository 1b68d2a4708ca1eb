// SPDX-License-Identifier: GPL-2.0-or-later
//! The chunks of a stored body: where they are, and how they are encrypted.

use super::{CHUNK, HEAD, ParcelError, ParcelHead};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fmt;

/// The context of the key's derivation.
const CONTEXT: &str = "longhaul lsl 1 parcel";
/// Length in bytes of the tag behind an encrypted chunk.
const TAG: usize = 16;

/// The chunks of one stored session.
pub struct Chunks {
    head: ParcelHead,
    /// `None`: they are not encrypted.
    key: Option<LessSafeKey>,
}

impl Chunks {
    /// Those behind this head. Without encryption the secret does not matter.
    pub fn new(head: ParcelHead, secret: &[u8; 32]) -> Self {
        let key = head.is_encrypted().then(|| {
            let key = blake3::derive_key(CONTEXT, &[secret, head.salt()].concat());
            LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes"))
        });
        Self { head, key }
    }

    /// The head before them.
    pub fn head(&self) -> &ParcelHead {
        &self.head
    }

    /// The length in bytes of a whole chunk as it is stored.
    pub fn stored_chunk(&self) -> usize {
        CHUNK + self.tag()
    }

    /// Bytes behind each chunk.
    pub fn tag(&self) -> usize {
        if self.key.is_some() { TAG } else { 0 }
    }

    /// Where a chunk begins among the stored bytes; chunks count from 0.
    pub fn position(&self, number: u64) -> u64 {
        (HEAD as u64).saturating_add(number.saturating_mul(self.stored_chunk() as u64))
    }

    /// How many bytes are stored of a body of this length, which is not 0.
    pub fn stored_length(&self, body: u64) -> u64 {
        let tags = body.div_ceil(CHUNK as u64).saturating_mul(self.tag() as u64);
        body.saturating_add(tags).saturating_add(HEAD as u64)
    }

    /// About how many bytes of the body the first `stored` bytes have: with the tag of a last chunk that is not whole.
    pub fn body_within(&self, stored: u64) -> u64 {
        let (chunk, behind) = (self.stored_chunk() as u64, stored.saturating_sub(HEAD as u64));
        let whole = (behind / chunk).saturating_mul(CHUNK as u64);
        whole.saturating_add((behind % chunk).min(CHUNK as u64))
    }

    /// Appends a chunk to `out` as it is stored. Each number is for one text only.
    pub fn seal(&self, number: u64, is_last: bool, plain: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(plain);
        let Some(key) = &self.key else { return };
        let covered = Aad::from(self.head.as_bytes());
        let sealed =
            key.seal_in_place_separate_tag(nonce(number, is_last), covered, &mut out[from..]);
        out.extend_from_slice(sealed.expect("a chunk is short").as_ref());
    }

    /// Decrypts a chunk where it is; with how many bytes of the body it has, which are the first.
    ///
    /// # Errors
    /// It is not the chunk that was sealed under that number.
    pub fn open(
        &self,
        number: u64,
        is_last: bool,
        stored: &mut [u8],
    ) -> Result<usize, ParcelError> {
        let length = match &self.key {
            None => stored.len(),
            Some(key) => {
                let covered = Aad::from(self.head.as_bytes());
                let opened = key.open_in_place(nonce(number, is_last), covered, stored);
                opened.map_err(|_| ParcelError::Chunk(number))?.len()
            }
        };
        if length == 0 { Err(ParcelError::Cut) } else { Ok(length) }
    }
}

impl fmt::Debug for Chunks {
    /// Omits the key: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chunks").field(&self.head).finish()
    }
}

/// The number in 11 bytes, and whether the chunk is the last.
fn nonce(number: u64, is_last: bool) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[3..11].copy_from_slice(&number.to_be_bytes());
    bytes[11] = is_last.into();
    Nonce::assume_unique_for_key(bytes)
}
