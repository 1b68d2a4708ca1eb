// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP's framing of a body that `relay` copies: by length, by chunks, or until the connection ends.
//!
//! - A body with a length: exactly that many bytes. Chunks: exactly up to the last one; their heads
//!   are read and written again, their data moves like any other.
//! - A body that ends with the connection: only an orderly end completes it.
//! - An observer sees the bytes, and the last ones wait until it has compared the digest.

use bytes::{Buf, BytesMut};
use protocol::{
    DepotId,
    http::{
        Fault, Fields, Framing, PROXY_STATUS,
        chunked::{self, ChunkError, Decoder, Next},
        reported,
    },
};
use relay::{
    copy::{
        Copy, CopyError, Ends, Envelope, IdleTimeouts, Observer, Progress, RelayResources, SMALL,
    },
    tcp::{Sink, Source},
};
use std::{io, sync::OnceLock};
use units::Bytes;

/// How a body that did not arrive whole ended, and so whose fault that is.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The copy ended before its last byte.
    Copy(CopyError),
    /// The source's chunks make no sense.
    Malformed(ChunkError),
    /// The bytes are not those that were promised.
    Differs(Fault),
}

impl Broken {
    /// Whether it is the receiver that takes no more.
    pub(crate) fn is_of_sink(&self) -> bool {
        matches!(self, Self::Copy(CopyError::SinkGone(_) | CopyError::SinkStalled))
    }
}

impl From<CopyError> for Broken {
    fn from(error: CopyError) -> Self {
        Self::Copy(error)
    }
}

/// How the receiver of a body is to know its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emit {
    /// By its length, or the end of the connection: the bytes as they are.
    Raw,
    /// By the last chunk.
    Chunks,
}

/// Something that sees a body's bytes and then judges it, such as a digest.
pub(crate) trait BodyObserver: Observer {
    /// The body has ended, with these trailers. What is still held back may go on, with the
    /// trailers as they are left; an error breaks the body off.
    fn conclude(&mut self, trailers: &mut Fields) -> Result<(), Fault>;
}

/// A body on its way.
pub(crate) struct Body<'p, 's, 'k> {
    /// Where bytes come from.
    pub source: &'p mut Source<'s>,
    /// What was read from there already.
    pub ahead: &'p mut BytesMut,
    /// The sink of the bytes.
    pub sink: &'p mut Sink<'k>,
    /// What they move through.
    pub resources: &'p RelayResources,
    /// How long each side may take.
    pub timeouts: IdleTimeouts,
    /// How far it is.
    pub progress: &'p Progress,
    /// The body's length in bytes, if a field announced it for a chunked body.
    pub length: Option<u64>,
    /// How long it may be at most.
    pub most: Option<u64>,
    /// Maximum size of its trailers.
    pub max_trailers: Bytes,
    /// Which of the trailers that come go on.
    pub trailers: fn(&Fields) -> Fields,
    /// Who looks at the bytes.
    pub observer: Option<&'p mut dyn BodyObserver>,
    /// Why the source takes nothing more of what is written to it meanwhile, once it does not.
    pub given_up: Option<&'p OnceLock<Broken>>,
    /// The depot that reports a failure in the trailers of a chunked body. `None`: the receiver takes no
    /// reports.
    pub report: Option<&'p DepotId>,
}

impl Emit {
    /// As the body came.
    pub(crate) fn of(framing: Framing) -> Self {
        if framing == Framing::Chunked { Self::Chunks } else { Self::Raw }
    }
}

impl Body<'_, '_, '_> {
    /// Moves the whole body, after `head`, which is what precedes it on the sink. When this is done
    /// the sink's kernel has every byte. May be dropped on the way.
    pub(crate) async fn run(
        self,
        head: Vec<u8>,
        framing: Framing,
        emit: Emit,
    ) -> Result<(), Broken> {
        let Self { source, ahead, sink, .. } = self;
        let ends = Ends { source, ahead, sink };
        let mut copy = Copy::new(ends, self.resources, self.timeouts, self.progress);
        copy.pending = head;
        copy.most = self.most;
        copy.observer = self.observer;
        copy.envelope = (emit == Emit::Chunks).then_some(CHUNK);
        let Self { length, max_trailers, trailers, given_up, .. } = self;
        let mut run = Run { copy, length, max_trailers, trailers, given_up };
        let mut result = run.body(framing, emit).await;
        if let Err(Broken::Differs(fault)) = &result {
            // The receiver sees an end in good order, and that what came is not good.
            if let Some(id) = self.report.filter(|_| emit == Emit::Chunks) {
                let trailers = Fields::from_iter([(PROXY_STATUS.clone(), fault.proxy_status(id))]);
                chunked::put_last(&trailers, &mut run.copy.pending);
                result = run.copy.flush().await.map_err(Broken::from).and(result);
            }
        }
        run.copy.end();
        result
    }
}

