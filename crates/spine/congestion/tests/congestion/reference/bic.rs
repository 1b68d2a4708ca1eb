// SPDX-License-Identifier: GPL-2.0-or-later
//! BIC: Xu, Harfoush and Rhee 2004, section III; paper 002 section 3.1. The parameters `b` and
//! `smooth_part` are Linux's.
//!
//! Growth jumps at a few windows, and at the slowest place a fraction of a segment is many round trips.
//! So the rule is applied to what a sender has by the contract of `cc/cc.h`: whole segments, and
//! what was earned of the next one. With that every comparison of windows is exact.

use longhaul_congestion::{Ack, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, param, whole},
};

/// Growth is cut to this much of a segment a round trip.
const CUT: f64 = 1.0 / 65_536.0;

#[derive(Debug, Clone, PartialEq)]
struct Bic {
    /// Its `cwnd` is whole.
    window: Window,
    /// Towards the next segment, which costs a window of it.
    credit: f64,
    /// At most what the integer has less of that, since its growth was cut at every acknowledgement.
    cut: f64,
    s_max: f64,
    s_min: f64,
    /// Growth close to the maximum where the top is flat, as in Linux.
    flat: Option<f64>,
    b: f64,
    low_window: f64,
    beta: f64,
    low_beta: f64,
    fast_convergence: bool,
    gain: f64,
    /// Where the last loss came; 0 before the first.
    max: f64,
}

impl Bic {
    fn new(params: &Params, _ack: &Ack, window: Window) -> Self {
        let smooth_part = param(params, "smooth_part", 1.0);
        let b = param(params, "b", 1.0);
        Self {
            window,
            credit: 0.0,
            cut: 0.0,
            s_max: param(params, "smax", 1.0),
            s_min: param(params, "smin", 1024.0),
            flat: (smooth_part > 0.0).then(|| b / smooth_part),
            b,
            low_window: param(params, "low_window", 1.0),
            beta: param(params, "beta", 1024.0),
            low_beta: param(params, "low_beta", 1024.0),
            fast_convergence: whole(params, "fast_convergence") != 0,
            gain: param(params, "gain", 1024.0),
            max: 0.0,
        }
    }

    /// Segments gained a round trip.
    fn growth(&self) -> f64 {
        let w = self.window.cwnd;
        if w <= self.low_window {
            return 1.0;
        }
        let step = match self.flat {
            Some(flat) => self.smooth(flat),
            None if w < self.max => (self.max - w - self.credit / w) / self.b,
            None => self.probing(),
        };
        (step.clamp(self.s_min, self.s_max).min(w) * self.gain).min(w)
    }

    /// Linux: a search down to steps of 2, a flat top up to `b` above the maximum, and then away from it.
    fn smooth(&self, flat: f64) -> f64 {
        let (w, step) = (self.window.cwnd, (self.max - self.window.cwnd) / self.b);
        if step >= 2.0 {
            step
        } else if w < self.max + self.b {
            flat
        } else {
            (w - self.max) / (self.b - 1.0)
        }
    }

    /// Xu's slow start beyond the maximum: the step doubles when its target is reached.
    fn probing(&self) -> f64 {
        let (mut ss_cwnd, mut ss_target) = (1.0, self.max + 1.0);
        while self.window.cwnd >= ss_target && ss_cwnd < self.s_max {
            ss_cwnd *= 2.0;
            ss_target += ss_cwnd;
        }
        ss_cwnd
    }
}

impl Model for Bic {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn ack(&mut self, ack: &Ack, choices: &mut Choices) {
        if ack.flags & Ack::CWND_LIMITED == 0 {
            return;
        }
        let acked = self.window.slow_start(f64::from(ack.acked));
        let w = self.window.cwnd;
        self.credit += acked * self.growth();
        // Cut before it is multiplied, and again after.
        let cuts = if self.gain == 1.0 { 1.0 } else { self.gain + 1.0 };
        self.cut += acked * CUT * cuts;
        let mut segments = (self.credit / w).floor();
        if segments > 0.0 && choices.less(self.credit - segments * w, 0.0, self.cut) {
            segments -= 1.0; // not yet
        }
        self.credit -= segments * w;
        self.window.cwnd += segments;
    }

    /// Two courses that differ in their credit only, by as little as the bound of this one allows.
    fn absorb(&mut self, other: &Self) -> bool {
        let apart = (self.credit - other.credit).abs();
        let same = Self { credit: self.credit, cut: self.cut, ..other.clone() };
        if *self != same || apart > self.cut {
            return false;
        }
        self.cut = self.cut.max(other.cut + apart);
        true
    }

    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        let cwnd = self.window.cwnd;
        let shrinking = self.fast_convergence && cwnd < self.max;
        self.max = if shrinking { (cwnd * (1.0 + self.beta) / 2.0).floor() } else { cwnd };
        let beta = if cwnd <= self.low_window { self.low_beta } else { self.beta };
        self.window.ssthresh = (cwnd * beta).max(2.0);
        (self.credit, self.cut) = (0.0, 0.0);
    }
}

#[test]
fn bic() {
    compare_sets("bic", Bic::new);
}
