// SPDX-License-Identifier: GPL-2.0-or-later
//! CUBIC: RFC 9438, in segments and seconds.

use longhaul_congestion::{Ack, Algorithm, Control, Decision, Event, Params};

use super::{
    compare::compare,
    model::{Choices, Model, Window, param, whole},
};

/// The integer's units of time: of its clock, and of t and K.
const TICK: f64 = 1024e-6;
const Q10: f64 = 1.0 / 1024.0;

/// Where a congestion avoidance stage started (section 4.2), and how far it is.
#[derive(Debug, Clone, PartialEq)]
struct Stage {
    /// Time in it, without application-limited times (section 5.8).
    t: f64,
    k: f64,
    w_est: f64,
    /// Whether W_est is where the last loss came: from there it grows as Reno does (section 4.3).
    caught_up: bool,
    /// Bounds of what rounding takes from or adds to t - K and `w_est` in the integer.
    off_t: f64,
    off_est: f64,
}

impl Stage {
    /// W_cubic moves by its slope for what time is off, and is cut three times to 1/1024, once before
    /// it is multiplied by t - K.
    fn off_cubic(&self, c: f64) -> f64 {
        let x = (self.t - self.k).abs() + self.off_t;
        3.0 * c * x * x * self.off_t + (c * (x + 1.0) + 1.0) * Q10
    }
}

/// How CUBIC is at least as fast as Reno.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RenoFriendly {
    No,
    /// Section 4.3.
    Rfc,
    /// W_est stays as slow as it begins, and the window comes up to it over a round trip.
    Linux,
}

#[derive(Debug, Clone, PartialEq)]
struct Cubic {
    window: Window,
    c: f64,
    beta: f64,
    fast_convergence: bool,
    reno_friendly: RenoFriendly,
    /// Most growth in segments a second (paper 002 section 3.2).
    s_max: f64,
    /// Segments acknowledged for one of growth while no loss has told W_max; Linux's `cnt` of 20.
    first_count: f64,
    w_max: f64,
    cwnd_prior: f64,
    /// Whether the next stage follows a loss (equation 2), rather than a timeout or slow start alone
    /// (sections 4.8 and 4.10).
    reduced: bool,
    stage: Option<Stage>,
    last_us: u64,
    /// Whether the last acknowledgement was of a full window.
    limited: bool,
    srtt: f64,
}

impl Model for Cubic {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn rtt(&mut self, ack: &Ack, _choices: &mut Choices) {
        let rtt = f64::from(ack.rtt_us) / 1e6;
        // RFC 6298 section 2.
        self.srtt = if self.srtt == 0.0 { rtt } else { self.srtt * 0.875 + rtt * 0.125 };
    }

    fn ack(&mut self, ack: &Ack, choices: &mut Choices) {
        let since_last = ack.now_us.saturating_sub(self.last_us) as f64 / 1e6;
        self.last_us = ack.now_us;
        if ack.flags & Ack::CWND_LIMITED == 0 {
            self.leave_out();
            return;
        }
        self.limited = true;
        let acked = self.window.slow_start(f64::from(ack.acked));
        if acked > 0.0 && !self.window.in_slow_start() {
            self.avoid_congestion(acked, since_last, choices);
        }
    }

    /// A course given up for one close by is one less that the integer may take.
    fn absorb(&mut self, other: &Self) -> bool {
        let w_est = |model: &Self| model.stage.as_ref().map_or(0.0, |stage| stage.w_est);
        let mut same = self.clone();
        same.window.cwnd = other.window.cwnd;
        if let (Some(stage), Some(others)) = (&mut same.stage, &other.stage) {
            (stage.w_est, stage.off_est) = (others.w_est, others.off_est);
        }
        same == *other
            && (self.window.cwnd - other.window.cwnd).abs() < 0.2
            && (w_est(self) - w_est(other)).abs() < 0.2
    }

    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        let cwnd = self.window.cwnd;
        // Section 4.7. W_max is a window, so in whole segments, as cwnd is at a loss.
        let shrinking = self.fast_convergence && cwnd < self.w_max;
        self.w_max = if shrinking { (cwnd * (1.0 + self.beta) / 2.0).floor() } else { cwnd };
        self.cwnd_prior = cwnd;
        self.window.ssthresh = (cwnd * self.beta).max(2.0);
        self.reduced = true;
        self.stage = None;
    }

    fn event(&mut self, ack: &Ack, event: Event, _choices: &mut Choices) {
        match event {
            // Section 4.8: the next stage starts with K = 0 at whatever window.
            Event::Timeout => {
                self.reduced = false;
                self.w_max = 0.0;
            }
            Event::Restart => {
                self.last_us = ack.now_us;
                self.leave_out();
            }
            Event::Recovered | Event::Undo => {}
        }
    }
}

impl Cubic {
    fn new(params: &Params, ack: &Ack, window: Window) -> Self {
        let s_max = param(params, "smax", 1.0);
        Self {
            window,
            c: param(params, "c", 1024.0),
            beta: param(params, "beta", 1024.0),
            fast_convergence: whole(params, "fast_convergence") != 0,
            reno_friendly: match whole(params, "reno_friendly") {
                0 => RenoFriendly::No,
                1 => RenoFriendly::Rfc,
                _ => RenoFriendly::Linux,
            },
            s_max: if s_max == 0.0 { f64::INFINITY } else { s_max },
            first_count: param(params, "first_count", 1.0),
            w_max: 0.0,
            cwnd_prior: 0.0,
            reduced: false,
            stage: None,
            last_us: ack.now_us,
            limited: false,
            srtt: 0.0,
        }
    }

