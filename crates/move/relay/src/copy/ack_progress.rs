// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a receiver still acknowledges the bytes handed to its connection.
//!
//! Judged by the bytes that its system has not acknowledged: as long as their number changes, it is slow. One
//! that acknowledges but takes nothing (a reader that has stopped, or a depot whose own reader is that slow)
//! has `sink_idle` before it counts as gone; one that does not even acknowledge has `tcp_user`.

use crate::{
    copy::{CopyError, IdleTimeouts, MinimumRate, minimum_rate::Rest},
    tcp::info::{tcp_info, unacknowledged},
};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::Instant};

/// A receiver that the relay waits for.
#[derive(Debug)]
pub struct AckProgress<'a> {
    sink: &'a TcpStream,
    timeouts: IdleTimeouts,
    queued: usize,
    since: Instant,
    /// Its minimum rate, if there is one.
    rest: Option<(MinimumRate, Rest)>,
}

impl<'a> AckProgress<'a> {
    /// A receiver whose wait begins now.
    pub fn new(sink: &'a TcpStream, timeouts: IdleTimeouts) -> Self {
        let queued = unacknowledged(sink).unwrap_or_default();
        let rest = timeouts.minimum.map(|minimum| (minimum, Rest::new(queued)));
        Self { sink, timeouts, queued, since: Instant::now(), rest }
    }

    /// Resolves once the receiver has taken nothing for too long.
    pub async fn stalls(sink: &'a TcpStream, timeouts: IdleTimeouts) -> CopyError {
        let mut acks = Self::new(sink, timeouts);
        loop {
            tokio::time::sleep(timeouts.sink_idle.min(timeouts.tcp_user)).await;
            if let Err(error) = acks.look() {
                return error;
            }
        }
    }

    /// Reads how much is still unacknowledged.
    ///
    /// # Errors
    /// It has stalled, is gone, or takes less than the minimum rate.
    pub fn look(&mut self) -> Result<usize, CopyError> {
        let queued = unacknowledged(self.sink).unwrap_or_default();
        if queued != self.queued {
            (self.queued, self.since) = (queued, Instant::now());
        } else if queued > 0 {
            let waited = self.since.elapsed();
            if waited >= self.timeouts.tcp_user && self.silent_for() >= self.timeouts.tcp_user {
                return Err(CopyError::SinkGone(io::ErrorKind::TimedOut.into()));
            }
            if waited >= self.timeouts.sink_idle {
                return Err(CopyError::SinkStalled);
            }
        }
        if let Some((minimum, rest)) = &mut self.rest
            && rest.look(*minimum, queued, || tcp_info(self.sink).unwrap_or_default())
        {
            return Err(CopyError::SinkSlow);
        }
        Ok(queued)
    }

    /// Unacknowledged bytes at the last look.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// How long the number has been unchanged.
    pub fn unchanged_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long the peer has sent no acknowledgement at all, despite retransmissions.
    fn silent_for(&self) -> Duration {
        tcp_info(self.sink).map(|info| info.unanswered).unwrap_or_default()
    }
}
