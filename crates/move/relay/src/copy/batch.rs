// SPDX-License-Identifier: GPL-2.0-or-later
//! Waits for more than one segment at a time when bytes arrive fast.
//!
//! Each splice costs the same whether it moves one segment or a hundred. A socket that is read as soon as
//! anything has arrived is read for little at a time. Reading once a millisecond's worth has arrived costs a
//! third less processor time, and a millisecond does not matter on a long path. The kernel does the waiting
//! (`SO_RCVLOWAT`). A sender that pauses with less under way must not wait forever, so each such wait is
//! short.

use std::time::Duration;
use tokio::{net::TcpStream, time::Instant};

/// The time whose bytes make a batch.
const SPAN: Duration = Duration::from_millis(1);
/// Minimum size of a batch, in bytes.
const LEAST: usize = 64 << 10;
/// The time over which the rate is measured.
const MEASURED: Duration = Duration::from_millis(5);
/// Bytes before batching begins. A shorter body ends before its rate is known, and short bodies are too
/// frequent to read the clock for each.
const BEGIN: usize = 5 * LEAST;
/// Maximum wait for a batch.
pub(super) const WAIT: Duration = Duration::from_millis(5);
/// How long batching stays off after a sender has paused.
const REST: Duration = Duration::from_millis(100);

/// The batch size of a socket.
#[derive(Debug)]
pub(super) struct Batch {
    /// The kernel's `SO_RCVLOWAT`; 1 without batching.
    lowat: usize,
    /// When the measurement under way began.
    since: Option<Instant>,
    /// Bytes since then; or in total, until there are enough to begin with.
    bytes: usize,
    rests_until: Option<Instant>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self { lowat: 1, since: None, bytes: 0, rests_until: None }
    }

    /// The bytes that make the socket readable.
    pub(super) fn least(&self) -> usize {
        self.lowat
    }

    /// Counts received bytes. `capacity` is the maximum per read, and `left` is what is still to come.
    pub(super) fn count(&mut self, socket: &TcpStream, bytes: usize, capacity: usize, left: u64) {
        self.bytes += bytes;
        if left < self.lowat as u64 {
            // The end of a body is less than was waited for.
            return self.tell(socket, 1);
        }
        let Some(since) = self.since else {
            if self.bytes >= BEGIN {
                (self.since, self.bytes) = (Some(Instant::now()), 0);
            }
            return;
        };
        let elapsed = since.elapsed();
        if elapsed < MEASURED {
            return;
        }
        let worth = self.bytes as f64 * SPAN.as_secs_f64() / elapsed.as_secs_f64();
        let now = since + elapsed;
        (self.since, self.bytes) = (Some(now), 0);
        let wanted = (worth as usize).min(capacity / 2);
        let rests = self.rests_until.is_some_and(|until| now < until);
        let wanted = if wanted < LEAST || rests { 1 } else { wanted };
        // A little more or less is not worth a system call.
        let near = self.lowat.abs_diff(wanted) <= self.lowat / 4;
        if !near && wanted as u64 <= left {
            self.tell(socket, wanted);
        }
    }

    /// The sender has paused before a batch was complete.
    pub(super) fn paused(&mut self, socket: &TcpStream) {
        self.rests_until = Some(Instant::now() + REST);
        self.tell(socket, 1);
    }

    /// Restores the socket's setting.
    pub(super) fn end(&mut self, socket: &TcpStream) {
        self.tell(socket, 1);
    }

    fn tell(&mut self, socket: &TcpStream, lowat: usize) {
        if self.lowat != lowat {
            // A socket that takes no such wish goes on without.
            let told = crate::tcp::info::set_rcvlowat(socket, lowat);
            self.lowat = if told.is_ok() { lowat } else { 1 };
        }
    }
}
