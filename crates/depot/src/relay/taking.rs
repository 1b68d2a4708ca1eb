// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a client still takes what was handed to its connection.
//!
//! Seen from the bytes that its system has not acknowledged: as long as their number changes, it
//! is slow. One that acknowledges but takes nothing (a reader that has stopped, or a depot whose
//! own reader is that slow) is borne for `client_idle`; one that does not even acknowledge is
//! gone after `tcp_user`.

use super::End;
use crate::{config::Timeouts, kernel};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::Instant};

/// A client that is waited for.
#[derive(Debug)]
pub(super) struct Taking<'a> {
    client: &'a TcpStream,
    client_idle: Duration,
    tcp_user: Duration,
    queued: usize,
    since: Instant,
}

impl<'a> Taking<'a> {
    pub(super) fn new(client: &'a TcpStream, timeouts: &Timeouts) -> Self {
        Self {
            client,
            client_idle: timeouts.client_idle.into(),
            tcp_user: timeouts.tcp_user.into(),
            queued: kernel::unacknowledged(client).unwrap_or_default(),
            since: Instant::now(),
        }
    }

    /// When it is worth looking again, at the latest.
    pub(super) fn next_look(&self) -> Instant {
        Instant::now() + self.client_idle.min(self.tcp_user)
    }

    /// Looks how much is still to be acknowledged.
    pub(super) fn look(&mut self) -> Result<usize, End> {
        let queued = kernel::unacknowledged(self.client).unwrap_or_default();
        if queued != self.queued {
            (self.queued, self.since) = (queued, Instant::now());
        } else if queued > 0 {
            let waited = self.since.elapsed();
            if waited >= self.tcp_user && self.silent_for() >= self.tcp_user {
                return Err(End::ClientGone(io::ErrorKind::TimedOut.into()));
            }
            if waited >= self.client_idle {
                return Err(End::ClientStalled);
            }
        }
        Ok(queued)
    }

    /// How long ago the number last changed.
    pub(super) fn unchanged_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long nothing at all has come back for bytes that were sent, and sent again.
    fn silent_for(&self) -> Duration {
        kernel::tcp_info(self.client).map(|info| info.unanswered).unwrap_or_default()
    }
}
