// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay engine: a body from one connection to another.
//!
//! ```text
//!            fill: at most what is left          drain: all that is held
//!  source ──────────────────────────▶ pipe ──────────────────────────▶ sink
//!      ◀── wait for bytes              or            wait for room ──▶
//!                                    buffer
//! ```
//! Rules:
//! - One fill, then drained whole, then the next ([`pipe`] says why).
//! - A slow sink stops the drain, so the fill, so the source's sender: what is held is one pipe and
//!   the kernel's socket buffers, never more.
//! - A body with a length: exactly that many bytes. Chunks: exactly up to the last one; their heads
//!   are read and written anew, their data moves like any other.
//! - A body that ends with the connection: only an orderly end completes it.
//! - Each wait has an end: a source that sends nothing for its idle time, or a sink that takes
//!   nothing for its own, has stalled. A sink whose kernel still acknowledges queued bytes is slow,
//!   not stalled ([`taking`]).
//!
//! Bytes that nobody has to look at move by splice(2), without coming into this process; the others,
//! and those of bodies too short to be worth a pipe, through a buffer.

mod batch;
mod handing;
pub(crate) mod pipe;
mod splicing;
mod taking;

use crate::{
    config::RelayMode,
    least_rate::LeastRate,
    stream::{More, Sink, Source},
};
use batch::Batch;
use bytes::{Buf, BytesMut};
use pipe::Pipes;
use session::{
    DepotId,
    message::{
        Fault, Fields, Framing, PROXY_STATUS,
        chunked::{self, ChunkError, Decoder, Next},
        reported,
    },
};
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
pub(crate) use taking::Taking;
use tokio::{io::Interest, net::TcpStream, time::timeout};
use units::Bytes;

/// What is read at a time into a buffer. Larger ones are no faster.
const BUFFER: usize = 128 << 10;
/// What is read at a time of chunk heads; and a body as short goes out with its head.
const SMALL: usize = 16 << 10;
/// After how many bytes others have their turn. Meanwhile more comes, so that the next splice moves more,
/// and each end is woken less often. Were it each splice of a short body, both ends would be woken for a
/// packet at a time: on a machine where all three share two processors that takes a sixth more of them.
const TURN: u64 = 256 << 10;

/// How a body that did not arrive whole ended, and so whose fault that is.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The source closed before the body's end.
    CutOff,
    /// The source's connection failed.
    SourceFailed(io::Error),
    /// The source sent nothing for its idle time.
    SourceStalled,
    /// The sink closed or reset its connection.
    SinkGone(io::Error),
    /// The sink took nothing for its idle time.
    SinkStalled,
    /// The source, a client, sent less than the least rate.
    SourceSlow,
    /// The sink, a client, took less than the least rate.
    SinkSlow,
    /// The source's chunks make no sense.
    Malformed(ChunkError),
    /// The source sent more than was announced, or than is granted.
    TooLong,
    /// The bytes are not those that were promised.
    Differs(Fault),
}

/// How the receiver of a body is to know its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emit {
    /// By its length, or the end of the connection: the bytes as they are.
    Raw,
    /// By the last chunk.
    Chunks,
}

/// How long each side may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the source to send a byte.
    pub source_idle: Duration,
    /// For the sink to take a byte.
    pub sink_idle: Duration,
    /// For the sink's system to acknowledge anything, once bytes were sent again.
    pub tcp_user: Duration,
    /// How fast a client is to take what waits in the kernel alone.
    pub least: Option<LeastRate>,
}

/// What bodies move through.
#[derive(Debug)]
pub(crate) struct Means {
    /// In the kernel or not.
    pub mode: RelayMode,
    /// All pipes.
    pub pipes: Arc<Pipes>,
    /// The most that the trailers of a body may take.
    pub max_trailers: Bytes,
}

/// How far a body is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes of the body handed to the sink's kernel.
    moved: AtomicU64,
    /// Of those, moved by splice.
    spliced: AtomicU64,
    /// Whether the sink has no room just now.
    blocked: AtomicBool,
}

