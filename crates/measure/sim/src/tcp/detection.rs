// SPDX-License-Identifier: GPL-2.0-or-later
//! Which segments are lost.
//!
//! - By time (RACK, RFC 8985 section 6.2): a segment is lost when one sent later has arrived and it
//!   has had a round trip and the reordering window to arrive too. Retransmissions are found lost
//!   like any segment.
//! - By count: a segment is lost when one at least three above it has arrived, or more once reordering was
//!   seen; four with ns-2. That is
//!   the forward acknowledgement of Mathis and Mahdavi (1996), which Linux and ns-2's `TCP/Linux` had;
//!   RFC 6675 wants three arrivals above it, which differs only next to the newest hole. A
//!   retransmission is lost when a segment has arrived that was new when it was sent or later, or a
//!   retransmission sent more than four retransmissions later.
//!
//! Segments are sent for the first time in the order of their numbers, and sent again in the order of
//! time. So a cursor over the numbers and a queue of retransmissions, each of which only moves on, see
//! the oldest first, and the work for each segment is constant whatever the window.
//!
//! What reordering the path has, and so how long or how many arrivals detection waits, is in `reordering`.

use super::scoreboard::{Delivered, Scoreboard};
use scenario::Profile;
use std::collections::VecDeque;
use units::{Duration, Timestamp};

/// Arrivals above a segment that tell of its loss, in ns-2.35's `TCP/Linux`.
const NS2_DUPLICATES: u32 = 4;
/// Retransmissions that may arrive before one that was sent earlier.
const LATER_RETRANSMISSIONS: usize = 4;

#[derive(Debug)]
pub(super) enum LossDetector {
    Time(Rack),
    Count(DupackCounter),
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
#[derive(Debug)]
pub(super) struct DupackCounter {
    /// How far above a segment an arrival tells of its loss, where that is fixed.
    duplicates: Option<u32>,
    /// All below have arrived or are lost.
    cursor: u64,
    resent: VecDeque<Resent>,
}

/// A retransmission.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resent {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    /// The next new segment at that time.
    pub(super) next: u64,
}

/// What detection needs to know of the sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct DetectionInput {
    pub(super) now: Timestamp,
    pub(super) min_rtt: Option<Duration>,
    /// What a segment may take longer than a round trip, by time.
    pub(super) reordering_window: Duration,
    /// How far above a segment an arrival tells of its loss, by count.
    pub(super) reordering_degree: u32,
}

impl LossDetector {
    /// A segment was sent again.
    pub(super) fn resent(&mut self, resent: Resent) {
        match self {
            Self::Time(rack) => rack.resent.push_back((resent.number, resent.at)),
            Self::Count(counter) => counter.resent.push_back(resent),
        }
    }

    /// Marks lost segments after an acknowledgement. Returns the time until further segments count as lost.
    pub(super) fn detect(
        &mut self,
        board: &mut Scoreboard,
        delivered: &Delivered,
        input: DetectionInput,
    ) -> Option<Duration> {
        match self {
            Self::Time(rack) => {
                rack.update(delivered, input);
                rack.detect(board, input)
            }
            Self::Count(counter) => {
                counter.detect(board, input.reordering_degree);
                counter.detect_resent(board, delivered);
                None
            }
        }
    }

    /// What was taken for lost is not: it may be found lost again.
    pub(super) fn examine_again(&mut self, board: &Scoreboard) {
        match self {
            Self::Time(rack) => rack.cursor = board.una(),
            Self::Count(counter) => counter.cursor = board.una(),
        }
    }

    /// Everything was taken for lost at a timeout: nothing is left to be found among what was sent.
    pub(super) fn all_lost(&mut self, board: &Scoreboard) {
        match self {
            Self::Time(rack) => {
                rack.cursor = board.next();
                rack.resent.clear();
            }
            Self::Count(counter) => {
                counter.cursor = board.next();
                counter.resent.clear();
            }
        }
    }
}

impl Rack {
    fn update(&mut self, delivered: &Delivered, input: DetectionInput) {
        let Some((number, segment)) = delivered.newest else { return };
        let rtt = input.now.since(segment.sent);
        // An acknowledgement of what was sent again, with an older timestamp or sooner than any round trip, is for
        // the first copy.
        let is_too_soon = input.min_rtt.is_some_and(|min| rtt < min);
        if !segment.is_original() && (delivered.is_late || is_too_soon) {
            return;
        }
        self.rtt = rtt;
        self.newest = self.newest.max((segment.sent, number));
    }

    fn detect(&mut self, board: &mut Scoreboard, input: DetectionInput) -> Option<Duration> {
        let patience = self.rtt + input.reordering_window;
        // Lost if sent before the newest that arrived; how long it may still take. Of segments sent at
        // one time, first transmissions went in the order of their numbers, and a retransmission came before
        // or after them: its turn comes with something sent later.
        let newest = self.newest;
        let wait_for = |sent: Timestamp| (sent + patience).since(input.now);
        let mut wait = None;
        self.cursor = self.cursor.max(board.una());
        while self.cursor < board.next() {
            if board.is_first_flight(self.cursor) {
                let sent = board.get(self.cursor).sent;
                match ((sent, self.cursor) < newest).then(|| wait_for(sent)) {
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
                match (sent < newest.0).then(|| wait_for(sent)) {
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

impl DupackCounter {
    pub(super) fn new(profile: Profile) -> Self {
        let duplicates = match profile {
            Profile::Linux => None,
            Profile::Ns2 => Some(NS2_DUPLICATES),
        };
        Self { duplicates, cursor: 0, resent: VecDeque::new() }
    }

    fn detect(&mut self, board: &mut Scoreboard, degree: u32) {
        self.cursor = self.cursor.max(board.una());
        let above = u64::from(self.duplicates.unwrap_or(degree));
        while self.cursor < board.next() && self.cursor + above < board.sacked_end() {
            if board.is_first_flight(self.cursor) {
                board.lose(self.cursor);
            }
            self.cursor += 1;
        }
    }

    /// Those that were overtaken stand first: they are in the order in which they were sent.
    fn detect_resent(&mut self, board: &mut Scoreboard, delivered: &Delivered) {
        let arrived = delivered.newest.filter(|(_, segment)| !segment.is_original());
        let before = arrived.map_or(0, |(number, segment)| {
            self.resent.partition_point(|r| (r.at, r.number) < (segment.sent, number))
        });
        let mut overtaken = before.saturating_sub(LATER_RETRANSMISSIONS);
        while let Some(&Resent { number, at, next }) = self.resent.front() {
            let in_flight = board.is_resent(number, at);
            if in_flight && overtaken == 0 && board.sacked_end() <= next {
                break;
            }
            if in_flight {
                board.lose(number);
            }
            overtaken = overtaken.saturating_sub(1);
            self.resent.pop_front();
        }
    }
}
