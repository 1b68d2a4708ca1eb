// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the runs of a scenario are, by the journal next to their records.

use crate::{
    journal::{Entry, OnRecord, Started, is_held, read_entries},
    step::Step,
};
use std::{collections::HashMap, io, path::Path};

/// How far the runs of a scenario are.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// How the engine began last.
    pub started: Started,
    /// Whether it is at work now.
    pub is_running: bool,
    /// When it ended, in seconds since 1970, and why, if not all was done. None while it runs, and if it was killed.
    pub stopped: Option<(f64, Option<String>)>,
    /// Runs of the scenario as the engine was given it last, in their order.
    pub runs: Vec<RunState>,
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunState {
    /// Its name.
    pub id: String,
    /// What was on record of it when the engine began last.
    pub found: Option<OnRecord>,
    /// Why it is left out, if it is.
    pub left_out: Option<String>,
    /// Its attempts, the first one first.
    pub attempts: Vec<AttemptState>,
}

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptState {
    /// Counted from 1.
    pub number: u32,
    /// The steps that have begun: when, in seconds since 1970, and how long they took. None of the last one of an attempt that was killed
    /// or is under way.
    pub steps: Vec<(Step, f64, Option<f64>)>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// With a record that counts.
    Valid,
    /// With one that does not, for these reasons.
    Invalid(Vec<String>),
    /// Without a record, for this reason.
    Failed(String),
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for its turn.
    Waiting,
    /// An attempt is under way, in this step.
    Running(Step),
    /// It is on record.
    Done,
    /// All attempts so far gave records that do not count.
    Invalid,
    /// The last attempt failed.
    Failed,
    /// The last attempt was cut off in this step when the engine was killed.
    CutOff(Step),
    /// It is left out.
    LeftOut,
}