impl Progress {
    /// Bytes of the body handed over.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Of those, moved in the kernel.
    pub(crate) fn spliced(&self) -> u64 {
        self.spliced.load(Relaxed)
    }

    /// Whether the sink has no room just now.
    pub(crate) fn waits_for_sink(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    /// How they were moved, for the log.
    pub(crate) fn means(&self) -> &'static str {
        match (self.moved(), self.spliced()) {
            (0, _) => "none",
            (_, 0) => "copy",
            _ => "splice",
        }
    }
}

/// Something that wants to see a body's bytes, such as a digest.
pub(crate) trait Witness: Send {
    /// The next bytes.
    fn see(&mut self, bytes: &[u8]);
    /// The body has ended, with these trailers. What is still held back may go on, with the
    /// trailers as they are left; an error breaks the body off.
    fn conclude(&mut self, trailers: &mut Fields) -> Result<(), Fault>;
}

/// A body on its way.
pub(crate) struct Pump<'p, 's, 'k> {
    /// Where bytes come from.
    pub source: &'p mut Source<'s>,
    /// What was read from there already.
    pub ahead: &'p mut BytesMut,
    /// Where they go.
    pub sink: &'p mut Sink<'k>,
    /// What they move through.
    pub means: &'p Means,
    /// How long each side may take.
    pub patience: Patience,
    /// How far it is.
    pub progress: &'p Progress,
    /// How long the body is to be, where that was announced beside chunks.
    pub length: Option<u64>,
    /// How long it may be at most.
    pub most: Option<u64>,
    /// Which of the trailers that come go on.
    pub trailers: fn(&Fields) -> Fields,
    /// Who looks at the bytes.
    pub witness: Option<&'p mut dyn Witness>,
    /// Why the source takes nothing more of what is written to it meanwhile, once it does not.
    pub given_up: Option<&'p OnceLock<Broken>>,
    /// In whose name the receiver is told of a failure behind chunks; none where it cannot be told.
    pub report: Option<&'p DepotId>,
}

impl Emit {
    /// As the body came.
    pub(crate) fn of(framing: Framing) -> Self {
        if framing == Framing::Chunked { Self::Chunks } else { Self::Raw }
    }
}

impl Pump<'_, '_, '_> {
    /// Moves the whole body, after `head`, which is what precedes it on the sink. When this is done
    /// the sink's kernel has every byte. May be dropped on the way.
    pub(crate) async fn run(
        self,
        head: Vec<u8>,
        framing: Framing,
        emit: Emit,
    ) -> Result<(), Broken> {
        let mut run = Run {
            emit,
            pending: head,
            held: None,
            unread: None,
            may_splice: true,
            batch: Batch::new(),
            since_yield: 0,
            pump: self,
        };
        let mut result = run.body(framing).await;
        if let Err(Broken::Differs(fault)) = &result {
            // The receiver sees an end in good order, and that what came is not good.
            if let Some(id) = run.pump.report.filter(|_| run.emit == Emit::Chunks) {
                let trailers = Fields::from_iter([(PROXY_STATUS.clone(), fault.proxy_status(id))]);
                chunked::put_last(&trailers, &mut run.pending);
                result = run.flush().await.and(result);
            }
        }
        run.batch.end(run.pump.source.tcp());
        result
    }
}

/// A pump at work.
struct Run<'p, 's, 'k> {
    pump: Pump<'p, 's, 'k>,
    emit: Emit,
    /// Heads and chunk heads that go out with the next bytes.
    pending: Vec<u8>,
    /// With a witness: the last bytes, until it has had its say.
    held: Option<BytesMut>,
    /// How much of the data under way the source's socket still has to give, where that is known.
    unread: Option<u64>,
    /// Whether bytes may still move in the kernel.
    may_splice: bool,
    /// For how many it waits then.
    batch: Batch,
    /// How much the kernel has moved since others had their turn.
    since_yield: u64,
}

