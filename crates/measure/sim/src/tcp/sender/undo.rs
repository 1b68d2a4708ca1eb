// SPDX-License-Identifier: GPL-2.0-or-later
//! Reductions of the window that turn out to be needless, and what takes them back, as in Linux 6.x.
//!
//! A recovery or a timeout begins an [`Episode`](super::episode::Episode). It was needless if
//!
//! | evidence | source | Linux |
//! |---|---|---|
//! | the receiver reported each of its retransmissions as a duplicate | RFC 2883 | `tcp_try_undo_dsack` |
//! | the segment that fills the hole has a timestamp older than its first retransmission | RFC 3522 (Eifel) | `tcp_packet_delayed` |
//! | after a timeout: a segment that was sent once only has arrived | RFC 5682 (F-RTO) | `tcp_process_loss` |
//!
//! Then the window and ssthresh are at least what they were before, and the algorithm hears of it
//! (`tcp_undo_cwnd_reduction`). To find out, F-RTO sends new data after a timeout before it repairs what else
//! seems lost.
//!
//! Timestamps are in milliseconds, as Linux has them: on a shorter path Eifel detection may miss what it would find.
//! ns-2 has none of this.

use super::state::{Phase, Sender};
use crate::tcp::scoreboard::Delivered;
use congestion::{Ack, Event};
use units::Timestamp;

/// Whether detection looks for losses after an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Detect,
    /// What seems lost is probably late.
    Wait,
}

impl Sender {
    /// Whether it compares echoed timestamps with that of a retransmission.
    pub(in crate::tcp) fn compares_timestamps(&self) -> bool {
        self.episode.first_resent.is_some()
    }

    /// Whether such an echo is of a segment that was sent before a retransmission.
    pub(super) fn is_late(&self, echo: Option<u32>) -> bool {
        self.compares_timestamps() && self.episode.is_delayed(echo)
    }

    /// The receiver reports a segment as a duplicate, before the acknowledgement does anything else
    /// (`tcp_check_dsack`). Once more are reported than were sent again, the network makes them, and none is believed.
    pub(super) fn note_duplicate(&mut self, number: u64, delivered: &mut Delivered) {
        self.counts.duplicates += 1;
        if self.counts.duplicates > self.counts.retransmits {
            return;
        }
        // It was delivered, if in vain.
        delivered.segments += 1;
        let of_probe = self.probe.is_some_and(|probe| probe.next == number + 1);
        if of_probe {
            self.probe = None;
        } else {
            self.reordering.duplicate_reported();
        }
        let in_window = number >= self.board.una();
        let was_resent = !in_window || !self.board.get(number).is_original();
        if was_resent && self.episode.began_at.is_some_and(|began| number >= began) {
            self.episode.needed = self.episode.needed.map(|needed| needed.saturating_sub(1));
        }
        if in_window && was_resent && self.board.is_sacked(number) {
            delivered.late_sacked = Some(number);
        }
    }

    /// Learns from segments that others had overtaken (`tcp_check_sack_reordering`).
    pub(super) fn learn_reordering(&mut self, delivered: &Delivered) {
        let highest = self.board.sacked_end().max(self.board.una());
        // After a timeout, too much is known to be lost for that.
        let knows = !matches!(self.phase, Phase::Timeout(_)) || self.episode.began_at.is_some();
        let sacked = delivered.late_sacked.filter(|_| knows);
        for late in sacked.into_iter().chain(delivered.late_acknowledged) {
            self.reordering.late_segment(highest.saturating_sub(late));
        }
    }

