// SPDX-License-Identifier: GPL-2.0-or-later
//! The receive buffer: how much the receiver has room for, as Linux tells its sender.
//!
//! Three things bound the window (`__tcp_select_window`), counted from the first segment that is missing:
//!
//! - the free part of the buffer. Segments beyond a hole take buffer space, and sequence numbers of the window as
//!   well, so that the window's end does not move while there is a hole;
//! - `rcv_ssthresh`: it grows by two segments for each that arrives, so that a sender in slow start is not
//!   held up, and a small buffer is not overrun by headers;
//! - the buffer's limit, which follows what the application reads in a round trip: twice that, and more
//!   where reading grows (`tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`).
//!
//! Linux counts its own overhead too, and since 6.6 measures how much of the buffer is payload: with the
//! emulator's frames two thirds (a buffer of 4 MB gave a window of 2.76 MB), which is taken here for all.

use scenario::{Profile, Tcp};
use units::{Bytes, Duration, Timestamp};

/// The window before any tuning, and the buffer that it comes from (the second value of `tcp_rmem`).
const FIRST_WINDOW: u64 = 65_535;
const FIRST_BUFFER: u64 = 131_072;
/// Segments that a first round trip is taken to bring.
const FIRST_ROUND: u64 = 10;
/// Segments by which `rcv_ssthresh` grows for each that arrives.
const GROWTH: u64 = 2;

/// In segments.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Payload that the buffer holds, and the most that it comes to.
    limit: u64,
    most: u64,
    /// Linux's `rcv_ssthresh`.
    ssthresh: u64,
    /// Whether what is held takes room of the buffer: not with ns-2, which has none.
    is_bounded: bool,
    autotuning: bool,
    /// Segments read in the round trip before, segments read when this one began, and the time of that.
    space: u64,
    read: u64,
    since: Timestamp,
}

impl ReceiveWindow {
    /// A window over a receive buffer of at most `buffer` bytes, with segments of `mss` bytes.
    pub(super) fn new(tcp: &Tcp, buffer: Bytes, mss: Bytes, now: Timestamp) -> Self {
        let segments = |bytes: u64| (bytes / mss.get().max(1)).max(2);
        let payload = |bytes: u64| segments(bytes / 3 * 2);
        let most = if tcp.autotuning { payload(buffer.get()) } else { segments(buffer.get()) };
        let (limit, ssthresh) = if tcp.autotuning {
            (payload(FIRST_BUFFER).min(most), segments(FIRST_WINDOW).min(most))
        } else {
            (most, most)
        };
        let is_bounded = tcp.profile == Profile::Linux;
        let (autotuning, space) = (tcp.autotuning, FIRST_ROUND.min(ssthresh));
        Self { limit, most, ssthresh, is_bounded, autotuning, space, read: 0, since: now }
    }

    /// The initial window in segments.
    pub(super) fn first_window(&self) -> u64 {
        self.ssthresh
    }

    fn free(&self, held: u64) -> u64 {
        if self.is_bounded { self.limit.saturating_sub(held) } else { self.limit }
    }

    /// The window, counted from the first missing segment, with `held` segments in the buffer.
    pub(super) fn size(&self, held: u64) -> u64 {
        self.free(held).min(self.ssthresh)
    }

    /// A segment has arrived. `beyond`: how far from the first missing segment to the last that is there;
    /// 0 where nothing is missing. Whether the window has grown.
    pub(super) fn arrived(&mut self, beyond: u64, held: u64) -> bool {
        if beyond > 0 && self.autotuning {
            self.grow(self.space, beyond);
        }
        let free = self.free(held);
        let grows = self.ssthresh < free;
        if grows {
            self.ssthresh = free.min(self.ssthresh + GROWTH);
        }
        grows
    }

    /// The application has read all below `read`.
    pub(super) fn tune(&mut self, now: Timestamp, rtt: Duration, read: u64, beyond: u64) {
        if now.since(self.since) < rtt {
            return;
        }
        let copied = read - self.read;
        if copied > self.space {
            self.grow(copied, beyond);
        }
        (self.read, self.since) = (read, now);
    }

    fn grow(&mut self, copied: u64, beyond: u64) {
        // Twice what was read, and more by twice the share by which reading grew: slow start doubles
        // before the new window is in use.
        let wanted = 2 * copied;
        let more = 2 * wanted.saturating_mul(copied - self.space) / self.space;
        self.space = copied;
        self.limit = self.limit.max((wanted + more + beyond).min(self.most));
    }

    /// Whether the window has grown so far beyond the advertised number of segments that the receiver should
    /// send an update (`tcp_cleanup_rbuf`).
    pub(super) fn is_much_more(&self, advertised: u64, held: u64) -> bool {
        2 * advertised <= self.limit && self.size(held) >= (2 * advertised).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Family;

    fn receive_window(buffer: u64) -> ReceiveWindow {
        let tcp = Tcp::of(Profile::Linux, Family::Ipv4);
        ReceiveWindow::new(&tcp, Bytes::new(buffer), Bytes::new(1448), Timestamp::ZERO)
    }

    /// 65 535 bytes at first; two segments more for each that arrives, up to two thirds of 128 KiB.
    #[test]
    fn receive_window_grows_two_segments_per_arrival() {
        let mut window = receive_window(6 << 20);
        assert_eq!((window.first_window(), window.size(0)), (45, 45));
        assert!(window.arrived(0, 0));
        assert_eq!(window.size(0), 47);
        for _ in 0..20 {
            window.arrived(0, 0);
        }
        assert_eq!(window.size(0), 60);
        assert!(!window.arrived(0, 0), "it grows no more");
    }

    /// Twice what was read in a round trip, and more by twice the share by which reading grew.
    #[test]
    fn receive_limit_follows_bytes_read_per_round_trip() {
        let mut window = receive_window(6 << 20);
        let (at, rtt) =
            (|ms| Timestamp::ZERO + Duration::from_millis(ms), Duration::from_millis(50));
        window.tune(at(40), rtt, 40, 0);
        assert_eq!(window.limit, 60, "less than a round trip has passed");
        window.tune(at(50), rtt, 40, 0);
        assert_eq!(window.limit, 2 * 40 + 2 * (2 * 40) * (40 - 10) / 10);
        window.tune(at(100), rtt, 70, 0);
        assert_eq!(window.limit, 560, "less was read");
        assert!(window.limit < window.most);
    }

    /// Segments beyond a hole take buffer space, so the window's end does not move on.
    #[test]
    fn held_segments_shrink_the_window() {
        let mut window = receive_window(6 << 20);
        window.limit = 500;
        window.ssthresh = 500;
        assert_eq!((window.size(0), window.size(200)), (500, 300));
        assert_eq!(window.size(600), 0);
    }

    #[test]
    fn receive_limit_is_at_most_two_thirds_of_the_buffer() {
        let mut window = receive_window(300 * 1448);
        let rtt = Duration::from_millis(50);
        window.tune(Timestamp::ZERO + rtt, rtt, 10_000, 0);
        assert_eq!(window.limit, 200);
    }
}
