// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds connections that creep: all that comes is read, and still the kernel offers the peer less than an initial window.
//!
//! Linux does so to all connections while it is short of memory for TCP (`tcp_mem`), to those of a control group that is near
//! its limit, and to one with a tiny buffer of fixed size. A peer at the other end of a long path then sends a few segments a
//! round trip, whatever the path has room for. No I/O and no clock: what is seen and when are arguments.

use super::governor::{Seen, since};
use crate::tcp::info::INITIAL_WINDOW;
use std::time::Duration;

/// One connection, between two looks.
#[derive(Debug, Default)]
pub(super) struct Creep {
    before: Option<Seen>,
}

impl Creep {
    /// For how long it has crept since the last look. `unread` is what lies in its receive buffer, as the kernel counts it.
    pub(super) fn look(&mut self, seen: &Seen, unread: usize) -> Duration {
        let Some(before) = self.before.replace(*seen) else { return Duration::ZERO };
        let (window, unread) = (seen.window.get(), unread as u64);
        // Where much lies unread, the reader is slow, and the window small for that.
        let is_read = unread <= seen.rcvbuf.get() / 4;
        // A peer that sends less than it may is not held back.
        let is_full = since(before.received, seen.received) >= window.max(1);
        if window >= INITIAL_WINDOW || before.window.get() >= INITIAL_WINDOW || !is_read || !is_full
        {
            // What came before the window shrank may have come at once.
            return Duration::ZERO;
        }
        seen.at.saturating_sub(before.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn seen(at: Duration, window: u64, received: u64) -> Seen {
        Seen {
            at,
            delivery_rate: None,
            min_rtt: Some(Duration::from_millis(84)),
            unsent: Bytes::new(0),
            sent: Bytes::new(0),
            received: Bytes::new(received),
            sndbuf_limited: Duration::ZERO,
            window: Bytes::new(window),
            sndbuf: Bytes::new(16 << 10),
            rcvbuf: Bytes::new(128 << 10),
        }
    }

    /// Looks each quarter of a second, at which `received` bytes more have come each time.
    fn crept(window: u64, received: u64, unread: usize) -> u128 {
        let mut creep = Creep::default();
        let look = |n: u64| {
            creep.look(&seen(Duration::from_millis(250 * n), window, received * n), unread)
        };
        (0..5).map(look).sum::<Duration>().as_millis()
    }

    #[test]
    fn small_windows_count_only_while_they_hold_the_peer_back() {
        let four = 4 * 1448;
        assert_eq!(crept(four, 3 * four, 0), 1000);
        assert_eq!(crept(four, 3 * four, 32 << 10), 1000, "some of it has just come");
        assert_eq!(crept(four, 3 * four, 40 << 10), 0, "who reads is slow");
        assert_eq!(crept(four, 1000, 0), 0, "the peer has no more");
        assert_eq!(crept(64 << 10, 3 * (64 << 10), 0), 0, "an initial window");
        assert_eq!(crept(0, 0, 0), 0, "nothing comes");
    }

    #[test]
    fn first_look_after_a_window_has_shrunk_counts_nothing() {
        let mut creep = Creep::default();
        let second = Duration::from_secs(1);
        assert_eq!(creep.look(&seen(second, 1 << 20, 1 << 20), 0), Duration::ZERO);
        assert_eq!(creep.look(&seen(2 * second, 5792, 2 << 20), 0), Duration::ZERO);
        assert_eq!(creep.look(&seen(3 * second, 5792, 3 << 20), 0), second);
    }
}
