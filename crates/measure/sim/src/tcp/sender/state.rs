// SPDX-License-Identifier: GPL-2.0-or-later
//! State of a sender: its window, its phase, its timers.

use super::{episode::Episode, limit_clock::LimitClock, send_memory::SendMemory};
use crate::{
    plan::SenderPacing,
    tcp::{
        connection_setup::ConnectionSetup,
        content::Content,
        delivery_rate::DeliveryRateSampler,
        detection::{DupackCounter, LossDetector, Rack},
        recovery::WindowReduction,
        reordering::Reordering,
        rtt::RttEstimator,
        scoreboard::Scoreboard,
        send_buffer::SendBuffer,
    },
    timer::Timer,
};
use congestion::{Ack, Attach, Control, Decision, Params};
use netmodel::pacing::PathCap;
use scenario::{LossDetection, Profile, Tcp};
use units::{Duration, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
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
pub(crate) struct SenderCounts {
    /// Segments sent, first and again.
    pub(crate) sent: u64,
    /// Of those, sent again.
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    /// Segments acknowledged, also selectively.
    pub(crate) delivered: u64,
    /// Of those, what was acknowledged with an echo of a mark (Linux's `delivered_ce`).
    pub(crate) delivered_ce: u64,
    /// Segments that the receiver reported as duplicates (`tcpi_dsack_dups`).
    pub(crate) duplicates: u64,
    /// Reductions of the window that were taken back.
    pub(crate) undone: u64,
}

/// How much of the window is used (Linux's `tcp_cwnd_validate`; RFC 2861, RFC 7661).
#[derive(Debug, Default)]
pub(super) struct CwndUse {
    /// Whether the window was the limit when most of it was used in the last round trip, and how much
    /// was used.
    pub(super) limited: bool,
    pub(super) most_out: u64,
    pub(super) round_end: u64,
    /// The most that was in use since the window was last the limit, and when that was noted.
    pub(super) peak: u64,
    pub(super) since: Timestamp,
    /// Whether a window that was not in use comes down (Linux's `tcp_slow_start_after_idle`).
    pub(super) comes_down: bool,
}

#[derive(Debug)]
pub(crate) struct Sender {
    pub(super) control: Option<Control>,
    pub(super) window_algorithm: bool,
    pub(in crate::tcp) decision: Decision,
    pub(in crate::tcp) mss: u32,
    pub(super) board: Scoreboard,
    pub(super) detection: LossDetector,
    pub(super) sampler: DeliveryRateSampler,
    pub(in crate::tcp) rtt: RttEstimator,
    pub(super) phase: Phase,
    pub(super) reduction: Option<WindowReduction>,
    pub(super) reordering: Reordering,
    pub(super) episode: Episode,
    pub(in crate::tcp) content: Content,
    /// The first segment that the receiver has no room for.
    pub(super) allowed: u64,
    /// The send buffer: its limit now, and the most that it grows to.
    pub(super) buffer: SendBuffer,
    /// What the buffer holds in bytes, once it has come to its maximum.
    pub(super) memory: Option<Box<SendMemory>>,
    /// Segments that the application has handed over to the buffer so far.
    pub(super) written: u64,
    /// The application has found the buffer full (Linux's `SOCK_NOSPACE`).
    pub(super) buffer_full: bool,
    pub(in crate::tcp) counts: SenderCounts,

    pub(in crate::tcp) timer: Timer,
    pub(super) wait: TimerPurpose,
    /// What was the next new segment when a probe was sent; none where none is under way.
    pub(super) probe: Option<Probe>,

    pub(super) pace: SenderPacing,
    /// Segments of one GSO packet that the receiver gets in one frame.
    pub(super) frame: u32,
    /// Bytes a second of the link that gap frames space the last packet by.
    pub(super) target: u64,
    /// What the estimator has found of the path.
    pub(super) cap: PathCap,
    /// With times of departure: when the next packet may leave at the earliest.
    pub(super) departs: Timestamp,
    pub(in crate::tcp) pacing: Timer,
    /// When the last GSO packet left; of a paced sender, when the next one may (Linux's `tcp_wstamp_ns`).
    pub(super) write_time: Timestamp,
    pub(super) last_sent: Timestamp,

    pub(super) used: CwndUse,
    /// The next new segment tells that the window was reduced.
    pub(super) tell_reduced: bool,
    pub(in crate::tcp) limits: LimitClock,
}

/// What the retransmission timer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerPurpose {
    Timeout,
    Probe,
    /// A segment that is lost unless it arrives in time.
    Reordering,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) next: u64,
    /// The probe was a segment sent before.
    pub(super) again: bool,
}

