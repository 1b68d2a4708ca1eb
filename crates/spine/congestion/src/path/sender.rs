// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end of a flow over a [`super::Bottleneck`].

use super::micros;
use crate::{Ack, Attach, Control, Decision, Event, Params};
use std::collections::VecDeque;
use units::{Bytes, Duration, Timestamp};

/// A flow with always more to send.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Its congestion control.
    pub params: Params,
    /// When it starts.
    pub start: Timestamp,
    /// When it sends its last packet.
    pub end: Timestamp,
    /// Its round trip without queue and transmission.
    pub propagation: Duration,
    /// The smallest round trip, if it is known at the start. If `None`, the sender uses the smallest
    /// that it has seen, which is too large for a flow that comes to a queue that never empties.
    pub known_rtt: Option<Duration>,
}

/// The state of a flow at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSample {
    /// What its algorithm decided last.
    pub decision: Decision,
    /// Packets on their way.
    pub in_flight: u32,
    /// Packets acknowledged so far.
    pub delivered: u64,
}

/// A packet in flight, with what delivery-rate samples need (draft-cheng-iccrg-delivery-rate-estimation
/// section 3).
struct Sent {
    packet: u64,
    at_ns: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
}

/// Proportional rate reduction, RFC 6937 section 3 with its slow start reduction bound: what may be
/// sent for each acknowledgement of a recovery.
struct Reduction {
    flight: u32,
    delivered: u32,
    sent: u32,
}

impl Reduction {
    fn new(flight: u32) -> Self {
        Self { flight, delivered: 0, sent: 0 }
    }

    fn acknowledged(&mut self, ack: &Ack, decision: &mut Decision) {
        self.delivered += ack.acked;
        let may_send = if ack.in_flight > decision.ssthresh {
            let due = u64::from(self.delivered) * u64::from(decision.ssthresh);
            (due.div_ceil(self.flight.into()) as u32).saturating_sub(self.sent)
        } else {
            let bound = self.delivered.saturating_sub(self.sent).max(ack.acked) + 1;
            bound.min(decision.ssthresh - ack.in_flight)
        };
        decision.cwnd = ack.in_flight + may_send;
    }
}

pub(super) struct Sender {
    pub(super) flow: Flow,
    mss: u32,
    control: Option<Control>,
    decision: Decision,
    in_flight: VecDeque<Sent>,
    next: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    min_rtt_us: u32,
    rtt_us: u32,
    /// The first packet sent after the last loss was noticed: only its loss, or a later one's, is
    /// another.
    reduced: u64,
    in_recovery: bool,
    /// Where the caller brings the window down: a window algorithm in fast recovery.
    reduction: Option<Reduction>,
    paced_ns: u64,
    woken_ns: u64,
    window_full: bool,
}

impl Sender {
    pub(super) fn new(flow: &Flow, payload: Bytes) -> Self {
        Self {
            flow: flow.clone(),
            mss: u32::try_from(payload.get()).expect("a packet's payload"),
            control: None,
            decision: Decision::default(),
            in_flight: VecDeque::new(),
            next: 0,
            delivered: 0,
            delivered_ns: 0,
            first_sent_ns: 0,
            min_rtt_us: u32::MAX,
            rtt_us: 0,
            reduced: 0,
            in_recovery: false,
            reduction: None,
            paced_ns: 0,
            woken_ns: 0,
            window_full: false,
        }
    }

    pub(super) fn establish(&mut self, now_ns: u64, waits_ns: u64) {
        self.rtt_us = micros(self.flow.propagation.as_nanos() + waits_ns);
        let known = self.flow.known_rtt.map(|rtt| micros(rtt.as_nanos()));
        self.min_rtt_us = known.unwrap_or(self.rtt_us);
        (self.delivered_ns, self.first_sent_ns, self.paced_ns) = (now_ns, now_ns, now_ns);
        let ack = Ack { rtt_us: self.rtt_us, ..self.event(now_ns) };
        self.control = Some(Control::new(&self.flow.params, &ack, &mut self.decision));
    }

    fn window_left(&self) -> bool {
        self.in_flight.len() < self.decision.cwnd as usize
    }

    /// The number of the packet that is sent now, if one may be.
    pub(super) fn may_send(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.flow.end.as_nanos() {
            return None;
        }
        if !self.window_left() {
            self.window_full = true;
            return None;
        }
        let packet_ns = u64::from(self.mss) * 1_000_000_000;
        if let Some(gap_ns) = packet_ns.checked_div(self.decision.pacing_rate) {
            if self.paced_ns > now_ns {
                return None;
            }
            self.paced_ns = self.paced_ns.max(now_ns) + gap_ns;
        }
        if self.in_flight.is_empty() {
            (self.delivered_ns, self.first_sent_ns) = (now_ns, now_ns);
        }
        let packet = self.next;
        self.next += 1;
        if let Some(reduction) = &mut self.reduction {
            reduction.sent += 1;
        }
        self.in_flight.push_back(Sent {
            packet,
            at_ns: now_ns,
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_sent_ns: self.first_sent_ns,
        });
        Some(packet)
    }

