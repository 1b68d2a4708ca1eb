// SPDX-License-Identifier: GPL-2.0-or-later
//! The integer algorithm and the float model on the same events.
//!
//! After every event both have the same window, within 1 % or 2 segments (the very same where a model
//! says that its windows are whole), and the same pacing rate, within 1 %. At each loss the model's cwnd is set to the integer's before it, and its cwnd and
//! ssthresh after it, so that an epoch starts where its integer does and errors don't pile up over epochs;
//! everything else that a model remembers is its own.
//!
//! Where a model met a choice that rounding decides ([`Choices`]), every course is followed and
//! those that the integer departs from are given up. That the model's own course was among these is
//! counted: it fell otherwise, on a tie (or, in BBR, started a cycle in another phase, which is
//! random). Without a tie there is one course only, and leaving it
//! fails the test.

use std::collections::VecDeque;

use longhaul_congestion::{Ack, Algorithm, Attach, Control, Decision, Event, Params};

use super::{
    model::{Choices, Model, Window, explore},
    path::{Epoch, Path},
};

const SEQUENCES: u64 = 300;
const EVENTS: usize = 4_000;
/// More than this many courses at once would mean that a model leaves everything open.
const COURSES: usize = 2_000;

/// What was compared.
#[derive(Debug, Default)]
struct Tally {
    events: usize,
    losses: usize,
    timeouts: usize,
    idle_times: usize,
    ties: usize,
    fell_otherwise: usize,
}

/// Compares a parameter set over hundreds of random sequences.
pub fn compare<M: Model>(params: &Params, make: impl Fn(&Params, &Ack, Window) -> M) {
    let seed = std::env::var("LONGHAUL_SEED").map_or(11, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed} {} {params:?}", params.algorithm().name);
    let mut tally = Tally::default();
    for sequence in 0..SEQUENCES {
        Pair::new(params, &make, seed, sequence, &mut tally).run();
    }
    println!("{tally:?}");
    assert!(tally.losses > 500, "the sequences hold too few losses to tell anything");
}

/// The same over every parameter set of an algorithm.
pub fn compare_sets<M: Model>(name: &str, make: impl Fn(&Params, &Ack, Window) -> M) {
    for set in &Algorithm::find(name).unwrap().sets {
        compare(&set.params, &make);
    }
}

/// A connection by both.
struct Pair<'a, M> {
    sequence: u64,
    path: Path,
    control: Control,
    decision: Decision,
    /// The first is the model's own.
    courses: Vec<M>,
    tally: &'a mut Tally,
    events: usize,
    /// The last calls, for the message of a failure: which, its event, and both windows after it.
    last: VecDeque<(&'static str, Ack, Decision, Window)>,
}

impl<'a, M: Model> Pair<'a, M> {
    fn new(
        params: &Params,
        make: &impl Fn(&Params, &Ack, Window) -> M,
        seed: u64,
        sequence: u64,
        tally: &'a mut Tally,
    ) -> Self {
        let mut path = Path::new(seed, sequence);
        let mut decision = path.start();
        // The handshake: a sample of the RTT, and nothing acknowledged.
        let syn = path.ack(&decision, Epoch::Segments(1.0), 0);
        let syn = Ack { acked: 0, delivery_rate: 0, flags: 0, ..syn };
        let start = Window {
            cwnd: f64::from(decision.cwnd),
            ssthresh: float_ssthresh(decision.ssthresh),
            pacing: 0.0,
            stray: 0.0,
        };
        let control = Control::new(params, &syn, &mut decision);
        let courses = vec![make(params, &syn, start)];
        let last = VecDeque::new();
        let mut pair = Self { sequence, path, control, decision, courses, tally, events: 0, last };
        pair.check("init", &syn, pair.courses.clone());
        pair
    }

    fn run(&mut self) {
        while self.events < EVENTS {
            let mut epoch = self.path.epoch();
            loop {
                if self.path.random.chance(0.0005) {
                    self.idle(epoch);
                }
                let ack = self.path.ack(&self.decision, epoch, 0);
                self.acknowledge(&ack);
                if self.path.ends(&mut epoch, &ack, &self.decision) || self.events >= EVENTS {
                    break;
                }
            }
            self.lose(epoch);
        }
        self.tally.events += self.events;
    }

    fn acknowledge(&mut self, ack: &Ack) {
        self.events += 1;
        self.sample(ack);
        self.step(
            "ack",
            ack,
            |control, decision| control.ack(ack, decision),
            &|model: &mut M, choices: &mut Choices| model.ack(ack, choices),
        );
    }

    fn sample(&mut self, ack: &Ack) {
        if ack.rtt_us == 0 {
            return;
        }
        self.step(
            "rtt",
            ack,
            |control, decision| control.rtt(ack, decision),
            &|model: &mut M, choices: &mut Choices| model.rtt(ack, choices),
        );
    }

    fn tell(&mut self, ack: &Ack, event: Event) {
        self.step(
            "event",
            ack,
            |control, decision| control.event(ack, decision, event),
            &|model: &mut M, choices: &mut Choices| model.event(ack, event, choices),
        );
    }

