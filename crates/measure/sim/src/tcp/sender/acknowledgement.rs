// SPDX-License-Identifier: GPL-2.0-or-later
//! What an acknowledgement means: what it delivers, what it says is lost, and what becomes of the window.

use super::{
    episode::timestamp,
    state::{Phase, Probe, Sender, TimerPurpose, micros_of},
    undo::Verdict,
};
use crate::{
    packet::AckDetails,
    tcp::{
        Context, detection::DetectionInput, recovery::WindowReduction, reordering::PathTimes,
        scoreboard::Delivered,
    },
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
    /// Blocks and a timestamp, if it has any.
    pub(in crate::tcp) details: Option<&'a AckDetails>,
    /// A marked segment has arrived.
    pub(in crate::tcp) echo: bool,
    /// It is for a segment that was there already.
    pub(in crate::tcp) duplicate: bool,
}

/// What an acknowledgement means for the window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// The first unacknowledged segment moved.
    pub(super) advanced: bool,
    /// The window may grow with it (`tcp_may_raise_cwnd`): with what is acknowledged in order, and on a
    /// path with much reordering also with what is acknowledged selectively.
    pub(super) may_grow: bool,
    /// The receiver tells of a mark.
    pub(super) echo: bool,
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
        let (prior_una, overtaken) = (self.board.una(), self.board.sacked_end());
        let mut delivered = Delivered::default();
        let mut blocks = received.details.map(|details| &details.blocks[..]).unwrap_or_default();
        if received.duplicate
            && cx.tcp.profile == Profile::Linux
            && let Some((duplicate, others)) = blocks.split_first()
        {
            self.note_duplicate(duplicate.start, &mut delivered);
            blocks = others;
        }
        self.board.acknowledge(received.next, &mut delivered);
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            self.board.sack(block.clone(), overtaken, &mut delivered);
        }
        let echo = received.details.map(|details| details.timestamp_echo);
        delivered.is_late = delivered.advanced && self.is_late(echo);
        self.learn_reordering(&delivered);
        self.allowed = self.allowed.max(received.next + u64::from(received.window));
        self.counts.delivered += u64::from(delivered.segments);
        self.counts.delivered_ce += u64::from(delivered.segments) * u64::from(received.echo);
        let rtt = self.measure(now, &delivered, echo, cx.tcp.profile);
        let rate = self.sampler.sample(now, &delivered, self.mss, self.rtt.min());
        if delivered.newest.is_some() {
            self.reordering.delivered(rate.prior_delivered, self.sampler.delivered);
        }
        if received.echo {
            self.episode.marked(self.phase != Phase::Open);
        }
        let lost = self.board.lost_ever();
        let verdict = self.judge_episode(now, &delivered, echo, prior_una);
        let detection_input = self.detection_input(now);
        let reordering = match verdict {
            Verdict::Detect => self.detection.detect(&mut self.board, &delivered, detection_input),
            Verdict::Wait => None,
        };
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
        let may_grow = delivered.advanced || self.reordering.is_high() && delivered.sacked;
        let progress = Progress { advanced: delivered.advanced, may_grow, echo: received.echo };
        self.react(cx.tcp, ack, progress);
        self.end_probe(cx, &delivered);
        if let Some(wait) = reordering {
            self.wait(cx, TimerPurpose::Reordering, now + wait);
        } else if delivered.segments > 0 || self.wait == TimerPurpose::Reordering {
            self.restart_timer(cx);
        }
    }

    /// RTT samples: the first segment's for the timeout, so that it allows for delayed
    /// acknowledgements; the last one's for the algorithm. Timestamps (RFC 7323) tell a retransmission's
    /// acknowledgement from the original's, which `echo` is of then; ns-2 leaves both out (Karn).
    fn measure(
        &mut self,
        now: Timestamp,
        delivered: &Delivered,
        echo: Option<u32>,
        profile: Profile,
    ) -> Option<Duration> {
        let (_, newest) = delivered.newest?;
        let rtt = now.since(newest.sent);
        if newest.is_original() {
            self.rtt.sample_min(now, rtt);
        } else if let Some(sent) = echo.filter(|_| delivered.is_late) {
            let millis = timestamp(now).wrapping_sub(sent).max(1);
            let rtt = Duration::from_millis(millis.into());
            self.rtt.sample(rtt);
            return Some(rtt);
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
            reordering_window: self.reordering.window(
                PathTimes { min_rtt: self.rtt.min(), smoothed_rtt: self.rtt.smoothed() },
                self.phase != Phase::Open,
                self.board.sacked(),
            ),
            reordering_degree: self.reordering.degree(),
        }
    }

    /// What the sender and its algorithm make of an acknowledgement, or of time that has passed.
    pub(super) fn react(&mut self, tcp: &Tcp, mut ack: Ack, progress: Progress) {
        let Progress { advanced, may_grow, echo } = progress;
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
            self.episode.begin(&self.board, Probe::resent(self.probe.take()), None);
        }
        if self.phase == Phase::Open && (has_lost || echo) {
            self.tell_reduced |= tcp.ecn;
            // After a mark, until the segment that tells of the answer has arrived: until then the
            // receiver goes on to echo the same mark (RFC 3168 section 6.1.2).
            self.phase = if has_lost { Phase::Recovery(next) } else { Phase::Cwr(next + 1) };
            ack.flags |= Ack::RECOVERY;
            let probe = self.probe.take();
            if has_lost {
                let decision = (!echo).then_some(&self.decision);
                self.episode.begin(&self.board, Probe::resent(probe), decision);
            }
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
            None if self.window_algorithm && !may_grow => {}
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
            // Wraps, as the kernel's count does.
            delivered_ce: self.counts.delivered_ce as u32,
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
            ..Ack::default()
        }
    }
}
