// SPDX-License-Identifier: GPL-2.0-or-later
//! Content to send, which can be read again until the other end has it.

use std::{collections::VecDeque, fmt, fs::File, io, ops::Range, os::unix::fs::FileExt, sync::Arc};

/// Stored content with random access. It must not change while it is sent, but may grow.
pub trait Stored: Send + Sync + fmt::Debug {
    /// How many bytes are sent. Never less than before, and never more if it does not [grow](Self::grows).
    fn length(&self) -> u64;

    /// Whether it may become longer. The program then says when it has ([`Session::grown`](crate::Session::grown)), and when
    /// it is the whole ([`Session::end`](crate::Session::end)). Always the same answer.
    fn grows(&self) -> bool {
        false
    }

    /// Fills the buffer with the available bytes at `offset`. It may block.
    ///
    /// # Errors
    /// It cannot be read, or is shorter than it was.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// A file, of the length that it had when it was opened.
#[derive(Debug)]
pub struct StoredFile {
    file: File,
    length: u64,
}

impl StoredFile {
    /// An open file.
    ///
    /// # Errors
    /// Its length is not known.
    pub fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }
}

impl Stored for StoredFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

/// Content to send.
#[derive(Debug, Clone)]
pub enum Outgoing {
    /// Bytes that the application writes, kept until they are acknowledged.
    Window(Window),
    /// Stored content.
    Stored(Arc<dyn Stored>),
}

/// Bytes that begin at an offset.
#[derive(Debug, Clone, Default)]
pub struct Window {
    from: u64,
    bytes: VecDeque<u8>,
}

/// Where a range can be read.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Here.
    Copied,
    /// There, which may take a while.
    Stored(Arc<dyn Stored>),
}

impl Outgoing {
    /// How long the stream is so far.
    pub(crate) fn available(&self) -> u64 {
        match self {
            Self::Window(window) => window.from + window.bytes.len() as u64,
            Self::Stored(stored) => stored.length(),
        }
    }

    /// From where on bytes can still be read.
    pub(crate) fn kept_from(&self) -> u64 {
        match self {
            Self::Window(window) => window.from,
            Self::Stored(_) => 0,
        }
    }

    /// Forgets what lies before `offset`.
    pub(crate) fn release(&mut self, offset: u64) {
        if let Self::Window(window) = self {
            let gone = offset.saturating_sub(window.from).min(window.bytes.len() as u64);
            window.bytes.drain(..gone as usize);
            window.from += gone;
        }
    }

    /// Copies a range into `to`, or says where it is.
    pub(crate) fn read(&self, range: &Range<u64>, to: &mut [u8]) -> Piece {
        match self {
            Self::Window(window) => {
                let from = (range.start - window.from) as usize;
                window.copy(from, to);
                Piece::Copied
            }
            Self::Stored(stored) => Piece::Stored(Arc::clone(stored)),
        }
    }

    /// Takes what the application writes, and says how much; none where it is stored.
    pub(crate) fn write(&mut self, bytes: &[u8], most: u64) -> usize {
        let Self::Window(window) = self else { return 0 };
        let room = most.saturating_sub(window.bytes.len() as u64);
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        window.bytes.extend(&bytes[..taken]);
        taken
    }
}

impl Window {
    fn copy(&self, from: usize, to: &mut [u8]) {
        let (front, back) = self.bytes.as_slices();
        let of_front = front.get(from..).unwrap_or_default();
        let split = of_front.len().min(to.len());
        to[..split].copy_from_slice(&of_front[..split]);
        let skipped = from.saturating_sub(front.len());
        let rest = to.len() - split;
        to[split..].copy_from_slice(&back[skipped..skipped + rest]);
    }
}

/// Reads behind the first `from` bytes of a buffer, on a thread that may wait.
pub(crate) async fn read_stored(
    stored: Arc<dyn Stored>,
    offset: u64,
    mut buffer: Vec<u8>,
    from: usize,
) -> io::Result<Vec<u8>> {
    let read = move || stored.read_at(offset, &mut buffer[from..]).map(|()| buffer);
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_gives_what_was_written_until_it_is_released() {
        let mut outgoing = Outgoing::Window(Window::default());
        let (mut written, mut released) = (Vec::<u8>::new(), 0);
        for round in 0..200u32 {
            let more: Vec<u8> = (0..round * 7 % 90).map(|n| (n ^ round) as u8).collect();
            let taken = outgoing.write(&more, 300);
            written.extend(&more[..taken]);
            assert_eq!(outgoing.available(), written.len() as u64);
            for (from, to) in
                [(released, written.len()), (released + written.len().min(9) / 2, written.len())]
            {
                let from = from.min(to);
                let mut copy = vec![0; to - from];
                outgoing.read(&(from as u64..to as u64), &mut copy);
                assert_eq!(copy, written[from..to], "round {round}");
            }
            released = (released + round as usize % 60).min(written.len());
            outgoing.release(released as u64);
            assert_eq!(outgoing.kept_from(), released as u64);
        }
        assert!(released > 1000);
    }
}
