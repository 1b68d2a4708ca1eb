// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading the head of a message off a connection: of one that ends with a line, up to a size, or of one that contains
//! its length.

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

/// What a header is read from: a connection, or a socket that others will go on with.
pub trait Incoming {
    /// Appends at most `most` bytes; 0 is the end.
    fn read(
        &mut self,
        buffer: &mut BytesMut,
        most: usize,
    ) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Incoming for Source<'_> {
    async fn read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        Source::read(self, buffer, most).await
    }
}

/// Reads a header, which contains its length, so that looking again after each byte costs little. At most `most(buffer)`
/// bytes are read at a time. Those beyond the header stay in `buffer`, and so do all that have come if this is dropped.
///
/// # Errors
/// Why no header came.
pub async fn read_header<T, E>(
    source: &mut impl Incoming,
    buffer: &mut BytesMut,
    most: impl Fn(&[u8]) -> usize,
    mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, E>,
) -> Result<T, ReadHeadError<E>> {
    loop {
        if let Some((header, length)) = parse(buffer).map_err(ReadHeadError::Malformed)? {
            buffer.advance(length);
            return Ok(header);
        }
        match source.read(buffer, most(buffer).min(CHUNK)).await {
            Ok(0) if buffer.is_empty() => return Err(ReadHeadError::Closed),
            Ok(0) => return Err(ReadHeadError::CutOff),
            Ok(_) => {}
            Err(error) => return Err(ReadHeadError::Io(error)),
        }
    }
}

/// For [`read_header`]: as much at a time as comes, with what follows the header.
pub fn with_what_follows(_: &[u8]) -> usize {
    CHUNK
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what it has in parts of at most so many bytes.
    struct Parts(Vec<u8>, usize);

    impl Incoming for Parts {
        async fn read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
            let count = most.min(self.1).min(self.0.len());
            buffer.extend(self.0.drain(..count));
            Ok(count)
        }
    }

    /// A byte that says how many follow it.
    fn counted(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, &'static str> {
        let Some((length, rest)) = bytes.split_first() else { return Ok(None) };
        if *length == 0 {
            return Err("it is empty");
        }
        let length = usize::from(*length);
        Ok(rest.get(..length).map(|header| (header.to_vec(), 1 + length)))
    }

    #[tokio::test]
    async fn header_is_read_with_or_without_what_follows() {
        let missing = |bytes: &[u8]| 1 + bytes.first().map_or(0, |n| usize::from(*n)) - bytes.len();
        for part in 1..8 {
            let mut source = Parts(b"\x03abcrest".to_vec(), part);
            let mut buffer = BytesMut::new();
            let header = read_header(&mut source, &mut buffer, missing, counted).await.unwrap();
            assert_eq!(
                (&header[..], &buffer[..], &source.0[..]),
                (&b"abc"[..], &b""[..], &b"rest"[..])
            );
        }
        let (mut source, mut buffer) = (Parts(b"\x03abcrest".to_vec(), 6), BytesMut::new());
        read_header(&mut source, &mut buffer, with_what_follows, counted).await.unwrap();
        assert_eq!((&buffer[..], &source.0[..]), (&b"re"[..], &b"st"[..]));
    }

    #[tokio::test]
    async fn connection_that_ends_early_has_no_header() {
        let read = async |bytes: &[u8]| {
            let (mut source, mut buffer) = (Parts(bytes.to_vec(), 9), BytesMut::new());
            read_header(&mut source, &mut buffer, with_what_follows, counted).await.unwrap_err()
        };
        assert!(matches!(read(b"").await, ReadHeadError::Closed));
        assert!(matches!(read(b"\x03ab").await, ReadHeadError::CutOff));
        assert!(matches!(read(b"\0").await, ReadHeadError::Malformed("it is empty")));
    }
}
