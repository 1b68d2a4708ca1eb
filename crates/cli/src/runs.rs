// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario, and judges its results, for `lab run`, `sim` and `demo`.

use crate::{failure::Failure, progress::ProgressDisplay};
use ::lab::Emulation;
use experiment::{Method, Options, ReusePolicy};
use record::{RunResults, results::FlowResult};
use std::path::{Path, PathBuf};

/// Runs what is not on record, and shows progress on standard error.
pub fn run_all(
    runs: &[scenario::Run],
    out: &Path,
    method: &dyn Method,
    jobs: usize,
    known: ReusePolicy,
) -> Result<Vec<RunResults>, Failure> {
    let options = Options {
        out: out.to_owned(),
        jobs,
        known,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        predict: model::predicted,
    };
    let mut display = ProgressDisplay::new(runs.len());
    Ok(experiment::run_all(runs, method, &options, |event| display.show(&event))?)
}

/// Emulation, with this program as depot.
pub fn emulation() -> Result<Emulation, Failure> {
    Ok(Emulation::new(std::env::current_exe().map_err(Failure::failed)?))
}

/// Fails if any transfer did not verify or failed, or if a variant has no valid run. Transfers cut off at the time
/// limit are results. `counted` has each variant, or part of one, with its number of valid runs.
pub fn check<'a>(
    results: &[FlowResult],
    mut counted: impl Iterator<Item = (Option<&'a str>, usize)>,
) -> Result<(), Failure> {
    if let Some(bad) = results.iter().find(|r| r.sha256_ok == Some(false)) {
        return Err(Failure::unverified(format!("{}: {}", bad.id, bad.outcome)));
    }
    if let Some(failed) = results.iter().find(|r| r.failed) {
        return Err(Failure::failed(format!("{}: {}", failed.id, failed.outcome)));
    }
    match counted.find(|(_, runs)| *runs == 0) {
        Some((variant, _)) => Err(Failure::failed(format!(
            "no run of {} is valid on this machine at present. The reasons are printed above",
            variant.unwrap_or("the scenario")
        ))),
        None => Ok(()),
    }
}

/// Writes the page of a directory of records.
pub fn write_report(out: &Path) -> Result<PathBuf, Failure> {
    let page = out.join("report.html");
    ::report::write(out, &page).map_err(Failure::failed)?;
    Ok(page.canonicalize().unwrap_or(page))
}
