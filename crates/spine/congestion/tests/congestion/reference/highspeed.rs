// SPDX-License-Identifier: GPL-2.0-or-later
//! HighSpeed TCP: RFC 3649 section 5; paper 002 section 3.4.

use longhaul_congestion::{Ack, Algorithm, Control, Decision, Params};

use super::{
    compare::compare_sets,
    model::{Choices, Model, Window, param, whole},
};

#[derive(Debug, Clone, PartialEq)]
struct HighSpeed {
    window: Window,
    low_window: f64,
    high_window: f64,
    high_decrease: f64,
    /// p(w) = factor / w^power.
    p: (f64, f64),
    /// As in the RFC's table: a(w) is rounded up, for a window of whole segments.
    whole: bool,
}

impl HighSpeed {
    fn new(params: &Params, _ack: &Ack, window: Window) -> Self {
        let low_window = param(params, "low_window", 1.0);
        let high_window = param(params, "high_window", 1.0);
        let p = if whole(params, "p_power") == 0 {
            // Paper 002: a line through (Low_Window, Low_P) and (High_Window, High_P) in logarithms.
            let (low_p, high_p) = (param(params, "low_p", 1e9), param(params, "high_p", 1e9));
            let power = (low_p / high_p).ln() / (high_window / low_window).ln();
            (low_p * low_window.powf(power), power)
        } else {
            (param(params, "p_factor", 1e3), param(params, "p_power", 1e3))
        };
        Self {
            window,
            low_window,
            high_window,
            high_decrease: param(params, "high_decrease", 1e3),
            p,
            whole: whole(params, "whole") != 0,
        }
    }

    /// The share of the window lost on a loss.
    fn b(&self, w: f64) -> f64 {
        let share = (w / self.low_window).ln() / (self.high_window / self.low_window).ln();
        (self.high_decrease - 0.5) * share.clamp(0.0, 1.0) + 0.5
    }

    /// Segments gained a round trip.
    fn a(&self, w: f64) -> f64 {
        if w <= self.low_window {
            return 1.0;
        }
        let b = self.b(w);
        let (factor, power) = self.p;
        let a = w * w * factor / w.powf(power) * 2.0 * b / (2.0 - b);
        if self.whole { a.ceil() } else { a.max(1.0) }
    }
}

impl Model for HighSpeed {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn ack(&mut self, ack: &Ack, _choices: &mut Choices) {
        if ack.flags & Ack::CWND_LIMITED == 0 {
            return;
        }
        let acked = self.window.slow_start(f64::from(ack.acked));
        let cwnd = self.window.cwnd;
        let row = if self.whole { cwnd.floor() } else { cwnd };
        self.window.cwnd += self.a(row) / cwnd * acked;
    }

    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        let cwnd = self.window.cwnd;
        self.window.ssthresh = (cwnd * (1.0 - self.b(cwnd))).max(2.0);
    }
}

#[test]
fn highspeed() {
    compare_sets("highspeed", HighSpeed::new);
}

/// RFC 3649 appendix B, table 2: in set `linux` the growth is that of a row up to its window.
#[test]
fn steps_are_those_of_the_table() {
    let params = &Algorithm::find("highspeed").unwrap().set("linux").unwrap().params;
    // A window's worth of acknowledgements at once grows it by a(w).
    let growth = |cwnd: u32| {
        let ack = Ack { acked: cwnd, flags: Ack::CWND_LIMITED, mss: 1448, ..Ack::default() };
        let mut decision = Decision { cwnd, ssthresh: cwnd, ..Decision::default() };
        Control::new(params, &ack, &mut decision).ack(&ack, &mut decision);
        decision.cwnd - cwnd
    };
    // The first step is two segments late: the RFC's rounded p(38) is 0.00099.
    assert_eq!((growth(38), growth(40), growth(41)), (1, 1, 2));
    let rows = [
        (2, 118),
        (3, 221),
        (4, 347),
        (5, 495),
        (8, 1_058),
        (15, 3_039),
        (30, 10_661),
        (40, 18_955),
        (50, 30_975),
        (60, 48_961),
        (70, 79_517),
    ];
    for (a, window) in rows {
        let near = u32::div_ceil(window * 3, 1_000); // 0.3 %, and whole segments
        let steps = (growth(window - near), growth(window + near));
        assert_eq!(steps, (a, a + 1), "row {a}, {window} segments");
    }
}
