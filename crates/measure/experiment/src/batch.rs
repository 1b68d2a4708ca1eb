// SPDX-License-Identifier: GPL-2.0-or-later
//! All runs of a scenario, each into a folder of its own. What is there already, as the scenario has
//! it now, is not run again; what is there of the scenario as it was is replaced, each once its run has ended.
//!
//! Jobs take the next run from a queue and tell the caller's thread what happens; it alone watches and collects. Runs that
//! disturb each other take one job. An error or a signal ends all jobs.

use crate::{
    error::ExperimentError,
    method::{Method, Progress, RunContext, prepare_all},
    record_directories::{Found, WorkDirectory, keep_logs, on_record},
};
use record::{RunResults, manifest::Prediction};
use scenario::Run;
use std::{
    fs,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Instant, SystemTime},
};

/// How to run a scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder that the records' folders go into.
    pub out: PathBuf,
    /// Runs at the same time; at least 1, and no more by a method whose runs disturb each other.
    pub jobs: usize,
    /// Which recorded runs are reused.
    pub known: ReusePolicy,
    /// Whether records of the scenario with other settings stay: then they are refused, and otherwise replaced.
    pub keep: bool,
    /// The command line to put on record.
    pub command: Vec<String>,
    /// What closed forms predict of a run, to put on record beside its results.
    pub predict: fn(&Run) -> Option<Prediction>,
}

impl Options {
    /// One run after the other into `out`, without a command line or predictions on record. What changed is replaced.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            jobs: 1,
            known: ReusePolicy::default(),
            keep: false,
            command: Vec::new(),
            predict: |_| None,
        }
    }
}

/// Which records spare a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReusePolicy {
    /// Those that this program has made, or one of the same sources.
    #[default]
    SameProgram,
    /// Those of any longhaul.
    AnyProgram,
    /// None: all is run again.
    Nothing,
}

/// Something that happened to a run, for who watches.
#[derive(Debug)]
pub struct Event<'a> {
    /// Which of the runs, from 0.
    pub index: usize,
    /// The run.
    pub run: &'a Run,
    /// The event.
    pub what: RunEvent<'a>,
}

