// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers of sessions, read off a connection.

use bytes::{Buf, BytesMut};
use protocol::session::Malformed;
use relay::tcp::{ReadHeadError, Source};

/// How much is read at a time.
const CHUNK: usize = 16 << 10;

/// What reads a header, or says that more must come.
pub(crate) type ParseHeader<T> = fn(&[u8]) -> Result<Option<(T, usize)>, Malformed>;

/// Reads a header. The bytes after it stay in `buffer`, and so do all received bytes if this future is
/// dropped. A header contains its length, so checking again after each byte costs little.
pub(crate) async fn read_header<T>(
    source: &mut Source<'_>,
    buffer: &mut BytesMut,
    parse: ParseHeader<T>,
) -> Result<T, ReadHeadError<Malformed>> {
    loop {
        if let Some((header, length)) = parse(buffer).map_err(ReadHeadError::Malformed)? {
            buffer.advance(length);
            return Ok(header);
        }
        match source.read(buffer, CHUNK).await {
            Ok(0) if buffer.is_empty() => return Err(ReadHeadError::Closed),
            Ok(0) => return Err(ReadHeadError::CutOff),
            Ok(_) => {}
            Err(error) => return Err(ReadHeadError::Io(error)),
        }
    }
}
