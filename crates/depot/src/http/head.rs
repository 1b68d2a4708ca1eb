// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading the head of a message off a socket, up to a size.

use bytes::{Buf, BytesMut};
use relay::tcp::Source;
use session::message::Fault;
use std::io;

/// How many bytes are read at a time. What of them belongs to the body is copied, so it is kept
/// small beside the body and large beside a head.
const CHUNK: usize = 16 << 10;

/// Why no head came.
#[derive(Debug)]
pub(crate) enum HeadError {
    /// The peer closed before its first byte.
    Closed,
    /// The peer closed in the middle.
    CutOff,
    /// The head does not end within the limit.
    TooLarge,
    /// The head is not what it should be.
    Malformed(Fault),
    /// The connection failed.
    Io(io::Error),
}

/// What turns bytes into a head and its length, or into nothing while more must come.
pub(crate) type Parse<T> = fn(&[u8]) -> Result<Option<(T, usize)>, Fault>;

/// Reads until `parse` finds a whole head. Bytes beyond it stay in `buffer`, and so does all that has
/// come when this is dropped.
pub(crate) async fn read<T>(
    source: &mut Source<'_>,
    buffer: &mut BytesMut,
    limit: usize,
    parse: Parse<T>,
) -> Result<T, HeadError> {
    let mut fresh = 0;
    loop {
        // A head ends with a line end; without a new one there is no need to look again, which
        // keeps a sender of single bytes from costing the square of its bytes.
        if buffer[fresh..].contains(&b'\n')
            && let Some((head, length)) = parse(buffer).map_err(HeadError::Malformed)?
        {
            buffer.advance(length);
            return Ok(head);
        }
        if buffer.len() >= limit {
            return Err(HeadError::TooLarge);
        }
        fresh = buffer.len();
        match source.read(buffer, CHUNK.min(limit - fresh)).await {
            Ok(0) if buffer.is_empty() => return Err(HeadError::Closed),
            Ok(0) => return Err(HeadError::CutOff),
            Ok(_) => {}
            Err(error) => return Err(HeadError::Io(error)),
        }
    }
}
