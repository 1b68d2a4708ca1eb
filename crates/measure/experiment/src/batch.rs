// SPDX-License-Identifier: GPL-2.0-or-later
//! All runs of a scenario, each into a folder of its own. What is there already, as the scenario has
//! it now, is not run again; what is there of the scenario as it was is replaced, each once its run has ended. A journal next to the
//! records says what happened (`journal`); after a kill the next engine continues by the records.
//!
//! Jobs take the next run from a queue and tell the caller's thread what happens; it alone watches and collects. Runs that
//! disturb each other take one job. An error ends all jobs, and so does the caller ([`Options::stop`]).

use crate::{
    error::ExperimentError,
    journal::{Entry, Journal, OnRecord, Started, now_s},
    method::{Method, Progress, RunContext, prepare_all},
    precision::Precision,
    record_directories::{Found, WorkDirectory, keep_failed, keep_logs, on_record},
    step::Step,
    sweep::{AttemptEnd, RunState, Sweep},
};
use record::{RunResults, manifest::Prediction};
use scenario::Run;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Instant, SystemTime},
};
use units::text::hexadecimal;

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
    /// No more repeats of a run take place once half the width of the 95 % confidence interval of their goodput is at most this share
    /// of the mean. It is looked at after each repeat from the third on, so it covers the mean a little less often than it says.
    pub until: Option<f64>,
    /// Ends all jobs once it is set; an error of a run sets it, too. The caller hears signals, and sets it.
    pub stop: Arc<AtomicBool>,
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
            until: None,
            stop: Arc::default(),
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
    /// It is on record with other settings, which differ here: it is run again.
    Changed(&'a [String]),
    /// It is left out, for this reason.
    LeftOut(&'a str),
    /// It begins; again, when it did not count.
    Begins,
    /// A step of it begins.
    Step(Step),
    /// It goes on. Not every method tells.
    Goes(Progress),
    /// It has ended, and is on record.
    Ended(&'a RunResults),
}

/// Runs what is not on record yet; answers what is on record of all that are not left out, in the order of the runs.
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
    let records = method.folder(&options.out);
    let (mut journal, before) = Journal::open(&records)?;
    let before = Sweep::of(before, false);
    journal.write(&Entry::Started(started(&runs, method, options)))?;
    let precision = Precision::new(options.until);
    let mut batch = Batch { runs: &runs, method, options, precision: &precision, journal };
    let result = batch.run(before.as_ref(), &mut watch);
    let error = result.as_ref().err().map(ToString::to_string);
    batch.journal.write(&Entry::Stopped { at_s: now_s(), error })?;
    result
}

/// How the engine begins.
fn started(runs: &[Run], method: &dyn Method, options: &Options) -> Started {
    let text = serde_json::to_vec(runs).expect("runs are plain data");
    let identity = Sha256::new().chain_update(method.name()).chain_update(text).finalize();
    Started {
        at_s: now_s(),
        sweep: hexadecimal(&identity),
        title: runs.first().map_or_else(String::new, |run| run.title.clone()),
        method: method.name().to_owned(),
        command: options.command.clone(),
        pid: std::process::id(),
        runs: runs.iter().map(|run| run.id.clone()).collect(),
    }
}

/// All runs, as they take place.
struct Batch<'a> {
    runs: &'a [Run],
    method: &'a dyn Method,
    options: &'a Options,
    precision: &'a Precision,
    journal: Journal,
}

