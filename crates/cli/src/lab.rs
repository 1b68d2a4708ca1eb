// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab`.

use crate::{
    failure::Failure,
    results::{self, RunResult},
};
use scenario::Scenario;
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a scenario and write a record of each run. What is on record already is not run again.
    Run {
        /// The scenario file.
        file: PathBuf,
        /// How to run it.
        #[arg(long, value_enum, default_value = "emu")]
        method: Method,
        /// Run this way only; may be given more than once.
        #[arg(long)]
        way: Vec<String>,
        /// Change a key of the scenario, as in `--set vars.rtt=20ms`.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Run everything so many times.
        #[arg(long, value_name = "N")]
        repeat: Option<u32>,
        /// Folder for the records [default: out/ and the scenario's file name].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Check a scenario file and say what it would run.
    Check {
        /// The scenario file.
        file: PathBuf,
        /// Change a key of the scenario.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print the runs, with everything filled in, as one JSON document.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Method {
    /// Real kernel TCP and real programs over an emulated network on this machine.
    Emu,
}

#[derive(Serialize)]
struct Document<'a> {
    title: &'a str,
    out: &'a Path,
    runs: &'a [RunResult],
    medians: &'a [results::Cell],
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { file, method: Method::Emu, way, mut set, repeat, out, json } => {
            set.extend(repeat.map(|n| format!("repeat={n}")));
            let mut scenario = scenario::load(&file, &set).map_err(Failure::usage)?;
            keep_ways(&mut scenario, &way)?;
            let out = out.unwrap_or_else(|| default_out(&file));
            let runs = results::run_all(&scenario.runs, &out)?;
            let medians = results::cells(&runs, scenario.baseline.as_deref());
            if json {
                let title = &scenario.title;
                results::print_json(&Document { title, out: &out, runs: &runs, medians: &medians });
            } else {
                results::print_cells(&medians);
                eprintln!("records in {}; a page of them: longhaul report {0}", out.display());
            }
            results::verdict(&runs, &medians)
        }
        Command::Check { file, set, json } => {
            let scenario = scenario::load(&file, &set).map_err(Failure::usage)?;
            if json {
                results::print_json(&scenario.runs);
                return Ok(());
            }
            let runs = scenario.runs.iter().map(|run| format!("  {}\n", run.id));
            let text = format!("{}: {} runs\n", scenario.title, scenario.runs.len());
            let _ = std::io::stdout().write_all((text + &runs.collect::<String>()).as_bytes());
            Ok(())
        }
    }
}

fn keep_ways(scenario: &mut Scenario, wanted: &[String]) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Ok(());
    }
    let known: Vec<&str> = scenario.ways.iter().map(|way| way.name.as_str()).collect();
    if let Some(unknown) = wanted.iter().find(|way| !known.contains(&way.as_str())) {
        return Err(Failure::Usage(format!(
            "the scenario has no way \"{unknown}\"; it has: {}",
            known.join(", ")
        )));
    }
    scenario.runs.retain(|run| run.way.as_ref().is_some_and(|way| wanted.contains(&way.name)));
    Ok(())
}

fn default_out(file: &Path) -> PathBuf {
    Path::new("out").join(file.file_stem().unwrap_or(file.as_os_str()))
}