impl Sweep {
    /// That of a folder of records; none where no engine has run.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        // First, so that an engine that ends meanwhile is not taken for one that was killed.
        let is_running = is_held(folder)?;
        Ok(Self::of(read_entries(folder)?, is_running))
    }

    pub(crate) fn of(entries: Vec<Entry>, is_running: bool) -> Option<Self> {
        let mut sweep: Option<Self> = None;
        let mut places: HashMap<String, usize> = HashMap::new();
        for entry in entries {
            if let Entry::Started(started) = entry {
                let before = sweep.take().map_or_else(Vec::new, |sweep| sweep.runs);
                let began = Self::begun(started, before);
                let of = |(at, run): (usize, &RunState)| (run.id.clone(), at);
                places = began.runs.iter().enumerate().map(of).collect();
                sweep = Some(began);
            } else if let Some(sweep) = &mut sweep {
                sweep.take(entry, &places);
            }
        }
        sweep.map(|sweep| Self { is_running, ..sweep })
    }

    /// The engine begins, and knows of earlier attempts.
    fn begun(started: Started, before: Vec<RunState>) -> Self {
        let mut before: HashMap<String, RunState> =
            before.into_iter().map(|run| (run.id.clone(), run)).collect();
        let state = |id: &String| {
            let attempts = before.remove(id).map_or_else(Vec::new, |run| run.attempts);
            RunState { id: id.clone(), attempts, ..RunState::default() }
        };
        let runs = started.runs.iter().map(state).collect();
        Self { started, is_running: false, stopped: None, runs }
    }

    fn take(&mut self, entry: Entry, places: &HashMap<String, usize>) {
        let name = match &entry {
            Entry::Started(_) | Entry::Stopped { .. } => None,
            Entry::Found { run, .. }
            | Entry::Step { run, .. }
            | Entry::Ended { run, .. }
            | Entry::Failed { run, .. }
            | Entry::LeftOut { run, .. } => places.get(run),
        };
        if let Entry::Stopped { at_s, error } = entry {
            self.stopped = Some((at_s, error));
            return;
        }
        let Some(run) = name.and_then(|at| self.runs.get_mut(*at)) else { return };
        match entry {
            Entry::Found { found, .. } => run.found = Some(found),
            Entry::LeftOut { why, .. } => run.left_out = Some(why),
            Entry::Step { at_s, attempt, step, .. } => {
                let attempt = run.attempt(attempt);
                attempt.end_step(at_s);
                attempt.steps.push((step, at_s, None));
            }
            Entry::Ended { at_s, attempt, invalid, .. } => {
                let end = if invalid.is_empty() {
                    AttemptEnd::Valid
                } else {
                    AttemptEnd::Invalid(invalid)
                };
                run.attempt(attempt).ended(at_s, end);
            }
            Entry::Failed { at_s, attempt, error, .. } => {
                run.attempt(attempt).ended(at_s, AttemptEnd::Failed(error));
            }
            Entry::Started(_) | Entry::Stopped { .. } => {}
        }
    }

    /// The run of that name.
    pub fn run(&self, id: &str) -> Option<&RunState> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// How far a run is.
    pub fn standing(&self, run: &RunState) -> Standing {
        if run.found == Some(OnRecord::Same) {
            return Standing::Done;
        }
        if run.left_out.is_some() {
            return Standing::LeftOut;
        }
        let Some(last) = run.attempts.last() else { return Standing::Waiting };
        let is_of_now = self.has_run(run);
        match (&last.end, last.steps.last()) {
            (None, Some((step, ..))) if is_of_now && self.is_running => Standing::Running(*step),
            (None, Some((step, ..))) if !self.is_running => Standing::CutOff(*step),
            (Some(AttemptEnd::Valid), _) if is_of_now => Standing::Done,
            (Some(AttemptEnd::Invalid(_)), _) if is_of_now => Standing::Invalid,
            (Some(AttemptEnd::Failed(_)), _) if is_of_now => Standing::Failed,
            // The record of an earlier attempt is gone, or of another scenario.
            _ => Standing::Waiting,
        }
    }

    /// Whether an attempt has begun since the engine began last.
    fn has_run(&self, run: &RunState) -> bool {
        let begun_s = |attempt: &AttemptState| attempt.steps.first().map(|step| step.1);
        run.attempts.last().and_then(begun_s).is_some_and(|begun_s| begun_s >= self.started.at_s)
    }
}

impl RunState {
    fn attempt(&mut self, number: u32) -> &mut AttemptState {
        let at = self.attempts.iter().position(|attempt| attempt.number == number);
        let at = at.unwrap_or_else(|| {
            self.attempts.push(AttemptState { number, steps: Vec::new(), end: None });
            self.attempts.len() - 1
        });
        &mut self.attempts[at]
    }

    /// The number of the next attempt.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0).saturating_add(1)
    }
}

impl AttemptState {
    fn end_step(&mut self, at_s: f64) {
        if let Some((_, begun_s, seconds @ None)) = self.steps.last_mut() {
            *seconds = Some((at_s - *begun_s).max(0.0));
        }
    }

    fn ended(&mut self, at_s: f64, end: AttemptEnd) {
        self.end_step(at_s);
        self.end = Some(end);
    }

    /// How long a step took in all; none if it did not take place.
    pub fn seconds(&self, step: Step) -> Option<f64> {
        let of = self.steps.iter().filter(|(of, ..)| *of == step);
        let seconds: Vec<f64> = of.filter_map(|(_, _, seconds)| *seconds).collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Standing::{CutOff, Done, Failed, Invalid, LeftOut, Running, Waiting},
        *,
    };

    fn started(at_s: f64, runs: &[&str]) -> Entry {
        Entry::Started(Started {
            at_s,
            sweep: "ab".to_owned(),
            title: "t".to_owned(),
            method: "sim".to_owned(),
            command: Vec::new(),
            pid: 1,
            runs: runs.iter().map(|run| (*run).to_owned()).collect(),
        })
    }