    /// When pacing lets the next packet go, once.
    pub(super) fn wake_ns(&mut self, now_ns: u64) -> Option<u64> {
        let waits = self.decision.pacing_rate != 0
            && self.window_left()
            && self.paced_ns > now_ns
            && self.paced_ns != self.woken_ns;
        waits.then(|| {
            self.woken_ns = self.paced_ns;
            self.paced_ns
        })
    }

    pub(super) fn acknowledged(&mut self, now_ns: u64, packet: u64) {
        let prior_in_flight = self.in_flight.len() as u32;
        let (mut lost, mut congestion) = (0, false);
        while let Some(sent) = self.pop_older(packet) {
            lost += 1;
            congestion |= sent.packet >= self.reduced;
        }
        let Some(sent) = self.in_flight.pop_front() else {
            return; // given up at a timeout, though it came through
        };
        if sent.packet != packet {
            self.in_flight.push_front(sent);
            return;
        }
        self.delivered += 1;
        self.delivered_ns = now_ns;
        self.first_sent_ns = sent.at_ns;
        self.rtt_us = micros(now_ns - sent.at_ns);
        self.min_rtt_us = self.min_rtt_us.min(self.rtt_us);
        let ack = Ack {
            delivery_rate: self.delivery_rate(now_ns, &sent),
            acked: 1,
            lost,
            rtt_us: self.rtt_us,
            prior_in_flight,
            prior_delivered: sent.delivered as u32,
            ..self.event(now_ns)
        };
        self.decide(ack, packet, congestion);
        self.window_full = !self.window_left();
    }

    fn pop_older(&mut self, packet: u64) -> Option<Sent> {
        let older = self.in_flight.front().is_some_and(|sent| sent.packet < packet);
        older.then(|| self.in_flight.pop_front())?
    }

    fn delivery_rate(&self, now_ns: u64, sent: &Sent) -> u64 {
        let acked_ns = now_ns - sent.delivered_ns;
        let sent_ns = sent.at_ns - sent.first_sent_ns;
        let bytes = (self.delivered - sent.delivered) * u64::from(self.mss);
        bytes * 1_000_000_000 / acked_ns.max(sent_ns).max(1)
    }

    fn decide(&mut self, mut ack: Ack, packet: u64, congestion: bool) {
        let control = self.control.as_mut().expect("acknowledgements come after the handshake");
        control.rtt(&ack, &mut self.decision);
        let window = control.params().algorithm().attach == Attach::Window;
        if self.in_recovery && packet >= self.reduced {
            self.in_recovery = false;
            if self.reduction.take().is_some() {
                self.decision.cwnd = self.decision.ssthresh;
            }
            ack.flags &= !Ack::RECOVERY;
            control.event(&ack, &mut self.decision, Event::Recovered);
        }
        if congestion {
            (self.reduced, self.in_recovery) = (self.next, true);
            ack.flags |= Ack::RECOVERY;
            control.loss(&ack, &mut self.decision);
            self.reduction = window.then(|| Reduction::new(ack.prior_in_flight));
        }
        match &mut self.reduction {
            Some(reduction) => reduction.acknowledged(&ack, &mut self.decision),
            None => control.ack(&ack, &mut self.decision),
        }
        self.decision.cwnd = self.decision.cwnd.max(1);
    }

    /// When it has waited too long for an acknowledgement.
    pub(super) fn gives_up_ns(&self) -> u64 {
        self.delivered_ns + 1_000_000_000.max(2000 * u64::from(self.rtt_us))
    }

    pub(super) fn times_out(&mut self, now_ns: u64) {
        self.delivered_ns = now_ns;
        let lost = self.in_flight.len() as u32;
        if lost == 0 {
            return; // nothing was on its way: the flow is over
        }
        let ack = Ack { lost, prior_in_flight: lost, ..self.event(now_ns) };
        self.in_flight.clear();
        let control = self.control.as_mut().expect("packets are in flight");
        if !self.in_recovery {
            control.loss(&ack, &mut self.decision);
        }
        (self.reduced, self.in_recovery, self.reduction) = (self.next, true, None);
        control.event(&ack, &mut self.decision, Event::Timeout);
        self.decision.cwnd = 1;
    }

    /// What every event says.
    fn event(&self, now_ns: u64) -> Ack {
        let flags = [
            (self.window_full, Ack::CWND_LIMITED),
            (self.in_recovery, Ack::RECOVERY),
            (self.decision.pacing_rate != 0, Ack::PACED),
        ];
        Ack {
            now_us: now_ns / 1000,
            min_rtt_us: self.min_rtt_us,
            in_flight: self.in_flight.len() as u32,
            delivered: self.delivered as u32,
            prior_delivered: self.delivered as u32,
            mss: self.mss,
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
            ..Ack::default()
        }
    }

    pub(super) fn sample(&self) -> FlowSample {
        FlowSample {
            decision: self.decision,
            in_flight: self.in_flight.len() as u32,
            delivered: self.delivered,
        }
    }
}
