// SPDX-License-Identifier: GPL-2.0-or-later
//! Things that begin, or take, a random time more in each run: by the jitter that they were given, or
//! because repeats vary.

use crate::{
    run::{Flow, Link, Traffic},
    seeds,
};
use units::Duration;

/// A thing before the draw.
pub(crate) struct Jittered<T> {
    pub thing: T,
    /// What is drawn is below this.
    pub jitter: Duration,
    /// The same in a run that varies, where there is no jitter.
    pub variation: Duration,
}

/// What a drawn time is added to.
pub(crate) trait Jitter: Clone {
    const KIND: &'static str;
    fn name(&self) -> &str;
    fn add(&mut self, drawn: Duration);
}

impl<T: Jitter> Jittered<T> {
    /// The thing as the run with that seed has it.
    pub fn drawn(&self, run_seed: u64, varies: bool) -> T {
        let mut thing = self.thing.clone();
        let limit =
            if varies && self.jitter == Duration::ZERO { self.variation } else { self.jitter };
        let drawn = seeds::jitter(run_seed, T::KIND, thing.name(), limit);
        thing.add(drawn);
        thing
    }
}

impl Jitter for Link {
    const KIND: &'static str = "link";
    fn name(&self) -> &str {
        &self.name
    }
    fn add(&mut self, drawn: Duration) {
        self.forward.delay = self.forward.delay + drawn;
        self.backward.delay = self.backward.delay + drawn;
    }
}

impl Jitter for Flow {
    const KIND: &'static str = "flow";
    fn name(&self) -> &str {
        &self.name
    }
    fn add(&mut self, drawn: Duration) {
        self.start = self.start + drawn;
    }
}

impl Jitter for Traffic {
    const KIND: &'static str = "traffic";
    fn name(&self) -> &str {
        &self.name
    }
    fn add(&mut self, drawn: Duration) {
        self.start = self.start + drawn;
    }
}
