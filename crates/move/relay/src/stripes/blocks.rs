// SPDX-License-Identifier: GPL-2.0-or-later
//! The blocks in which a stream travels over several connections.
//!
//! ```text
//! block  = offset length flags data
//! offset = 8 bytes    where the data begins in the stream; at the end how long the stream is
//! length = 4 bytes    of the data, 1 to 2^20; 0 at the end
//! flags  = 4 bytes    1: the stream has ended, and nothing follows on this connection; else 0
//! ```
//! Numbers are big-endian. Blocks go out on whichever connection has room. On each the offsets only
//! grow, so the reader finds what comes next at the head of one of them, and nothing has to be kept.

/// The size of what precedes the data of each block.
pub const HEAD: usize = 16;
/// The most data of a block.
pub const MAX_BLOCK_DATA: usize = 1 << 20;

const ENDS: u32 = 1;

/// Appends what precedes `length` bytes of data at `offset`.
pub fn put_head(offset: u64, length: u32, into: &mut impl Extend<u8>) {
    put(offset, length, 0, into);
}

/// Appends the end of a body of `total` bytes.
pub fn put_end(total: u64, into: &mut impl Extend<u8>) {
    put(total, 0, ENDS, into);
}

fn put(offset: u64, length: u32, flags: u32, into: &mut impl Extend<u8>) {
    into.extend(offset.to_be_bytes());
    into.extend(length.to_be_bytes());
    into.extend(flags.to_be_bytes());
}

/// Reads the blocks of one connection, without touching the data.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// How far the body is on this connection: no block may begin before.
    at: u64,
    /// What is left of the block under way.
    left: u32,
    over: bool,
}

/// What comes next on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More bytes are needed to tell.
    More,
    /// So much data that belongs there in the body.
    Data {
        /// Where it begins.
        offset: u64,
        /// How much.
        length: u32,
    },
    /// Nothing: the body has ended, and is so long.
    End(u64),
}

/// Why blocks make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// It is not known what they mean.
    #[error("a block with the flags {0:#x}")]
    Flags(u32),
    /// A size that no block has.
    #[error("a block of {0} bytes")]
    Length(u32),
    /// Where the body is already.
    #[error("a block at {offset}, behind one that ends at {at}")]
    Backwards {
        /// Where it would begin.
        offset: u64,
        /// How far the connection was.
        at: u64,
    },
    /// The offset exceeds the maximum length of a body.
    #[error("a block at {0}, which is beyond all bodies")]
    Beyond(u64),
}

impl Blocks {
    /// Whether there was none yet.
    pub fn is_new(&self) -> bool {
        self.at == 0 && self.left == 0 && !self.over
    }

    /// What comes next, `bytes` being what has come; with how many of them were a block's head, which
    /// are done with.
    ///
    /// # Errors
    /// It makes no sense; then nothing else on this connection does.
    pub fn next(&mut self, bytes: &[u8]) -> Result<(usize, Next), BlockError> {
        if self.over {
            return Ok((0, Next::End(self.at)));
        }
        if self.left > 0 {
            return Ok((0, Next::Data { offset: self.at, length: self.left }));
        }
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok((0, Next::More)) };
        let [offset @ .., l0, l1, l2, l3, f0, f1, f2, f3] = *head;
        let offset = u64::from_be_bytes(offset);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let flags = u32::from_be_bytes([f0, f1, f2, f3]);
        if flags > ENDS {
            return Err(BlockError::Flags(flags));
        }
        if (length == 0) != (flags == ENDS) || length as usize > MAX_BLOCK_DATA {
            return Err(BlockError::Length(length));
        }
        if offset < self.at {
            return Err(BlockError::Backwards { offset, at: self.at });
        }
        if offset > i64::MAX as u64 - u64::from(length) {
            return Err(BlockError::Beyond(offset));
        }
        (self.at, self.left, self.over) = (offset, length, flags == ENDS);
        Ok((HEAD, self.next(&[])?.1))
    }

    /// So much of the data that came next has been taken.
    pub fn moved(&mut self, bytes: u32) {
        assert!(bytes <= self.left, "more than there was");
        self.left -= bytes;
        self.at += u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(offset: u64, length: u32, flags: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(offset, length, flags, &mut bytes);
        bytes
    }

    #[test]
    fn blocks_are_read_as_they_are_written() {
        let mut blocks = Blocks::default();
        let first = head(5, 3, 0);
        for short in 0..HEAD {
            assert_eq!(blocks.next(&first[..short]), Ok((0, Next::More)), "{short}");
        }
        assert_eq!(blocks.next(&first), Ok((HEAD, Next::Data { offset: 5, length: 3 })));
        blocks.moved(2);
        assert_eq!(blocks.next(b"x"), Ok((0, Next::Data { offset: 7, length: 1 })));
        blocks.moved(1);
        assert_eq!(blocks.next(&head(9, 0, ENDS)), Ok((HEAD, Next::End(9))));
        assert_eq!(blocks.next(&head(9, 1, 0)), Ok((0, Next::End(9))), "nothing follows");
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let after = |bytes: &[u8]| {
            let mut blocks = Blocks { at: 10, ..Blocks::default() };
            blocks.next(bytes).unwrap_err()
        };
        assert_eq!(after(&head(10, 1, 2)), BlockError::Flags(2));
        assert_eq!(after(&head(10, 0, 0)), BlockError::Length(0));
        assert_eq!(after(&head(10, 1, 1)), BlockError::Length(1));
        assert_eq!(after(&head(10, (1 << 20) + 1, 0)), BlockError::Length((1 << 20) + 1));
        assert_eq!(after(&head(9, 1, 0)), BlockError::Backwards { offset: 9, at: 10 });
        assert_eq!(after(&head(u64::MAX, 1, 0)), BlockError::Beyond(u64::MAX));
    }
}
