// SPDX-License-Identifier: GPL-2.0-or-later
//! What may be sent and when: windows, pacing, the window after an idle time.

use super::{
    episode::timestamp,
    state::{Phase, Sender, TimerPurpose, micros_of},
    write_queue::GsoDecision,
};
use crate::{
    event_queue::EventKind,
    packet::{Packet, PacketKind, flag},
    plan::SenderPacing,
    sender_qdisc::PacketPacing,
    tcp::{Context, detection::Resent},
};
use congestion::{Decision, Event};
use netmodel::pacing::TcpSnapshot;
use scenario::{Profile, Tcp};
use std::num::NonZeroU64;
use units::{Duration, Timestamp};

impl Sender {
    /// Sends what may be sent now.
    pub(in crate::tcp) fn send(&mut self, cx: &mut Context<'_>) {
        if !self.is_established() {
            return;
        }
        self.send_written(cx);
        // The application hears of room in the buffer after the acknowledgement has had its effect. The
        // buffer grows only where it, and not the window, holds the sender back (`tcp_check_space`).
        if self.buffer_full && self.board.in_flight() < self.decision.cwnd {
            self.buffer.expand(self.decision.cwnd);
        }
        if self.memory.is_none() && self.is_bound_by_buffer(cx) {
            self.begin_send_memory();
        }
        if self.memory.is_some() {
            self.write_until_full(cx);
        } else if self.fill_write_queue() {
            self.send_written(cx);
        }
        if self.wait == TimerPurpose::Probe || !self.timer.is_set() {
            self.restart_timer(cx);
        }
        self.episode.new_data_only = false;
        self.note_limit(cx.now);
    }

    /// Sends lost segments, then new ones of the write queue.
    pub(super) fn send_written(&mut self, cx: &mut Context<'_>) {
        self.send_packets(cx, u32::MAX);
    }

    /// Sends the next GSO packet of the write queue, which does not wait to grow (`tcp_push_one`).
    pub(super) fn push_one(&mut self, cx: &mut Context<'_>) {
        self.send_packets(cx, 1);
    }

    /// Sends up to `most` GSO packets.
    fn send_packets(&mut self, cx: &mut Context<'_>, most: u32) {
        let first = self.board.next();
        let mut limited = false;
        let mut count = 0;
        while self.board.in_flight() < self.decision.cwnd && count < most {
            count += 1;
            let lost = if self.episode.new_data_only { None } else { self.board.next_lost() };
            if lost.is_none() && !self.has_new() {
                break;
            }
            if self.is_paced_out(cx.now) {
                let id = cx.route.event_id(EventKind::Pacing);
                self.pacing.set(self.write_time, |at| cx.events.plan(at, id));
                break;
            }
            self.restart_after_idle(cx);
            let bytes = if let Some(number) = lost {
                self.retransmit(cx, number)
            } else {
                match self.next_gso_packet(cx, most > 1) {
                    GsoDecision::Send(segments) => {
                        let flags = |n, frame| gso_flags(n, n < segments, frame);
                        (1..=segments)
                            .map(|n| self.transmit(cx, self.board.next(), flags(n, self.frame)))
                            .sum()
                    }
                    GsoDecision::Wait { cwnd_limited } => {
                        limited = cwnd_limited;
                        break;
                    }
                }
            };
            self.gso_packet_sent(cx.now, bytes);
            if lost.is_none() {
                self.count_sent();
            }
        }
        limited |= self.board.in_flight() >= self.decision.cwnd;
        if limited || self.board.next() > first {
            self.note_use(cx, limited);
        }
    }

    /// Sends a lost segment again, and in one GSO packet with it those behind it that were sent with it and
    /// are lost, too. How many bytes.
    fn retransmit(&mut self, cx: &mut Context<'_>, mut number: u64) -> u64 {
        let sent = self.board.get(number).sent;
        let mut left = match cx.tcp.profile {
            Profile::Ns2 => 1,
            Profile::Linux => {
                self.max_gso_segments().min(self.decision.cwnd - self.board.in_flight())
            }
        };
        let (mut bytes, mut count) = (0, 0_u32);
        loop {
            let next = number + 1;
            left -= 1;
            count += 1;
            let goes_on = left > 0
                && self.board.awaits_retransmission(next)
                && self.board.get(next).sent == sent;
            self.episode.sent_again(cx.now);
            bytes += self.transmit(cx, number, gso_flags(count, goes_on, self.frame));
            if !goes_on {
                return bytes;
            }
            number = next;
        }
    }

    /// How much of the window was used, for `CWND_LIMITED`; a window that was not for a timeout's time
    /// comes down half of the way to what was (`tcp_cwnd_validate`, RFC 2861).
    fn note_use(&mut self, cx: &Context<'_>, limited: bool) {
        let out = self.board.next() - self.board.una();
        if self.board.una() >= self.used.round_end
            || limited
            || (!self.used.limited && out > self.used.most_out)
        {
            (self.used.limited, self.used.most_out, self.used.round_end) =
                (limited, out, self.board.next());
        }
        if self.is_cwnd_limited() {
            (self.used.peak, self.used.since) = (0, cx.now);
            return;
        }
        self.used.peak = self.used.peak.max(out);
        let unused = cx.now.since(self.used.since);
        if cx.tcp.profile != Profile::Linux
            || !self.window_algorithm
            || !self.used.comes_down
            || unused < self.rtt.timeout(cx.tcp)
        {
            return;
        }
        if self.phase == Phase::Open && !self.buffer_full {
            let used = (self.used.peak as u32).max(cx.tcp.initial_window);
            let decision = &mut self.decision;
            if used < decision.cwnd {
                decision.ssthresh = decision.ssthresh.max(decision.cwnd / 4 * 3);
                decision.cwnd = u32::midpoint(decision.cwnd, used);
            }
            self.used.peak = 0;
        }
        self.used.since = cx.now;
    }

