// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP Libra: Marfia et al. 2005; paper 002 section 3.6.

use longhaul_congestion::{Ack, Algorithm, Event, Params};

use super::{
    compare::{compare, compare_sets},
    model::{Choices, Model, Window, param},
    recovery::Recovery,
};

#[derive(Debug, Clone, PartialEq)]
struct Libra {
    window: Window,
    k1: f64,
    k2: f64,
    t0: f64,
    t1: f64,
    /// Bytes a second that are 1 of capacity; 0: a segment a second.
    unit: f64,
    pacing: f64,
    rtt: f64,
    rtt_min: f64,
    rtt_max: f64,
    /// Bytes a second, and whether it is given rather than estimated.
    capacity: f64,
    given: bool,
    jitter: f64,
    recovery: Recovery,
}

impl Libra {
    fn new(params: &Params, ack: &Ack, window: Window) -> Self {
        let capacity = param(params, "capacity", 0.001);
        let mut libra = Self {
            window,
            k1: param(params, "k1", 1024.0),
            k2: param(params, "k2", 1024.0),
            t0: param(params, "t0", 1000.0),
            t1: param(params, "t1", 1000.0),
            unit: param(params, "unit", 1.0),
            pacing: param(params, "pacing", 1024.0),
            rtt: 0.0,
            rtt_min: f64::INFINITY,
            rtt_max: 0.0,
            capacity,
            given: capacity > 0.0,
            jitter: param(params, "jitter", 1024.0),
            recovery: Recovery::default(),
        };
        libra.sample(ack);
        libra.pace(ack);
        libra
    }

    fn sample(&mut self, ack: &Ack) {
        if ack.rtt_us != 0 {
            self.rtt = f64::from(ack.rtt_us) / 1e6;
            self.rtt_min = self.rtt_min.min(self.rtt);
            self.rtt_max = self.rtt_max.max(self.rtt);
        }
    }

    fn pace(&mut self, ack: &Ack) {
        let gain = if self.window.in_slow_start() { 2.0 } else { self.pacing };
        let rtt = if self.rtt == 0.0 { 0.001 } else { self.rtt };
        let cwnd = self.window.cwnd;
        self.window.pacing = gain * cwnd * f64::from(ack.mss) / rtt;
        // As cwnd itself, it may be off by 2 segments (a round trip).
        self.window.stray = (1.0 + self.jitter) * (1.0 + 2.0 / cwnd) - 1.0;
    }

    fn alpha(&self, ack: &Ack) -> f64 {
        let mss = f64::from(ack.mss);
        let known =
            if self.capacity > 0.0 { self.capacity } else { self.window.cwnd * mss / self.rtt };
        let c = known / if self.unit == 0.0 { mss } else { self.unit };
        let span = self.rtt_max - self.rtt_min;
        let queue = if span > 0.0 { (self.rtt - self.rtt_min) / span } else { 0.0 };
        self.k1 * c * (-self.k2 * queue).exp()
    }
}

impl Model for Libra {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn rtt(&mut self, ack: &Ack, _choices: &mut Choices) {
        self.sample(ack);
    }

    fn ack(&mut self, ack: &Ack, _choices: &mut Choices) {
        // The largest of all: one that the application held back and is larger all the same counts.
        if !self.given {
            self.capacity = self.capacity.max(ack.delivery_rate as f64);
        }
        let recovers = self.recovery.ack(ack, &mut self.window);
        if !recovers && ack.flags & Ack::CWND_LIMITED != 0 {
            let acked = self.window.slow_start(f64::from(ack.acked));
            if self.rtt > 0.0 && ack.flags & Ack::RECOVERY == 0 {
                let cwnd = self.window.cwnd;
                let growth = self.alpha(ack) * self.rtt * self.rtt / (self.rtt + self.t0);
                self.window.cwnd += growth.min(cwnd) / cwnd * acked;
            }
        }
        self.pace(ack);
    }

    fn loss(&mut self, ack: &Ack, _choices: &mut Choices) {
        let w = self.window.cwnd;
        self.window.ssthresh = (w - self.t1 * w / (2.0 * (self.rtt + self.t0))).max(2.0);
        self.recovery.begin(ack, &self.window);
    }

    fn event(&mut self, _ack: &Ack, event: Event, _choices: &mut Choices) {
        self.recovery.event(event);
    }
}

#[test]
fn libra() {
    compare_sets("libra", Libra::new);
    let known = Algorithm::find("libra").unwrap().default_set().clone();
    compare(&known.with("capacity", 125_000).unwrap(), Libra::new);
}