    fn step(at_s: f64, run: &str, attempt: u32, step: Step) -> Entry {
        Entry::Step { at_s, run: run.to_owned(), attempt, step }
    }

    fn ended(at_s: f64, run: &str, attempt: u32, invalid: &[&str]) -> Entry {
        let invalid = invalid.iter().map(|why| (*why).to_owned()).collect();
        Entry::Ended { at_s, run: run.to_owned(), attempt, invalid }
    }

    fn standings(entries: &[Entry], is_running: bool) -> Vec<Standing> {
        let sweep = Sweep::of(entries.to_vec(), is_running).unwrap();
        sweep.runs.iter().map(|run| sweep.standing(run)).collect()
    }

    #[test]
    fn standings_follow_what_happened() {
        assert_eq!(Sweep::of(Vec::new(), false), None);
        let mut entries = vec![
            started(100.0, &["a", "b", "c"]),
            step(101.0, "a", 1, Step::Configuration),
            step(103.5, "a", 1, Step::Execution),
            step(110.0, "a", 1, Step::Archive),
            ended(110.5, "a", 1, &[]),
            step(111.0, "b", 1, Step::Execution),
            ended(112.0, "b", 1, &["late"]),
            step(113.0, "b", 2, Step::Execution),
        ];
        assert_eq!(standings(&entries, true), [Done, Running(Step::Execution), Waiting]);
        assert_eq!(standings(&entries, false), [Done, CutOff(Step::Execution), Waiting]);
        let sweep = Sweep::of(entries.clone(), true).unwrap();
        let attempt = &sweep.runs[0].attempts[0];
        let seconds = |step| attempt.seconds(step);
        assert_eq!(
            (seconds(Step::Configuration), seconds(Step::Execution)),
            (Some(2.5), Some(6.5))
        );
        assert_eq!((seconds(Step::Archive), seconds(Step::Deployment)), (Some(0.5), None));
        assert_eq!(sweep.runs[1].next_attempt(), 3);
        // Killed, and begun again: what is on record is spared, and numbers go on.
        let found = |run: &str, found| Entry::Found { run: run.to_owned(), found };
        entries.extend([
            started(200.0, &["a", "b", "c", "d"]),
            found("a", OnRecord::Same),
            found("c", OnRecord::OtherSettings(vec!["seed: 1, was 2".to_owned()])),
        ]);
        assert_eq!(standings(&entries, true), [Done, Waiting, Waiting, Waiting]);
        let error = "no room".to_owned();
        entries.extend([
            step(201.0, "b", 3, Step::Execution),
            ended(202.0, "b", 3, &["late"]),
            step(203.0, "c", 1, Step::Execution),
            Entry::Failed { at_s: 204.0, run: "c".to_owned(), attempt: 1, error },
            Entry::LeftOut { run: "d".to_owned(), why: "known well enough".to_owned() },
            Entry::Stopped { at_s: 205.0, error: Some("no room".to_owned()) },
        ]);
        assert_eq!(standings(&entries, false), [Done, Invalid, Failed, LeftOut]);
        let sweep = Sweep::of(entries, false).unwrap();
        assert_eq!(sweep.stopped, Some((205.0, Some("no room".to_owned()))));
        assert_eq!(sweep.runs[1].attempts.len(), 3);
    }

    #[test]
    fn lines_of_runs_that_are_not_there_change_nothing() {
        let entries = [
            step(1.0, "a", 1, Step::Execution),
            started(100.0, &["a"]),
            step(101.0, "strange", 1, Step::Execution),
            ended(99.0, "a", u32::MAX, &[]),
        ];
        let sweep = Sweep::of(entries.to_vec(), true).unwrap();
        assert_eq!((sweep.runs.len(), sweep.runs[0].next_attempt()), (1, u32::MAX));
        assert_eq!(sweep.standing(&sweep.runs[0]), Standing::Waiting);
    }
}