    /// What an acknowledgement says of the present episode or the last one (`tcp_fastretrans_alert`). `prior_una`: the
    /// first unacknowledged segment before it.
    pub(super) fn judge_episode(
        &mut self,
        now: Timestamp,
        delivered: &Delivered,
        echo: Option<u32>,
        prior_una: u64,
    ) -> Verdict {
        if delivered.advanced {
            self.episode.timeouts = 0;
        }
        match self.phase {
            Phase::Open => {
                if !self.board.awaits_any_retransmission() {
                    self.episode.first_resent = None;
                }
                if self.episode.has_only_duplicates() {
                    self.reordering.recovery_undone();
                    self.undo(now, false);
                }
            }
            Phase::Cwr(_) => {}
            Phase::Recovery(end) if self.board.una() >= end => self.judge_whole(now, echo),
            Phase::Recovery(_) => {
                let is_late = delivered.advanced
                    && self.episode.began_at.is_some()
                    && self.episode.is_delayed(echo);
                if is_late {
                    let highest = self.board.sacked_end().max(self.board.una());
                    self.reordering.late_segment(highest - prior_una);
                    // As long as retransmissions are in flight, reports of duplicates may follow.
                    if self.board.resent_in_flight() > 0 {
                        self.episode.new_data_only = true;
                        return Verdict::Wait;
                    }
                    if !self.board.awaits_any_retransmission() {
                        self.episode.first_resent = None;
                    }
                    self.undo(now, true);
                } else if self.episode.has_only_duplicates() {
                    self.reordering.recovery_undone();
                    self.undo(now, false);
                }
            }
            Phase::Timeout(end) => self.judge_timeout(now, delivered, echo, end),
        }
        Verdict::Detect
    }

    /// All is acknowledged that was sent before the episode (`tcp_try_undo_recovery`).
    fn judge_whole(&mut self, now: Timestamp, echo: Option<u32>) {
        if self.episode.is_needless(echo) {
            self.undo(now, false);
        } else {
            self.reordering.recovery_ended();
        }
    }

    /// Eifel detection and F-RTO after a timeout (`tcp_process_loss`); steps as in RFC 5682 section 3.1.
    fn judge_timeout(
        &mut self,
        now: Timestamp,
        delivered: &Delivered,
        echo: Option<u32>,
        end: u64,
    ) {
        let tests = self.episode.tests_timeout;
        // Step 3.b: not all was lost.
        let is_spurious = tests && delivered.lowest_original.is_some_and(|number| number < end);
        if delivered.advanced && self.episode.is_needless(echo) || is_spurious {
            self.undo(now, true);
            self.episode.timeouts = 0;
            self.rtt.forget_backoff();
            return;
        }
        let is_whole = self.board.una() >= end;
        if tests && self.board.next() > end {
            // Step 3.a: new data has arrived, and nothing of what was taken for lost.
            self.episode.tests_timeout = !delivered.sacked;
        } else if tests && delivered.advanced && !is_whole {
            // Step 2.b.
            let can_test = self.has_new();
            (self.episode.tests_timeout, self.episode.new_data_only) = (can_test, can_test);
            self.phase = Phase::Timeout(self.board.next());
            return;
        }
        if is_whole {
            self.judge_whole(now, echo);
        }
    }

    /// Takes the last reduction back (`tcp_undo_cwnd_reduction`). `finds_all`: nothing is lost that was taken for it.
    fn undo(&mut self, now: Timestamp, finds_all: bool) {
        if finds_all {
            self.board.lose_none();
        }
        self.detection.examine_again(&self.board);
        self.episode.began_at = None;
        self.episode.tests_timeout = false;
        self.reduction = None;
        let was_open = std::mem::replace(&mut self.phase, Phase::Open) == Phase::Open;
        self.counts.undone += 1;
        let ack: Ack = self.event(now);
        let control = self.control.as_mut().expect("it has sent");
        if let Some(ssthresh) = self.episode.ssthresh.take() {
            self.decision.cwnd = self.decision.cwnd.max(self.episode.cwnd);
            if self.decision.ssthresh < ssthresh {
                self.decision.ssthresh = ssthresh;
                self.tell_reduced = false;
            }
            control.event(&ack, &mut self.decision, Event::Undo);
        }
        if !was_open {
            control.event(&ack, &mut self.decision, Event::Recovered);
        }
    }
}
