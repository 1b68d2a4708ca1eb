// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading the head of a message off a connection, up to a size.

use crate::tcp::Source;
use bytes::{Buf, BytesMut};
use std::io;

/// Bytes per read. The part that belongs to the body is copied, so this is small compared with a body and
/// large compared with a head.
const CHUNK: usize = 16 << 10;

/// Why no head came.
#[derive(Debug)]
pub enum ReadHeadError<E> {
    /// The peer closed before its first byte.
    Closed,
    /// The peer closed in the middle.
    CutOff,
    /// The head does not end within the limit.
    TooLarge,
    /// The head is not what it should be.
    Malformed(E),
    /// The connection failed.
    Io(io::Error),
}

/// What turns bytes into a head and its length, or into nothing while more must come.
pub type Parse<T, E> = fn(&[u8]) -> Result<Option<(T, usize)>, E>;

/// Reads until `parse` finds a whole head, whose last byte is the end of a line. Bytes beyond it stay in
/// `buffer`, and so does all that has come when this is dropped.
///
/// # Errors
/// Why no head came.
pub async fn read_head<T, E>(
    source: &mut Source<'_>,
    buffer: &mut BytesMut,
    limit: usize,
    parse: Parse<T, E>,
) -> Result<T, ReadHeadError<E>> {
    let mut fresh = 0;
    loop {
        // A head ends with a line end; without a new one there is no need to look again, which
        // keeps a sender of single bytes from costing the square of its bytes.
        if buffer[fresh..].contains(&b'\n')
            && let Some((head, length)) = parse(buffer).map_err(ReadHeadError::Malformed)?
        {
            buffer.advance(length);
            return Ok(head);
        }
        if buffer.len() >= limit {
            return Err(ReadHeadError::TooLarge);
        }
        fresh = buffer.len();
        match source.read(buffer, CHUNK.min(limit - fresh)).await {
            Ok(0) if buffer.is_empty() => return Err(ReadHeadError::Closed),
            Ok(0) => return Err(ReadHeadError::CutOff),
            Ok(_) => {}
            Err(error) => return Err(ReadHeadError::Io(error)),
        }
    }
}
