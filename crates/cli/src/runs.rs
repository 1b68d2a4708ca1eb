// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario, and judges its results, for `lab run`, `sim` and `demo`.

use crate::{failure::Failure, progress::ProgressDisplay};
use ::lab::Emulation;
use experiment::{Method, Options};
use record::{RunResults, results::FlowResult};
use std::path::{Path, PathBuf};

/// Runs what is not on record, and shows progress on standard error.
pub fn run_all(
    runs: &[scenario::Run],
    method: &dyn Method,
    options: &Options,
) -> Result<Vec<RunResults>, Failure> {
    let mut display = ProgressDisplay::new(runs.len());
    Ok(experiment::run_all(runs, method, options, |event| display.show(&event))?)
}

/// As a command runs scenarios: with its words and predictions on record, until a signal stops it.
pub fn options(out: &Path) -> Result<Options, Failure> {
    let stop = host::stop_flag().map_err(Failure::failed)?;
    Ok(Options { command: command_line(), predict: model::predicted, stop, ..Options::new(out) })
}

/// The command line of this process, for records.
fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
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
