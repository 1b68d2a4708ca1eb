// SPDX-License-Identifier: GPL-2.0-or-later
//! The layout of a session's data file.
//!
//! ```text
//! block 0: 65536 bytes | trailer | block 1: 65536 bytes | trailer | ... | last block, shorter | mark
//! trailer, 16 bytes:  crc32 (session, number of the block, bytes) | number | "LHB1"
//! mark, 32 bytes:     "LHM1" | crc32 (session, rest) | length of the session | crc32 of the last block | 1: complete | zeros
//! ```
//! Numbers are little-endian. Trailers are written once. The mark stands behind what is promised; the next bytes replace it.
//! It is read only where the journal is lost. Checksums begin with the session's id, so files cannot stand for each other.

use crate::disk::Extent;
use crc32fast::Hasher;
use protocol::session::SessionId;

/// Bytes that are verified together.
pub const BLOCK: u64 = 64 << 10;
/// The longest session in bytes, as in `docs/lsl.md`.
pub const MAX_LENGTH: u64 = protocol::session::MAX_STREAM;

pub(crate) const TRAILER: usize = 16;
pub(crate) const MARK: usize = 32;
const TRAILER_MAGIC: [u8; 4] = *b"LHB1";
const MARK_MAGIC: [u8; 4] = *b"LHM1";
/// What a file system allocates at a time, and what a header takes.
const ROUNDING: u64 = 4096;

/// Where a byte of a session is in its file; also the file's length up to there.
pub(crate) const fn position(offset: u64) -> u64 {
    // No session is that long, but a journal could say so.
    offset.saturating_add(offset / BLOCK * TRAILER as u64)
}

/// The space of a session of this length with its header, in bytes.
pub const fn file_bytes(length: u64) -> u64 {
    let end = position(length).saturating_add(MARK as u64);
    match end.checked_next_multiple_of(ROUNDING) {
        Some(rounded) => rounded.saturating_add(ROUNDING),
        None => u64::MAX,
    }
}

/// The number of the block with this byte.
pub(crate) const fn block_of(offset: u64) -> u64 {
    offset / BLOCK
}

/// The checksum of a block, as it grows.
#[derive(Debug, Clone)]
pub(crate) struct BlockSum {
    id: SessionId,
    number: u64,
    filled: u64,
    hasher: Hasher,
}

impl BlockSum {
    /// An empty block.
    pub(crate) fn new(id: SessionId, number: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&id.0);
        hasher.update(&number.to_le_bytes());
        Self { id, number, filled: 0, hasher }
    }

    /// Bytes that the block still takes.
    pub(crate) fn space(&self) -> u64 {
        BLOCK - self.filled
    }

    /// Adds bytes, at most [`Self::space`].
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() as u64 <= self.space(), "blocks have one size");
        self.hasher.update(bytes);
        self.filled += bytes.len() as u64;
    }

    /// Its checksum so far.
    pub(crate) fn get(&self) -> u32 {
        self.hasher.clone().finalize()
    }

    /// The trailer of the full block. Another block begins.
    pub(crate) fn close(&mut self) -> [u8; TRAILER] {
        debug_assert!(self.space() == 0, "only a full block has a trailer");
        let trailer = trailer(self.get(), self.number);
        *self = Self::new(self.id, self.number + 1);
        trailer
    }
}

fn trailer(sum: u32, number: u64) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    trailer[..4].copy_from_slice(&sum.to_le_bytes());
    trailer[4..12].copy_from_slice(&number.to_le_bytes());
    trailer[12..].copy_from_slice(&TRAILER_MAGIC);
    trailer
}

/// Whether a block with its trailer, as read from a file, is the one that was stored.
pub(crate) fn is_whole(id: SessionId, number: u64, block_and_trailer: &[u8]) -> bool {
    let Some((block, found)) = block_and_trailer.split_at_checked(BLOCK as usize) else {
        return false;
    };
    let mut sum = BlockSum::new(id, number);
    sum.add(block);
    found == trailer(sum.get(), number)
}

