// SPDX-License-Identifier: GPL-2.0-or-later
//! A method that does what a test says.

use longhaul_experiment::{
    ExperimentError, Method, Obstacles, Options, RunContext, Step, manifest, run_all,
};
use record::{Metrics, OfferedFiles, Record, RunResults, Series, Summary};
use scenario::{Run, Scenario};
use std::{path::Path, sync::Mutex};
use testkit::draft::Draft;

/// What a run comes to.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// This goodput in bit/s.
    Valid(f64),
    /// A record that does not count.
    Invalid,
    /// No record.
    Fails,
}

/// Answers each attempt of a run as a test says, by its name and the number of the call.
pub struct Scripted<F: Fn(&str, usize) -> Outcome> {
    pub outcome: F,
    pub attempts: u32,
    /// The runs in the order in which they took place.
    pub took_place: Mutex<Vec<String>>,
}

impl<F: Fn(&str, usize) -> Outcome> std::fmt::Debug for Scripted<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl<F: Fn(&str, usize) -> Outcome> Scripted<F> {
    pub fn new(attempts: u32, outcome: F) -> Self {
        Self { outcome, attempts, took_place: Mutex::default() }
    }

    pub fn taken(&self) -> Vec<String> {
        self.took_place.lock().unwrap().clone()
    }
}

impl<F: Fn(&str, usize) -> Outcome + Sync> Method for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn source_hash(&self) -> &'static str {
        "5c"
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn prepare(&self, run: &Run, _: &mut Obstacles) -> Run {
        run.clone()
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        let calls = {
            let mut taken = self.took_place.lock().unwrap();
            taken.push(run.id.clone());
            taken.iter().filter(|id| **id == run.id).count()
        };
        context.step(Step::Configuration);
        context.step(Step::Execution);
        let mut manifest =
            manifest::of(run, manifest::MadeBy::method(self), context.command, context.started);
        let goodput_bps = match (self.outcome)(&run.id, calls) {
            Outcome::Valid(bps) => bps,
            Outcome::Invalid => {
                manifest.valid = false;
                manifest.invalid_reasons = vec!["late".to_owned()];
                1.0
            }
            Outcome::Fails => return Err(ExperimentError::Unsupported("it broke".to_owned())),
        };
        std::fs::write(context.folder.join("server.log"), "it served\n").unwrap();
        context.step(Step::Analysis);
        let metrics = Metrics { goodput_bps: Some(goodput_bps), ..Metrics::default() };
        let summary = Summary { metrics, ..Summary::default() };
        Ok(Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary })
    }
}

/// Two variants, each repeated so often.
pub fn runs(repeat: u32) -> Vec<Run> {
    let draft = Draft::new("two variants", &format!("repeat={repeat}"))
        .nodes(&["a", "b"])
        .link("a", "b", "rate=10mbit delay=5ms")
        .flow("a", "b", "bytes=1MB");
    let text = draft.to_string()
        + "[[variant]]\nname = \"slow\"\n[[variant]]\nname = \"fast\"\nset = { \"link.a-b.rate\" = \"20mbit\" }\n";
    Scenario::parse(&text, "two.toml", &[""; 0]).unwrap().runs
}

pub fn into(out: &Path) -> Options {
    Options { command: vec!["longhaul".to_owned(), "lab".to_owned()], ..Options::new(out) }
}

pub fn run_into<F: Fn(&str, usize) -> Outcome + Sync>(
    out: &Path,
    runs: &[Run],
    method: &Scripted<F>,
) -> Result<Vec<RunResults>, ExperimentError> {
    run_all(runs, method, &into(out), |_| ())
}
