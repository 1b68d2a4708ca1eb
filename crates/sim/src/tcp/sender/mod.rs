// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end: what may be sent and when, what acknowledgements and the timer mean.
//!
//! ```text
//!         echo of a mark         loss found          timeout
//!   Open ────────────────▶ Cwr ─────────────▶ Recovery ─────▶ Timeout
//!    ▲ └──────────────────────────────────────▶ │               │
//!    └──── all acknowledged that was sent before mark or loss ──┘
//! ```
//!
//! Of a window algorithm the sender brings the window down in `Cwr` and `Recovery` ([`Reduction`]), once for
//! both; at all other times, and always where an algorithm sets a rate, the algorithm is asked at every
//! acknowledgement.
//!
//! Here is what an acknowledgement means; `timer` has what the time means, `write_queue` what leaves in one
//! piece, `transmission` what is sent.

mod timer;
mod transmission;
mod write_queue;

use self::timer::{Probe, Wait};
use super::Setup;
use super::{
    Context, Timer,
    buffer::Buffer,
    detection::{Clues, Counter, Detection, Rack},
    recovery::Reduction,
    rtt::Rtt,
    sample::Sampler,
    scoreboard::{Delivered, Scoreboard},
};
use crate::{packet::Blocks, plan::Pace};
use congestion::{Ack, Attach, Control, Decision, Event, Params};
use netmodel::pacing::PathCap;
use scenario::{LossDetection, Profile, Tcp};
use units::{Duration, Timestamp};

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    /// Segments that the application has handed over.
    pub(crate) available: u64,
    /// Whether that is all.
    pub(crate) complete: bool,
    /// Bytes in the last segment, where it is.
    pub(crate) last: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// A mark was heard of: the window comes down, until this segment is acknowledged.
    Cwr(u64),
    /// Losses are repaired, and the window comes down, until this segment is acknowledged.
    Recovery(u64),
    /// After a timeout, until this segment is acknowledged.
    Timeout(u64),
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Segments sent, first and again.
    pub(crate) sent: u64,
    /// Of those, sent again.
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    /// Segments acknowledged, also selectively.
    pub(crate) delivered: u64,
}

/// How much of the window is used (Linux's `tcp_cwnd_validate`; RFC 2861, RFC 7661).
#[derive(Debug, Default)]
struct WindowUse {
    /// Whether the window was the limit when most of it was used in the last round trip, and how much
    /// was used.
    limited: bool,
    most_out: u64,
    round_end: u64,
    /// The most that was in use since the window was last the limit, and when that was noted.
    peak: u64,
    since: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Sender {
    control: Option<Control>,
    window_algorithm: bool,
    pub(super) decision: Decision,
    pub(super) mss: u32,
    board: Scoreboard,
    detection: Detection,
    sampler: Sampler,
    pub(super) rtt: Rtt,
    phase: Phase,
    reduction: Option<Reduction>,
    pub(super) content: Content,
    /// The first segment that the receiver has no room for.
    allowed: u64,
    /// The send buffer: its limit now, and the most that it grows to.
    buffer: Buffer,
    /// Segments that the application has handed over to the buffer so far.
    written: u64,
    /// The application has found the buffer full (Linux's `SOCK_NOSPACE`).
    buffer_full: bool,
    pub(super) counts: Counts,

    pub(super) timer: Timer,
    wait: Wait,
    /// What was the next new segment when a probe was sent; none where none is under way.
    probe: Option<Probe>,

    pace: Pace,
    /// Segments of one piece that the receiver gets in one frame.
    frame: u32,
    /// Bytes a second of the link that gap frames space the last packet by.
    target: u64,
    /// What the estimator has found of the path.
    cap: PathCap,
    /// With times of departure: when the next packet may leave at the earliest.
    departs: Timestamp,
    pub(super) pacing: Timer,
    /// When the last piece left; of a paced sender, when the next one may (Linux's `tcp_wstamp_ns`).
    write_time: Timestamp,
    last_sent: Timestamp,

    used: WindowUse,
    /// The next new segment tells that the window was reduced.
    tell_reduced: bool,
}

impl Sender {
    /// `allowed`: the first segment that the receiver has no room for.
    pub(super) fn new(tcp: &Tcp, setup: &Setup<'_>, allowed: u64) -> Self {
        let &Setup { mss, sndbuf, content, pace, frame, .. } = setup;
        Self {
            control: None,
            window_algorithm: true,
            decision: Decision {
                cwnd: tcp.initial_window,
                ssthresh: tcp.initial_ssthresh.unwrap_or(Decision::INFINITE_SSTHRESH),
                ..Decision::default()
            },
            mss,
            board: Scoreboard::default(),
            detection: match tcp.loss_detection {
                LossDetection::Rack => Detection::Time(Rack::default()),
                LossDetection::Dupack => Detection::Count(Counter::new(tcp.profile)),
            },
            sampler: Sampler::default(),
            rtt: Rtt::new(),
            phase: Phase::Open,
            reduction: None,
            content,
            allowed,
            buffer: Buffer::new(tcp, mss, sndbuf),
            written: 0,
            buffer_full: false,
            counts: Counts::default(),
            timer: Timer::OFF,
            wait: Wait::Timeout,
            probe: None,
            pace,
            frame,
            target: 0,
            cap: PathCap::default(),
            departs: Timestamp::ZERO,
            pacing: Timer::OFF,
            write_time: Timestamp::ZERO,
            last_sent: Timestamp::ZERO,
            used: WindowUse::default(),
            tell_reduced: false,
        }
    }