/// What stands behind the last promised byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub length: u64,
    pub tail: u32,
    pub is_complete: bool,
}

impl Mark {
    pub(crate) fn to_bytes(self, id: SessionId) -> [u8; MARK] {
        let mut bytes = [0; MARK];
        bytes[..4].copy_from_slice(&MARK_MAGIC);
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.tail.to_le_bytes());
        bytes[20] = u8::from(self.is_complete);
        let sum = mark_sum(id, &bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the end of a file of this size. `None` if that is not the mark that belongs there.
    pub(crate) fn parse(id: SessionId, bytes: &[u8], file: Extent) -> Option<Self> {
        let bytes: &[u8; MARK] = bytes.try_into().ok()?;
        let length = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let mark = Self {
            length,
            tail: u32::from_le_bytes(bytes[16..20].try_into().ok()?),
            is_complete: bytes[20] == 1,
        };
        let is_here = length <= MAX_LENGTH && position(length) + MARK as u64 == file.length;
        (is_here && mark.to_bytes(id) == *bytes).then_some(mark)
    }
}

fn mark_sum(id: SessionId, bytes: &[u8; MARK]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&id.0);
    hasher.update(&bytes[8..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([7; 16]);

    #[test]
    fn positions_leave_room_for_trailers() {
        for (offset, expected) in [
            (0, 0),
            (1, 1),
            (65_535, 65_535),
            (65_536, 65_552),
            (131_072, 131_104),
            (131_073, 131_105),
        ] {
            assert_eq!(position(offset), expected, "{offset}");
        }
        assert_eq!(file_bytes(0), 8192);
        assert_eq!(file_bytes(4064), 8192);
        assert_eq!(file_bytes(4065), 12288);
        assert!(position(MAX_LENGTH) < 1 << 48);
    }

    /// The bit-by-bit definition of CRC-32 (ISO 3309), which no table or instruction has part in.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |sum: u32, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
            })
        })
    }

    #[test]
    fn checksums_are_those_of_the_definition() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let block: Vec<u8> = (0..BLOCK).map(|n| (n % 251) as u8).collect();
        let mut sum = BlockSum::new(ID, 3);
        block.chunks(1000).for_each(|part| sum.add(part));
        let all = [&ID.0[..], &3_u64.to_le_bytes(), &block].concat();
        assert_eq!(sum.get(), crc32(&all));
        let trailer = sum.close();
        assert_eq!((sum.number, sum.space()), (4, BLOCK));
        let mut stored = [&block[..], &trailer].concat();
        assert!(is_whole(ID, 3, &stored));
        assert!(!is_whole(ID, 4, &stored) && !is_whole(SessionId([8; 16]), 3, &stored));
        for n in [0, 40_000, stored.len() - 16, stored.len() - 1] {
            stored[n] ^= 4;
            assert!(!is_whole(ID, 3, &stored), "byte {n}");
            stored[n] ^= 4;
        }
        assert!(!is_whole(ID, 3, &stored[1..]) && !is_whole(ID, 3, &stored[..9]));
    }

    #[test]
    fn marks_are_found_only_where_they_belong() {
        let mark = Mark { length: 70_000, tail: 5, is_complete: true };
        let bytes = mark.to_bytes(ID);
        let file = Extent { length: position(70_000) + MARK as u64, allocated: 0 };
        assert_eq!(Mark::parse(ID, &bytes, file), Some(mark));
        assert_eq!(Mark::parse(SessionId([8; 16]), &bytes, file), None);
        assert_eq!(Mark::parse(ID, &bytes, Extent { length: file.length + 1, ..file }), None);
        assert_eq!(Mark::parse(ID, &bytes[1..], file), None);
        for n in 0..MARK {
            let mut changed = bytes;
            changed[n] ^= 1;
            assert_eq!(Mark::parse(ID, &changed, file), None, "byte {n}");
        }
    }
}
