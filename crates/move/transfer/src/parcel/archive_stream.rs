// SPDX-License-Identifier: GPL-2.0-or-later
//! The archive of a directory as the parser reads it: first what is here of it, then what comes from the session.
//!
//! ```text
//! replay   journal ── headers ──┐
//!          NAME.part ─ contents ┴▶ parser, and hashed ──▶ the Beginning that the session is taken with
//! live     session ─────────────▶ parser; headers also go into the journal before their entry is created
//! ```
//! The replay ends where the journal does, or behind the bytes that a file has of a content that is longer. From there on
//! the session goes on: between the two the parser, which unpacks the replayed entries too, notices nothing.

use super::journal::{Journal, Recorded};
use bytes::Bytes;
use session::Beginning;
use std::{
    cell::RefCell,
    fs::File,
    io::{self, ErrorKind, Read},
};
use tokio::sync::{mpsc, oneshot};

/// The longest header of one entry, with its long names and the padding before it.
const MAX_HEADERS: usize = 1 << 20;

/// What a session brings: pieces of an archive, and `None` behind the last one.
pub(super) type Piece = Option<Bytes>;

/// What comes from the session, once it has heard what is here.
#[derive(Debug)]
pub(super) struct Live {
    begin: Option<oneshot::Sender<Beginning>>,
    pieces: mpsc::Receiver<Piece>,
    now: Bytes,
    is_over: bool,
}

impl Live {
    /// What these channels bring.
    pub(super) fn new(begin: oneshot::Sender<Beginning>, pieces: mpsc::Receiver<Piece>) -> Self {
        Self { begin: Some(begin), pieces, now: Bytes::new(), is_over: false }
    }

    /// Says what is here, once.
    pub(super) fn begin(&mut self, beginning: Beginning) -> io::Result<()> {
        match self.begin.take() {
            Some(begin) => begin.send(beginning).map_err(|_| interrupted()),
            None => Ok(()),
        }
    }

    /// Waits for what comes next; whether there is something.
    ///
    /// # Errors
    /// The session broke off.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        while self.now.is_empty() && !self.is_over {
            match self.pieces.blocking_recv().ok_or_else(interrupted)? {
                Some(next) => self.now = next,
                None => self.is_over = true,
            }
        }
        Ok(!self.now.is_empty())
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.fill()? {
            return Ok(0);
        }
        let length = buffer.len().min(self.now.len());
        buffer[..length].copy_from_slice(&self.now.split_to(length));
        Ok(length)
    }
}

/// An archive that breaks off must not look like one that ends.
fn interrupted() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "the session broke off")
}

/// What is here of a content.
#[derive(Debug)]
pub(super) struct Held {
    /// Opened to be read, at its beginning.
    pub file: File,
    /// Its length, which is not beyond that of the content.
    pub length: u64,
}

/// An archive. The parser reads it by shared references, so that the other side can say meanwhile what is read.
#[derive(Debug)]
pub(super) struct ArchiveStream(RefCell<State>);

#[derive(Debug)]
struct State {
    journal: Journal,
    replay: Option<Replay>,
    live: Live,
    reading: Reading,
    /// Headers that came and are not in the journal yet.
    unrecorded: Vec<u8>,
}

#[derive(Debug)]
struct Replay {
    recorded: Recorded,
    beginning: Beginning,
}

/// What the parser reads now.
#[derive(Debug)]
enum Reading {
    Headers,
    /// A content, with what is here of it.
    Content(Option<Held>),
    /// The bytes after the last entry, which are ignored.
    Rest,
}

impl ArchiveStream {
    /// An archive of which nothing is here.
    pub(super) fn new(journal: Journal, live: Live) -> Self {
        Self::begin(journal, None, live)
    }

    /// An archive whose beginning is replayed, and hashed behind this empty one.
    pub(super) fn replaying(
        journal: Journal,
        recorded: Recorded,
        beginning: Beginning,
        live: Live,
    ) -> Self {
        Self::begin(journal, Some(Replay { recorded, beginning }), live)
    }

    fn begin(journal: Journal, replay: Option<Replay>, live: Live) -> Self {
        let (reading, unrecorded) = (Reading::Headers, Vec::new());
        Self(RefCell::new(State { journal, replay, live, reading, unrecorded }))
    }

    /// Whether everything that was read until now was here.
    pub(super) fn is_replaying(&self) -> bool {
        self.0.borrow().replay.is_some()
    }

    /// Writes the headers that came into the journal: before an entry is made of them.
    pub(super) fn record(&self) -> io::Result<()> {
        let State { journal, unrecorded, .. } = &mut *self.0.borrow_mut();
        if !unrecorded.is_empty() {
            journal.append(unrecorded)?;
            unrecorded.clear();
        }
        Ok(())
    }

    /// A content begins, of which this is here.
    pub(super) fn begin_content(&self, held: Option<Held>) {
        self.0.borrow_mut().reading = Reading::Content(held);
    }

    /// A content is over.
    pub(super) fn end_content(&self) {
        self.0.borrow_mut().reading = Reading::Headers;
    }

    /// The last entry is over.
    pub(super) fn end_entries(&self) {
        self.0.borrow_mut().reading = Reading::Rest;
    }

    /// What it was made of.
    pub(super) fn into_parts(self) -> (Journal, Live) {
        let State { journal, live, .. } = self.0.into_inner();
        (journal, live)
    }
}

impl Read for &ArchiveStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let state = &mut *self.0.borrow_mut();
        if let Some(replay) = &mut state.replay {
            let length = replay.read(&mut state.reading, buffer)?;
            if length > 0 {
                return Ok(length);
            }
            state.journal.continue_behind(&replay.recorded)?;
            let beginning = state.replay.take().map(|replay| replay.beginning);
            state.live.begin(beginning.unwrap_or_default())?;
        }
        state.read_live(buffer)
    }
}

impl Replay {
    /// Reads what is here; nothing where that ends.
    fn read(&mut self, reading: &mut Reading, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match reading {
            Reading::Headers => self.recorded.read(buffer)?,
            Reading::Content(Some(Held { file, length: left })) => {
                let length = file.take(*left).read(buffer)?;
                if length == 0 && *left > 0 {
                    return Err(io::Error::other("it became shorter while it was read"));
                }
                *left -= length as u64;
                length
            }
            Reading::Content(None) | Reading::Rest => 0,
        };
        self.beginning.extend(&buffer[..length]);
        Ok(length)
    }
}

impl State {
    fn read_live(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.live.read(buffer)?;
        if matches!(self.reading, Reading::Headers) {
            if self.unrecorded.len() + length > MAX_HEADERS {
                return Err(io::Error::other("the archive's headers are too long"));
            }
            self.unrecorded.extend_from_slice(&buffer[..length]);
        }
        Ok(length)
    }
}