impl Probe {
    /// Segments that a probe under way, if there is one, has sent again.
    pub(super) fn resent(probe: Option<Self>) -> u32 {
        u32::from(probe.is_some_and(|probe| probe.again))
    }
}

impl Sender {
    /// `allowed`: the first segment that the receiver has no room for.
    pub(in crate::tcp) fn new(tcp: &Tcp, setup: &ConnectionSetup<'_>, allowed: u64) -> Self {
        let &ConnectionSetup { mss, sndbuf, content, pace, frame, slow_start_after_idle, .. } =
            setup;
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
                LossDetection::Rack => LossDetector::Time(Rack::default()),
                LossDetection::Dupack => LossDetector::Count(DupackCounter::new(tcp.profile)),
            },
            sampler: DeliveryRateSampler::default(),
            rtt: RttEstimator::new(),
            phase: Phase::Open,
            reduction: None,
            reordering: Reordering::new(),
            episode: Episode::new(tcp.profile == Profile::Linux),
            content,
            allowed,
            buffer: SendBuffer::new(tcp, mss, sndbuf),
            memory: None,
            written: 0,
            buffer_full: false,
            counts: SenderCounts::default(),
            timer: Timer::OFF,
            wait: TimerPurpose::Timeout,
            probe: None,
            pace,
            frame,
            target: 0,
            cap: PathCap::default(),
            departs: Timestamp::ZERO,
            pacing: Timer::OFF,
            write_time: Timestamp::ZERO,
            last_sent: Timestamp::ZERO,
            used: CwndUse { comes_down: slow_start_after_idle, ..CwndUse::default() },
            tell_reduced: false,
            limits: LimitClock::default(),
        }
    }

    /// The connection is open; the handshake took so long, where there was one.
    pub(in crate::tcp) fn establish(
        &mut self,
        now: Timestamp,
        params: &Params,
        rtt: Option<Duration>,
    ) {
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
            self.rtt.sample_min(now, rtt);
        }
        self.window_algorithm = params.algorithm().attach == Attach::Window;
        let ack = Ack { rtt_us: rtt.map_or(0, micros_of), ..self.event(now) };
        self.control = Some(Control::new(params, &ack, &mut self.decision));
        (self.write_time, self.used.since) = (now, now);
    }

    pub(in crate::tcp) fn is_established(&self) -> bool {
        self.control.is_some()
    }

    /// Bytes that the application may have handed over and not yet seen acknowledged.
    pub(in crate::tcp) fn buffer(&self) -> u64 {
        self.buffer.segments * u64::from(self.mss)
    }

    #[cfg(test)]
    pub(in crate::tcp) fn assert_counts(&self) {
        self.board.assert_counts();
    }

    #[cfg(test)]
    pub(in crate::tcp) fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// The first segment that is not acknowledged.
    pub(in crate::tcp) fn una(&self) -> u64 {
        self.board.una()
    }

    /// The next new segment.
    pub(in crate::tcp) fn next(&self) -> u64 {
        self.board.next()
    }

    /// Whether all of it was delivered.
    pub(in crate::tcp) fn is_done(&self) -> bool {
        self.content.complete && self.board.una() == self.content.available
    }
}

/// In whole microseconds, at least one: 0 stands for none.
pub(super) fn micros_of(d: Duration) -> u32 {
    u32::try_from(d.as_nanos() / 1000).unwrap_or(u32::MAX).max(1)
}
