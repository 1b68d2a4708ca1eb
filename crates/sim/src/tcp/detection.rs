// SPDX-License-Identifier: GPL-2.0-or-later
//! Which segments are lost.
//!
//! - By time (RACK, RFC 8985 section 6.2): a segment is lost when one sent later has arrived and it
//!   has had a round trip and the reordering window to arrive too. Retransmissions are found lost
//!   like any segment.
//! - By count: a segment is lost when one at least three above it has arrived. That is the forward
//!   acknowledgement of Mathis and Mahdavi (1996), which Linux and ns-2's `TCP/Linux` had; RFC 6675
//!   wants three arrivals above it, which differs only next to the newest hole. A lost retransmission
//!   is left to the timeout.
//!
//! Segments are sent for the first time in the order of their numbers, and sent again in the order of
//! time. So a cursor over the numbers and a queue of retransmissions, each of which only moves on, see
//! the oldest first, and the work for each segment is constant whatever the window.
//!
//! Lanes don't reorder, so reordering is never seen: the reordering window is a quarter of the smallest
//! RTT, and none once losses are certain (in recovery, or from three arrivals above a hole on).

use super::scoreboard::{Delivered, Scoreboard};
use std::collections::VecDeque;
use units::{Duration, Timestamp};

/// Arrivals above a segment that tell of its loss (RFC 5681, `DupThresh`).
pub(super) const DUPLICATES: u32 = 3;

#[derive(Debug)]
pub(super) enum Detection {
    Time(Rack),
    Count(Counter),
}

/// What detection by time knows.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// When the segment was sent that was sent last of those delivered, and which it was.
    newest: (Timestamp, u64),
    rtt: Duration,
    /// All below have arrived, are lost, or were sent again.
    cursor: u64,
    resent: VecDeque<(u64, Timestamp)>,
}

/// What detection by count knows.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// All below have arrived or are lost.
    cursor: u64,
}

/// What detection needs to know of the sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clues {
    pub(super) now: Timestamp,
    pub(super) min_rtt: Option<Duration>,
    pub(super) smoothed_rtt: Option<Duration>,
    /// Whether the window is being reduced already.
    pub(super) in_recovery: bool,
}

impl Detection {
    /// A segment was sent again.
    pub(super) fn resent(&mut self, number: u64, at: Timestamp) {
        if let Self::Time(rack) = self {
            rack.resent.push_back((number, at));
        }
    }

    /// Marks what is lost, after an acknowledgement. How long until more would be.
    pub(super) fn detect(
        &mut self,
        board: &mut Scoreboard,
        delivered: &Delivered,
        clues: Clues,
    ) -> Option<Duration> {
        match self {
            Self::Time(rack) => {
                rack.update(delivered, clues);
                rack.detect(board, clues)
            }
            Self::Count(counter) => {
                counter.detect(board);
                None
            }
        }
    }

    /// Everything was taken for lost at a timeout: nothing is left to be found among what was sent.
    pub(super) fn all_lost(&mut self, board: &Scoreboard) {
        match self {
            Self::Time(rack) => {
                rack.cursor = board.next();
                rack.resent.clear();
            }
            Self::Count(counter) => counter.cursor = board.next(),
        }
    }
}

impl Rack {
    fn update(&mut self, delivered: &Delivered, clues: Clues) {
        let Some((number, segment)) = delivered.newest else { return };
        let rtt = clues.now.since(segment.sent);
        // An acknowledgement of what was sent again, sooner than any round trip, is for the first copy.
        if !segment.is_original() && clues.min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.rtt = rtt;
        self.newest = self.newest.max((segment.sent, number));
    }

    fn detect(&mut self, board: &mut Scoreboard, clues: Clues) -> Option<Duration> {
        let patience = self.rtt + reordering_window(board, clues);
        // Lost if sent before the newest that arrived; how long it may still take.
        let newest = self.newest;
        let left = |number: u64, sent: Timestamp| {
            ((sent, number) < newest).then(|| (sent + patience).since(clues.now))
        };
        let mut wait = None;
        self.cursor = self.cursor.max(board.una());
        while self.cursor < board.next() {
            if board.is_first_flight(self.cursor) {
                match left(self.cursor, board.get(self.cursor).sent) {
                    Some(Duration::ZERO) => board.lose(self.cursor),
                    other => {
                        wait = other;
                        break;
                    }
                }
            }
            self.cursor += 1;
        }
        while let Some(&(number, sent)) = self.resent.front() {
            if board.is_resent(number, sent) {
                match left(number, sent) {
                    Some(Duration::ZERO) => board.lose(number),
                    other => {
                        wait = wait.max(other);
                        break;
                    }
                }
            }
            self.resent.pop_front();
        }
        wait
    }
}

/// RFC 8985 section 6.2, step 4, without any reordering seen.
fn reordering_window(board: &Scoreboard, clues: Clues) -> Duration {
    if clues.in_recovery || board.sacked() >= DUPLICATES {
        return Duration::ZERO;
    }
    let quarter = clues.min_rtt.map_or(0, Duration::as_nanos) / 4;
    Duration::from_nanos(quarter).min(clues.smoothed_rtt.unwrap_or_default())
}

impl Counter {
    fn detect(&mut self, board: &mut Scoreboard) {
        self.cursor = self.cursor.max(board.una());
        while self.cursor < board.next()
            && self.cursor + u64::from(DUPLICATES) < board.sacked_end()
        {
            if board.is_first_flight(self.cursor) {
                board.lose(self.cursor);
            }
            self.cursor += 1;
        }
    }
}
