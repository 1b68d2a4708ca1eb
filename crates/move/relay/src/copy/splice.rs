// SPDX-License-Identifier: GPL-2.0-or-later
//! A body's bytes moved in the kernel, from socket to pipe to socket.

use crate::{
    copy::{
        CopyError, CopyMode,
        batch::{self, Batch},
        copy::{BUFFER, Copy, Observer, fails},
        pipe::{self, Pipe},
    },
    tcp::{More, readable},
};
use std::{io, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{io::Interest, net::TcpStream, time::timeout};

/// A shorter body than this is copied: a pipe would cost more than it saves.
const LEAST_SPLICE: u64 = 32 << 10;
/// What is spliced at a time at first: what goes out as one packet, which the network card or the
/// receiver's end of a local connection takes apart; with its headers that has at most 64 KB. One byte
/// more costs a second packet and, where the kernel paces, as it does for BBR, a timer. And while many
/// short bodies pass, what is under way of all of them together must not be more than the processor's
/// caches hold.
const FIRST_SPLICE: usize = 60 << 10;
/// A body of which this much has passed is long: then each splice costs less for a byte the more it
/// moves.
const LONG: u64 = 4 << 20;
/// What part of what has passed is then spliced at a time.
const PART: u64 = 16;

/// The result of filling a pipe.
enum Filled {
    /// It holds what there was; nothing at the source's end.
    With(Pipe),
    /// There is nothing just now.
    NotYet,
    /// The kernel does not do it here, or not now.
    Never,
    /// The source's connection has failed.
    Failed(io::Error),
}

impl<O: Observer + ?Sized> Copy<'_, '_, '_, O> {
    /// Whether the rest, after the bytes read ahead, can and should move in the kernel.
    pub(super) fn in_kernel(&mut self, left: Option<u64>, most: usize) -> bool {
        let Self { source, ahead, sink, resources, observer, .. } = &*self;
        self.may_splice
            && observer.is_none()
            && self.envelope.is_none()
            && resources.mode == CopyMode::Splice
            && source.plain().is_some()
            && sink.plain().is_some()
            && most > ahead.len()
            && left.is_none_or(|left| left >= LEAST_SPLICE + ahead.len() as u64)
    }

    /// Moves what there is through a buffer, where the kernel does not.
    async fn instead(&mut self, left: Option<u64>, most: usize) -> Result<u64, CopyError> {
        if !self.ahead.is_empty() {
            return self.buffered(most).await;
        }
        match self.read(most.min(BUFFER)).await? {
            0 if left.is_some() => Err(self.cut_off()),
            0 => Ok(0),
            _ => self.buffered(most).await,
        }
    }

    /// Hands over what is pending and what was read ahead; says how much of the body that was.
    async fn put_out(&mut self, more: More) -> Result<u64, CopyError> {
        if self.pending.is_empty() && self.ahead.is_empty() {
            return Ok(0);
        }
        let data = self.ahead.split();
        self.pass(&data, more).await?;
        Ok(data.len() as u64)
    }

    /// Fills a pipe once and drains it, after what was read ahead; 0 at the source's end, if `left` is
    /// unknown.
    pub(super) async fn spliced(
        &mut self,
        left: Option<u64>,
        most: usize,
    ) -> Result<u64, CopyError> {
        let at_a_time = self.at_a_time();
        let at_most = at_a_time.min(most - self.ahead.len());
        let pipe = loop {
            let filled = match self.fill(at_most) {
                Filled::NotYet => match self.await_first().await {
                    Ok(true) => continue,
                    Ok(false) => Filled::NotYet,
                    Err(error) => Filled::Failed(error),
                },
                filled => filled,
            };
            match filled {
                Filled::With(pipe) => break pipe,
                Filled::NotYet => {
                    // The sink's answer to it may be what the source waits for.
                    let moved = self.put_out(More::No).await?;
                    if moved > 0 {
                        return Ok(moved);
                    }
                    let idle = self.timeouts.source_idle;
                    let ready = until_readable(self.source.tcp(), &mut self.batch, idle).await;
                    self.progress.source_was_awaited();
                    match ready {
                        Ok(true) => {}
                        Ok(false) => return Err(CopyError::SourceStalled),
                        Err(error) => return Err(self.source_failed(error)),
                    }
                }
                Filled::Never => return self.instead(left, most).await,
                Filled::Failed(error) => {
                    // What did come is there to be resumed.
                    self.unread = None;
                    self.put_out(More::No).await?;
                    return Err(self.source_failed(error));
                }
            }
        };
        let filled = pipe.held();
        self.unread = self.unread.map(|unread| unread - filled as u64);
        // One packet for a head and what follows it.
        let ahead = self.put_out(if filled > 0 { More::Yes } else { More::No }).await?;
        if filled == 0 {
            return if left.is_some() { Err(self.cut_off()) } else { Ok(ahead) };
        }
        let source = self.source.tcp();
        let capacity = pipe.capacity().min(at_a_time);
        self.batch.count(source, filled, capacity, self.unread.unwrap_or(u64::MAX));
        self.drain(pipe).await?;
        if filled < self.batch.least() {
            // There was less than is worth a system call; what has come since can wait for more.
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = source.try_io(Interest::READABLE, nothing);
        }
        Ok(filled as u64 + ahead)
    }

    /// How much is spliced at a time.
    fn at_a_time(&self) -> usize {
        let moved = self.progress.moved();
        if moved < LONG {
            let before = self.pending.len() + self.ahead.len();
            FIRST_SPLICE.saturating_sub(before).max(FIRST_SPLICE / 4)
        } else {
            usize::try_from(moved / PART).unwrap_or(usize::MAX)
        }
    }

    /// Fills a pipe. It is taken only when there is something, and given back when that is gone: few
    /// pipes serve many transfers, and the one used last is still in the processor's cache.
    fn fill(&mut self, at_most: usize) -> Filled {
        let source = self.source.tcp();
        let Some(mut pipe) = self.resources.pipes.take() else {
            // To its end: asking for one each time costs more than it may bring.
            self.batch.end(source);
            self.may_splice = false;
            return Filled::Never;
        };
        match pipe.fill(source, at_most) {
            Ok(Some(_)) => Filled::With(pipe),
            Ok(None) => Filled::Never,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Filled::NotYet,
            Err(error) if pipe::no_splice(&error) => {
                self.may_splice = false;
                Filled::Never
            }
            Err(error) => Filled::Failed(error),
        }
    }

    /// Hands over what a pipe holds.
    async fn drain(&mut self, mut pipe: Pipe) -> Result<(), CopyError> {
        let Self { source, sink, timeouts, progress, .. } = &*self;
        let sink = sink.tcp();
        progress.piped.store(pipe.held(), Relaxed);
        while pipe.held() > 0 {
            match pipe.drain(sink) {
                Ok(bytes) => {
                    progress.piped.store(pipe.held(), Relaxed);
                    progress.moved.fetch_add(bytes as u64, Relaxed);
                    progress.spliced.fetch_add(bytes as u64, Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::select! {
                        biased;
                        ready = sink.ready(Interest::WRITABLE) => {
                            ready.map(drop).map_err(CopyError::SinkGone)?;
                        }
                        failed = fails(source.tcp(), self.unread) => {
                            return Err(self.source_failed(failed));
                        }
                        stalled = progress.blocked(sink, *timeouts) => return Err(stalled),
                    }
                }
                Err(error) => return Err(CopyError::SinkGone(error)),
            }
        }
        Ok(())
    }
}

/// Waits for bytes: for as many as the batch wants, but not for long. False: nothing came for the idle time.
async fn until_readable(source: &TcpStream, batch: &mut Batch, idle: Duration) -> io::Result<bool> {
    let time = if batch.least() > 1 { batch::WAIT } else { idle };
    match timeout(time, readable(source)).await {
        Ok(ready) => ready.map(|()| true),
        Err(_) if batch.least() > 1 => {
            batch.paused(source);
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}
