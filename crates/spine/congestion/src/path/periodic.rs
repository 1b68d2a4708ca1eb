// SPDX-License-Identifier: GPL-2.0-or-later
//! One flow with a loss at a fixed interval in segments.

use super::{MSS, micros};
use crate::{Ack, Control, Decision, Event, Params};
use units::{Duration, Rate};

/// One flow over a path of unlimited bandwidth that loses every n-th segment.
///
/// A window's segments are acknowledged evenly over a round trip. When the n-th since the last loss is,
/// it counts as lost. Recovery takes no time, as the closed forms assume: the window is at `ssthresh`
/// at once, and grows from there. (TCP's takes a round trip in which the window does not grow: 4 % less
/// for Reno at a loss of 0.1 %.)
#[derive(Debug, Clone, Copy)]
pub struct PeriodicLoss {
    /// n: one segment in n is lost.
    pub every: u64,
    /// The round trip.
    pub rtt: Duration,
    /// The window, in segments, at which the flow meets its first loss, which begins the first
    /// epoch.
    pub start: u32,
    /// What samples of the delivery rate say. Where None, a window each round trip.
    pub delivery_rate: Option<Rate>,
}

/// From one loss to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// The window once the loss that began it was noticed, in segments.
    pub from: u32,
    /// The window when the next loss was noticed.
    pub to: u32,
    /// How many were acknowledged.
    pub segments: u64,
    /// How long it was.
    pub round_trips: f64,
}

/// The average window over epochs: segments for each round trip.
pub fn average_window(epochs: &[Epoch]) -> f64 {
    let segments: u64 = epochs.iter().map(|epoch| epoch.segments).sum();
    segments as f64 / epochs.iter().map(|epoch| epoch.round_trips).sum::<f64>()
}

impl PeriodicLoss {
    /// So many epochs of an algorithm.
    pub fn run(&self, params: &Params, epochs: usize) -> Vec<Epoch> {
        Run::new(*self, params).epochs(epochs)
    }
}

struct Run {
    path: PeriodicLoss,
    control: Control,
    decision: Decision,
    /// The latest acknowledgement; the window of its round is `prior_in_flight`.
    ack: Ack,
    now_ns: u64,
    delivered: u64,
    next_loss: u64,
}

impl Run {
    fn new(path: PeriodicLoss, params: &Params) -> Self {
        let rtt_us = micros(path.rtt.as_nanos());
        let mut decision =
            Decision { cwnd: path.start, ssthresh: path.start, ..Decision::default() };
        let ack = Ack {
            acked: 1,
            rtt_us,
            min_rtt_us: rtt_us,
            mss: MSS,
            flags: Ack::CWND_LIMITED,
            ..Ack::default()
        };
        let mut run = Self {
            path,
            control: Control::new(params, &ack, &mut decision),
            decision,
            ack,
            now_ns: path.rtt.as_nanos(),
            delivered: 0,
            next_loss: path.every,
        };
        run.begin_round();
        run.control.rtt(&run.ack, &mut decision); // it knows the path before its first loss
        run
    }

    fn epochs(mut self, wanted: usize) -> Vec<Epoch> {
        let mut epochs = Vec::with_capacity(wanted);
        self.lose();
        while epochs.len() < wanted {
            let (from, began_ns, began) = (self.decision.cwnd, self.now_ns, self.delivered);
            while !self.round() {}
            let to = self.decision.cwnd;
            let round_trips = (self.now_ns - began_ns) as f64 / self.path.rtt.as_nanos() as f64;
            epochs.push(Epoch { from, to, segments: self.delivered - began, round_trips });
            self.lose();
        }
        epochs
    }

    /// A window of segments is acknowledged, or what comes before a loss is noticed. Whether one is.
    fn round(&mut self) -> bool {
        self.begin_round();
        let (start_ns, window) = (self.now_ns, self.ack.prior_in_flight);
        let gap_ns = self.path.rtt.as_nanos() as f64 / f64::from(window);
        for passed in 1..=window {
            self.now_ns = start_ns + (gap_ns * f64::from(passed)) as u64;
            self.delivered += 1;
            self.ack.now_us = self.now_ns / 1000;
            self.ack.delivered = self.delivered as u32;
            self.ack.prior_delivered = self.ack.delivered.wrapping_sub(window);
            self.control.rtt(&self.ack, &mut self.decision);
            self.control.ack(&self.ack, &mut self.decision);
            if self.delivered >= self.next_loss {
                return true;
            }
        }
        false
    }

    fn begin_round(&mut self) {
        let window = self.decision.cwnd.max(1);
        let each_rtt = u64::from(window) * u64::from(MSS) * 1_000_000_000;
        let measured = each_rtt / self.path.rtt.as_nanos();
        self.ack.delivery_rate = self.path.delivery_rate.map_or(measured, |rate| rate.bps() / 8);
        (self.ack.in_flight, self.ack.prior_in_flight) = (window - 1, window);
    }

    fn lose(&mut self) {
        self.next_loss = self.delivered + self.path.every;
        let ack = Ack { lost: 1, flags: Ack::CWND_LIMITED | Ack::RECOVERY, ..self.ack };
        self.control.loss(&ack, &mut self.decision);
        self.decision.cwnd = self.decision.cwnd.min(self.decision.ssthresh);
        self.control.event(&self.ack, &mut self.decision, Event::Recovered);
    }
}
