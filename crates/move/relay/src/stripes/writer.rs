// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end: cuts what is written into blocks and gives each to a connection that has room.

use crate::{
    stripes::{
        arrivals::{Arrivals, Arrived},
        blocks::{self, MAX_BLOCK_DATA},
    },
    tcp::First,
};
use bytes::{Buf, BytesMut};
use std::{
    io,
    task::{Context, Poll, ready},
};

/// The sending end.
#[derive(Debug)]
pub struct Writer {
    arrivals: Option<Arrivals>,
    /// The first connection, then those that have joined.
    lanes: Vec<Lane>,
    /// How much of the body has been given to them.
    offset: u64,
    /// Which is asked first for room.
    turn: usize,
}

/// One connection.
#[derive(Debug, Default)]
struct Lane {
    /// Unless it is the first one.
    joined: Option<Box<Arrived>>,
    /// What it was given and its kernel has not taken.
    pending: BytesMut,
    /// Whether nothing is pending, here or in TLS.
    clear: bool,
    /// Whether it was given a part of the body.
    used: bool,
    /// Whether it was given the end.
    ended: bool,
}

impl Writer {
    /// One that sends this before its first block.
    pub fn behind(head: BytesMut) -> Self {
        let first = Lane { pending: head, ..Lane::default() };
        Self { arrivals: None, lanes: vec![first], offset: 0, turn: 0 }
    }

    /// One that these may join.
    pub fn new(arrivals: Arrivals) -> Self {
        Self { arrivals: Some(arrivals), ..Self::behind(BytesMut::new()) }
    }

    /// From now on these may join it.
    pub fn let_join(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// Gives a connection that has room a block of what is written; says how much that was.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        first: &mut First<'_, '_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_drive(context, first)?;
        let lanes = self.lanes.len();
        let mut by_turn = (0..lanes).map(|n| (self.turn + n) % lanes);
        let Some(free) = by_turn.find(|n| self.lanes[*n].clear) else { return Poll::Pending };
        self.turn = free + 1;
        let (lane, length) = (&mut self.lanes[free], bytes.len().min(MAX_BLOCK_DATA));
        blocks::put_head(self.offset, length as u32, &mut lane.pending);
        lane.pending.extend_from_slice(&bytes[..length]);
        self.offset += length as u64;
        lane.used = true;
        // Sent immediately; the rest waits until the socket is writable.
        let _ = lane.poll_clear(context, first)?;
        Poll::Ready(Ok(length))
    }

    /// Takes in who has joined, and sends on what waits.
    ///
    /// # Errors
    /// A connection failed that had a part of the stream.
    pub fn poll_drive(
        &mut self,
        context: &mut Context<'_>,
        first: &mut First<'_, '_>,
    ) -> io::Result<()> {
        while let Some(arrivals) = &mut self.arrivals
            && let Poll::Ready(Some(mut joined)) = arrivals.poll_next(context, self.offset)
        {
            let pending = joined.pending.split();
            self.lanes.push(Lane { joined: Some(Box::new(joined)), pending, ..Lane::default() });
        }
        self.each(|lane| lane.poll_clear(context, first)).map(drop)
    }

    /// Ends the body on each connection, and waits until those that have joined are closed by the
    /// other end, which it does when it has all.
    pub fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        first: &mut First<'_, '_>,
    ) -> Poll<io::Result<()>> {
        // Who has not come by now comes too late.
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.end();
        }
        let total = self.offset;
        let over = self.each(|lane| lane.poll_end(context, first, total))?;
        if over { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Does something with each connection; says whether it is done with all. One that fails without
    /// having had a part of the body is let go: nothing is lost with it.
    fn each(&mut self, mut act: impl FnMut(&mut Lane) -> Poll<io::Result<()>>) -> io::Result<bool> {
        let (mut n, mut all) = (0, true);
        while let Some(lane) = self.lanes.get_mut(n) {
            match act(lane) {
                Poll::Ready(Err(_)) if lane.joined.is_some() && !lane.used => {
                    self.lanes.remove(n);
                    continue;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => {}
                Poll::Pending => all = false,
            }
            n += 1;
        }
        Ok(all)
    }
}

impl Lane {
    /// Sends what is pending.
    fn poll_clear(
        &mut self,
        context: &mut Context<'_>,
        first: &mut First<'_, '_>,
    ) -> Poll<io::Result<()>> {
        self.clear = false;
        while !self.pending.is_empty() {
            let written = match &mut self.joined {
                None => first.poll_write(context, &self.pending),
                Some(joined) => joined.stream.poll_write(context, &self.pending),
            };
            self.pending.advance(ready!(written)?);
        }
        ready!(match &mut self.joined {
            None => first.poll_flush(context),
            Some(joined) => joined.stream.poll_flush(context),
        })?;
        self.clear = true;
        Poll::Ready(Ok(()))
    }

    /// Sends the end of a body of `total` bytes, and waits until the other end has closed a connection that
    /// had joined.
    fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        first: &mut First<'_, '_>,
        total: u64,
    ) -> Poll<io::Result<()>> {
        if !self.ended {
            blocks::put_end(total, &mut self.pending);
            self.ended = true;
        }
        ready!(self.poll_clear(context, first))?;
        let Some(joined) = &mut self.joined else { return Poll::Ready(Ok(())) };
        let mut scrap = BytesMut::new();
        loop {
            match ready!(joined.stream.poll_read(context, &mut scrap, 1 << 10)) {
                Ok(0) => return Poll::Ready(Ok(())),
                // A reader that has all closes TLS without a word.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Ok(_) => scrap.clear(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
