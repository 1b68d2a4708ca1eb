// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving end: puts the body together again, in the order of its offsets.
//!
//! On each connection the offsets only grow, so the next block is at the head of one of them. The others are
//! not read meanwhile: their bytes wait in the sockets' buffers.

use crate::{
    stripes::{
        arrivals::{Arrivals, Arrived},
        blocks::{Blocks, Next},
    },
    tcp::info::reset_on_close,
};
use bytes::{Buf, BytesMut};
use std::{
    io,
    task::{Context, Poll, ready},
};

/// What is read at a time to find the head of a block.
const AHEAD: usize = 4 << 10;

/// The receiving end.
#[derive(Debug)]
pub struct Reader {
    /// The first connection, then those that have joined.
    lanes: Vec<Lane>,
    arrivals: Option<Arrivals>,
    /// How much of the body has been read.
    at: u64,
}

/// One connection.
#[derive(Debug, Default)]
struct Lane {
    /// Unless it is the first one.
    joined: Option<Box<Arrived>>,
    /// What was read of it and is not used.
    ahead: BytesMut,
    blocks: Blocks,
}

/// Reads from the first connection.
pub trait ReadFirst:
    FnMut(&mut Context<'_>, &mut BytesMut, usize) -> Poll<io::Result<usize>>
{
}
impl<F: FnMut(&mut Context<'_>, &mut BytesMut, usize) -> Poll<io::Result<usize>>> ReadFirst for F {}

impl Reader {
    /// One of whose first connection `ahead` was read already.
    pub fn new(ahead: BytesMut) -> Self {
        Self { lanes: vec![Lane { ahead, ..Lane::default() }], arrivals: None, at: 0 }
    }

    /// From now on these may join it.
    pub fn let_join(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// Appends at most `most` bytes of the body; 0 is its end.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        first: &mut impl ReadFirst,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let more = self.take_in(context);
        let (mut unknown, mut ended, mut found) = (more, false, None);
        let mut n = 0;
        while let Some(lane) = self.lanes.get_mut(n) {
            let Some(next) = lane.poll_next_or_gone(context, first)? else {
                self.lanes.remove(n);
                continue;
            };
            match next {
                Poll::Pending => unknown = true,
                Poll::Ready(Next::Data { offset, length }) if offset == self.at => {
                    found = found.or(Some((n, length as usize)));
                }
                Poll::Ready(Next::Data { offset, .. } | Next::End(offset)) if offset < self.at => {
                    return Poll::Ready(Err(senseless("a part of the body came twice")));
                }
                Poll::Ready(Next::End(total)) => ended |= total == self.at,
                Poll::Ready(Next::Data { .. } | Next::More) => {}
            }
            n += 1;
        }
        if let Some((n, length)) = found {
            let taken = ready!(self.lanes[n].poll_take(context, first, buffer, length.min(most)))?;
            self.at += taken as u64;
            return Poll::Ready(Ok(taken));
        }
        if ended {
            return Poll::Ready(Ok(0));
        }
        // No connection has what comes next, and none will.
        if !unknown {
            return Poll::Ready(Err(senseless("a part of the body is missing")));
        }
        Poll::Pending
    }

    /// Reads the end of the body on each connection, and closes those that have joined.
    pub fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        mut first: impl ReadFirst,
    ) -> Poll<io::Result<()>> {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.end();
        }
        let (at, mut all, mut n) = (self.at, true, 0);
        while let Some(lane) = self.lanes.get_mut(n) {
            match lane.poll_next_or_gone(context, &mut first)? {
                None => {
                    self.lanes.remove(n);
                    continue;
                }
                Some(Poll::Ready(Next::End(total))) if total == at => {}
                Some(Poll::Ready(_)) => return Poll::Ready(Err(senseless("the body is longer"))),
                Some(Poll::Pending) => all = false,
            }
            n += 1;
        }
        if !all {
            return Poll::Pending;
        }
        for joined in self.lanes.iter().filter_map(|lane| lane.joined.as_ref()) {
            reset_on_close(joined.stream.tcp(), false);
        }
        self.lanes.truncate(1);
        Poll::Ready(Ok(()))
    }

    /// What came on the first connection behind the body.
    pub fn rest(mut self) -> BytesMut {
        std::mem::take(&mut self.lanes[0].ahead)
    }

    /// Takes in who has joined; says whether more may.
    fn take_in(&mut self, context: &mut Context<'_>) -> bool {
        let Some(arrivals) = &mut self.arrivals else { return false };
        loop {
            match arrivals.poll_next(context, self.at) {
                Poll::Ready(Some(mut joined)) => {
                    let (ahead, blocks) = (joined.ahead.split(), Blocks::default());
                    self.lanes.push(Lane { joined: Some(Box::new(joined)), ahead, blocks });
                }
                Poll::Ready(None) => return false,
                Poll::Pending => return true,
            }
        }
    }
}

impl Lane {
    /// What comes next on this connection; none if it had joined and is closed, and nothing has come on it: the other
    /// end did not need it any more.
    fn poll_next_or_gone(
        &mut self,
        context: &mut Context<'_>,
        first: &mut impl ReadFirst,
    ) -> io::Result<Option<Poll<Next>>> {
        match self.poll_next(context, first) {
            Err(_) if self.joined.is_some() && self.ahead.is_empty() && self.blocks.is_new() => {
                Ok(None)
            }
            next => next.map(Some),
        }
    }

    /// What comes next on this connection.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        first: &mut impl ReadFirst,
    ) -> io::Result<Poll<Next>> {
        loop {
            let (head, next) = self.blocks.next(&self.ahead).map_err(senseless)?;
            self.ahead.advance(head);
            if next != Next::More {
                return Ok(Poll::Ready(next));
            }
            let read = match &mut self.joined {
                None => first(context, &mut self.ahead, AHEAD),
                Some(joined) => {
                    let Poll::Ready(()) = joined.poll_welcome(context)? else {
                        return Ok(Poll::Pending);
                    };
                    joined.stream.poll_read(context, &mut self.ahead, AHEAD)
                }
            };
            match read? {
                Poll::Ready(0) => return Err(cut_off()),
                Poll::Ready(_) => {}
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
    }

    /// Appends at most `most` bytes of the block under way.
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        first: &mut impl ReadFirst,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let taken = if self.ahead.is_empty() {
            match &mut self.joined {
                None => ready!(first(context, buffer, most))?,
                Some(joined) => ready!(joined.stream.poll_read(context, buffer, most))?,
            }
        } else {
            let here = most.min(self.ahead.len());
            buffer.extend_from_slice(&self.ahead[..here]);
            self.ahead.advance(here);
            here
        };
        if taken == 0 {
            return Poll::Ready(Err(cut_off()));
        }
        self.blocks.moved(taken as u32);
        Poll::Ready(Ok(taken))
    }
}

fn cut_off() -> io::Error {
    let reason = "one of the connections was closed before the body's end";
    io::Error::new(io::ErrorKind::UnexpectedEof, reason)
}

fn senseless(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
