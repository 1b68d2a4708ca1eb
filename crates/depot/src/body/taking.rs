// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a receiver still takes what was handed to its connection.
//!
//! Seen from the bytes that its system has not acknowledged: as long as their number changes, it
//! is slow. One that acknowledges but takes nothing (a reader that has stopped, or a depot whose
//! own reader is that slow) is borne for `sink_idle`; one that does not even acknowledge is
//! gone after `tcp_user`.

use super::{Broken, Patience};
use crate::{
    kernel,
    least_rate::{LeastRate, Rest},
};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::Instant};

/// A receiver that is waited for.
#[derive(Debug)]
pub(crate) struct Taking<'a> {
    sink: &'a TcpStream,
    patience: Patience,
    queued: usize,
    since: Instant,
    /// Where it is to be taken at a rate.
    rest: Option<(LeastRate, Rest)>,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(sink: &'a TcpStream, patience: Patience) -> Self {
        let queued = kernel::unacknowledged(sink).unwrap_or_default();
        let rest = patience.least.map(|least| (least, Rest::new(queued)));
        Self { sink, patience, queued, since: Instant::now(), rest }
    }

    /// Resolves once the receiver has taken nothing for too long.
    pub(crate) async fn stalls(sink: &'a TcpStream, patience: Patience) -> Broken {
        let mut taking = Self::new(sink, patience);
        loop {
            tokio::time::sleep(patience.sink_idle.min(patience.tcp_user)).await;
            if let Err(broken) = taking.look() {
                return broken;
            }
        }
    }

    /// Looks how much is still to be acknowledged.
    pub(crate) fn look(&mut self) -> Result<usize, Broken> {
        let queued = kernel::unacknowledged(self.sink).unwrap_or_default();
        if queued != self.queued {
            (self.queued, self.since) = (queued, Instant::now());
        } else if queued > 0 {
            let waited = self.since.elapsed();
            if waited >= self.patience.tcp_user && self.silent_for() >= self.patience.tcp_user {
                return Err(Broken::SinkGone(io::ErrorKind::TimedOut.into()));
            }
            if waited >= self.patience.sink_idle {
                return Err(Broken::SinkStalled);
            }
        }
        if let Some((least, rest)) = &mut self.rest
            && rest.look(*least, queued)
        {
            return Err(Broken::SinkSlow);
        }
        Ok(queued)
    }

    /// How much was still to be acknowledged at the last look.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// How long the number has not changed.
    pub(crate) fn unchanged_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long nothing at all has come back for bytes that were sent, and sent again.
    fn silent_for(&self) -> Duration {
        kernel::tcp_info(self.sink).map(|info| info.unanswered).unwrap_or_default()
    }
}