/// Each piece of data as a chunk of its own.
const CHUNK: Envelope = Envelope { before: put_chunk_head, after: chunked::DATA_END };

fn put_chunk_head(length: u64, into: &mut Vec<u8>) {
    chunked::put_head(length, into);
}

/// A body that is being copied.
struct Run<'p, 's, 'k> {
    copy: Copy<'p, 's, 'k, dyn BodyObserver + 'p>,
    length: Option<u64>,
    max_trailers: Bytes,
    trailers: fn(&Fields) -> Fields,
    given_up: Option<&'p OnceLock<Broken>>,
}

impl Run<'_, '_, '_> {
    async fn body(&mut self, framing: Framing, emit: Emit) -> Result<(), Broken> {
        let mut trailers = match framing {
            Framing::Empty => {
                self.copy.flush().await?;
                return Ok(());
            }
            Framing::Length(length) => {
                self.copy.data(Some(length)).await?;
                Fields::new()
            }
            Framing::UntilClose => {
                self.copy.data(None).await?;
                self.ended_in_order()?;
                Fields::new()
            }
            Framing::Chunked => self.chunks().await?,
        };
        if let Some(observer) = &mut self.copy.observer {
            observer.conclude(&mut trailers).map_err(Broken::Differs)?;
            self.copy.release().await?;
        }
        if emit == Emit::Chunks {
            chunked::put_last(&trailers, &mut self.copy.pending);
        }
        Ok(self.copy.flush().await?)
    }

    /// Whether the end of the source is a real one. The kernel reports a reset once: if a write got it, the
    /// next read returns a clean end. A broken pipe follows an end that came before.
    fn ended_in_order(&self) -> Result<(), Broken> {
        match self.given_up.and_then(OnceLock::get) {
            Some(Broken::Copy(CopyError::SinkGone(error)))
                if error.kind() != io::ErrorKind::BrokenPipe =>
            {
                Err(CopyError::SourceFailed(error.kind().into()).into())
            }
            _ => Ok(()),
        }
    }

    /// The data of all chunks, and what trailers came with the last.
    async fn chunks(&mut self) -> Result<Fields, Broken> {
        let mut decoder = Decoder::new(self.max_trailers);
        loop {
            let step = decoder.next(self.copy.ahead).map_err(Broken::Malformed)?;
            self.copy.ahead.advance(step.framing);
            match step.next {
                Next::More => {
                    if self.copy.read(SMALL).await? == 0 {
                        return Err(self.copy.cut_off().into());
                    }
                }
                Next::Data(length) => {
                    if let Some(left) = &mut self.length {
                        *left = left.checked_sub(length).ok_or(CopyError::TooLong)?;
                    }
                    self.chunk(length).await?;
                    decoder.moved(length);
                }
                Next::End(trailers) => {
                    let missing = self.length.is_some_and(|left| left > 0);
                    return match reported(&trailers) {
                        Some(fault) => Err(Broken::Differs(fault)),
                        None if missing => Err(self.copy.cut_off().into()),
                        None => Ok((self.trailers)(&trailers)),
                    };
                }
            }
        }
    }

    /// Copies the data of one chunk. If the receiver gets chunks and no observer is set, it stays one chunk.
    async fn chunk(&mut self, length: u64) -> Result<(), Broken> {
        if self.copy.envelope.is_none() || self.copy.observer.is_some() {
            return Ok(self.copy.data(Some(length)).await?);
        }
        put_chunk_head(length, &mut self.copy.pending);
        let envelope = self.copy.envelope.take();
        let moved = self.copy.data(Some(length)).await;
        self.copy.envelope = envelope;
        self.copy.pending.extend_from_slice(chunked::DATA_END);
        Ok(moved?)
    }
}