impl Batch<'_> {
    fn run(
        &mut self,
        before: Option<&Sweep>,
        watch: &mut impl FnMut(Event<'_>),
    ) -> Result<Vec<RunResults>, ExperimentError> {
        let mut recorded = self.known(watch)?;
        let interrupted = &*self.options.stop;
        let work = WorkDirectory::new(&self.options.out)?;
        let (runs, method, options) = (self.runs, self.method, self.options);
        let todo: Vec<usize> = (0..runs.len()).filter(|&index| recorded[index].is_none()).collect();
        let jobs =
            if method.runs_side_by_side() { options.jobs.clamp(1, todo.len().max(1)) } else { 1 };
        let queue = Mutex::new(todo.into_iter());
        let precision = self.precision;
        let states = before.map_or(&[][..], |before| &before.runs);
        let before: HashMap<&str, &RunState> =
            states.iter().map(|state| (state.id.as_str(), state)).collect();
        let mut failed = None;
        let mut left_out = 0;
        thread::scope(|scope| {
            let (say, heard) = mpsc::channel();
            for _ in 0..jobs {
                let (work, say) = (&work, say.clone());
                let job = Job { method, options, work, interrupted, precision, say };
                let (queue, before) = (&queue, &before);
                scope.spawn(move || {
                    while let Some(index) = job.next(queue, runs) {
                        let run = &runs[index];
                        job.run(index, run, before.get(run.id.as_str()).copied());
                    }
                });
            }
            drop(say);
            for (index, message) in heard {
                let run = &runs[index];
                if let Some(entry) = message.entry(&run.id)
                    && let Err(error) = self.journal.write(&entry)
                {
                    interrupted.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
                let mut watch = |what| watch(Event { index, run, what });
                match message {
                    Message::Begins => watch(RunEvent::Begins),
                    Message::Step(_, step) => watch(RunEvent::Step(step)),
                    Message::Goes(progress) => watch(RunEvent::Goes(progress)),
                    Message::LeftOut(why) => {
                        left_out += 1;
                        watch(RunEvent::LeftOut(&why));
                    }
                    Message::Ended(_, of_run) => {
                        watch(RunEvent::Ended(&of_run));
                        recorded[index] = Some(*of_run);
                    }
                    Message::Failed(_, error) => {
                        failed.get_or_insert(error);
                    }
                }
            }
        });
        let recorded: Vec<RunResults> = recorded.into_iter().flatten().collect();
        match failed {
            Some(error) => Err(error),
            None if recorded.len() + left_out < runs.len() => Err(ExperimentError::Interrupted),
            None => Ok(recorded),
        }
    }

    /// What is on record already and spares a run, by run.
    fn known(
        &mut self,
        watch: &mut impl FnMut(Event<'_>),
    ) -> Result<Vec<Option<RunResults>>, ExperimentError> {
        let records = self.method.folder(&self.options.out);
        let mut recorded = Vec::with_capacity(self.runs.len());
        for (index, run) in self.runs.iter().enumerate() {
            let folder = records.join(&run.id);
            let mut results = None;
            let found = on_record(&folder, run, self.method)?;
            let (on_record, event) = match found {
                Found::Record { of_run, same_program } if self.is_spared(same_program) => {
                    (OnRecord::Same, RunEvent::Known(results.insert(*of_run)))
                }
                Found::Record { same_program: false, .. } => {
                    (OnRecord::OtherProgram, RunEvent::Outdated)
                }
                Found::Changed(_) if self.options.keep => {
                    return Err(ExperimentError::Unsupported(format!(
                        "{} holds this run of a scenario with other settings; give another --out, or leave out --keep",
                        folder.display()
                    )));
                }
                Found::Changed(ref differences) => {
                    (OnRecord::OtherSettings(differences.clone()), RunEvent::Changed(differences))
                }
                Found::Record { .. } | Found::Nothing => {
                    recorded.push(None);
                    continue;
                }
            };
            watch(Event { index, run, what: event });
            self.journal.write(&Entry::Found { run: run.id.clone(), found: on_record })?;
            if let Some(results) = &results {
                self.precision.add(run, results);
            }
            recorded.push(results);
        }
        Ok(recorded)
    }

    /// Whether a record of this program, or of another one, spares the run.
    fn is_spared(&self, same_program: bool) -> bool {
        match self.options.known {
            ReusePolicy::AnyProgram => true,
            ReusePolicy::SameProgram => same_program,
            ReusePolicy::Nothing => false,
        }
    }
}

/// Message of a job about a run; with the attempt's number.
enum Message {
    Begins,
    Step(u32, Step),
    Goes(Progress),
    LeftOut(String),
    Ended(u32, Box<RunResults>),
    Failed(u32, ExperimentError),
}

impl Message {
    /// What it is for the journal.
    fn entry(&self, run: &str) -> Option<Entry> {
        let (at_s, run) = (now_s(), run.to_owned());
        Some(match self {
            Self::Begins | Self::Goes(_) => return None,
            Self::Step(attempt, step) => Entry::Step { at_s, run, attempt: *attempt, step: *step },
            Self::LeftOut(why) => Entry::LeftOut { run, why: why.clone() },
            Self::Ended(attempt, results) => {
                let invalid = results.manifest.invalid_reasons.clone();
                Entry::Ended { at_s, run, attempt: *attempt, invalid }
            }
            Self::Failed(attempt, error) => {
                Entry::Failed { at_s, run, attempt: *attempt, error: error.to_string() }
            }
        })
    }
}

/// Takes runs, one after the other.
struct Job<'a> {
    method: &'a dyn Method,
    options: &'a Options,
    work: &'a WorkDirectory,
    interrupted: &'a AtomicBool,
    precision: &'a Precision,
    say: mpsc::Sender<(usize, Message)>,
}

impl Job<'_> {
    /// The next run's index, unless the jobs shall end. Runs whose repeats are enough are left out.
    fn next(&self, queue: &Mutex<impl Iterator<Item = usize>>, runs: &[Run]) -> Option<usize> {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        while !self.interrupted.load(Ordering::Relaxed) {
            let index = next()?;
            match self.precision.is_enough(&runs[index]) {
                Some(why) => self.tell(index, Message::LeftOut(why)),
                None => return Some(index),
            }
        }
        None
    }

    fn run(&self, index: usize, run: &Run, before: Option<&RunState>) {
        let mut attempt = before.map_or(1, RunState::next_attempt);
        let last = before.and_then(|before| before.attempts.last());
        let mut has_failed =
            last.is_some_and(|last| matches!(last.end, Some(AttemptEnd::Invalid(_))));
        for _ in 0..self.method.attempts() {
            match self.attempt(index, run, attempt, has_failed) {
                Ok(true) => return,
                Ok(false) => has_failed = true,
                Err(error) => {
                    self.tell(index, Message::Failed(attempt, error));
                    // The others end as if interrupted; that is then not the reason.
                    return self.interrupted.store(true, Ordering::Relaxed);
                }
            }
            attempt = attempt.saturating_add(1);
        }
    }

    fn tell(&self, index: usize, message: Message) {
        // The receiver listens until the last job has ended.
        let _ = self.say.send((index, message));
    }

    /// One attempt to a record; whether that counts. The one of an attempt before that does not is kept.
    fn attempt(
        &self,
        index: usize,
        run: &Run,
        attempt: u32,
        has_failed: bool,
    ) -> Result<bool, ExperimentError> {
        let records = self.method.folder(&self.options.out);
        let folder = records.join(&run.id);
        self.tell(index, Message::Begins);
        if has_failed {
            keep_failed(&records, &run.id)?;
        }
        let mut step = |step| self.tell(index, Message::Step(attempt, step));
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
                on_step: &mut step,
                on_progress: &mut |progress| self.tell(index, Message::Goes(progress)),
                on_partial_record: &mut |record| self.work.replace(&folder, record, &of_run),
            },
        )?;
        step(Step::Archive);
        record.manifest.predicted = (self.options.predict)(run);
        self.work.replace(&folder, &record, &of_run)?;
        keep_logs(&of_run, &folder)?;
        fs::remove_dir_all(&of_run)
            .map_err(|error| ExperimentError::file("remove", &of_run, error))?;
        let is_valid = record.manifest.valid;
        let results = RunResults::from(record);
        self.precision.add(run, &results);
        self.tell(index, Message::Ended(attempt, Box::new(results)));
        Ok(is_valid)
    }
}
