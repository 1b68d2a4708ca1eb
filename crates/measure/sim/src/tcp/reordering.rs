// SPDX-License-Identifier: GPL-2.0-or-later
//! What a sender has learnt about reordering on its path: RFC 8985 section 6.2, as in Linux 6.x.
//!
//! Reordering is seen when a segment that was sent once only arrives after one above it
//! (`tcp_check_sack_reordering`). Two things follow:
//!
//! - The reordering window of RACK. It is a quarter of the smallest RTT for each step, at most the smoothed RTT.
//!   Before any reordering is seen it is zero once losses are certain: in recovery, or from `degree` arrivals
//!   above a hole. Each round trip with a duplicate report (DSACK) adds a step; the steps
//!   are forgotten after 16 recoveries without one (`tcp_rack_update_reo_wnd`).
//! - The degree, in segments (`tp->reordering`): how far above a hole segments arrived. Beyond 3 the window also
//!   grows with what is acknowledged selectively, and detection by count waits for that many arrivals.

use super::delivery_rate::before;
use units::Duration;

/// The degree before any reordering is seen (`tcp_reordering`; RFC 5681, `DupThresh`), and its maximum
/// (`tcp_max_reordering`).
pub(super) const FIRST_DEGREE: u32 = 3;
const MAX_DEGREE: u32 = 300;
/// The maximum number of steps of the reordering window.
const MAX_STEPS: u32 = 255;
/// Recoveries without a duplicate report after which the steps are forgotten (`TCP_RACK_RECOVERY_THRESH`).
const KEPT_RECOVERIES: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Reordering {
    degree: u32,
    /// How often it was seen (`tcpi_reord_seen`).
    seen: u64,
    steps: u32,
    /// Further recoveries for which the steps are kept.
    kept: u32,
    /// A duplicate was reported in this round trip.
    duplicate: bool,
    /// Segments delivered when a step was added last; wraps.
    stepped_at: u32,
}

/// What the reordering window depends on in addition.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathTimes {
    pub(super) min_rtt: Option<Duration>,
    pub(super) smoothed_rtt: Option<Duration>,
}

impl Reordering {
    pub(super) fn new() -> Self {
        Self { degree: FIRST_DEGREE, seen: 0, steps: 1, kept: 0, duplicate: false, stepped_at: 0 }
    }

    /// How far above a hole segments arrive that overtook it.
    pub(super) fn degree(&self) -> u32 {
        self.degree
    }

    /// Whether the degree is more than any path without reordering has.
    pub(super) fn is_high(&self) -> bool {
        self.degree > FIRST_DEGREE
    }

    /// How often it was seen.
    #[cfg(test)]
    pub(super) fn times_seen(&self) -> u64 {
        self.seen
    }

    /// A segment that was sent once only has arrived; `overtaken_by` segments, counted up to the highest that is there.
    pub(super) fn late_segment(&mut self, overtaken_by: u64) {
        if overtaken_by == 0 {
            return;
        }
        let degree = u32::try_from(overtaken_by).unwrap_or(u32::MAX).min(MAX_DEGREE);
        self.degree = self.degree.max(degree);
        self.seen += 1;
    }

    /// The receiver has reported a retransmission as a duplicate. Before reordering is seen, that has other causes.
    pub(super) fn duplicate_reported(&mut self) {
        self.duplicate |= self.seen > 0;
    }

    /// An acknowledgement has delivered a segment that was sent when `prior_delivered` segments had been.
    pub(super) fn delivered(&mut self, prior_delivered: u32, delivered: u32) {
        // One step for each round trip.
        if before(prior_delivered, self.stepped_at) {
            self.duplicate = false;
        }
        if std::mem::take(&mut self.duplicate) {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.stepped_at = delivered;
            self.kept = KEPT_RECOVERIES;
        } else if self.kept == 0 {
            self.steps = 1;
        }
    }

    /// A recovery has ended that was needed as far as is known.
    pub(super) fn recovery_ended(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }

