// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of bytes, from the source of one connection to the sink of another.
//!
//! ```text
//!            fill: at most the rest              drain: all that is held
//!  source ──────────────────────────▶ pipe ──────────────────────────▶ sink
//!      ◀── wait for bytes              or            wait for room ──▶
//!                                    buffer
//! ```
//! Rules:
//! - One fill, then drained whole, then the next ([`pipe`](super::pipe) says why).
//! - A slow sink stops the drain, so the fill, so the source's sender: what is held is one pipe and
//!   the kernel's socket buffers, never more.
//! - With a length: exactly that many bytes. Without: until the source's end.
//! - Each wait has an end: a source that sends nothing for its idle time, or a sink that takes
//!   nothing for its own, has stalled. A sink whose kernel still acknowledges queued bytes is slow,
//!   not stalled ([`AckProgress`](super::AckProgress)).
//!
//! Bytes that need no inspection move by splice(2), without entering this process. The others, and those too
//! few to be worth a pipe, go through a buffer. Framing, such as HTTP's lengths and chunks, is the caller's:
//! it puts heads into [`Copy::pending`] and says how much follows.

use crate::{
    copy::{CopyError, IdleTimeouts, Progress, RelayResources, batch::Batch},
    tcp::{More, Sink, Source},
};
use bytes::BytesMut;
use std::{future::poll_fn, io, pin::pin, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{io::Interest, net::TcpStream, time::timeout};

/// Maximum bytes per read into a buffer. Larger reads are no faster.
pub(super) const BUFFER: usize = 128 << 10;
/// What is read at a time of chunk heads; and a body as short goes out with its head.
pub const SMALL: usize = 16 << 10;
/// How long a head waits for the first of its body. Alone it is one short packet, and that spoils an idle
/// connection for Linux's BBR: it takes the acknowledgement of a lone short packet for a delayed one and does
/// not measure the round trip by it. After 10 s of idleness it then goes down to four segments for 200 ms, in
/// the middle of the body. Senders nearby that write both one after the other need less than this.
const WITH_HEAD: Duration = Duration::from_millis(2);
/// After how many bytes others have their turn. Meanwhile more comes, so that the next splice moves more,
/// and each end is woken less often. Were it each splice of a short body, both ends would be woken for a
/// packet at a time: on a machine where all three share two processors that takes a sixth more of them.
const TURN: u64 = 256 << 10;

/// A source that fails after the sink has kept it waiting for this long, or for half of the sink's idle time, has given
/// up waiting: servers do after 10 s or more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at bytes as they pass, such as a digest.
pub trait Observer: Send {
    /// The next bytes.
    fn see(&mut self, bytes: &[u8]);
}

/// What stands around each piece of data, such as the head and the end of an HTTP chunk.
#[derive(Debug, Clone, Copy)]
pub struct Envelope {
    /// Appends the bytes that precede data of this length.
    pub before: fn(u64, &mut Vec<u8>),
    /// What follows them.
    pub after: &'static [u8],
}

/// Both ends of a copy.
#[derive(Debug)]
pub struct Ends<'p, 's, 'k> {
    /// Where bytes come from.
    pub source: &'p mut Source<'s>,
    /// What was read from there already.
    pub ahead: &'p mut BytesMut,
    /// Where they go.
    pub sink: &'p mut Sink<'k>,
}

/// Bytes on their way. May be dropped at any time.
pub struct Copy<'p, 's, 'k, O: Observer + ?Sized = dyn Observer> {
    /// Where bytes come from.
    pub(super) source: &'p mut Source<'s>,
    /// What was read from there already.
    pub ahead: &'p mut BytesMut,
    /// Where they go.
    pub(super) sink: &'p mut Sink<'k>,
    /// What they move through.
    pub(super) resources: &'p RelayResources,
    /// How long each end may take.
    pub(super) timeouts: IdleTimeouts,
    /// How far it is.
    pub(super) progress: &'p Progress,
    /// The maximum number of bytes.
    pub most: Option<u64>,
    /// Who looks at the bytes.
    pub observer: Option<&'p mut O>,
    /// What stands around each piece of data.
    pub envelope: Option<Envelope>,
    /// What goes out with the next bytes, and is not counted among them: heads.
    pub pending: Vec<u8>,
    /// With an observer: the last bytes, until [`release`](Self::release).
    held: Option<BytesMut>,
    /// How much of the data under way the source's socket still has to give, where that is known.
    pub(super) unread: Option<u64>,
    /// Whether bytes may still move in the kernel.
    pub(super) may_splice: bool,
    /// For how many it waits then.
    pub(super) batch: Batch,
    /// How much the kernel has moved since others had their turn.
    since_yield: u64,
}