    /// The connection is open; the handshake took so long, where there was one.
    pub(super) fn establish(&mut self, now: Timestamp, params: &Params, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
            self.rtt.sample_min(now, rtt);
        }
        self.window_algorithm = params.algorithm().attach == Attach::Window;
        let ack = Ack { rtt_us: rtt.map_or(0, micros_of), ..self.event(now) };
        self.control = Some(Control::new(params, &ack, &mut self.decision));
        (self.write_time, self.used.since) = (now, now);
    }

    pub(super) fn is_established(&self) -> bool {
        self.control.is_some()
    }

    /// Bytes that the application may have handed over and not yet seen acknowledged.
    pub(super) fn buffer(&self) -> u64 {
        self.buffer.segments * u64::from(self.mss)
    }

    /// The first segment that is not acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.board.una()
    }

    /// The next new segment.
    pub(super) fn next(&self) -> u64 {
        self.board.next()
    }

    /// Whether all of it was delivered.
    pub(super) fn is_done(&self) -> bool {
        self.content.complete && self.board.una() == self.content.available
    }

    /// An acknowledgement has arrived.
    pub(super) fn acknowledged(&mut self, cx: &mut Context<'_>, heard: &Heard<'_>) {
        let now = cx.now;
        let prior_in_flight = self.board.in_flight();
        let mut delivered = Delivered::default();
        self.board.acknowledge(heard.next, &mut delivered);
        for block in heard.blocks.into_iter().flatten().filter(|block| !block.is_empty()) {
            self.board.sack(block.clone(), &mut delivered);
        }
        self.allowed = self.allowed.max(heard.next + u64::from(heard.window));
        self.counts.delivered += u64::from(delivered.segments);
        let rtt = self.measure(now, &delivered, cx.tcp.profile);
        let rate = self.sampler.sample(now, &delivered, self.mss, self.rtt.min());
        let lost = self.board.lost_ever();
        let clues = self.clues(now);
        let reordering = self.detection.detect(&mut self.board, &delivered, clues);
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
        self.react(cx.tcp, ack, delivered.advanced, heard.echo);
        self.end_probe(cx, heard.duplicate);
        if let Some(wait) = reordering {
            self.wait(cx, Wait::Reordering, now + wait);
        } else if delivered.segments > 0 || self.wait == Wait::Reordering {
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

    fn clues(&self, now: Timestamp) -> Clues {
        Clues {
            now,
            min_rtt: self.rtt.min(),
            smoothed_rtt: self.rtt.smoothed(),
            in_recovery: self.phase != Phase::Open,
        }
    }

    /// What the sender and its algorithm make of an acknowledgement, or of time that has passed.
    /// `advanced`: the first unacknowledged segment moved. `echo`: the receiver tells of a mark.
    fn react(&mut self, tcp: &Tcp, mut ack: Ack, advanced: bool, echo: bool) {
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
                Reduction::begin(tcp.recovery, name, &mut self.decision)
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
    fn event(&self, now: Timestamp) -> Ack {
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

/// What an acknowledgement says.
#[derive(Debug)]
pub(super) struct Heard<'a> {
    /// The next segment that is expected.
    pub(super) next: u64,
    /// Segments from there on that the receiver has room for.
    pub(super) window: u32,
    pub(super) blocks: Option<&'a Blocks>,
    /// A marked segment has arrived.
    pub(super) echo: bool,
    /// It is for a segment that was there already.
    pub(super) duplicate: bool,
}

fn micros_of(d: Duration) -> u32 {
    u32::try_from(d.as_nanos() / 1000).unwrap_or(u32::MAX).max(1)
}
