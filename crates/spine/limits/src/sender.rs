// SPDX-License-Identifier: GPL-2.0-or-later
//! What held a kernel's sender back between two looks at its socket: the kernel's own clocks, and for the time that they leave,
//! the state at the later look.

use crate::{Limit, LimitTimes, SenderState};
use std::time::Duration;

/// A sender that is nearer than this part of its window to being full waits for acknowledgements, and not for its pace: what
/// lies between is a packet that waits to grow (`tcp_tso_should_defer`).
const NEARLY_FULL: u32 = 8;

/// A sender at one moment, as `TCP_INFO` has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderSample {
    /// The moment, counted from any fixed one.
    pub at: Duration,
    /// For how long there was something unacknowledged since the connection began.
    pub busy: Duration,
    /// For how much of that the peer had no room.
    pub rwnd_limited: Duration,
    /// For how much of that sending has waited for room in the send buffer.
    pub sndbuf_limited: Duration,
    /// Segments under way.
    pub in_flight_segments: u32,
    /// The congestion window in segments.
    pub cwnd_segments: u32,
    /// The slow-start threshold in segments; `None` before it was set.
    pub ssthresh_segments: Option<u32>,
    /// Bytes in the send buffer that were not sent yet.
    pub unsent_bytes: u64,
    /// The size of a segment in bytes.
    pub segment_bytes: u64,
    /// Whether losses are being repaired.
    pub recovers: bool,
    /// Whether the application waits for room in the send buffer.
    pub waits_for_room: bool,
}

/// The time between two looks, by cause.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderInterval {
    /// The time in which nothing was to be sent or acknowledged.
    pub idle: Duration,
    /// The rest.
    pub busy: LimitTimes,
    /// How long the rest is.
    pub busy_for: Duration,
}

impl SenderSample {
    /// The time since an earlier look at the same sender.
    pub fn since(&self, last: &Self) -> SenderInterval {
        let passed = self.at.saturating_sub(last.at);
        let busy_for = self.busy.saturating_sub(last.busy).min(passed);
        let mut busy = LimitTimes::default();
        if busy_for.is_zero() {
            return SenderInterval { idle: passed, busy, busy_for };
        }
        let of_receiver = self.rwnd_limited.saturating_sub(last.rwnd_limited).min(busy_for);
        let of_buffer = self
            .sndbuf_limited
            .saturating_sub(last.sndbuf_limited)
            .min(busy_for.saturating_sub(of_receiver));
        let rest = busy_for.saturating_sub(of_receiver + of_buffer);
        let state = self.state();
        for (limit, time) in [
            (SenderState { receiver_is_full: true, ..state }.limit(), of_receiver),
            (Limit::SendBuffer, of_buffer),
            (state.limit(), rest),
        ] {
            busy.add(limit, time);
        }
        SenderInterval { idle: passed.saturating_sub(busy_for), busy, busy_for }
    }

    /// The state that decides about the time for which the kernel has no clock.
    fn state(&self) -> SenderState {
        let nearly = self.in_flight_segments.saturating_add(self.cwnd_segments / NEARLY_FULL);
        let is_full = nearly >= self.cwnd_segments;
        // A part of a segment waits for the application to complete it, while another one is under way (Nagle).
        let has_unsent = self.unsent_bytes > 0 && self.unsent_bytes >= self.segment_bytes;
        SenderState {
            // The kernel's own clock misses what was sent before the application found the buffer full.
            buffer_is_full: !has_unsent && !is_full && self.waits_for_room,
            recovers: self.recovers,
            has_unsent: has_unsent || self.waits_for_room,
            is_starting: self
                .ssthresh_segments
                .is_none_or(|ssthresh| self.cwnd_segments < ssthresh),
            waits_for_pace: !is_full,
            receiver_is_full: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn kernel_clocks_come_before_the_state() {
        let last = SenderSample::default();
        let now = SenderSample {
            at: ms(1000),
            busy: ms(900),
            rwnd_limited: ms(300),
            sndbuf_limited: ms(100),
            in_flight_segments: 10,
            cwnd_segments: 10,
            ssthresh_segments: Some(5),
            unsent_bytes: 9000,
            segment_bytes: 1448,
            ..last
        };
        let interval = now.since(&last);
        assert_eq!((interval.idle, interval.busy_for), (ms(100), ms(900)));
        let of = |limit| interval.busy.of(limit);
        assert_eq!(
            [Limit::ReceiveWindow, Limit::SendBuffer, Limit::Cwnd].map(of),
            [ms(300), ms(100), ms(500)]
        );
        let in_recovery = SenderSample { recovers: true, ..now };
        let interval = in_recovery.since(&last);
        assert_eq!(interval.busy.of(Limit::WindowInRecovery), ms(300));
        assert_eq!(interval.busy.of(Limit::Recovery), ms(500));
    }

    #[test]
    fn sender_without_work_is_idle() {
        let last = SenderSample { at: ms(10), busy: ms(7), ..SenderSample::default() };
        let now = SenderSample { at: ms(110), ..last };
        let interval = now.since(&last);
        assert_eq!((interval.idle, interval.busy_for), (ms(100), ms(0)));
        assert_eq!(interval.busy, LimitTimes::default());
    }

    #[test]
    fn clocks_of_a_kernel_never_exceed_the_time_that_passed() {
        let last = SenderSample::default();
        let now = SenderSample {
            at: ms(100),
            busy: ms(500),
            rwnd_limited: ms(400),
            sndbuf_limited: ms(400),
            ..last
        };
        let interval = now.since(&last);
        assert_eq!((interval.idle, interval.busy_for), (ms(0), ms(100)));
        assert_eq!(interval.busy.of(Limit::ReceiveWindow), ms(100));
    }
}
