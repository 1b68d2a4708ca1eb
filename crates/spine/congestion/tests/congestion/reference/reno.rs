// SPDX-License-Identifier: GPL-2.0-or-later
//! Reno: RFC 5681 section 3.1 with appropriate byte counting (RFC 3465), in segments.

use longhaul_congestion::{Ack, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, param},
};

#[derive(Debug, Clone, PartialEq)]
struct Reno {
    window: Window,
    increase: f64,
    beta: f64,
}

impl Reno {
    fn new(params: &Params, _ack: &Ack, window: Window) -> Self {
        let increase = param(params, "increase", 1024.0);
        Self { window, increase, beta: param(params, "beta", 1024.0) }
    }
}

impl Model for Reno {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn ack(&mut self, ack: &Ack, _choices: &mut Choices) {
        if ack.flags & Ack::CWND_LIMITED == 0 {
            return;
        }
        let acked = self.window.slow_start(f64::from(ack.acked));
        self.window.cwnd += self.increase * acked / self.window.cwnd;
    }

    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        self.window.ssthresh = (self.window.cwnd * self.beta).max(2.0);
    }
}

#[test]
fn reno() {
    compare_sets("reno", Reno::new);
}
