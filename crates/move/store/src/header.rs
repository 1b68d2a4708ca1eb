// SPDX-License-Identifier: GPL-2.0-or-later
//! The header of a session: what never changes of it, in a small file of its own.
//!
//! ```text
//! "LHstored" | version u16 | length of the note u16 | crc32 u32 of all other bytes
//! id 16 | owner 32 | collector 32 | account 32 | created u64 | expires u64 | reserved u64 | zeros 8 | note
//! ```
//! Numbers are little-endian, times in seconds since 1970. Owner and collector are keys, the account is
//! what a depot derives from a ticket or an address.

use crate::access::AccessKey;
use crc32fast::Hasher;
use protocol::session::SessionId;

/// The longest note in bytes: the file fits into a block of the file system.
pub const MAX_NOTE: usize = MAX_FILE - FIXED;
/// The longest file in bytes.
pub(crate) const MAX_FILE: usize = 4096;
/// The version that is written, and the latest that is read.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"LHstored";
const FIXED: usize = 160;

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The session, which is also the file's name.
    pub id: SessionId,
    /// The key that may write, read, extend and drop it.
    pub owner: AccessKey,
    /// The key that may read it.
    pub collector: AccessKey,
    /// To which its space is charged.
    pub account: AccessKey,
    /// When it began, in seconds since 1970.
    pub created_s: u64,
    /// When it was to end at first.
    pub expires_s: u64,
    /// Bytes that were reserved at first.
    pub reserved: u64,
    /// What the depot wants to know of it later.
    pub note: Vec<u8>,
}

/// Why a file is not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// A later version has written it.
    LaterVersion,
    /// It is something else, or damaged.
    Damaged(&'static str),
}

impl Header {
    /// Its file.
    ///
    /// # Panics
    /// The note is longer than [`MAX_NOTE`].
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.note.len() <= MAX_NOTE, "the caller has checked it");
        let mut bytes = Vec::with_capacity(FIXED + self.note.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.note.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.owner.0);
        bytes.extend_from_slice(&self.collector.0);
        bytes.extend_from_slice(&self.account.0);
        for number in [self.created_s, self.expires_s, self.reserved, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.note);
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is not one of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::Damaged("it does not begin as a header does"));
        }
        let version = bytes.get(8..10).map_or(0, |part| u16::from_le_bytes([part[0], part[1]]));
        // A damaged version is told apart by the checksum, whose place no version moves.
        let sum = bytes.get(12..16).map(|part| [part[0], part[1], part[2], part[3]]);
        if sum.map(u32::from_le_bytes) != Some(checksum(bytes)) {
            return Err(HeaderError::Damaged("its checksum is not that of its bytes"));
        }
        if version > VERSION {
            return Err(HeaderError::LaterVersion);
        }
        let Some((fixed, note)) = bytes.split_at_checked(FIXED) else {
            return Err(HeaderError::Damaged("it is too short"));
        };
        let number = |at: usize| {
            fixed[at..at + 8].iter().rfold(0, |number: u64, byte| number << 8 | u64::from(*byte))
        };
        let header = Self {
            id: SessionId(part(fixed, 16)),
            owner: AccessKey(part(fixed, 32)),
            collector: AccessKey(part(fixed, 64)),
            account: AccessKey(part(fixed, 96)),
            created_s: number(128),
            expires_s: number(136),
            reserved: number(144),
            note: note.to_vec(),
        };
        // All that is read is what would be written: nothing hides in unused bytes.
        if note.len() > MAX_NOTE || header.to_bytes() != bytes {
            return Err(HeaderError::Damaged("its parts contradict each other"));
        }
        Ok(header)
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Of all bytes but its own.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..bytes.len().min(12)]);
    hasher.update(bytes.get(16..).unwrap_or_default());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(note: &[u8]) -> Header {
        Header {
            id: SessionId([1; 16]),
            owner: AccessKey([2; 32]),
            collector: AccessKey([3; 32]),
            account: AccessKey([4; 32]),
            created_s: 1_790_000_000,
            expires_s: 1_790_086_400,
            reserved: 1 << 40,
            note: note.to_vec(),
        }
    }

    #[test]
    fn headers_are_read_back() {
        for note in [&b""[..], b"{}", &[9; MAX_NOTE]] {
            let header = header(note);
            let bytes = header.to_bytes();
            assert!(bytes.len() <= MAX_FILE);
            assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let bytes = header(b"note").to_bytes();
        for n in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[n] ^= 1 << bit;
                assert!(matches!(Header::parse(&changed), Err(HeaderError::Damaged(_))), "{n}");
            }
            assert!(matches!(Header::parse(&bytes[..n]), Err(HeaderError::Damaged(_))), "{n}");
        }
    }

    #[test]
    fn a_later_version_is_named_as_such() {
        let mut bytes = header(b"").to_bytes();
        bytes[8] = 2;
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::parse(&bytes), Err(HeaderError::LaterVersion));
    }
}
