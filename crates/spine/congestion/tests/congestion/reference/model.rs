// SPDX-License-Identifier: GPL-2.0-or-later
//! What a float model of a congestion control is, and how it meets a choice that rounding decides.

use longhaul_congestion::{Ack, Event, Params};

/// The floats for what [`longhaul_congestion::Decision`] has as integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Segments.
    pub cwnd: f64,
    /// Segments; infinite before the first loss.
    pub ssthresh: f64,
    /// Bytes a second; 0 where the algorithm has none.
    pub pacing: f64,
    /// How far the pacing rate may stray at random, as a share of it.
    pub stray: f64,
}

impl Window {
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 slow start; returns the part of `acked` that remains for congestion avoidance.
    pub fn slow_start(&mut self, acked: f64) -> f64 {
        let step = acked.min((self.ssthresh - self.cwnd).max(0.0));
        self.cwnd += step;
        acked - step
    }
}

/// An algorithm as in its paper. A clone is another course that events may have taken.
pub trait Model: Clone + std::fmt::Debug + PartialEq {
    fn window(&mut self) -> &mut Window;
    fn rtt(&mut self, _ack: &Ack, _choices: &mut Choices) {}
    fn ack(&mut self, ack: &Ack, choices: &mut Choices);
    /// Sets `ssthresh`; the caller has set cwnd to that of the integer algorithm.
    fn loss(&mut self, ack: &Ack, choices: &mut Choices);
    fn event(&mut self, _ack: &Ack, _event: Event, _choices: &mut Choices) {}
    /// Whether its windows are whole, so that the integer's is the same or the course is another.
    fn is_whole(&self) -> bool {
        false
    }
    /// Whether following this course is enough for the other too; takes over what that needs.
    fn absorb(&mut self, other: &Self) -> bool {
        self == other
    }
}

/// A parameter in its own unit, as `0.7` where the set says 717 of 1024.
pub fn param(params: &Params, name: &str, unit: f64) -> f64 {
    f64::from(whole(params, name)) / unit
}

/// A parameter as it is.
pub fn whole(params: &Params, name: &str) -> u32 {
    let at = params.algorithm().params.iter().position(|param| param.name == name);
    let at = at.unwrap_or_else(|| panic!("{} has no {name}", params.algorithm().name));
    params.values()[at]
}

/// Whether count `a` of deliveries is after `b`; they wrap.
pub fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The choices of one call of a model. Where the compared quantities are within `slack` of each
/// other, that is where rounding decides, both courses are right, and [`explore`] follows both.
#[derive(Default)]
pub struct Choices {
    script: Vec<usize>,
    made: Vec<(usize, usize)>,
}

impl Choices {
    /// Whether `a < b`; either answer where they are within `slack`.
    pub fn less(&mut self, a: f64, b: f64, slack: f64) -> bool {
        if (a - b).abs() > slack {
            return a < b;
        }
        (a < b) == (self.any(2) == 0)
    }

    /// `x` made whole by `round`, where the integer's `x` may be smaller by up to `cut`: either whole
    /// number where that decides. Floats themselves may be off by their last digits.
    pub fn whole(&mut self, x: f64, cut: f64, round: fn(f64) -> f64) -> f64 {
        let own = round(x);
        let others = [x - cut, x - x * 1e-12, x + x * 1e-12].map(round);
        match others.into_iter().find(|&other| other != own) {
            Some(other) if self.any(2) == 1 => other.max(0.0),
            _ => own,
        }
    }

    /// One of `options` alternatives that the paper leaves open, as a random one.
    pub fn any(&mut self, options: usize) -> usize {
        let taken = self.script.get(self.made.len()).copied().unwrap_or(0);
        self.made.push((taken, options));
        taken
    }

    /// The script of the next course in depth-first order.
    fn next(mut self) -> Option<Self> {
        while let Some((taken, options)) = self.made.pop() {
            if taken + 1 < options {
                let mut script: Vec<usize> = self.made.iter().map(|&(taken, _)| taken).collect();
                script.push(taken + 1);
                return Some(Self { script, made: Vec::new() });
            }
        }
        None
    }
}

/// Does `step` to a model, by every course that the choices in it allow; the first is the model's
/// own, in floating point.
pub fn explore<M: Model>(model: &M, step: &impl Fn(&mut M, &mut Choices)) -> Vec<M> {
    let mut courses = Vec::new();
    let mut choices = Some(Choices::default());
    while let Some(mut now) = choices {
        let mut course = model.clone();
        step(&mut course, &mut now);
        courses.push(course);
        choices = now.next();
    }
    courses
}
