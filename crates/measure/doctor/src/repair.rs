// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes the changes of a diagnosis one at a time, measures after each, and takes back what did not help.
//!
//! A change is in the [journal](crate::journal) before it is made, so a program that is killed meanwhile leaves what it takes to
//! take it back. What helped stays, in the journal too.

use crate::{
    change::Change,
    diagnosis::Diagnosis,
    facts::Facts,
    finding::{Direction, Finding},
    journal::{Entry, Journal, JournalError},
};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Rate;

/// A remedy helps if the rate is at least this many times that before.
pub const HELPS: f64 = 1.05;

/// A remedy that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    /// The finding that it is for.
    pub id: &'static str,
    /// The changes as commands.
    pub commands: Vec<String>,
    /// The rate before.
    pub before_bps: u64,
    /// The rate after; none where it was not measured.
    pub after_bps: Option<u64>,
    /// Whether it was kept.
    pub kept: bool,
    /// Why it could not be tried.
    pub error: Option<String>,
}

/// Why repairing ended early. What was tried and did not prove itself is taken back.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The journal does not work.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nothing can be measured.
    #[error("{0}")]
    Measure(String),
    /// The user has ended it.
    #[error("ended: all changes of this run are taken back")]
    Stopped,
}

/// Whether a finding's remedy is one that a download can prove: a change of this host for what it receives.
pub fn is_tried(finding: &Finding) -> bool {
    !finding.changes().is_empty() && Direction::Receive.is_in(finding.direction)
}

/// Tries the remedies of a diagnosis that concern what this host receives, which is what `measure` measures. `tell` hears of
/// each attempt.
///
/// # Errors
/// The journal cannot be written, or the first measurement fails. Changes of this run are taken back then.
pub fn repair(
    diagnosis: &Diagnosis,
    facts: &Facts,
    journal: &mut Journal,
    mut measure: impl FnMut() -> Result<Rate, String>,
    stopped: &AtomicBool,
    mut tell: impl FnMut(&Attempt),
) -> Result<Vec<Attempt>, RepairError> {
    let from = journal.entries().len();
    let mut attempts = Vec::new();
    let mut before = measure().map_err(RepairError::Measure)?;
    // The host with what was kept.
    let mut state = facts.clone();
    for ranked in &diagnosis.findings {
        let finding = &ranked.finding;
        if !is_tried(finding) {
            continue;
        }
        if stopped.load(Ordering::Relaxed) {
            take_back(journal, from)?;
            return Err(RepairError::Stopped);
        }
        let kept_until = journal.entries().len();
        let mut attempt = Attempt {
            id: finding.id,
            commands: finding.changes().iter().map(Change::command).collect(),
            before_bps: before.bps(),
            after_bps: None,
            kept: false,
            error: make(finding.changes(), facts, &state, journal).err(),
        };
        if attempt.error.is_none() {
            match measure() {
                Ok(after) => {
                    attempt.after_bps = Some(after.bps());
                    attempt.kept = after.bps() as f64 >= HELPS * before.bps() as f64;
                    before = if attempt.kept { after } else { before };
                }
                Err(error) => attempt.error = Some(error),
            }
        }
        if attempt.kept {
            state = finding.fixed(&state);
        } else {
            take_back(journal, kept_until)?;
        }
        tell(&attempt);
        attempts.push(attempt);
    }
    if stopped.load(Ordering::Relaxed) {
        take_back(journal, from)?;
        return Err(RepairError::Stopped);
    }
    Ok(attempts)
}

/// Makes changes, each in the journal before. `facts` are those that they are from.
fn make(
    changes: &[Change],
    facts: &Facts,
    state: &Facts,
    journal: &mut Journal,
) -> Result<(), String> {
    for made in changes {
        let undo = made.inverse(state).ok_or("the value from before is not known")?;
        if made.inverse(facts).as_ref() != Some(&undo) {
            return Err("a fix that was kept has changed the same: run --fix again".to_owned());
        }
        let entry = Entry { made: made.clone(), undo };
        journal.add(entry).map_err(|error| error.to_string())?;
        made.make().map_err(|error| format!("{}: {error}", made.command()))?;
    }
    Ok(())
}

/// Takes back all but the first `kept` changes.
fn take_back(journal: &mut Journal, kept: usize) -> Result<(), JournalError> {
    while journal.entries().len() > kept {
        journal.undo_last()?;
    }
    Ok(())
}