    /// The time up to now doesn't count. A tick more or less does, where that begins and ends in one.
    fn leave_out(&mut self) {
        if let (true, Some(stage)) = (self.limited, &mut self.stage) {
            stage.off_t += TICK;
        }
        self.limited = false;
    }

    fn avoid_congestion(&mut self, acked: f64, since_last: f64, choices: &mut Choices) {
        let cwnd = self.window.cwnd;
        let mut stage = match self.stage.take() {
            Some(stage) => Stage { t: stage.t + since_last, ..stage },
            None => self.enter_stage(),
        };
        // Equation 4: as fast as Reno's average until where it was, then as fast as Reno.
        let reno = 3.0 * (1.0 - self.beta) / (1.0 + self.beta);
        let caught_up =
            stage.caught_up || !choices.less(stage.w_est, self.cwnd_prior, stage.off_est);
        stage.caught_up = caught_up;
        let as_reno = caught_up && self.reno_friendly == RenoFriendly::Rfc;
        let alpha = if as_reno { 1.0 } else { reno };
        stage.w_est += alpha * acked / cwnd;
        // The integer divides by whole segments, and its alpha is cut to 1/1024.
        let whole = (cwnd - 1.0).max(1.0);
        stage.off_est += alpha * acked * (1.0 / whole - 1.0 / cwnd) + acked / whole * Q10;
        let slack = stage.off_est + stage.off_cubic(self.c);
        let w_cubic = |t: f64| self.c * (t - stage.k).powi(3) + self.w_max;
        let target = w_cubic(stage.t + self.srtt).clamp(cwnd, 1.5 * cwnd);
        let growth = (target - cwnd).min(self.s_max * self.srtt);
        if !self.reduced && self.first_count > 0.0 {
            let least = if self.reno_friendly == RenoFriendly::No { 0.0 } else { reno };
            self.window.cwnd += growth.max(cwnd / self.first_count).max(least) / cwnd * acked;
        } else if self.reno_friendly == RenoFriendly::Linux {
            let behind = (stage.w_est - cwnd).clamp(0.0, cwnd / 2.0);
            self.window.cwnd += growth.max(behind) / cwnd * acked;
        } else if self.reno_friendly == RenoFriendly::Rfc
            && choices.less(w_cubic(stage.t), stage.w_est, slack)
        {
            // Not at once, as after a caller's cut, but half a segment for each acknowledged.
            self.window.cwnd += (stage.w_est - cwnd).clamp(0.0, acked / 2.0);
        } else {
            self.window.cwnd += growth / cwnd * acked;
        }
        self.stage = Some(stage);
    }

    fn enter_stage(&mut self) -> Stage {
        let cwnd = self.window.cwnd;
        // Where the loss left the window, before that was rounded to whole segments.
        let left = self.cwnd_prior * self.beta;
        let unrounded = self.reno_friendly == RenoFriendly::Rfc && left.floor() == cwnd;
        let w_est = if unrounded { left } else { cwnd };
        let k = if self.reduced && cwnd < self.w_max {
            ((self.w_max - cwnd) / self.c).cbrt()
        } else {
            self.w_max = cwnd;
            0.0
        };
        // t begins and ends within a tick, and is then cut as K is.
        Stage { t: 0.0, k, w_est, caught_up: false, off_t: TICK + 2.0 * Q10, off_est: 0.0 }
    }
}

/// Standard slow start: HyStart is not part of RFC 9438.
#[test]
fn cubic() {
    let cubic = Algorithm::find("cubic").unwrap();
    for set in &cubic.sets {
        compare(&set.params.clone().with("hystart", 0).unwrap(), Cubic::new);
    }
    let plain = cubic.set("rfc9438").unwrap().params.clone();
    compare(&plain.with("fast_convergence", 0).unwrap(), Cubic::new);
}

/// Before a loss a window of 1000 grows by one segment for 20 acknowledged, and after one that was
/// spurious it does so again: W_max is as unknown as before.
#[test]
fn a_spurious_loss_tells_no_w_max() {
    const START: u32 = 1_000;
    let params = Algorithm::find("cubic").unwrap().set("linux").unwrap().params.clone();
    let mut ack = Ack {
        now_us: 1_000_000,
        rtt_us: 100_000,
        min_rtt_us: 100_000,
        acked: 10,
        mss: 1448,
        flags: Ack::CWND_LIMITED,
        ..Ack::default()
    };
    let mut decision = Decision { pacing_rate: 0, cwnd: START, ssthresh: START };
    let mut control = Control::new(&params, &ack, &mut decision);
    let mut half_a_window = |control: &mut Control, decision: &mut Decision| {
        for _ in 0..50 {
            ack.now_us += 1_000;
            control.rtt(&ack, decision);
            control.ack(&ack, decision);
        }
        ack
    };
    let ack = half_a_window(&mut control, &mut decision);
    assert_eq!(decision.cwnd, START + 24, "500 segments at 20, and what is not yet whole");
    let before = decision;
    control.loss(&ack, &mut decision);
    decision = before;
    control.event(&ack, &mut decision, Event::Undo);
    half_a_window(&mut control, &mut decision);
    assert_eq!(decision.cwnd, before.cwnd + 24, "the loss was none");
}
