// SPDX-License-Identifier: GPL-2.0-or-later
//! A recovery or a timeout, as far as it may turn out to be needless: what was in force before, and which
//! retransmissions have not been proved needless yet (Linux's `undo_marker`, `undo_retrans`, `prior_ssthresh`,
//! `retrans_stamp`).

use crate::tcp::{delivery_rate::before, scoreboard::Scoreboard};
use congestion::Decision;
use units::Timestamp;

/// A recovery or a timeout, until the next one.
#[derive(Debug, Default)]
pub(super) struct Episode {
    /// Whether the profile takes reductions back.
    undoes: bool,
    /// The first unacknowledged segment when it began; none where there is nothing to take back.
    pub(super) began_at: Option<u64>,
    /// Retransmissions that were not reported as duplicates; none before the first one.
    pub(super) needed: Option<u32>,
    /// The window before it, and ssthresh: none if that reduction stands whatever becomes of the retransmissions.
    pub(super) cwnd: u32,
    pub(super) ssthresh: Option<u32>,
    /// The timestamp of its first retransmission (`retrans_stamp`).
    pub(super) first_resent: Option<u32>,
    /// Whether F-RTO may still find the timeout spurious.
    pub(super) tests_timeout: bool,
    /// Timeouts since the first unacknowledged segment moved.
    pub(super) timeouts: u32,
    /// Lost segments have to wait for the next acknowledgement.
    pub(super) new_data_only: bool,
}

/// Timestamp of a segment that is sent now.
pub(super) fn timestamp(now: Timestamp) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl Episode {
    pub(super) fn new(undoes: bool) -> Self {
        Self { undoes, ..Self::default() }
    }

    /// A recovery or a timeout begins. `decision`: what was in force, where that can be restored.
    /// `probes`: loss probes that were sent again and may be reported as duplicates.
    pub(super) fn begin(&mut self, board: &Scoreboard, probes: u32, decision: Option<&Decision>) {
        if !self.undoes {
            return;
        }
        self.began_at = Some(board.una());
        self.needed = Some(board.resent_in_flight() + probes).filter(|resent| *resent > 0);
        // Half and a quarter of the window, as with any recovery under way (`tcp_current_ssthresh`).
        self.ssthresh = decision.map(|d| d.ssthresh.max(d.cwnd / 2 + d.cwnd / 4));
        self.cwnd = decision.map_or(0, |d| d.cwnd);
        if !board.awaits_any_retransmission() {
            self.first_resent = None;
        }
    }

    /// A mark was answered, and that reduction stands. `in_recovery`: it is one reduction with the recovery's.
    pub(super) fn marked(&mut self, in_recovery: bool) {
        self.ssthresh = None;
        if !in_recovery {
            self.began_at = None;
        }
    }

    /// A timeout has passed. `is_first`: no recovery and no other timeout is under way.
    pub(super) fn timed_out(&mut self, is_first: bool) {
        self.tests_timeout = self.undoes && (is_first || self.timeouts > 0);
        self.timeouts += 1;
    }

    /// A lost segment is sent again.
    pub(super) fn sent_again(&mut self, now: Timestamp) {
        if self.undoes {
            self.needed = Some(self.needed.unwrap_or(0) + 1);
            self.first_resent.get_or_insert(timestamp(now));
        }
    }

    /// Whether what is acknowledged arrived before any retransmission of the episode. Without an echo, the
    /// acknowledgement left before there was one.
    pub(super) fn is_delayed(&self, echo: Option<u32>) -> bool {
        match (self.first_resent, echo) {
            (Some(first), Some(echo)) => before(echo, first),
            _ => true,
        }
    }

    /// Whether there is something to take back, and an acknowledgement with that echo shows that it should be.
    pub(super) fn is_needless(&self, echo: Option<u32>) -> bool {
        self.began_at.is_some() && (self.needed == Some(0) || self.is_delayed(echo))
    }

    /// Whether there is something to take back, and each of its retransmissions was a duplicate.
    pub(super) fn has_only_duplicates(&self) -> bool {
        self.began_at.is_some() && self.needed == Some(0)
    }
}