impl<'p, 's, 'k, O: Observer + ?Sized> Copy<'p, 's, 'k, O> {
    /// A copy that has not begun.
    pub fn new(
        ends: Ends<'p, 's, 'k>,
        resources: &'p RelayResources,
        timeouts: IdleTimeouts,
        progress: &'p Progress,
    ) -> Self {
        let Ends { source, ahead, sink } = ends;
        Self {
            source,
            ahead,
            sink,
            resources,
            timeouts,
            progress,
            most: None,
            observer: None,
            envelope: None,
            pending: Vec::new(),
            held: None,
            unread: None,
            may_splice: true,
            batch: Batch::new(),
            since_yield: 0,
        }
    }

    /// Sends what was held back for the observer.
    ///
    /// # Errors
    /// The sink does not take it.
    pub async fn release(&mut self) -> Result<(), CopyError> {
        match self.held.take() {
            Some(last) => self.pass(&last, More::No).await,
            None => Ok(()),
        }
    }

    /// Leaves the source's socket as it was found. Call it when the copy is over.
    pub fn end(&mut self) {
        self.batch.end(self.source.tcp());
    }

    /// Moves `left` bytes, or all until the source's end.
    ///
    /// # Errors
    /// It broke off; [`CopyError`] says where.
    pub async fn data(&mut self, mut left: Option<u64>) -> Result<(), CopyError> {
        while left != Some(0) {
            let granted = self.most.map(|most| most.saturating_sub(self.handed()));
            if granted == Some(0) {
                // What is granted has passed; it may have been all.
                let over = left.is_none() && self.ahead.is_empty() && self.read(1).await? == 0;
                return if over { Ok(()) } else { Err(CopyError::TooLong) };
            }
            let most = left.into_iter().chain(granted).min().unwrap_or(u64::MAX);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            self.unread = left.map(|left| left.saturating_sub(self.ahead.len() as u64));
            let moved = if self.in_kernel(left, most) {
                let moved = self.spliced(left, most).await?;
                self.since_yield += moved;
                if self.since_yield >= TURN {
                    self.since_yield = 0;
                    tokio::task::yield_now().await;
                }
                moved
            } else if !self.ahead.is_empty() {
                self.buffered(most).await?
            } else if self.read(most.min(BUFFER)).await? == 0 {
                return if left.is_none() { Ok(()) } else { Err(self.cut_off()) };
            } else {
                continue;
            };
            match (&mut left, moved) {
                (Some(left), moved) => *left -= moved,
                (None, 0) => return Ok(()),
                (None, _) => {}
            }
            // Both connections may be ready for ever; others share this thread.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// How much has been taken, with what is held back.
    fn handed(&self) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held.len() as u64);
        self.progress.moved() + held
    }

    /// Moves what was read ahead.
    pub(super) async fn buffered(&mut self, most: usize) -> Result<u64, CopyError> {
        let length = most.min(self.ahead.len());
        let bytes = self.ahead.split_to(length);
        let Some(observer) = &mut self.observer else {
            self.pass(&bytes, More::No).await?;
            return Ok(length as u64);
        };
        observer.see(&bytes);
        if let Some(before) = self.held.replace(bytes) {
            self.pass(&before, More::No).await?;
        }
        Ok(length as u64)
    }

    /// Hands data to the sink, in its envelope.
    pub(super) async fn pass(&mut self, data: &[u8], more: More) -> Result<(), CopyError> {
        if let Some(envelope) = &self.envelope {
            (envelope.before)(data.len() as u64, &mut self.pending);
        }
        // One system call for a body and the head before it, and one record of TLS for a short one.
        let mut head = std::mem::take(&mut self.pending);
        if !head.is_empty() && data.len() <= SMALL && self.sink.plain().is_none() {
            head.extend_from_slice(data);
            self.send(&head, &[], More::No).await?;
            self.flushed().await?;
        } else {
            self.send(&head, data, more).await?;
        }
        self.progress.moved.fetch_add(data.len() as u64, Relaxed);
        if let Some(envelope) = &self.envelope {
            self.pending.extend_from_slice(envelope.after);
        }
        Ok(())
    }