/// An event of a run.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// It was on record already. All that were come before the first that begins.
    Known(&'a RunResults),
    /// Another longhaul has put it on record: it is run again.
    Outdated,
    /// It is on record with other settings: it is run again.
    Changed,
    /// It begins; again, when it did not count.
    Begins,
    /// It goes on. Not every method tells.
    Goes(Progress),
    /// It has ended, and is on record.
    Ended(&'a RunResults),
}

/// Runs what is not on record yet; answers what is on record of all, in the order of the runs.
///
/// # Errors
/// The first run that could not take place ends it all; what was finished before stays on record.
/// If the method can't do one of the runs, none takes place.
pub fn run_all(
    runs: &[Run],
    method: &dyn Method,
    options: &Options,
    mut watch: impl FnMut(Event<'_>),
) -> Result<Vec<RunResults>, ExperimentError> {
    let runs = prepare_all(method, runs)?;
    let mut recorded = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let found = on_record(&method.folder(&options.out, run), run, method)?;
        recorded.push(match found {
            Found::Record { of_run, same_program }
                if options.known == ReusePolicy::AnyProgram
                    || options.known == ReusePolicy::SameProgram && same_program =>
            {
                let known = RunResults::from(*of_run);
                watch(Event { index, run, what: RunEvent::Known(&known) });
                Some(known)
            }
            Found::Record { .. } if options.known == ReusePolicy::SameProgram => {
                watch(Event { index, run, what: RunEvent::Outdated });
                None
            }
            Found::Changed if options.keep => {
                return Err(ExperimentError::Unsupported(format!(
                    "{} holds this run of a scenario with other settings; give another --out, or leave out --keep",
                    method.folder(&options.out, run).display()
                )));
            }
            Found::Changed => {
                watch(Event { index, run, what: RunEvent::Changed });
                None
            }
            Found::Record { .. } | Found::Nothing => None,
        });
    }
    let interrupted =
        host::stop_flag().map_err(|e| ExperimentError::system("watch for signals", e))?;
    let work = WorkDirectory::new(&options.out)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|&index| recorded[index].is_none()).collect();
    let jobs =
        if method.runs_side_by_side() { options.jobs.clamp(1, todo.len().max(1)) } else { 1 };
    let queue = Mutex::new(todo.into_iter());
    let mut failed = None;
    thread::scope(|scope| {
        let (say, heard) = mpsc::channel();
        for _ in 0..jobs {
            let job =
                Job { method, options, work: &work, interrupted: &interrupted, say: say.clone() };
            let (runs, queue) = (&runs, &queue);
            scope.spawn(move || {
                while let Some(index) = job.next(queue) {
                    job.run(index, &runs[index]);
                }
            });
        }
        drop(say);
        for (index, message) in heard {
            let run = &runs[index];
            let mut watch = |what| watch(Event { index, run, what });
            match message {
                Message::Begins => watch(RunEvent::Begins),
                Message::Goes(progress) => watch(RunEvent::Goes(progress)),
                Message::Ended(of_run) => {
                    watch(RunEvent::Ended(&of_run));
                    recorded[index] = Some(*of_run);
                }
                Message::Failed(error) => {
                    // The others end as if interrupted; that is then not the reason.
                    interrupted.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => recorded.into_iter().collect::<Option<_>>().ok_or(ExperimentError::Interrupted),
    }
}

/// Message of a job about a run.
enum Message {
    Begins,
    Goes(Progress),
    Ended(Box<RunResults>),
    Failed(ExperimentError),
}

/// Takes runs, one after the other.
struct Job<'a> {
    method: &'a dyn Method,
    options: &'a Options,
    work: &'a WorkDirectory,
    interrupted: &'a AtomicBool,
    say: mpsc::Sender<(usize, Message)>,
}

impl Job<'_> {
    /// The next run's index, unless the jobs shall end.
    fn next(&self, queue: &Mutex<impl Iterator<Item = usize>>) -> Option<usize> {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        if self.interrupted.load(Ordering::Relaxed) { None } else { next() }
    }

    fn run(&self, index: usize, run: &Run) {
        if let Err(error) = self.to_a_record(index, run) {
            self.tell(index, Message::Failed(error));
        }
    }

    fn tell(&self, index: usize, message: Message) {
        // The receiver listens until the last job has ended.
        let _ = self.say.send((index, message));
    }

    /// Tries until the run counts, and as often as the method says.
    fn to_a_record(&self, index: usize, run: &Run) -> Result<(), ExperimentError> {
        let folder = self.method.folder(&self.options.out, run);
        for _ in 0..self.method.attempts() {
            self.tell(index, Message::Begins);
            let of_run = self.work.folder(&format!("run-{}", run.id))?;
            let mut record = self.method.run(
                run,
                &mut RunContext {
                    folder: &of_run,
                    shared: self.work.path(),
                    command: &self.options.command,
                    started: SystemTime::now(),
                    begun: Instant::now(),
                    interrupted: self.interrupted,
                    on_progress: &mut |progress| self.tell(index, Message::Goes(progress)),
                    on_partial_record: &mut |record| self.work.replace(&folder, record, &of_run),
                },
            )?;
            record.manifest.predicted = (self.options.predict)(run);
            self.work.replace(&folder, &record, &of_run)?;
            keep_logs(&of_run, &folder)?;
            fs::remove_dir_all(&of_run)
                .map_err(|error| ExperimentError::file("remove", &of_run, error))?;
            let is_valid = record.manifest.valid;
            self.tell(index, Message::Ended(Box::new(record.into())));
            if is_valid {
                break;
            }
        }
        Ok(())
    }
}
