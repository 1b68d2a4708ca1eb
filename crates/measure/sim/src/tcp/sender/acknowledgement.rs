// SPDX-License-Identifier: GPL-2.0-or-later
//! What an acknowledgement means: what it delivers, what it says is lost, and what becomes of the window.

use super::state::{Phase, Sender, TimerPurpose, micros_of};
use crate::{
    packet::Blocks,
    tcp::{Context, detection::DetectionInput, recovery::WindowReduction, scoreboard::Delivered},
};
use congestion::{Ack, Event};
use scenario::{Profile, Tcp};
use units::{Duration, Timestamp};

/// What an acknowledgement says.
#[derive(Debug)]
pub(in crate::tcp) struct ReceivedAck<'a> {
    /// The next segment that is expected.
    pub(in crate::tcp) next: u64,
    /// Segments from there on that the receiver has room for.
    pub(in crate::tcp) window: u32,
    pub(in crate::tcp) blocks: Option<&'a Blocks>,
    /// A marked segment has arrived.
    pub(in crate::tcp) echo: bool,
    /// It is for a segment that was there already.
    pub(in crate::tcp) duplicate: bool,
}

impl Sender {
    /// An acknowledgement has arrived.
    pub(in crate::tcp) fn acknowledged(
        &mut self,
        cx: &mut Context<'_>,
        received: &ReceivedAck<'_>,
    ) {
        let now = cx.now;
        let prior_in_flight = self.board.in_flight();
        let mut delivered = Delivered::default();
        self.board.acknowledge(received.next, &mut delivered);
        for block in received.blocks.into_iter().flatten().filter(|block| !block.is_empty()) {
            self.board.sack(block.clone(), &mut delivered);
        }
        self.allowed = self.allowed.max(received.next + u64::from(received.window));
        self.counts.delivered += u64::from(delivered.segments);
        let rtt = self.measure(now, &delivered, cx.tcp.profile);
        let rate = self.sampler.sample(now, &delivered, self.mss, self.rtt.min());
        let lost = self.board.lost_ever();
        let detection_input = self.detection_input(now);
        let reordering = self.detection.detect(&mut self.board, &delivered, detection_input);
        let event = self.event(now);
        let ack = Ack {
            delivery_rate: rate.bytes_per_second,
            acked: delivered.segments,
            lost: (self.board.lost_ever() - lost) as u32,
            rtt_us: rtt.map_or(0, micros_of),
            prior_in_flight,
            prior_delivered: rate.prior_delivered,
            flags: event.flags | if rate.app_limited { Ack::APP_LIMITED } else { 0 },
            ..event
        };
        self.react(cx.tcp, ack, delivered.advanced, received.echo);
        self.end_probe(cx, received.duplicate);
        if let Some(wait) = reordering {
            self.wait(cx, TimerPurpose::Reordering, now + wait);
        } else if delivered.segments > 0 || self.wait == TimerPurpose::Reordering {
            self.restart_timer(cx);
        }
    }

    /// RTT samples: the first segment's for the timeout, so that it allows for delayed
    /// acknowledgements; the last one's for the algorithm. Timestamps (RFC 7323) tell a retransmission's
    /// acknowledgement from the original's; ns-2 leaves both out (Karn).
    fn measure(
        &mut self,
        now: Timestamp,
        delivered: &Delivered,
        profile: Profile,
    ) -> Option<Duration> {
        let (_, newest) = delivered.newest?;
        let rtt = now.since(newest.sent);
        if newest.is_original() {
            self.rtt.sample_min(now, rtt);
        } else if profile == Profile::Ns2 || self.rtt.min().is_some_and(|min| rtt < min) {
            return None;
        }
        let first = delivered.first_sent.filter(|_| newest.is_original());
        self.rtt.sample(first.map_or(rtt, |sent| now.since(sent)));
        Some(rtt)
    }

    pub(super) fn detection_input(&self, now: Timestamp) -> DetectionInput {
        DetectionInput {
            now,
            min_rtt: self.rtt.min(),
            smoothed_rtt: self.rtt.smoothed(),
            in_recovery: self.phase != Phase::Open,
        }
    }

    /// What the sender and its algorithm make of an acknowledgement, or of time that has passed.
    /// `advanced`: the first unacknowledged segment moved. `echo`: the receiver tells of a mark.
    pub(super) fn react(&mut self, tcp: &Tcp, mut ack: Ack, advanced: bool, echo: bool) {
        let control =
            self.control.as_mut().expect("what is acknowledged was sent when it was open");
        if ack.rtt_us > 0 {
            control.rtt(&ack, &mut self.decision);
        }
        if let Phase::Cwr(end) | Phase::Recovery(end) | Phase::Timeout(end) = self.phase
            && self.board.una() >= end
        {
            if let Some(reduction) = self.reduction.take() {
                self.decision.cwnd = reduction.end(ack.in_flight, self.decision.ssthresh);
            }
            self.phase = Phase::Open;
            ack.flags &= !Ack::RECOVERY;
            control.event(&ack, &mut self.decision, Event::Recovered);
        }
        let (has_lost, next) = (self.board.lost() > 0, self.board.next());
        if let Phase::Cwr(_) = self.phase
            && has_lost
        {
            self.phase = Phase::Recovery(next);
        }
        if self.phase == Phase::Open && (has_lost || echo) {
            self.tell_reduced |= tcp.ecn;
            // After a mark, until the segment that tells of the answer has arrived: until then the
            // receiver goes on to echo the same mark (RFC 3168 section 6.1.2).
            self.phase = if has_lost { Phase::Recovery(next) } else { Phase::Cwr(next + 1) };
            ack.flags |= Ack::RECOVERY;
            control.loss(&ack, &mut self.decision);
            self.reduction = self.window_algorithm.then(|| {
                let name = control.params().algorithm().name;
                WindowReduction::begin(tcp.recovery, name, &mut self.decision)
            });
        }
        match &mut self.reduction {
            Some(reduction) => {
                reduction.acknowledged(&ack, advanced && ack.lost == 0, &mut self.decision);
            }
            // A window grows with what is acknowledged in order only (Linux's `tcp_may_raise_cwnd`).
            None if self.window_algorithm && !advanced => {}
            // ns-2 and Linux 2.6 are in slow start while the window is not above ssthresh. Flows that lose
            // together, many times a second, come to equal shares by this one segment.
            None if self.window_algorithm
                && tcp.profile == Profile::Ns2
                && self.decision.cwnd == self.decision.ssthresh =>
            {
                self.decision.cwnd += 1;
            }
            None if ack.acked > 0 || ack.lost > 0 => control.ack(&ack, &mut self.decision),
            None => {}
        }
        self.decision.cwnd = self.decision.cwnd.max(1);
        self.set_own_pacing_rate();
    }

    /// What every event says.
    pub(super) fn event(&self, now: Timestamp) -> Ack {
        let decision = &self.decision;
        let flags = [
            (self.is_cwnd_limited(), Ack::CWND_LIMITED),
            (self.phase != Phase::Open, Ack::RECOVERY),
            (decision.pacing_rate != 0, Ack::PACED),
        ];
        Ack {
            now_us: now.as_nanos() / 1000,
            min_rtt_us: self.rtt.min().map_or(0, micros_of),
            in_flight: self.board.in_flight(),
            delivered: self.sampler.delivered,
            prior_delivered: self.sampler.delivered,
            mss: self.mss,
            paced_us: u32::try_from(self.write_time.since(now).as_nanos() / 1000)
                .unwrap_or(u32::MAX),
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
            ..Ack::default()
        }
    }
}
