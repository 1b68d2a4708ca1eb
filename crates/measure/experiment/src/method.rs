// SPDX-License-Identifier: GPL-2.0-or-later
//! What a method of running scenarios is.

use crate::{
    error::ExperimentError,
    obstacles::{Obstacle, Obstacles},
    step::Step,
};
use record::{Manifest, Record};
use scenario::{Event, Run};
use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};
use units::Timestamp;

/// A way to carry out runs of a scenario and to measure them.
pub trait Method: Debug + Sync {
    /// Its name in records.
    fn name(&self) -> &'static str;

    /// SHA-256 over the sources that decide its figures: a change of them outdates its records.
    fn source_hash(&self) -> &'static str;

    /// Where records lie in a scenario's folder. Methods lie side by side in it, so that one page can show them.
    fn folder(&self, out: &Path) -> PathBuf {
        out.join(self.name())
    }

    /// Whether runs don't disturb each other when they take place at the same time.
    fn runs_side_by_side(&self) -> bool {
        false
    }

    /// How often a run is tried that turns out invalid.
    fn attempts(&self) -> u32 {
        1
    }

    /// Whether things happen in its runs at times of their own (`[[event]]`).
    fn has_events(&self) -> bool {
        false
    }

    /// What it takes from these runs without doing anything with it, one line for each key.
    fn ignored(&self, _runs: &[Run]) -> Vec<String> {
        Vec::new()
    }

    /// The run as it will take place, which is what goes on record. What is in the way is noted.
    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run;

    /// Whether a record of this run is of the same inputs, as far as the scenario does not tell.
    fn has_same_inputs(&self, _run: &Run, _recorded: &Manifest) -> bool {
        true
    }

    /// What could not be put back on hosts after runs, and what to do by hand.
    fn left_changed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes one run from its start to a record.
    ///
    /// # Errors
    /// It could not take place.
    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError>;
}

/// Parameters of a run other than the scenario.
pub struct RunContext<'a> {
    /// An empty folder for the run's files. Logs in it (`*.log`) are kept with the record.
    pub folder: &'a Path,
    /// A folder for files of all runs.
    pub shared: &'a Path,
    /// The command line to put on record.
    pub command: &'a [String],
    /// When it begins.
    pub started: SystemTime,
    pub(crate) begun: Instant,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) on_progress: &'a mut dyn FnMut(Progress),
    pub(crate) on_step: &'a mut dyn FnMut(Step),
    pub(crate) on_partial_record: &'a mut dyn FnMut(&Record) -> Result<(), ExperimentError>,
}

impl<'a> RunContext<'a> {
    /// Time since the run began, for methods that know no clock.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether the run shall end early, with [`ExperimentError::Interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The same as a flag, for threads.
    pub fn interrupted(&self) -> &'a AtomicBool {
        self.interrupted
    }

    /// A step begins, and the one before ends. The step after [`Step::Analysis`] is not the method's.
    pub fn step(&mut self, step: Step) {
        (self.on_step)(step);
    }

    /// Tells how far the run is.
    pub fn progress(&mut self, progress: Progress) {
        (self.on_progress)(progress);
    }

    /// Puts down what there is so far: the record of a run that does not count.
    ///
    /// # Errors
    /// It could not be written.
    pub fn partial_record(&mut self, record: &Record) -> Result<(), ExperimentError> {
        (self.on_partial_record)(record)
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The share that is done, between 0 and 1.
    pub share: f64,
    /// Time in the run.
    pub now: Timestamp,
    /// When it ends at the latest.
    pub ends: Timestamp,
    /// Events so far.
    pub events: u64,
    /// Their duration.
    pub wall: Duration,
}

impl Progress {
    /// Events in a second of real time.
    pub fn events_per_s(&self) -> f64 {
        let wall_s = self.wall.as_secs_f64();
        if wall_s > 0.0 { self.events as f64 / wall_s } else { 0.0 }
    }

    /// What the rest takes if it is as the part that is done; none before there is such a part.
    pub fn left(&self) -> Option<Duration> {
        let left_s = self.wall.as_secs_f64() * (1.0 / self.share - 1.0);
        Duration::try_from_secs_f64(left_s).ok()
    }
}

/// The runs as they will take place.
///
/// # Errors
/// Some ask for what the method can't do or the machine lacks; each line of the text names one
/// thing and says what to do.
pub fn prepare_all(method: &dyn Method, runs: &[Run]) -> Result<Vec<Run>, ExperimentError> {
    let mut obstacles = Obstacles::default();
    let without = runs.iter().filter(|run| !method.has_events() && !run.events.is_empty());
    for run in without {
        let event = |event: &Event| Obstacle {
            before: "only methods emu and field have event ",
            subject: event.name.clone(),
            after: String::new(),
        };
        obstacles.unsupported(run, run.events.iter().map(event));
    }
    let prepared = runs.iter().map(|run| method.prepare(run, &mut obstacles)).collect();
    obstacles.of_all(runs.len()).map(|()| prepared)
}
