// SPDX-License-Identifier: GPL-2.0-or-later
//! The body of an upload: blocks of a file or pipe, read by a thread that is a few blocks ahead.

use crate::{Progress, retry_timing::RateLimit};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    io::{self, Read},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
};
use tokio::sync::mpsc;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;
/// How many blocks wait to be sent.
const WAITING: usize = 4;

/// How far an upload is.
#[derive(Debug)]
pub(crate) struct Sending {
    progress: Arc<Progress>,
    total: Option<u64>,
    moved: AtomicU64,
    waits_for_source: AtomicBool,
    whole: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Sending {
    pub(crate) fn new(progress: Arc<Progress>, total: Option<u64>) -> Self {
        progress.set(0, total);
        Self {
            progress,
            total,
            moved: AtomicU64::new(0),
            waits_for_source: AtomicBool::new(false),
            whole: AtomicBool::new(total == Some(0)),
            failure: Mutex::new(None),
        }
    }

    /// Bytes that were taken.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// The file or pipe is slow, or the rate is limited.
    pub(crate) fn waits_for_source(&self) -> bool {
        self.waits_for_source.load(Ordering::Relaxed)
    }

    /// All bytes were taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Why the source could not be read.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("no panic while it is held").clone()
    }
}

/// The body.
#[derive(Debug)]
pub(crate) struct Blocks {
    waiting: mpsc::Receiver<io::Result<Bytes>>,
    length: Option<u64>,
    sending: Arc<Sending>,
}

impl Blocks {
    /// Begins to read. A source of another length than `length` is an error.
    pub(crate) fn start(
        source: Box<dyn Read + Send>,
        length: Option<u64>,
        limit: Option<Arc<RateLimit>>,
        sending: Arc<Sending>,
    ) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING);
        // No thread of the runtime's: a read of standard input may never end.
        thread::spawn(move || read(source, length, limit.as_deref(), &sender));
        Self { waiting, length, sending }
    }
}

fn read(
    mut source: Box<dyn Read + Send>,
    length: Option<u64>,
    limit: Option<&RateLimit>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) {
    let size = limit.map_or(BLOCK, |limit| limit.piece().min(BLOCK));
    let mut done = 0;
    loop {
        let mut block = vec![0; size];
        let block = match source.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) if length.is_some_and(|length| done != length) => {
                Err(io::Error::other(format!("it ends after {done} bytes")))
            }
            Ok(0) => return,
            Ok(read) if length.is_some_and(|length| done + read as u64 > length) => {
                Err(io::Error::other("it is longer"))
            }
            Ok(read) => {
                done += read as u64;
                block.truncate(read);
                Ok(Bytes::from(block))
            }
            Err(error) => Err(error),
        };
        if let (Some(limit), Ok(block)) = (limit, &block) {
            thread::sleep(limit.take(block.len()));
        }
        let failed = block.is_err();
        if sender.blocking_send(block).is_err() || failed {
            return;
        }
    }
}

impl Body for Blocks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.sending.waits_for_source.store(true, Ordering::Relaxed);
        let block = ready!(self.waiting.poll_recv(context));
        self.sending.waits_for_source.store(false, Ordering::Relaxed);
        Poll::Ready(match block {
            Some(Ok(block)) => {
                let moved = self.sending.moved.fetch_add(block.len() as u64, Ordering::Relaxed);
                let moved = moved + block.len() as u64;
                self.sending.progress.set(moved, self.sending.total);
                if self.length == Some(moved) {
                    self.sending.whole.store(true, Ordering::Relaxed);
                }
                Some(Ok(Frame::data(block)))
            }
            Some(Err(error)) => {
                let mut failure = self.sending.failure.lock().expect("no panic while it is held");
                *failure = Some(error.to_string());
                Some(Err(error))
            }
            None => {
                self.sending.whole.store(true, Ordering::Relaxed);
                None
            }
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
