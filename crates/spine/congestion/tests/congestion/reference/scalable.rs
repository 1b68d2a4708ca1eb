// SPDX-License-Identifier: GPL-2.0-or-later
//! Scalable TCP: Kelly 2003; paper 002 section 3.7.

use longhaul_congestion::{Ack, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, param, whole},
};

#[derive(Debug, Clone, PartialEq)]
struct Scalable {
    window: Window,
    /// Growth for each segment acknowledged.
    a: f64,
    beta: f64,
    low_window: f64,
    low_beta: f64,
    round_up: bool,
}

impl Scalable {
    fn new(params: &Params, _ack: &Ack, window: Window) -> Self {
        Self {
            window,
            a: 1.0 / param(params, "ai_count", 1.0),
            beta: param(params, "beta", 1024.0),
            low_window: param(params, "low_window", 1.0),
            low_beta: param(params, "low_beta", 1024.0),
            round_up: whole(params, "round_up") != 0,
        }
    }
}

impl Model for Scalable {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn ack(&mut self, ack: &Ack, _choices: &mut Choices) {
        if ack.flags & Ack::CWND_LIMITED == 0 {
            return;
        }
        let acked = self.window.slow_start(f64::from(ack.acked));
        let cwnd = self.window.cwnd;
        self.window.cwnd += acked * if cwnd <= self.low_window { 1.0 / cwnd } else { self.a };
    }

    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        let cwnd = self.window.cwnd;
        let beta = if cwnd <= self.low_window { self.low_beta } else { self.beta };
        let kept = cwnd * beta;
        self.window.ssthresh = if self.round_up { kept.ceil() } else { kept }.max(2.0);
    }
}

#[test]
fn scalable() {
    compare_sets("scalable", Scalable::new);
}