    /// Duplicate reports have proved a recovery needless.
    pub(super) fn recovery_undone(&mut self) {
        self.kept = (self.kept + 1).min(KEPT_RECOVERIES);
    }

    /// A timeout came although `sacked` segments had arrived above a hole: the degree was too high.
    pub(super) fn timed_out(&mut self, sacked: u32) {
        if sacked >= FIRST_DEGREE {
            self.degree = self.degree.min(FIRST_DEGREE);
        }
    }

    /// How much longer than a round trip a segment may take before it is lost. `is_certain`: losses are being
    /// repaired already. `sacked`: segments that have arrived above a hole.
    pub(super) fn window(&self, times: PathTimes, is_certain: bool, sacked: u32) -> Duration {
        if self.seen == 0 && (is_certain || sacked >= self.degree) {
            return Duration::ZERO;
        }
        let quarter = times.min_rtt.map_or(0, Duration::as_nanos) / 4;
        let window = Duration::from_nanos(quarter).saturating_mul(self.steps.into());
        window.min(times.smoothed_rtt.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: PathTimes = PathTimes {
        min_rtt: Some(Duration::from_millis(40)),
        smoothed_rtt: Some(Duration::from_millis(60)),
    };

    fn window_ms(reordering: &Reordering) -> u64 {
        reordering.window(TIMES, true, 0).as_nanos() / 1_000_000
    }

    #[test]
    fn window_is_zero_in_recovery_until_reordering_is_seen() {
        let mut reordering = Reordering::new();
        assert_eq!(window_ms(&reordering), 0);
        assert_eq!(reordering.window(TIMES, false, 3), Duration::ZERO);
        assert_eq!(reordering.window(TIMES, false, 2), Duration::from_millis(10));
        reordering.late_segment(2);
        assert_eq!((window_ms(&reordering), reordering.degree()), (10, 3));
    }

    #[test]
    fn degree_is_bounded_and_falls_after_a_timeout() {
        let mut reordering = Reordering::new();
        reordering.late_segment(0);
        assert_eq!((reordering.degree(), reordering.times_seen()), (3, 0));
        reordering.late_segment(12);
        reordering.late_segment(7);
        assert_eq!((reordering.degree(), reordering.times_seen()), (12, 2));
        reordering.late_segment(1000);
        assert_eq!(reordering.degree(), 300);
        reordering.timed_out(2);
        assert_eq!(reordering.degree(), 300);
        reordering.timed_out(3);
        assert_eq!(reordering.degree(), 3);
    }

    #[test]
    fn each_round_trip_with_a_duplicate_adds_a_step() {
        let mut reordering = Reordering::new();
        reordering.duplicate_reported();
        reordering.late_segment(1);
        reordering.delivered(5, 15);
        assert_eq!(window_ms(&reordering), 10, "it was reported before reordering was seen");
        reordering.duplicate_reported();
        reordering.delivered(10, 20);
        assert_eq!(window_ms(&reordering), 20);
        reordering.duplicate_reported();
        reordering.delivered(19, 29);
        assert_eq!(window_ms(&reordering), 20, "sent before the last step");
        for round in 2..9 {
            reordering.duplicate_reported();
            reordering.delivered(round * 10, round * 10 + 10);
        }
        assert_eq!(window_ms(&reordering), 60, "no more than the smoothed RTT");
    }

    #[test]
    fn steps_are_forgotten_after_16_recoveries() {
        let mut reordering = Reordering::new();
        reordering.late_segment(1);
        reordering.duplicate_reported();
        reordering.delivered(10, 20);
        for _ in 0..15 {
            reordering.recovery_ended();
        }
        reordering.delivered(30, 40);
        assert_eq!(window_ms(&reordering), 20);
        reordering.recovery_undone();
        reordering.recovery_ended();
        reordering.delivered(40, 50);
        assert_eq!(window_ms(&reordering), 20);
        reordering.recovery_ended();
        reordering.delivered(50, 60);
        assert_eq!(window_ms(&reordering), 10);
    }
}