    /// Linux's `tcp_is_cwnd_limited`.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        let Decision { cwnd, ssthresh, .. } = self.decision;
        self.used.limited || cwnd < ssthresh && u64::from(cwnd) < 2 * self.used.most_out
    }

    /// After an idle time of a timeout and more the window says nothing about the path: it is halved
    /// for each (RFC 2861, Linux's `tcp_slow_start_after_idle`), down to the initial one.
    fn restart_after_idle(&mut self, cx: &mut Context<'_>) {
        let Some(idle) = self.idle_beyond_timeout(cx.now, cx.tcp) else { return };
        let ack = self.event(cx.now);
        let control = self.control.as_mut().expect("it has sent");
        control.event(&ack, &mut self.decision, Event::Restart);
        if !self.window_algorithm || !self.used.comes_down {
            return;
        }
        // Linux starts to measure again how much of the window is used (`tcp_cwnd_restart`), or it came down twice.
        (self.used.peak, self.used.since) = (0, cx.now);
        self.decision.ssthresh = self.decision.ssthresh.max(self.decision.cwnd / 4 * 3);
        self.decision.cwnd = self.window_after(idle, cx.tcp);
    }

    /// For how long nothing was sent, if everything is acknowledged and that is longer than a timeout.
    fn idle_beyond_timeout(&self, now: Timestamp, tcp: &Tcp) -> Option<Duration> {
        if !self.board.is_empty() || self.counts.sent == 0 || tcp.profile != Profile::Linux {
            return None;
        }
        Some(now.since(self.last_sent)).filter(|idle| *idle > self.rtt.timeout(tcp))
    }

    /// The window that is left of the present one after an idle time.
    fn window_after(&self, mut idle: Duration, tcp: &Tcp) -> u32 {
        let (timeout, mut cwnd) = (self.rtt.timeout(tcp), self.decision.cwnd);
        let least = tcp.initial_window.min(cwnd);
        while idle > timeout && cwnd > least {
            idle = idle.saturating_sub(timeout);
            cwnd = (cwnd / 2).max(least);
        }
        cwnd
    }

    /// The window that a segment sent now would find, and the one before the idle time that ends with it.
    pub(in crate::tcp) fn windows(&self, now: Timestamp, tcp: &Tcp) -> (u32, u32) {
        let comes_down = self.window_algorithm && self.used.comes_down;
        let idle = self.idle_beyond_timeout(now, tcp).filter(|_| comes_down);
        let cwnd = self.decision.cwnd;
        (idle.map_or(cwnd, |idle| self.window_after(idle, tcp)), cwnd)
    }

    /// Sends a segment with the flags of its position ([`gso_flags`]) in a GSO packet; how many bytes of
    /// payload.
    pub(super) fn transmit(&mut self, cx: &mut Context<'_>, number: u64, gso_flags: u8) -> u64 {
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
        let mut flags = gso_flags | if cx.tcp.ecn && is_new { flag::ECT } else { 0 };
        if is_new && std::mem::take(&mut self.tell_reduced) {
            flags |= flag::CWR;
        }
        let packet = Packet {
            number,
            owner: cx.route.owner,
            window: timestamp(cx.now),
            length: (payload + cx.route.header) as u16,
            path: cx.route.forward,
            kind: PacketKind::Data,
            flags,
        };
        let paced = self.paced(cx, packet.length.into());
        cx.network.send(cx.events, cx.now, packet, paced);
        payload.into()
    }

    /// How a mechanism other than TCP paces a packet of `length` bytes that leaves now.
    fn paced(&mut self, cx: &Context<'_>, length: u32) -> Option<PacketPacing> {
        let rtt = self.rtt.smoothed().unwrap_or_default();
        match self.pace {
            SenderPacing::None | SenderPacing::Tcp => None,
            SenderPacing::Fixed(target, flow) => {
                self.target = target;
                Some(PacketPacing::Gap { flow, target, rtt })
            }
            SenderPacing::Gap(params, overhead, line) => {
                let known = self.known(cx.route.header + overhead, line);
                self.target = params.capped(&known, &mut self.cap, cx.now);
                let flow = NonZeroU64::MIN.saturating_add(cx.route.owner.into());
                Some(PacketPacing::Gap { flow, target: self.target, rtt })
            }
            SenderPacing::Edt(params, overhead, line) => {
                let known = self.known(cx.route.header + overhead, line);
                self.target = params.capped(&known, &mut self.cap, cx.now);
                let at = self.departs.max(cx.now);
                let nanos = u64::from(length + overhead) * 1_000_000_000;
                let took = nanos.checked_div(self.target).unwrap_or(0);
                self.departs = at + Duration::from_nanos(took);
                Some(PacketPacing::At(at))
            }
        }
    }

    /// Input of a rate estimator. `more`: bytes of the link that a segment takes in addition to its payload;
    /// `line`: bytes a second of that link.
    fn known(&self, more: u32, line: u64) -> TcpSnapshot {
        TcpSnapshot {
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

/// Flags of the `nth` segment of a GSO packet, from 1, of whose segments `frame` come in one frame.
fn gso_flags(nth: u32, goes_on: bool, frame: u32) -> u8 {
    match goes_on {
        true if !nth.is_multiple_of(frame) => flag::MORE_IN_FRAME,
        // Linux sets PSH on every GSO packet of several segments (`__tcp_transmit_skb`).
        false if nth > 1 => flag::PSH,
        _ => 0,
    }
}