    fn idle(&mut self, epoch: Epoch) {
        self.tally.idle_times += 1;
        let pause_us = self.path.random.log_between(1e4, 1e8);
        self.path.pause(pause_us);
        let ack = self.path.ack(&self.decision, epoch, 0);
        let ack = Ack {
            acked: 0,
            rtt_us: 0,
            delivery_rate: 0,
            in_flight: 0,
            prior_in_flight: 0,
            flags: Ack::APP_LIMITED,
            ..ack
        };
        self.tell(&ack, Event::Restart);
    }

    /// A loss, the recovery from it, and now and then a timeout instead.
    fn lose(&mut self, epoch: Epoch) {
        self.tally.losses += 1;
        let mut ack = self.path.ack(&self.decision, epoch, Ack::RECOVERY);
        ack.lost = 1 + self.path.random.bits() as u32 % 3;
        self.sample(&ack);
        let before = f64::from(self.decision.cwnd);
        self.courses.iter_mut().for_each(|model| model.window().cwnd = before);
        self.step(
            "loss",
            &ack,
            |control, decision| control.loss(&ack, decision),
            &|model: &mut M, choices: &mut Choices| model.loss(&ack, choices),
        );
        let ssthresh = float_ssthresh(self.decision.ssthresh);
        let after = f64::from(self.decision.cwnd);
        for model in &mut self.courses {
            model.window().ssthresh = ssthresh;
            model.window().cwnd = after;
        }
        let timeout = self.path.random.chance(0.1);
        if timeout {
            self.tally.timeouts += 1;
            self.tell(&ack, Event::Timeout);
            self.set_cwnd(1);
        }
        self.recover(&ack, timeout);
    }

    /// A round trip of recovery. A window algorithm has its window cut down to ssthresh.
    fn recover(&mut self, lost: &Ack, timeout: bool) {
        let rate = self.control.params().algorithm().attach == Attach::Rate;
        let end_us = lost.now_us + self.path.rtt_us() as u64;
        if rate {
            self.acknowledge(lost);
        }
        loop {
            let window = Decision { cwnd: self.decision.cwnd.max(8), ..self.decision };
            let ack = self.path.ack(&window, Epoch::Until(0.0), Ack::RECOVERY);
            if ack.now_us >= end_us {
                break;
            }
            if rate {
                self.acknowledge(&ack);
            } else {
                self.sample(&ack);
            }
        }
        if !rate && !timeout {
            self.set_cwnd(self.decision.ssthresh);
        }
        let ack = self.path.ack(&self.decision, Epoch::Segments(1.0), 0);
        self.tell(&ack, Event::Recovered);
    }

    /// The caller sets the window.
    fn set_cwnd(&mut self, cwnd: u32) {
        self.decision.cwnd = cwnd;
        self.courses.iter_mut().for_each(|model| model.window().cwnd = f64::from(cwnd));
    }

    fn step(
        &mut self,
        what: &'static str,
        ack: &Ack,
        integer: impl FnOnce(&mut Control, &mut Decision),
        float: &impl Fn(&mut M, &mut Choices),
    ) {
        integer(&mut self.control, &mut self.decision);
        let mut courses: Vec<M> =
            self.courses.iter().flat_map(|model| explore(model, float)).collect();
        if courses.len() > self.courses.len() {
            self.tally.ties += 1;
        }
        self.check(what, ack, std::mem::take(&mut courses));
    }

    fn check(&mut self, what: &'static str, ack: &Ack, mut courses: Vec<M>) {
        let decision = self.decision;
        let own = near(&decision, &mut courses[0]);
        self.last.push_back((what, *ack, decision, *courses[0].window()));
        if self.last.len() > 12 {
            self.last.pop_front();
        }
        let mut left: Vec<M> = Vec::new();
        for model in &mut courses {
            if near(&decision, model) && !left.iter_mut().any(|other| other.absorb(model)) {
                left.push(model.clone());
            }
        }
        assert!(
            !left.is_empty(),
            "sequence {}, event {} ({what}): got {decision:?}, expected one of {courses:#?}\n\
             before: {:#?}\nthe last calls: {:#?}",
            self.sequence,
            self.events,
            self.courses,
            self.last.iter().map(|call| format!("{call:?}")).collect::<Vec<_>>(),
        );
        assert!(left.len() <= COURSES, "{} courses at once: {left:#?}", left.len());
        self.tally.fell_otherwise += usize::from(!own);
        self.courses = left;
    }
}

fn float_ssthresh(ssthresh: u32) -> f64 {
    if ssthresh == Decision::INFINITE_SSTHRESH { f64::INFINITY } else { f64::from(ssthresh) }
}

fn near<M: Model>(integer: &Decision, model: &mut M) -> bool {
    let (whole, float) = (model.is_whole(), *model.window());
    let segments = |integer: f64, float: f64| {
        integer == float || !whole && (integer - float).abs() <= (0.01 * float).max(2.0)
    };
    let pacing = integer.pacing_rate as f64;
    segments(f64::from(integer.cwnd), float.cwnd)
        && segments(float_ssthresh(integer.ssthresh), float.ssthresh)
        && (pacing - float.pacing).abs() <= (0.01 + float.stray) * float.pacing
}