impl Run<'_, '_, '_> {
    async fn body(&mut self, framing: Framing) -> Result<(), Broken> {
        let mut trailers = match framing {
            Framing::Empty => {
                self.flush().await?;
                return Ok(());
            }
            Framing::Length(length) => {
                self.data(Some(length)).await?;
                Fields::new()
            }
            Framing::UntilClose => {
                self.data(None).await?;
                self.ended_in_order()?;
                Fields::new()
            }
            Framing::Chunked => self.chunks().await?,
        };
        if let Some(witness) = &mut self.pump.witness {
            witness.conclude(&mut trailers).map_err(Broken::Differs)?;
            if let Some(last) = self.held.take() {
                self.pass(&last, More::No).await?;
            }
        }
        if self.emit == Emit::Chunks {
            chunked::put_last(&trailers, &mut self.pending);
        }
        self.flush().await
    }

    /// Whether the end that was read is one. The kernel tells of a reset once: where a write has met it,
    /// whoever reads next finds an end in good order. A broken pipe follows an end that came before.
    fn ended_in_order(&self) -> Result<(), Broken> {
        match self.pump.given_up.and_then(OnceLock::get) {
            Some(Broken::SinkGone(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Broken::SourceFailed(error.kind().into()))
            }
            _ => Ok(()),
        }
    }

    /// The data of all chunks, and what trailers came with the last.
    async fn chunks(&mut self) -> Result<Fields, Broken> {
        let mut decoder = Decoder::new(self.pump.means.max_trailers);
        loop {
            let step = decoder.next(self.pump.ahead).map_err(Broken::Malformed)?;
            self.pump.ahead.advance(step.framing);
            match step.next {
                Next::More => {
                    if self.read(SMALL).await? == 0 {
                        return Err(Broken::CutOff);
                    }
                }
                Next::Data(length) => {
                    if let Some(left) = &mut self.pump.length {
                        *left = left.checked_sub(length).ok_or(Broken::TooLong)?;
                    }
                    self.chunk(length).await?;
                    decoder.moved(length);
                }
                Next::End(trailers) => {
                    let missing = self.pump.length.is_some_and(|left| left > 0);
                    return match reported(&trailers) {
                        Some(fault) => Err(Broken::Differs(fault)),
                        None if missing => Err(Broken::CutOff),
                        None => Ok((self.pump.trailers)(&trailers)),
                    };
                }
            }
        }
    }

    /// The data of one chunk. Where chunks are wanted and nobody looks at them, it stays one.
    async fn chunk(&mut self, length: u64) -> Result<(), Broken> {
        if self.emit == Emit::Raw || self.pump.witness.is_some() {
            return self.data(Some(length)).await;
        }
        chunked::put_head(length, &mut self.pending);
        self.emit = Emit::Raw;
        let moved = self.data(Some(length)).await;
        self.emit = Emit::Chunks;
        self.pending.extend_from_slice(chunked::DATA_END);
        moved
    }

    /// Moves `left` bytes, or all until the source's end.
    async fn data(&mut self, mut left: Option<u64>) -> Result<(), Broken> {
        while left != Some(0) {
            let granted = self.pump.most.map(|most| most.saturating_sub(self.handed()));
            if granted == Some(0) {
                // What is granted has passed; it may have been all.
                let over = left.is_none() && self.pump.ahead.is_empty() && self.read(1).await? == 0;
                return if over { Ok(()) } else { Err(Broken::TooLong) };
            }
            let most = left.into_iter().chain(granted).min().unwrap_or(u64::MAX);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            self.unread = left.map(|left| left.saturating_sub(self.pump.ahead.len() as u64));
            let moved = if self.in_kernel(left, most) {
                let moved = self.spliced(left, most).await?;
                self.since_yield += moved;
                if self.since_yield >= TURN {
                    self.since_yield = 0;
                    tokio::task::yield_now().await;
                }
                moved
            } else if !self.pump.ahead.is_empty() {
                self.buffered(most).await?
            } else if self.read(most.min(BUFFER)).await? == 0 {
                return if left.is_none() { Ok(()) } else { Err(Broken::CutOff) };
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

    /// How much of the body has been taken, with what is held back.
    fn handed(&self) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held.len() as u64);
        self.pump.progress.moved() + held
    }

    /// Moves what was read ahead.
    async fn buffered(&mut self, most: usize) -> Result<u64, Broken> {
        let length = most.min(self.pump.ahead.len());
        let bytes = self.pump.ahead.split_to(length);
        let Some(witness) = &mut self.pump.witness else {
            self.pass(&bytes, More::No).await?;
            return Ok(length as u64);
        };
        witness.see(&bytes);
        if let Some(before) = self.held.replace(bytes) {
            self.pass(&before, More::No).await?;
        }
        Ok(length as u64)
    }

    /// Hands data to the sink, in a chunk of its own where chunks are wanted.
    async fn pass(&mut self, data: &[u8], more: More) -> Result<(), Broken> {
        if self.emit == Emit::Chunks {
            chunked::put_head(data.len() as u64, &mut self.pending);
        }
        // One system call for a body and the head before it, and one record of TLS for a short one.
        let mut head = std::mem::take(&mut self.pending);
        if !head.is_empty() && data.len() <= SMALL && self.pump.sink.plain().is_none() {
            head.extend_from_slice(data);
            self.send(&head, &[], More::No).await?;
            self.flushed().await?;
        } else {
            self.send(&head, data, more).await?;
        }
        self.pump.progress.moved.fetch_add(data.len() as u64, Relaxed);
        if self.emit == Emit::Chunks {
            self.pending.extend_from_slice(chunked::DATA_END);
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.send(&pending, &[], More::No).await?;
        }
        self.flushed().await
    }

    /// Has TLS send what it holds, for which the sink may have no room.
    async fn flushed(&mut self) -> Result<(), Broken> {
        let Pump { sink, progress, patience, .. } = &mut self.pump;
        progress.unless_blocked(sink.tcp(), *patience, sink.flush()).await
    }

    /// Hands over a head, and the data that follows it.
    async fn send(&mut self, mut head: &[u8], mut data: &[u8], more: More) -> Result<(), Broken> {
        let (source, sink) = (self.pump.source.tcp(), self.pump.sink.tcp());
        while !(head.is_empty() && data.is_empty()) {
            let written = tokio::select! {
                biased;
                written = self.pump.sink.write_both(head, data, more) => written.map_err(Broken::SinkGone)?,
                failed = fails(source, self.unread) => return Err(Broken::SourceFailed(failed)),
                stalled = self.pump.progress.blocked(sink, self.pump.patience) => {
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
    async fn read(&mut self, most: usize) -> Result<usize, Broken> {
        self.flush().await?;
        let Pump { source, ahead, sink, patience, .. } = &mut self.pump;
        let read = tokio::select! {
            biased;
            read = timeout(patience.source_idle, source.read(ahead, most)) => read,
            error = sink.drive() => return Err(Broken::SinkGone(error)),
        };
        match read {
            Ok(read) => read.map_err(Broken::SourceFailed),
            Err(_) => Err(Broken::SourceStalled),
        }
    }
}

/// Resolves once the source's connection has failed, unless the `left` bytes have arrived already.
async fn fails(source: &TcpStream, left: Option<u64>) -> io::Error {
    // Of a body without a length nobody knows whether all has come: whoever reads on will see.
    if let Some(left) = left
        && source.ready(Interest::ERROR).await.is_ok()
        && rustix::io::ioctl_fionread(source).unwrap_or(0) < left
    {
        let error = source.take_error().ok().flatten();
        return error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
    }
    std::future::pending().await
}
