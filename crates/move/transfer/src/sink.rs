// SPDX-License-Identifier: GPL-2.0-or-later
//! Where bytes go: a part file, which can be written anywhere and begun again, a stream, which cannot, or memory.

use crate::{
    Error,
    hash::RunningDigest,
    part::{Identity, PartFile},
    ranges::Gap,
};
use limits::Cause;
use std::{
    collections::VecDeque,
    fmt,
    io::Write,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex},
};
use units::Bytes;

/// How much of what is held is asked for again, and compared.
pub(crate) const OVERLAP: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) enum Sink {
    File(Box<PartFile>),
    Stream(StreamSink),
    Memory(MemorySink),
}

/// The bytes of a file, or of a range of it.
pub(crate) struct MemorySink {
    /// The first byte's place.
    start: u64,
    /// Of a range, the place after its last byte.
    end: Option<u64>,
    bytes: Vec<u8>,
    /// The largest number of them.
    most: u64,
}

impl fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, bytes, most } = self;
        let mut shown = f.debug_struct("MemorySink");
        shown.field("start", start).field("end", end).field("held", &bytes.len());
        shown.field("most", most).finish()
    }
}

impl MemorySink {
    /// For a whole file of at most `most` bytes.
    pub(crate) fn whole(most: u64) -> Self {
        Self { start: 0, end: None, bytes: Vec::new(), most }
    }

    pub(crate) fn range(range: Range<u64>) -> Self {
        let most = range.end.saturating_sub(range.start);
        Self { start: range.start, end: Some(range.end), bytes: Vec::new(), most }
    }

    fn place(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.bytes.len() as u64 + bytes.len() as u64 > self.most {
            return Err(Error::TooLargeForMemory(Bytes::new(self.most)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The bytes at `offset`, which are held.
    fn held(&self, offset: u64, length: usize) -> &[u8] {
        let start = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        self.bytes.get(start..start.saturating_add(length)).unwrap_or_default()
    }
}

/// A stream, and the last bytes written to it.
pub(crate) struct StreamSink {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    written: u64,
    tail: VecDeque<u8>,
}

impl fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink").field("written", &self.written).finish_non_exhaustive()
    }
}

impl StreamSink {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: Arc::new(Mutex::new(out)), written: 0, tail: VecDeque::new() }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // A reader may stop reading: only a thread of its own may wait for it.
        let (out, copy) = (Arc::clone(&self.out), bytes.to_vec());
        let written = tokio::task::spawn_blocking(move || {
            let mut out = out.lock().expect("no panic while it is held");
            out.write_all(&copy).and_then(|()| out.flush())
        });
        let written = written.await.map_err(std::io::Error::other).and_then(|written| written);
        written.map_err(|error| Error::file("write", Path::new("standard output"), error))?;
        self.written += bytes.len() as u64;
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(OVERLAP as usize);
        self.tail.drain(..surplus);
        Ok(())
    }
}

impl Sink {
    /// What is slow where writing to it is.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::File(_) => Cause::Disk,
            Self::Stream(_) | Self::Memory(_) => Cause::Receiver,
        }
    }

    /// How many bytes there are.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Self::File(part) => part.ranges().held(),
            Self::Stream(stream) => stream.written,
            Self::Memory(memory) => memory.bytes.len() as u64,
        }
    }

    /// Whether it takes only a range of the file.
    pub(crate) fn is_for_range(&self) -> bool {
        matches!(self, Self::Memory(MemorySink { end: Some(_), .. }))
    }

    /// Whether all bytes are there, of a file of this length.
    pub(crate) fn is_full(&self, total: Option<u64>) -> bool {
        let is_as_long = self.is_for_range() || total == Some(self.held());
        is_as_long && self.first_gap(total).is_none()
    }

    /// The bytes in memory.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Memory(memory) => memory.bytes,
            Self::File(_) | Self::Stream(_) => Vec::new(),
        }
    }

    /// Has a digest take what is in memory, up to `end`.
    pub(crate) fn digest_memory(&self, digest: &mut RunningDigest, end: u64) {
        if let Self::Memory(memory) = self
            && digest.at < end
        {
            let length = usize::try_from(end - digest.at).unwrap_or(usize::MAX);
            digest.update(memory.held(digest.at, length));
        }
    }

    /// How many of the bytes before this place can be compared.
    pub(crate) fn overlap_before(&self, place: u64) -> u64 {
        match self {
            Self::File(part) => part.ranges().held_before(place).min(OVERLAP),
            Self::Stream(stream) => stream.tail.len() as u64,
            Self::Memory(memory) => (memory.bytes.len() as u64).min(OVERLAP),
        }
    }

    pub(crate) fn first_gap(&self, total: Option<u64>) -> Option<Gap> {
        match self {
            Self::File(part) => part.first_gap(total),
            Self::Stream(stream) if total == Some(stream.written) => None,
            Self::Stream(stream) => Some(Gap { start: stream.written, end: total }),
            Self::Memory(memory) => {
                let (start, end) = (memory.place(), memory.end.or(total));
                (end != Some(start)).then_some(Gap { start, end })
            }
        }
    }

    /// Writes bytes to their place; for a stream and in memory, that is behind the last.
    pub(crate) async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::File(part) => part.writer().write(offset, bytes),
            Self::Stream(stream) => {
                debug_assert_eq!(offset, stream.written, "a stream has one place");
                stream.write(bytes).await
            }
            Self::Memory(memory) => {
                debug_assert_eq!(offset, memory.place(), "memory is filled from its beginning");
                memory.write(bytes)
            }
        }
    }

    /// Whether these bytes, which are held, are the same.
    pub(crate) fn matches(&self, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        match self {
            Self::File(part) => {
                let mut held = vec![0; bytes.len()];
                part.read(offset, &mut held)?;
                Ok(held == bytes)
            }
            Self::Stream(stream) => {
                let first = stream.written - stream.tail.len() as u64;
                let skip = usize::try_from(offset.saturating_sub(first)).unwrap_or(usize::MAX);
                Ok(stream.tail.iter().skip(skip).take(bytes.len()).eq(bytes))
            }
            Self::Memory(memory) => Ok(memory.held(offset, bytes.len()) == bytes),
        }
    }

    /// Begins again from zero.
    pub(crate) async fn reset(&mut self) -> Result<(), Error> {
        match self {
            Self::File(part) => part.reset().await,
            Self::Stream(stream) if stream.written > 0 => {
                Err(Error::Written("the transfer would have to begin again".to_owned()))
            }
            Self::Stream(_) => Ok(()),
            Self::Memory(memory) => {
                memory.bytes.clear();
                Ok(())
            }
        }
    }

    pub(crate) fn check_space(&self, total: u64) -> Result<(), Error> {
        match self {
            Self::File(part) => part.check_space(total),
            Self::Memory(memory) if memory.end.is_none() && total > memory.most => {
                Err(Error::TooLargeForMemory(Bytes::new(memory.most)))
            }
            Self::Stream(_) | Self::Memory(_) => Ok(()),
        }
    }

    pub(crate) fn checkpoint_if_due(&mut self, identity: &Identity) {
        if let Self::File(part) = self {
            part.checkpoint_if_due(identity);
        }
    }

    /// Leaves what is held for a later process; or nothing, where nothing is held.
    pub(crate) async fn leave(&mut self, identity: &Identity) -> Result<(), Error> {
        match self {
            Self::File(part) => {
                let empty = part.ranges().held() == 0;
                if empty { part.remove().await } else { part.checkpoint(identity).await }
            }
            Self::Stream(_) | Self::Memory(_) => Ok(()),
        }
    }
}
