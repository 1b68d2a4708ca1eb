// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a receiver gets no more, as far as its own socket shows it. The sender knows better; this is for senders that do not tell.
//!
//! In this order, for the time between two looks:
//!
//! | cause | the receiving socket |
//! |---|---|
//! | congestion | got segments out of order lately: some were lost before them |
//! | receiver | got almost as much within a round trip as the window that it offers |
//! | start-up | gets much more than it ever did before, or did a few round trips ago |
//! | other hop | none of these: the sender has no more, or cannot send faster |
//!
//! Limits: a path that drops nothing and is merely slow looks like a slow sender.

use crate::Cause;
use std::time::Duration;

/// How long a loss explains what comes: at least this, and at least [`LOSS_ROUND_TRIPS`].
const LOSS: Duration = Duration::from_millis(500);
/// The same in round trips: a congestion control recovers for about as long.
const LOSS_ROUND_TRIPS: u32 = 10;
/// A window of which this share comes within a round trip is full.
const FULL: f64 = 0.75;
/// A rate that is higher than ever before by this factor grows.
const GROWTH: f64 = 1.25;
/// For how long it then does: at least this, and at least [`GROWTH_ROUND_TRIPS`].
const GROWING: Duration = Duration::from_millis(200);
/// The same in round trips; slow start doubles the rate in each.
const GROWTH_ROUND_TRIPS: f64 = 2.5;

/// A receiver at one moment, as `TCP_INFO` has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiverSample {
    /// The moment, counted from any fixed one.
    pub at: Duration,
    /// Bytes received so far.
    pub received_bytes: u64,
    /// Segments that came out of order so far.
    pub out_of_order_segments: u32,
    /// The round trip; zero if it is not known.
    pub rtt: Duration,
    /// The window that it offers while all that comes is read, in bytes.
    pub window_bytes: u64,
}

/// What has come on a connection.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    last: Option<ReceiverSample>,
    /// The highest rate between two looks, in bytes a second.
    peak: f64,
    grown_at: Option<Duration>,
    lost_at: Option<Duration>,
}

impl Arrivals {
    /// Looks again. The cause for the time since the last look, if the receiver waited then.
    pub fn look(&mut self, now: ReceiverSample) -> Cause {
        let Some(last) = self.last.replace(now) else { return Cause::OtherHop };
        let passed = now.at.saturating_sub(last.at).as_secs_f64();
        if passed <= 0.0 {
            return Cause::OtherHop;
        }
        let rate = now.received_bytes.saturating_sub(last.received_bytes) as f64 / passed;
        if now.out_of_order_segments > last.out_of_order_segments {
            self.lost_at = Some(now.at);
        }
        if rate > self.peak * GROWTH {
            (self.peak, self.grown_at) = (rate, Some(now.at));
        }
        let within = |since: Option<Duration>, time: Duration| {
            since.is_some_and(|since| now.at.saturating_sub(since) < time)
        };
        let rtt = now.rtt.as_secs_f64();
        if within(self.lost_at, LOSS.max(now.rtt * LOSS_ROUND_TRIPS)) {
            Cause::Congestion
        } else if rtt > 0.0 && rate * rtt >= FULL * now.window_bytes as f64 {
            Cause::Receiver
        } else if within(self.grown_at, GROWING.max(now.rtt.mul_f64(GROWTH_ROUND_TRIPS))) {
            Cause::StartUp
        } else {
            Cause::OtherHop
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms at a connection of 40 ms round trip: bytes, out-of-order segments and the window at each.
    fn causes(looks: &[(u64, u32, u64)]) -> Vec<Cause> {
        let mut arrivals = Arrivals::default();
        let looks = looks.iter().enumerate();
        let causes = looks.map(|(n, &(received_bytes, out_of_order_segments, window_bytes))| {
            arrivals.look(ReceiverSample {
                at: Duration::from_millis(100 * n as u64),
                received_bytes,
                out_of_order_segments,
                rtt: Duration::from_millis(40),
                window_bytes,
            })
        });
        causes.skip(1).collect()
    }

    #[test]
    fn doubling_rate_is_start_up_and_a_steady_one_is_the_senders() {
        let looks = [0, 10_000, 40_000, 140_000, 240_000, 340_000, 440_000, 540_000];
        let found = causes(&looks.map(|bytes| (bytes, 0, 1 << 20)));
        assert_eq!(found[..3], [Cause::StartUp; 3]);
        assert_eq!(found[5..], [Cause::OtherHop; 2]);
    }

    #[test]
    fn full_window_is_the_receivers() {
        // 100 KB in 100 ms are 40 KB in a round trip.
        let looks: Vec<_> = (0..10).map(|n| (n * 100_000, 0, 50_000)).collect();
        assert!(causes(&looks).iter().all(|cause| *cause == Cause::Receiver));
        let wide: Vec<_> = looks.iter().map(|(bytes, ..)| (*bytes, 0, 60_000)).collect();
        assert_eq!(causes(&wide).last(), Some(&Cause::OtherHop));
    }

    #[test]
    fn loss_explains_some_round_trips() {
        let looks: Vec<_> = (0..12).map(|n| (n * 100_000, u32::from(n >= 5), 1 << 20)).collect();
        let found = causes(&looks);
        assert_eq!(found[3], Cause::OtherHop);
        assert_eq!(found[4..9], [Cause::Congestion; 5]);
        assert_eq!(found[9], Cause::OtherHop);
    }

    #[test]
    fn nonsense_of_a_kernel_is_no_cause() {
        let mut arrivals = Arrivals::default();
        let sample = ReceiverSample { received_bytes: 9, ..ReceiverSample::default() };
        assert_eq!(arrivals.look(sample), Cause::OtherHop);
        assert_eq!(arrivals.look(ReceiverSample::default()), Cause::OtherHop);
    }
}
