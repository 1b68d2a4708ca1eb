// SPDX-License-Identifier: GPL-2.0-or-later
//! FAST TCP: Jin, Wei and Low 2004; paper 002 section 3.3.

use longhaul_congestion::{Ack, Event, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, after, param},
    recovery::Recovery,
};

#[derive(Debug, Clone, PartialEq)]
struct Fast {
    window: Window,
    alpha: f64,
    gamma: f64,
    beta: f64,
    start_queue: f64,
    start_pacing: f64,
    pacing: f64,
    base_rtt: f64,
    rtt: f64,
    /// Delivered when the round trip began, and whether its window was full at some time.
    round: u32,
    full: bool,
    recovery: Recovery,
}

impl Fast {
    fn new(params: &Params, ack: &Ack, window: Window) -> Self {
        let mut fast = Self {
            window,
            alpha: param(params, "alpha", 1.0),
            gamma: param(params, "gain", 1024.0),
            beta: param(params, "beta", 1024.0),
            start_queue: param(params, "start_queue", 1.0),
            start_pacing: param(params, "start_pacing", 1024.0),
            pacing: param(params, "pacing", 1024.0),
            base_rtt: if ack.min_rtt_us == 0 {
                f64::INFINITY
            } else {
                f64::from(ack.min_rtt_us) / 1e6
            },
            rtt: 0.0,
            round: ack.delivered,
            full: false,
            recovery: Recovery::default(),
        };
        fast.pace(ack);
        fast
    }

    fn sample(&mut self, ack: &Ack, acked: f64) {
        if ack.rtt_us == 0 {
            return;
        }
        let rtt = f64::from(ack.rtt_us) / 1e6;
        self.base_rtt = self.base_rtt.min(rtt);
        let weight = ((3.0 / self.window.cwnd).min(0.25) * acked).min(1.0);
        self.rtt = if self.rtt == 0.0 { rtt } else { (1.0 - weight) * self.rtt + weight * rtt };
    }

    /// Segments in queues.
    fn queued(&self) -> f64 {
        self.window.cwnd * (1.0 - self.base_rtt / self.rtt)
    }

    /// Maximum error if the average RTT is cut to 1/256 us, as a part of the window per RTT.
    fn cut(&self) -> f64 {
        self.window.cwnd / 256.0 / (self.rtt * 1e6)
    }

    fn pace(&mut self, ack: &Ack) {
        let gain = if self.window.in_slow_start() { self.start_pacing } else { self.pacing };
        // The handshake gives the smallest RTT only.
        let handshake = if self.base_rtt.is_finite() { self.base_rtt } else { 0.001 };
        let rtt = if self.rtt > 0.0 { self.rtt } else { handshake };
        self.window.pacing = gain * self.window.cwnd * f64::from(ack.mss) / rtt;
    }

    fn update(&mut self) {
        let w = self.window.cwnd;
        let goal = w * self.base_rtt / self.rtt + self.alpha;
        let next = (2.0 * w).min((1.0 - self.gamma) * w + self.gamma * goal).max(2.0);
        if next < w || self.full {
            self.window.cwnd = next;
        }
        // A smaller window does not start slow start.
        self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd);
    }
}

impl Model for Fast {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn rtt(&mut self, ack: &Ack, _choices: &mut Choices) {
        self.sample(ack, f64::from(ack.acked));
    }

    fn ack(&mut self, ack: &Ack, choices: &mut Choices) {
        let round_over = !after(self.round, ack.prior_delivered);
        if round_over {
            self.round = ack.delivered;
        }
        self.full |= ack.flags & Ack::CWND_LIMITED != 0;
        if self.recovery.ack(ack, &mut self.window) {
            // the window is set
        } else if self.window.in_slow_start() {
            let queued = self.queued();
            if self.rtt > 0.0 && choices.less(self.start_queue, queued, self.cut()) {
                self.window.ssthresh = self.window.cwnd;
            } else if ack.flags & Ack::CWND_LIMITED != 0 {
                self.window.slow_start(f64::from(ack.acked));
            }
        } else if round_over && self.rtt > 0.0 && ack.flags & Ack::RECOVERY == 0 {
            self.update();
        }
        self.full &= !round_over;
        self.pace(ack);
    }

    fn loss(&mut self, ack: &Ack, _choices: &mut Choices) {
        self.window.ssthresh = (self.window.cwnd * self.beta).max(2.0);
        self.recovery.begin(ack, &self.window);
    }

    fn event(&mut self, _ack: &Ack, event: Event, _choices: &mut Choices) {
        self.recovery.event(event);
    }
}

#[test]
fn fast() {
    compare_sets("fast", Fast::new);
}
