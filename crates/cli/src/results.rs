// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs and their results as `lab run` and `demo` print them.

use crate::failure::Failure;
use ::lab::{Event, LabError, Options};
use record::{Record, Standing, stats};
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// One flow of one run.
#[derive(Debug, Serialize)]
pub struct RunResult {
    /// The run's name, which is also its folder's.
    pub id: String,
    /// The way, in a scenario with ways.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Vec<(String, String)>,
    /// Counts the repeats, from 1.
    pub repeat: u32,
    /// The flow.
    pub flow: String,
    /// The program that downloaded.
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
    /// Whether it goes into the medians, and as what.
    pub standing: Standing,
    /// Whether the run counts.
    pub valid: bool,
    /// Why not.
    pub invalid_reasons: Vec<String>,
}

impl RunResult {
    /// The flows of a record.
    pub fn of(record: &Record) -> Vec<Self> {
        let manifest = &record.manifest;
        let flows = record.summary.flows.iter();
        flows
            .map(|flow| Self {
                id: manifest.id.clone(),
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
                standing: Standing::of(manifest.valid, [flow]),
                valid: manifest.valid,
                invalid_reasons: manifest.invalid_reasons.clone(),
            })
            .collect()
    }

    fn progress(&self) -> String {
        let mark = if self.valid { "" } else { "  INVALID" };
        format!(
            "{:>7.1} Mb/s  {:>6.2} s  {}{mark}",
            self.goodput_bps / 1e6,
            self.seconds,
            self.outcome
        )
    }
}

/// Runs what is not on record yet, saying on standard error how it goes.
pub fn run_all(runs: &[scenario::Run], out: &Path) -> Result<Vec<RunResult>, Failure> {
    let options = Options {
        out: out.to_owned(),
        longhaul: std::env::current_exe().map_err(Failure::failed)?,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let records = ::lab::run_all(runs, &options, |event| match event {
        Event::Begins(n, of, run) => eprint!("[{n}/{of}] {:<50} ", run.id),
        Event::Known(n, of, record) => {
            eprintln!("[{n}/{of}] {:<50} on record already", record.manifest.id);
        }
        Event::Ended(_, _, record) => {
            for flow in RunResult::of(record) {
                eprintln!("{}", flow.progress());
            }
            for reason in &record.manifest.invalid_reasons {
                eprintln!("        invalid: {reason}");
            }
        }
    })?;
    Ok(records.iter().flat_map(RunResult::of).collect())
}

/// The runs that differ only in their repeat.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Vec<(String, String)>,
    /// The flow.
    pub flow: String,
    /// The client.
    pub client: Option<String>,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Of those that count, the ones that the time limit cut off; they take part with what they
    /// moved.
    pub timed_out: usize,
    /// Median over the runs that count.
    pub median_goodput_bps: Option<f64>,
    /// Median over the runs that count.
    pub median_seconds: Option<f64>,
    /// The median over that of the baseline way at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// Medians of the repeats, and ratios to the baseline.
pub fn cells(results: &[RunResult], baseline: Option<&str>) -> Vec<Cell> {
    let key = |r: &RunResult| (r.way.clone(), r.point.clone(), r.flow.clone());
    let mut keys = Vec::new();
    for result in results {
        if !keys.contains(&key(result)) {
            keys.push(key(result));
        }
    }
    let median_of = |wanted: &(Option<String>, Vec<(String, String)>, String)| {
        let goodputs: Vec<f64> = results
            .iter()
            .filter(|r| key(r) == *wanted && r.standing.counts())
            .map(|r| r.goodput_bps)
            .collect();
        stats::median(&goodputs)
    };
    keys.iter()
        .map(|wanted| {
            let of_cell: Vec<&RunResult> = results.iter().filter(|r| key(r) == *wanted).collect();
            let counted: Vec<&&RunResult> =
                of_cell.iter().filter(|r| r.standing.counts()).collect();
            let seconds: Vec<f64> = counted.iter().map(|r| r.seconds).collect();
            let median_goodput_bps = median_of(wanted);
            let of_baseline = baseline.and_then(|way| {
                median_of(&(Some(way.to_owned()), wanted.1.clone(), wanted.2.clone()))
            });
            Cell {
                way: wanted.0.clone(),
                point: wanted.1.clone(),
                flow: wanted.2.clone(),
                client: of_cell[0].client.clone(),
                runs: counted.len(),
                left_out: of_cell.len() - counted.len(),
                timed_out: counted.iter().filter(|r| r.timed_out).count(),
                median_goodput_bps,
                median_seconds: stats::median(&seconds),
                ratio_to_baseline: median_goodput_bps.zip(of_baseline).map(|(a, b)| a / b),
            }
        })
        .collect()
}

/// Prints the cells as a table.
pub fn print_cells(cells: &[Cell]) {
    println!(
        "{:<14} {:<6} {:<34} {:>4}  {:>12} {:>9} {:>8}",
        "way", "client", "point", "runs", "goodput", "seconds", "ratio"
    );
    for cell in cells {
        let point: Vec<String> = cell
            .point
            .iter()
            .filter(|(key, _)| !key.ends_with(".client"))
            .map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key)))
            .collect();
        let number = |value: Option<f64>, scale: f64, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |v| format!("{:.digits$}", v / scale))
        };
        let mut remark = String::new();
        if cell.timed_out > 0 {
            remark += &format!("  {} cut off at the time limit", cell.timed_out);
        }
        if cell.left_out > 0 {
            remark += &format!("  {} invalid or failed, left out", cell.left_out);
        }
        println!(
            "{:<14} {:<6} {:<34} {:>4}  {:>7} Mb/s {:>9} {:>8}{remark}",
            cell.way.as_deref().unwrap_or("-"),
            cell.client.as_deref().unwrap_or("-"),
            point.join(" "),
            cell.runs,
            number(cell.median_goodput_bps, 1e6, 1),
            number(cell.median_seconds, 1.0, 2),
            number(cell.ratio_to_baseline, 1.0, 2),
        );
    }
}

/// Whether everything arrived as it was sent, and every way has a run that counts. Transfers cut
/// off at the time limit are results.
pub fn verdict(results: &[RunResult], cells: &[Cell]) -> Result<(), Failure> {
    if let Some(bad) = results.iter().find(|r| r.sha256_ok == Some(false)) {
        return Err(Failure::Unverified(format!("{}: {}", bad.id, bad.outcome)));
    }
    if let Some(failed) = results.iter().find(|r| r.sha256_ok.is_none() && !r.timed_out) {
        return Err(Failure::Failed(format!("{}: {}", failed.id, failed.outcome)));
    }
    match cells.iter().find(|cell| cell.runs == 0) {
        Some(cell) => Err(Failure::Failed(format!(
            "no run of {} counts on this machine, now: see the reasons above",
            cell.way.as_deref().unwrap_or("the scenario")
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