    /// Gives the first bytes a moment to come, if a head is to go out with them; whether there is now
    /// something to read.
    ///
    /// # Errors
    /// The source has failed. The kernel reports that once: the next read returns an orderly end.
    pub(super) async fn await_first(&mut self) -> io::Result<bool> {
        let alone = !self.pending.is_empty() && self.ahead.is_empty();
        // TLS may hold bytes that its socket does not show.
        if !alone || self.progress.moved() > 0 || self.source.plain().is_none() {
            return Ok(false);
        }
        match timeout(WITH_HEAD, self.source.tcp().peek(&mut [0])).await {
            Ok(seen) => seen.map(|_| true),
            Err(_) => Ok(false),
        }
    }

    /// Sends what is pending, and what TLS holds.
    ///
    /// # Errors
    /// It broke off; [`CopyError`] says where.
    pub async fn flush(&mut self) -> Result<(), CopyError> {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.send(&pending, &[], More::No).await?;
        }
        self.flushed().await
    }

    /// Has TLS send what it holds, for which the sink may have no room.
    async fn flushed(&mut self) -> Result<(), CopyError> {
        let Self { sink, progress, timeouts, .. } = self;
        progress.unless_blocked(sink.tcp(), *timeouts, sink.flush()).await
    }

    /// Hands over a head, and the data that follows it.
    async fn send(
        &mut self,
        mut head: &[u8],
        mut data: &[u8],
        more: More,
    ) -> Result<(), CopyError> {
        let (source, sink) = (self.source.tcp(), self.sink.tcp());
        while !(head.is_empty() && data.is_empty()) {
            let written = tokio::select! {
                biased;
                written = self.sink.write_both(head, data, more) => written.map_err(CopyError::SinkGone)?,
                failed = fails(source, self.unread) => return Err(self.source_failed(failed)),
                stalled = self.progress.blocked(sink, self.timeouts) => {
                    return Err(stalled);
                }
            };
            let of_head = written.min(head.len());
            (head, data) = (&head[of_head..], &data[written - of_head..]);
        }
        Ok(())
    }

    /// Reads ahead; 0 is the end. What is pending goes out first: the sink's answer may be what
    /// the source waits for.
    ///
    /// # Errors
    /// It broke off; [`CopyError`] says where.
    pub async fn read(&mut self, most: usize) -> Result<usize, CopyError> {
        let first = self.await_first().await;
        self.flush().await?;
        first.map_err(|error| self.source_failed(error))?;
        let Self { source, ahead, sink, timeouts, .. } = self;
        let read = tokio::select! {
            biased;
            read = timeout(timeouts.source_idle, noting_wait(source.read(ahead, most))) => read,
            error = sink.drive() => return Err(CopyError::SinkGone(error)),
        };
        let Ok((read, was_awaited)) = read else { return Err(CopyError::SourceStalled) };
        if was_awaited {
            self.progress.source_was_awaited();
        }
        read.map_err(|error| self.source_failed(error))
    }

    /// What a failure of the source's connection means.
    pub(super) fn source_failed(&self, error: io::Error) -> CopyError {
        if self.sink_held_up() {
            CopyError::SourceGaveUp(error)
        } else {
            CopyError::SourceFailed(error)
        }
    }

    /// What an early end of the source means.
    pub fn cut_off(&self) -> CopyError {
        if self.sink_held_up() {
            CopyError::SourceGaveUp(io::ErrorKind::UnexpectedEof.into())
        } else {
            CopyError::CutOff
        }
    }

    /// Whether the sink has kept the source waiting for so long that it may have given up.
    fn sink_held_up(&self) -> bool {
        self.progress.held_up() >= PATIENCE.min(self.timeouts.sink_idle / 2)
    }
}

/// What a future gives, and whether it had to be waited for.
async fn noting_wait<T>(future: impl Future<Output = T>) -> (T, bool) {
    let (mut future, mut was_awaited) = (pin!(future), false);
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        was_awaited |= polled.is_pending();
        polled
    });
    let output = output.await;
    (output, was_awaited)
}

/// Resolves once the source's connection has failed, unless the `left` bytes have arrived already.
pub(super) async fn fails(source: &TcpStream, left: Option<u64>) -> io::Error {
    // Without a length, only a further read shows whether the body is complete.
    if let Some(left) = left
        && source.ready(Interest::ERROR).await.is_ok()
        && rustix::io::ioctl_fionread(source).unwrap_or(0) < left
    {
        let error = source.take_error().ok().flatten();
        return error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
    }
    std::future::pending().await
}
