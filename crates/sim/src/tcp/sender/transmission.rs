// SPDX-License-Identifier: GPL-2.0-or-later
//! What may be sent and when: windows, pacing, the window after an idle time.

use super::{Phase, Sender, micros_of, timer::Wait};
use crate::{
    agenda::What,
    host::Paced,
    packet::{Kind, Packet, flag},
    plan::Pace,
    tcp::{Context, detection::Resent},
};
use congestion::Event;
use netmodel::pacing::Known;
use scenario::Profile;
use std::num::NonZeroU64;
use units::Duration;

/// A burst that pacing lets out is a millisecond long at most (Linux's `sk_pacing_shift`).
const BURSTS_PER_SECOND: u64 = 1024;
/// And not longer than an offloaded one.
const MOST_BURST_BYTES: u64 = 65_536;

impl Sender {
    /// Whether a new segment may be sent as far as content, receiver and buffer go.
    pub(super) fn has_new(&self) -> bool {
        self.board.next() < self.allowed && !self.has_sent_all()
    }

    /// Whether all was sent that the application has handed over and the buffer taken. What the
    /// receiver has no room for is unsent: then it is not the application that is slow.
    fn has_sent_all(&self) -> bool {
        let next = self.board.next();
        next >= self.content.available || next - self.board.una() >= self.buffer.segments
    }

    /// Sends what may be sent now.
    pub(in crate::tcp) fn send(&mut self, cx: &mut Context<'_>) {
        if !self.is_established() {
            return;
        }
        let limited = loop {
            let lost = self.board.next_lost();
            if lost.is_none() && !self.has_new() {
                if self.board.in_flight() < self.decision.cwnd && self.has_sent_all() {
                    self.sampler.app_limited(self.board.in_flight());
                }
                break false;
            }
            if self.board.in_flight() >= self.decision.cwnd {
                break true;
            }
            if !self.may_pace(cx) {
                break false;
            }
            self.restart_after_idle(cx);
            self.transmit(cx, lost.unwrap_or(self.board.next()));
        };
        self.burst_left = 0;
        self.note_use(limited);
        if self.board.in_flight() < self.decision.cwnd {
            self.buffer.expand(self.decision.cwnd);
        }
        if self.wait == Wait::Probe || !self.timer.is_set() {
            self.restart_timer(cx);
        }
    }

    /// How much of the window was used, for `CWND_LIMITED`.
    fn note_use(&mut self, limited: bool) {
        let out = self.board.next() - self.board.una();
        if self.board.una() >= self.round_end || limited || (!self.limited && out > self.most_out) {
            (self.limited, self.most_out, self.round_end) = (limited, out, self.board.next());
        }
    }

    /// Linux's rate of a sender that is told to pace: the window in a round trip, times 2 in slow start
    /// and 1.2 after.
    pub(super) fn own_pacing_rate(&self) -> u64 {
        let Some(rtt) = self.rtt.smoothed() else { return 0 };
        let window = u64::from(self.decision.cwnd) * u64::from(self.mss);
        let rate = u128::from(window) * 1_000_000_000 / u128::from(rtt.as_nanos().max(1));
        let percent = if self.decision.cwnd < self.decision.ssthresh / 2 { 200 } else { 120 };
        u64::try_from(rate * percent / 100).unwrap_or(u64::MAX)
    }

    /// Whether the pace allows another segment now; sets the timer where not.
    fn may_pace(&mut self, cx: &mut Context<'_>) -> bool {
        let rate = self.decision.pacing_rate;
        if rate == 0 {
            return true;
        }
        if self.burst_left == 0 {
            if cx.now < self.paced {
                let id = cx.line.id(What::Pacing);
                self.pacing.set(self.paced, |at| cx.agenda.plan(at, id));
                return false;
            }
            let mss = u64::from(self.mss);
            let most = (MOST_BURST_BYTES / mss).max(1);
            self.burst_left = (rate / BURSTS_PER_SECOND / mss).min(most).max(2) as u32;
        }
        self.burst_left -= 1;
        let bytes = u128::from(self.mss + cx.line.header) * 1_000_000_000;
        let gap = u64::try_from(bytes / u128::from(rate)).unwrap_or(u64::MAX);
        self.paced = self.paced.max(cx.now) + Duration::from_nanos(gap);
        true
    }

