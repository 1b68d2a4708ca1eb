// SPDX-License-Identifier: GPL-2.0-or-later
//! Where bytes go: a part file, which can be written anywhere and begun again, or a stream, which cannot.

use crate::{
    Error,
    part::{Identity, PartFile},
    ranges::Gap,
};
use limits::Cause;
use std::{
    collections::VecDeque,
    fmt,
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
};

/// How much of what is held is asked for again, and compared.
pub(crate) const OVERLAP: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) enum Sink {
    File(Box<PartFile>),
    Stream(StreamSink),
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
            Self::Stream(_) => Cause::Receiver,
        }
    }

    /// How many bytes there are.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Self::File(part) => part.ranges().held(),
            Self::Stream(stream) => stream.written,
        }
    }

    /// How many of the bytes before this place can be compared.
    pub(crate) fn overlap_before(&self, place: u64) -> u64 {
        match self {
            Self::File(part) => part.ranges().held_before(place).min(OVERLAP),
            Self::Stream(stream) => stream.tail.len() as u64,
        }
    }

    pub(crate) fn first_gap(&self, total: Option<u64>) -> Option<Gap> {
        match self {
            Self::File(part) => part.first_gap(total),
            Self::Stream(stream) if total == Some(stream.written) => None,
            Self::Stream(stream) => Some(Gap { start: stream.written, end: total }),
        }
    }

    /// Writes bytes to their place; for a stream, that is where it is.
    pub(crate) async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::File(part) => part.writer().write(offset, bytes),
            Self::Stream(stream) => {
                debug_assert_eq!(offset, stream.written, "a stream has one place");
                stream.write(bytes).await
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
        }
    }

    pub(crate) fn check_space(&self, total: u64) -> Result<(), Error> {
        match self {
            Self::File(part) => part.check_space(total),
            Self::Stream(_) => Ok(()),
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
            Self::Stream(_) => Ok(()),
        }
    }
}
