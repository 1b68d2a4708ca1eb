// SPDX-License-Identifier: GPL-2.0-or-later
//! The retransmission timer: timeouts (RFC 6298), loss probes (RFC 8985 section 7), and segments that are
//! lost unless they arrive in time.

use super::{
    acknowledgement::Progress,
    state::{Phase, Probe, Sender, TimerPurpose},
};
use crate::{
    event_queue::EventKind,
    tcp::{Context, scoreboard::Delivered},
};
use congestion::{Ack, Event};
use units::{Duration, Timestamp};

/// What a probe of a single segment allows for a delayed acknowledgement (RFC 8985 section 7.2, by
/// Linux's least timeout), and what Linux adds to any other.
const PROBE_ACK_DELAY: Duration = Duration::from_millis(200);
const PROBE_SLACK: Duration = Duration::from_millis(2);

impl Sender {
    /// The retransmission timer's time has come.
    pub(in crate::tcp) fn timer_fired(&mut self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            return;
        }
        match self.wait {
            TimerPurpose::Timeout => self.time_out(cx),
            TimerPurpose::Probe => self.send_probe(cx),
            TimerPurpose::Reordering => {
                let prior_in_flight = self.board.in_flight();
                let lost = self.board.lost_ever();
                let detection_input = self.detection_input(cx.now);
                let again =
                    self.detection.detect(&mut self.board, &Delivered::default(), detection_input);
                let lost = (self.board.lost_ever() - lost) as u32;
                let ack = Ack { lost, prior_in_flight, ..self.event(cx.now) };
                self.react(cx.tcp, ack, Progress::default());
                match again {
                    Some(wait) => self.wait(cx, TimerPurpose::Reordering, cx.now + wait),
                    None => self.restart_timer(cx),
                }
            }
        }
        self.send(cx);
    }

    /// RFC 6298 section 5: everything may be lost, and the window is one segment.
    fn time_out(&mut self, cx: &mut Context<'_>) {
        let prior_in_flight = self.board.in_flight();
        let lost = self.board.lost_ever();
        self.board.lose_all();
        self.detection.all_lost(&self.board);
        let lost = (self.board.lost_ever() - lost) as u32;
        let ack = Ack { lost, prior_in_flight, ..self.event(cx.now) };
        let control = self.control.as_mut().expect("it has sent");
        self.episode.timed_out(matches!(self.phase, Phase::Open | Phase::Cwr(_)));
        if self.phase == Phase::Open {
            self.reordering.timed_out(self.board.sacked());
            self.episode.begin(&self.board, Probe::resent(self.probe), Some(&self.decision));
            control.loss(&ack, &mut self.decision);
        }
        (self.phase, self.reduction) = (Phase::Timeout(self.board.next()), None);
        control.event(&ack, &mut self.decision, Event::Timeout);
        self.decision.cwnd = 1;
        self.probe = None;
        self.counts.timeouts += 1;
        self.rtt.back_off();
        self.restart_timer(cx);
    }

    /// RFC 8985 section 7.3: a new segment if there may be one, else the last one again.
    fn send_probe(&mut self, cx: &mut Context<'_>) {
        let again = !self.has_new();
        let bytes = if again {
            let mut last = self.board.next() - 1;
            while last > self.board.una() && self.board.is_sacked(last) {
                last -= 1;
            }
            self.transmit(cx, last, 0)
        } else {
            self.transmit(cx, self.board.next(), 0)
        };
        self.gso_packet_sent(cx.now, bytes);
        self.probe = Some(Probe { next: self.board.next(), again });
        self.restart_timer(cx);
    }

    /// RFC 8985 section 7.4: a probe that repaired a loss hid it from detection, but it was one. Whether it
    /// did is not known until another acknowledgement comes: one that reports a duplicate, or one of more
    /// (`tcp_process_tlp_ack`).
    pub(super) fn end_probe(&mut self, cx: &mut Context<'_>, delivered: &Delivered) {
        let una = self.board.una();
        let Some(probe) = self.probe.filter(|probe| una >= probe.next) else { return };
        let is_repeated = !delivered.advanced && !delivered.sacked;
        if probe.again && una == probe.next && !is_repeated {
            return;
        }
        self.probe = None;
        let hid_a_loss = probe.again && una > probe.next;
        if hid_a_loss && self.phase == Phase::Open {
            let ack = Ack { lost: 1, ..self.event(cx.now) };
            let control = self.control.as_mut().expect("it has sent");
            control.loss(&ack, &mut self.decision);
            if self.window_algorithm {
                self.decision.cwnd = self.decision.cwnd.min(self.decision.ssthresh);
            }
        }
    }

    /// Starts the timer again for what is in flight: a probe where that may help, else the timeout.
    pub(super) fn restart_timer(&mut self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            self.timer.clear();
            self.wait = TimerPurpose::Timeout;
            return;
        }
        let timeout = self.rtt.timeout(cx.tcp);
        let may_probe = cx.tcp.tail_probe
            && self.phase == Phase::Open
            && self.probe.is_none()
            && self.board.sacked() == 0;
        let probe = self.rtt.smoothed().filter(|_| may_probe).map(|smoothed| {
            let alone = self.board.in_flight() == 1;
            smoothed.saturating_mul(2) + if alone { PROBE_ACK_DELAY } else { PROBE_SLACK }
        });
        // A timeout that comes first becomes the probe's time (RFC 8985 section 7.2).
        match probe {
            Some(probe) => self.wait(cx, TimerPurpose::Probe, cx.now + probe.min(timeout)),
            None => self.wait(cx, TimerPurpose::Timeout, cx.now + timeout),
        }
    }

    pub(super) fn wait(&mut self, cx: &mut Context<'_>, wait: TimerPurpose, due: Timestamp) {
        self.wait = wait;
        let id = cx.route.event_id(EventKind::Retransmission);
        self.timer.set(due, |at| cx.events.plan(at, id));
    }
}