    /// After an idle time of a timeout and more the window says nothing about the path: it is halved
    /// for each (RFC 2861, Linux's `tcp_slow_start_after_idle`), down to the initial one.
    fn restart_after_idle(&mut self, cx: &mut Context<'_>) {
        if !self.board.is_empty() || self.counts.sent == 0 || cx.tcp.profile != Profile::Linux {
            return;
        }
        let timeout = self.rtt.timeout(cx.tcp);
        let mut idle = cx.now.since(self.last_sent);
        if idle <= timeout {
            return;
        }
        let ack = self.event(cx.now);
        let control = self.control.as_mut().expect("it has sent");
        control.event(&ack, &mut self.decision, Event::Restart);
        if !self.window_algorithm {
            return;
        }
        let decision = &mut self.decision;
        let least = cx.tcp.initial_window.min(decision.cwnd);
        decision.ssthresh = decision.ssthresh.max(decision.cwnd / 4 * 3);
        while idle > timeout && decision.cwnd > least {
            idle = idle.saturating_sub(timeout);
            decision.cwnd = (decision.cwnd / 2).max(least);
        }
    }

    pub(super) fn transmit(&mut self, cx: &mut Context<'_>, number: u64) {
        let stamp = self.sampler.stamp(cx.now, self.board.is_empty());
        let app_limited = self.sampler.is_app_limited();
        let is_new = number == self.board.next();
        if is_new {
            self.board.sent(cx.now, stamp, app_limited);
        } else {
            self.board.resent(number, cx.now, stamp, app_limited);
            self.detection.resent(Resent { number, at: cx.now, next: self.board.next() });
            self.counts.retransmits += 1;
        }
        if let Some(reduction) = &mut self.reduction {
            reduction.sent(self.board.in_flight());
        }
        self.counts.sent += 1;
        self.last_sent = cx.now;
        let is_last = self.content.complete && number + 1 == self.content.available;
        let payload = if is_last { self.content.last } else { self.mss };
        let mut flags = if cx.tcp.ecn && is_new { flag::CAPABLE } else { 0 };
        if is_new && std::mem::take(&mut self.tell_reduced) {
            flags |= flag::REDUCED;
        }
        let packet = Packet {
            number,
            owner: cx.line.owner,
            window: 0,
            length: (payload + cx.line.header) as u16,
            path: cx.line.forward,
            kind: Kind::Data,
            flags,
        };
        let paced = self.paced(cx, packet.length.into());
        cx.network.send(cx.agenda, cx.now, packet, paced);
    }

    /// What spaces a packet of so many bytes that leaves now, besides TCP.
    fn paced(&mut self, cx: &Context<'_>, length: u32) -> Option<Paced> {
        let rtt = self.rtt.smoothed().unwrap_or_default();
        match self.pace {
            Pace::None | Pace::Tcp => None,
            Pace::Fixed(target, flow) => {
                self.target = target;
                Some(Paced::Gap { flow, target, rtt })
            }
            Pace::Gap(params, overhead, line) => {
                let known = self.known(cx.line.header + overhead, line);
                self.target = params.capped(&known, &mut self.cap, cx.now);
                let flow = NonZeroU64::MIN.saturating_add(cx.line.owner.into());
                Some(Paced::Gap { flow, target: self.target, rtt })
            }
            Pace::Edt(params, overhead, line) => {
                let known = self.known(cx.line.header + overhead, line);
                self.target = params.capped(&known, &mut self.cap, cx.now);
                let at = self.departs.max(cx.now);
                let nanos = u64::from(length + overhead) * 1_000_000_000;
                let took = nanos.checked_div(self.target).unwrap_or(0);
                self.departs = at + Duration::from_nanos(took);
                Some(Paced::At(at))
            }
        }
    }

    /// What an estimator of rates is told. `more`: what a segment takes of the link beside its payload;
    /// `line`: bytes a second of that link.
    fn known(&self, more: u32, line: u64) -> Known {
        Known {
            cwnd: self.decision.cwnd,
            ssthresh: self.decision.ssthresh,
            mss: self.mss,
            packet: self.mss + more,
            srtt_us: self.rtt.smoothed().map_or(0, micros_of),
            min_rtt_us: self.rtt.min().map_or(0, micros_of),
            recovering: u32::from(self.phase != Phase::Open),
            in_flight: self.board.in_flight(),
            delivered: self.sampler.delivered,
            line,
        }
    }

    /// See [`crate::tcp::Connection::pacing_rate`].
    pub(in crate::tcp) fn pacing_rate(&self) -> u64 {
        if self.target > 0 { self.target } else { self.decision.pacing_rate }
    }
}
