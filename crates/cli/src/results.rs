// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs and their results as `lab run`, `sim` and `demo` tell them.

use crate::{failure::Failure, progress::Watcher};
use ::lab::{Known, LabError, Method, Options, Recorded};
use record::Standing;
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Of a run with more flows than this, people are shown what they did together.
pub const MANY: usize = 8;

/// One flow of one run.
#[derive(Debug, Serialize)]
pub struct RunResult {
    /// The run's name, which is also its folder's.
    pub id: String,
    /// How it was run.
    pub method: String,
    /// The way, in a scenario with ways.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Vec<(String, String)>,
    /// Counts the repeats, from 1.
    pub repeat: u32,
    /// The flow.
    pub flow: String,
    /// The program that downloaded; null where none did.
    pub client: Option<String>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the client's start to its end.
    pub seconds: f64,
    /// The one over the other.
    pub goodput_bps: f64,
    /// Whether the copy is the original; null where the transfer did not end by itself.
    pub sha256_ok: Option<bool>,
    /// Whether the time limit cut it off.
    pub timed_out: bool,
    /// How it ended, in words.
    pub outcome: String,
    /// Congestion controls as read back, hop by hop.
    pub congestion_control: Vec<Option<String>>,
    /// Whether it ended by itself, but not as it should; also where the run does not count.
    #[serde(skip)]
    pub failed: bool,
    /// Whether it goes into the medians, and as what.
    pub standing: Standing,
    /// Whether the run counts.
    pub valid: bool,
    /// Why not.
    pub invalid_reasons: Vec<String>,
}

impl RunResult {
    /// The flows of a record.
    fn of(record: &Recorded) -> Vec<Self> {
        let manifest = &record.manifest;
        let flows = record.summary.flows.iter();
        flows
            .map(|flow| Self {
                id: manifest.id.clone(),
                method: manifest.method.clone(),
                way: manifest.way.as_ref().map(|way| way.name.clone()),
                point: manifest.point.clone(),
                repeat: manifest.repeat,
                flow: flow.name.clone(),
                client: flow.client.clone(),
                bytes: flow.bytes,
                seconds: flow.seconds,
                goodput_bps: flow.goodput_bps,
                sha256_ok: flow.sha256_ok,
                timed_out: flow.timed_out,
                outcome: flow.outcome.clone(),
                congestion_control: flow
                    .hops
                    .iter()
                    .map(|hop| hop.congestion_control.clone())
                    .collect(),
                failed: Standing::of(true, [flow]) == Standing::Failed,
                standing: Standing::of(manifest.valid, [flow]),
                valid: manifest.valid,
                invalid_reasons: manifest.invalid_reasons.clone(),
            })
            .collect()
    }

    /// The flows of all records.
    pub fn of_all(records: &[Recorded]) -> Vec<Self> {
        records.iter().flat_map(Self::of).collect()
    }
}

/// Runs what is not on record yet, saying on standard error how it goes.
pub fn run_all(
    runs: &[scenario::Run],
    out: &Path,
    method: Method,
    jobs: usize,
    known: Known,
) -> Result<Vec<Recorded>, Failure> {
    let options = Options {
        out: out.to_owned(),
        method,
        jobs,
        known,
        longhaul: std::env::current_exe().map_err(Failure::failed)?,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let mut watcher = Watcher::new(runs.len());
    Ok(::lab::run_all(runs, &options, |event| watcher.see(&event))?)
}

/// Whether everything arrived as it was sent, and every way has a run that counts. Transfers cut
/// off at the time limit are results.
/// `counted` has each way, or part of one, with its number of runs that count.
pub fn verdict<'a>(
    results: &[RunResult],
    mut counted: impl Iterator<Item = (Option<&'a str>, usize)>,
) -> Result<(), Failure> {
    if let Some(bad) = results.iter().find(|r| r.sha256_ok == Some(false)) {
        return Err(Failure::Unverified(format!("{}: {}", bad.id, bad.outcome)));
    }
    if let Some(failed) = results.iter().find(|r| r.failed) {
        return Err(Failure::Failed(format!("{}: {}", failed.id, failed.outcome)));
    }
    match counted.find(|(_, runs)| *runs == 0) {
        Some((way, _)) => Err(Failure::Failed(format!(
            "no run of {} counts on this machine, now: see the reasons above",
            way.unwrap_or("the scenario")
        ))),
        None => Ok(()),
    }
}

/// The page of a folder of records.
pub fn write_report(out: &Path) -> Result<PathBuf, Failure> {
    let page = out.join("report.html");
    ::report::write(out, &page).map_err(Failure::failed)?;
    Ok(page.canonicalize().unwrap_or(page))
}

/// Prints a document.
pub fn print_json(document: &impl Serialize) {
    print_text(&(serde_json::to_string_pretty(document).expect("plain data") + "\n"));
}

/// Prints a text; who reads only a part of it, as `head` does, has what it wanted.
pub fn print_text(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Lacks(what) => Self::Lacks(what),
            LabError::Unsupported(what) => Self::Usage(what),
            other => Self::failed(other),
        }
    }
}
