// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds the sender back, and for how long it has: the same causes as Linux's chronographs (`tcp_chrono_start`), and
//! those that it does not tell apart.

use super::state::{Phase, Sender};
use record::{Limit, LimitTimes, SenderState};
use units::Timestamp;

/// How long each cause has held the sender back, and which one does now.
#[derive(Debug, Default)]
pub(in crate::tcp) struct LimitClock {
    times: LimitTimes,
    /// And since when; none before the first segment and after the last one.
    now: Option<(Limit, Timestamp)>,
}

impl LimitClock {
    /// Including the cause that goes on.
    pub(in crate::tcp) fn until(&self, now: Timestamp) -> LimitTimes {
        let mut times = self.times;
        if let Some((limit, since)) = self.now {
            times.add_nanos(limit, now.since(since).as_nanos());
        }
        times
    }
}

impl Sender {
    /// What could be sent has been: notes what stopped it.
    pub(super) fn note_limit(&mut self, now: Timestamp) {
        let limit = self.limit(now);
        if self.limits.now.map(|(limit, _)| limit) != limit {
            self.limits.times = self.limits.until(now);
            self.limits.now = limit.map(|limit| (limit, now));
        }
    }

    fn limit(&self, now: Timestamp) -> Option<Limit> {
        if self.is_done() || self.content.available == 0 {
            return None;
        }
        let next = self.board.next();
        let cwnd_left = u64::from(self.decision.cwnd.saturating_sub(self.board.in_flight()));
        let (receiver_left, unsent) =
            (self.allowed.saturating_sub(next), self.written.saturating_sub(next));
        let waits_for_pace = self.is_paced_out(now);
        // Of a GSO packet that waits to grow, the smaller window is the cause.
        let could_grow = if waits_for_pace { 1 } else { cwnd_left.min(unsent) };
        let state = SenderState {
            receiver_is_full: unsent > 0 && cwnd_left > 0 && receiver_left < could_grow,
            buffer_is_full: unsent == 0
                && cwnd_left > 0
                && self.buffer_full
                && self.content.available > self.written,
            recovers: matches!(self.phase, Phase::Recovery(_) | Phase::Timeout(_)),
            has_unsent: unsent > 0 || self.buffer_full && self.content.available > self.written,
            is_starting: self.decision.cwnd < self.decision.ssthresh,
            waits_for_pace: waits_for_pace && cwnd_left > 0,
        };
        Some(state.limit())
    }
}
