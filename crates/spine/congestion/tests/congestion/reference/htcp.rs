// SPDX-License-Identifier: GPL-2.0-or-later
//! H-TCP: draft-leith-tcp-htcp-06; paper 002 section 3.5.

use longhaul_congestion::{Ack, Event, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, param, whole},
};

/// Throughput, measured a round trip at a time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Throughput {
    /// When the round trip began, in microseconds, and what had been delivered then.
    begun: Option<(u64, u32)>,
    smoothed: f64,
    largest: f64,
}

#[derive(Debug, Clone, PartialEq)]
struct Htcp {
    window: Window,
    quadratic: f64,
    linear: f64,
    delta_l: f64,
    alpha_min: f64,
    beta_min: f64,
    beta_max: f64,
    adaptive_backoff: bool,
    bandwidth_switch: f64,
    rtt_scaling: bool,
    rtt_fade: f64,
    beta: f64,
    /// Time since the last congestion, without application-limited times.
    delta: f64,
    last: f64,
    rtt_min: f64,
    rtt_max: f64,
    throughput: Throughput,
    /// The largest before the last congestion, in segments a second; 0 if not known.
    before: f64,
}

impl Htcp {
    fn new(params: &Params, ack: &Ack, window: Window) -> Self {
        Self {
            window,
            quadratic: param(params, "quadratic", 1024.0),
            linear: param(params, "linear", 1024.0),
            delta_l: param(params, "delta_l", 1e6),
            alpha_min: param(params, "alpha_min", 1024.0),
            beta_min: param(params, "beta_min", 1024.0),
            beta_max: param(params, "beta_max", 1024.0),
            adaptive_backoff: whole(params, "adaptive_backoff") != 0,
            bandwidth_switch: param(params, "bandwidth_switch", 1024.0),
            rtt_scaling: whole(params, "rtt_scaling") != 0,
            rtt_fade: param(params, "rtt_fade", 1024.0),
            beta: param(params, "beta_min", 1024.0),
            delta: 0.0,
            last: seconds(ack),
            rtt_min: f64::INFINITY,
            rtt_max: 0.0,
            throughput: Throughput::default(),
            before: 0.0,
        }
    }

    fn alpha(&self) -> f64 {
        let past = self.delta - self.delta_l;
        let mut high = 1.0;
        if past > 0.0 {
            high += self.linear * past + self.quadratic * past * past;
            if self.rtt_scaling {
                high *= (self.rtt_min / 0.1).clamp(0.1, 2.0);
            }
        }
        (2.0 * (1.0 - self.beta) * high).max(self.alpha_min).min(self.window.cwnd)
    }

    /// A round trip ends with a sample of its RTT. Recovery is left out.
    fn measure(&mut self, ack: &Ack) {
        let begun = Some((ack.now_us, ack.delivered));
        if ack.flags & Ack::RECOVERY != 0 {
            self.throughput.begun = begun;
            return;
        }
        let Some((since, delivered)) = self.throughput.begun else {
            self.throughput.begun = begun;
            return;
        };
        if ack.now_us - since < u64::from(ack.rtt_us) {
            return;
        }
        let rate = f64::from(ack.delivered.wrapping_sub(delivered)) / (ack.now_us - since) as f64;
        let (rate, old) = (rate * 1e6, self.throughput.smoothed);
        let smoothed = if old == 0.0 { rate } else { old * 0.75 + rate * 0.25 };
        let largest = self.throughput.largest.max(smoothed);
        self.throughput = Throughput { begun, smoothed, largest };
    }

    /// The share of the window kept.
    fn backoff(&self, choices: &mut Choices) -> f64 {
        let (old, new) = (self.before, self.throughput.largest);
        if !self.adaptive_backoff || old == 0.0 || new == 0.0 {
            return self.beta_min;
        }
        let moved = (new - old).abs();
        let allowed = self.bandwidth_switch * old;
        if self.bandwidth_switch > 0.0 && choices.less(allowed, moved, cut(self.bandwidth_switch)) {
            return self.beta_min;
        }
        (self.rtt_min / self.rtt_max).clamp(self.beta_min, self.beta_max)
    }
}

/// By how much the 20 % may be missed with rates cut to 1/1024 segments a second. One is less than a unit
/// low, smoothed e <= 3/4 e + 1/4 + 3/4, so less than 4; `moved` is so by that of either rate, and the
/// share allowed by that of the old one and its own cut.
fn cut(share: f64) -> f64 {
    (4.0 + 4.0 * share + 1.0) / 1024.0
}

fn seconds(ack: &Ack) -> f64 {
    ack.now_us as f64 / 1e6
}

impl Model for Htcp {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn rtt(&mut self, ack: &Ack, _choices: &mut Choices) {
        let rtt = f64::from(ack.rtt_us) / 1e6;
        self.rtt_min = self.rtt_min.min(rtt);
        if ack.flags & Ack::RECOVERY == 0 {
            self.rtt_max = self.rtt_max.max(rtt);
        }
        self.measure(ack);
    }

    fn ack(&mut self, ack: &Ack, _choices: &mut Choices) {
        let now = seconds(ack);
        let since_last = now - self.last;
        self.last = now;
        if ack.flags & Ack::CWND_LIMITED == 0 {
            return;
        }
        self.delta += since_last;
        let acked = self.window.slow_start(f64::from(ack.acked));
        self.window.cwnd += self.alpha() / self.window.cwnd * acked;
    }

    fn loss(&mut self, ack: &Ack, choices: &mut Choices) {
        self.delta = 0.0;
        self.last = seconds(ack);
        self.beta = self.backoff(choices);
        if self.throughput.largest > 0.0 {
            self.before = self.throughput.largest;
        }
        self.throughput = Throughput::default();
        self.rtt_max = self.rtt_min + (self.rtt_max - self.rtt_min) * self.rtt_fade;
        self.window.ssthresh = (self.window.cwnd * self.beta).max(2.0);
    }

    fn event(&mut self, ack: &Ack, event: Event, _choices: &mut Choices) {
        if event == Event::Restart {
            self.last = seconds(ack);
            self.throughput.begun = None;
        }
    }
}

#[test]
fn htcp() {
    compare_sets("htcp", Htcp::new);
}
