// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that join, whichever end has opened them.

use crate::{
    stripes::{Joined, Joins, Offered},
    tcp::Connection,
};
use bytes::{Buf, Bytes, BytesMut};
use std::{
    fmt, io,
    task::{Context, Poll, ready},
};
use tokio::sync::oneshot;

/// Sets up a connection that joins.
pub type SetUp = Box<dyn FnMut(&Connection) -> io::Result<()> + Send + Sync>;

/// Connections that join one direction of a transfer.
pub struct Arrivals {
    from: From,
    /// What each is sent before anything else.
    welcome: Bytes,
    set_up: SetUp,
}

enum From {
    /// The other end opens them.
    Offered(Offered),
    /// This one.
    Asked(Joins),
}

/// A connection that has joined.
#[derive(Debug)]
pub(super) struct Arrived {
    pub stream: Connection,
    /// What has come on it.
    pub ahead: BytesMut,
    /// What is still to be sent on it.
    pub pending: BytesMut,
    /// Dropped when the transfer is done with the connection.
    pub _over: Option<oneshot::Sender<()>>,
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl Arrived {
    /// Sends the welcome, if it is not sent yet.
    pub(super) fn poll_welcome(&mut self, context: &mut Context<'_>) -> io::Result<Poll<()>> {
        while !self.pending.is_empty() {
            match self.stream.poll_write(context, &self.pending)? {
                Poll::Ready(written) => self.pending.advance(written),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(self.stream.poll_flush(context)?)
    }
}

impl Arrivals {
    /// Those that the other end opens. Each is sent `welcome` first.
    pub fn offered(offered: Offered, welcome: Bytes, set_up: SetUp) -> Self {
        Self { from: From::Offered(offered), welcome, set_up }
    }

    /// Those that this end opens.
    pub fn asked(joins: Joins, set_up: SetUp) -> Self {
        Self { from: From::Asked(joins), welcome: Bytes::new(), set_up }
    }

    /// The next one, once `moved` bytes have gone in this direction; none when no more will come.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        moved: u64,
    ) -> Poll<Option<Arrived>> {
        loop {
            let (stream, ahead, over) = match &mut self.from {
                From::Offered(offered) => match ready!(offered.poll_next(context)) {
                    Some(Joined { stream, ahead, over }) => (stream, ahead, Some(over)),
                    None => return Poll::Ready(None),
                },
                From::Asked(joins) => match ready!(joins.poll_next(context, moved)) {
                    Some((stream, ahead)) => (stream, ahead, None),
                    None => return Poll::Ready(None),
                },
            };
            // One that cannot be set up is let go, and the transfer goes on.
            if (self.set_up)(&stream).is_ok() {
                let pending = BytesMut::from(&self.welcome[..]);
                return Poll::Ready(Some(Arrived { stream, ahead, pending, _over: over }));
            }
        }
    }

    /// Gives up those that have not come.
    pub(super) fn end(&mut self) {
        match &mut self.from {
            From::Offered(offered) => offered.end(),
            From::Asked(joins) => joins.end(),
        }
    }
}
