// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab list`, `status`, `show` and `stop`: how far runs are, also from another shell and after a kill.

use super::MethodArg;
use crate::{
    failure::Failure,
    print::{print_json, print_text},
    text_table::TextTable,
};
use ::report::format;
use clap::Args;
use experiment::{
    AttemptEnd, AttemptState, OnRecord, RunState, Standing, Step, Sweep, failed_records,
};
use protocol::ticket::UnixTime;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where `lab run` puts folders of records.
const OUT: &str = "out";
/// Of a sweep with more runs, those that wait or are done are counted only.
const MOST_LISTED: usize = 40;

const LIST_EXAMPLES: &str = "\
Examples:
  longhaul lab list
  longhaul lab list results --json";
const STATUS_EXAMPLES: &str = "\
Examples:
  longhaul lab status
  longhaul lab status out/demo --json";
const SHOW_EXAMPLES: &str = "\
Examples:
  longhaul lab show direct,r01
  longhaul lab show direct,r01 out/demo --json";
const STOP_EXAMPLES: &str = "\
Examples:
  longhaul lab stop
  longhaul lab stop out/demo";

/// List scenarios that were run, and how far each is.
#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    /// Directory of directories with records
    #[arg(default_value = OUT)]
    directory: PathBuf,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Show how far the runs of a scenario are, also while they run or after they were stopped.
#[derive(Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Directory with records, as given to `lab run --out` [default: of those in out, where runs began last]
    directory: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Show a run: its attempts, how long each step took, and why it does not count.
#[derive(Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// Name of the run, as `lab status` prints it
    run: String,
    /// Directory with records, as given to `lab run --out` [default: of those in out, where runs began last]
    directory: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Stop runs as Ctrl-C does, from another shell. The same `lab run` continues them.
#[derive(Args)]
#[command(after_help = STOP_EXAMPLES)]
pub struct StopArgs {
    /// Directory with records, as given to `lab run --out` [default: of those in out, where runs began last]
    directory: Option<PathBuf>,
    /// Time to wait for their end
    #[arg(long, value_name = "TIME", default_value = "60s")]
    patience: units::Duration,
}

/// The runs of a scenario by a method, and where their records are.
struct Found {
    folder: PathBuf,
    sweep: Sweep,
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let mut all = Vec::new();
    for folder in folders(&args.directory).map_err(|error| unreadable(&args.directory, &error))? {
        all.extend(sweeps_in(&folder)?);
    }
    all.sort_by(|a, b| a.folder.cmp(&b.folder));
    if args.json {
        print_json(&all.iter().map(document).collect::<Vec<_>>());
        return Ok(());
    }
    if all.is_empty() {
        print_text(&format!("no runs in {}\n", args.directory.display()));
        return Ok(());
    }
    let mut table = TextTable::default();
    table.left("directory", 20);
    table.left("method", 6);
    table.right("runs", 5);
    table.right("done", 5);
    table.left("  state", 10);
    table.left("began", 20);
    for Found { folder, sweep } in &all {
        let cells = vec![
            folder.display().to_string(),
            sweep.started.method.clone(),
            sweep.runs.len().to_string(),
            count(sweep, |standing| standing == Standing::Done).to_string(),
            format!("  {}", state(sweep)),
            date(sweep.started.at_s),
        ];
        table.row(cells, String::new());
    }
    print_text(&table.text());
    Ok(())
}

pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let all = named_or_last(args.directory.as_deref())?;
    if args.json {
        print_json(&all.iter().map(document).collect::<Vec<_>>());
    } else {
        let texts: Vec<String> = all.iter().map(status_text).collect();
        print_text(&texts.join("\n"));
    }
    Ok(())
}

pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let all = named_or_last(args.directory.as_deref())?;
    let has_it = |found: &&Found| found.sweep.run(&args.run).is_some();
    let of_run: Vec<&Found> = all.iter().filter(has_it).collect();
    if of_run.is_empty() {
        let folders: Vec<String> = all.iter().map(|it| it.folder.display().to_string()).collect();
        return Err(Failure::usage(format!(
            "no run \"{}\" in {}: longhaul lab status names them",
            args.run,
            folders.join(", ")
        )));
    }
    let run = |found: &Found| found.sweep.run(&args.run).cloned().unwrap_or_default();
    if args.json {
        let of = |found: &&Found| run_document(found, &run(found), true);
        print_json(&of_run.iter().map(of).collect::<Vec<_>>());
    } else {
        let texts: Vec<String> = of_run.iter().map(|found| run_text(found, &run(found))).collect();
        print_text(&texts.join("\n"));
    }
    Ok(())
}

pub fn stop(args: &StopArgs) -> Result<(), Failure> {
    let all = named_or_last(args.directory.as_deref())?;
    let running: Vec<&Found> = all.iter().filter(|found| found.sweep.is_running).collect();
    if running.is_empty() {
        let folders: Vec<String> = all.iter().map(|it| it.folder.display().to_string()).collect();
        return Err(Failure::failed(format!("nothing runs into {}", folders.join(", "))));
    }
    for Found { folder, sweep } in running {
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot stop process {}: {error}", sweep.started.pid))
        };
        let pid = i32::try_from(sweep.started.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        // It holds the journal, so the number is still its own.
        let is_at_it = Sweep::read(folder).map_err(|error| unreadable(folder, &error))?;
        if is_at_it.is_some_and(|now| now.is_running && now.started == sweep.started) {
            pidfd_send_signal(&process, Signal::INT).map_err(|error| failed(error.into()))?;
        }
        await_end(folder, args.patience.into())?;
        errln!("stopped {}. To continue, give the same lab run again", folder.display());
    }
    Ok(())
}

fn await_end(folder: &Path, patience: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    while Sweep::read(folder)
        .map_err(|error| unreadable(folder, &error))?
        .is_some_and(|sweep| sweep.is_running)
    {
        if begun.elapsed() > patience {
            return Err(Failure::failed(format!("{} is still run into", folder.display())));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The sweeps of a directory of records; without one, of that in `out` where an engine began last.
fn named_or_last(directory: Option<&Path>) -> Result<Vec<Found>, Failure> {
    if let Some(directory) = directory {
        let found = sweeps_in(directory)?;
        return if found.is_empty() {
            Err(Failure::usage(format!("{}: no lab run has records there", directory.display())))
        } else {
            Ok(found)
        };
    }
    let mut last: Option<(f64, Vec<Found>)> = None;
    let out = Path::new(OUT);
    for folder in folders(out).map_err(|error| unreadable(out, &error))? {
        let found = sweeps_in(&folder)?;
        let began_s = found.iter().map(|found| found.sweep.started.at_s).fold(0.0, f64::max);
        if !found.is_empty() && last.as_ref().is_none_or(|(latest_s, _)| began_s > *latest_s) {
            last = Some((began_s, found));
        }
    }
    last.map(|(_, found)| found).ok_or_else(|| {
        Failure::usage("no runs in out: name the directory that lab run got by --out")
    })
}

/// The sweeps by all methods in a directory of records.
fn sweeps_in(directory: &Path) -> Result<Vec<Found>, Failure> {
    let mut all = Vec::new();
    let methods = MethodArg::folders().map(|folder| directory.join(folder));
    for folder in methods {
        // Without the slash that joining an empty name leaves.
        let folder: PathBuf = folder.components().collect();
        if let Some(sweep) = Sweep::read(&folder).map_err(|error| unreadable(&folder, &error))? {
            all.push(Found { folder, sweep });
        }
    }
    Ok(all)
}

/// The directories in a directory.
fn folders(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all.push(entry.path());
        }
    }
    Ok(all)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read {}: {error}", path.display()))
}

fn date(at_s: f64) -> String {
    UnixTime::try_from(at_s as u64).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

fn count(sweep: &Sweep, is_one: impl Fn(Standing) -> bool) -> usize {
    sweep.runs.iter().filter(|run| is_one(sweep.standing(run))).count()
}

/// What became of the engine.
fn state(sweep: &Sweep) -> String {
    match &sweep.stopped {
        _ if sweep.is_running => format!("running, process {}", sweep.started.pid),
        Some((_, None)) => "complete".to_owned(),
        Some((_, Some(_))) => "stopped".to_owned(),
        None => "killed".to_owned(),
    }
}

fn words(standing: Standing) -> String {
    match standing {
        Standing::Waiting => "waiting".to_owned(),
        Standing::Running(step) => format!("running: {step}"),
        Standing::Done => "done".to_owned(),
        Standing::Invalid => "invalid".to_owned(),
        Standing::Failed => "failed".to_owned(),
        Standing::CutOff(step) => format!("cut off in {step}"),
        Standing::LeftOut => "left out".to_owned(),
    }
}

fn status_text(found: &Found) -> String {
    let Found { folder, sweep } = found;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for run in &sweep.runs {
        *counts.entry(words(sweep.standing(run))).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.into_iter().map(|(words, count)| format!("{count} {words}")).collect();
    let mut text = format!(
        "{}: {}, {} since {} in {}\n{} runs: {}\n",
        sweep.started.title,
        sweep.started.method,
        state(sweep),
        date(sweep.stopped.as_ref().map_or(sweep.started.at_s, |(at_s, _)| *at_s)),
        folder.display(),
        sweep.runs.len(),
        counts.join(", ")
    );
    if let Some((_, Some(error))) = &sweep.stopped {
        text += &format!("it ended: {error}\n");
    }
    let steps = mean_steps(sweep);
    if !steps.is_empty() {
        let steps: Vec<String> = steps
            .iter()
            .map(|(step, mean_s)| format!("{step} {}", format::duration(*mean_s)))
            .collect();
        text += &format!("a valid run takes: {}\n", steps.join(", "));
    }
    let mut table = TextTable::default();
    table.left("run", 20);
    table.left("state", 12);
    table.right("attempts", 8);
    table.right("time", 8);
    let is_short = sweep.runs.len() <= MOST_LISTED;
    for run in &sweep.runs {
        let standing = sweep.standing(run);
        if is_short || !matches!(standing, Standing::Done | Standing::Waiting) {
            table.row(run_cells(run, standing), String::new());
        }
    }
    text + &table.text()
}

fn run_cells(run: &RunState, standing: Standing) -> Vec<String> {
    let took = run.attempts.last().map(took_s).filter(|seconds| *seconds > 0.0);
    vec![
        run.id.clone(),
        words(standing),
        run.attempts.len().to_string(),
        took.map_or_else(|| "-".to_owned(), format::duration),
    ]
}

fn took_s(attempt: &AttemptState) -> f64 {
    attempt.steps.iter().filter_map(|(_, _, seconds)| *seconds).sum()
}

/// How long each step takes in the mean of valid attempts.
fn mean_steps(sweep: &Sweep) -> Vec<(Step, f64)> {
    let attempts = sweep.runs.iter().flat_map(|run| &run.attempts);
    let valid: Vec<&AttemptState> =
        attempts.filter(|attempt| attempt.end == Some(AttemptEnd::Valid)).collect();
    let mean = |step: Step| {
        let all: Vec<f64> = valid.iter().filter_map(|attempt| attempt.seconds(step)).collect();
        (!all.is_empty()).then(|| (step, all.iter().sum::<f64>() / all.len() as f64))
    };
    Step::ALL.into_iter().filter_map(mean).collect()
}

fn run_text(found: &Found, run: &RunState) -> String {
    let Found { folder, sweep } = found;
    let mut text = format!(
        "{}: {}, {} in {}\n",
        run.id,
        sweep.started.method,
        words(sweep.standing(run)),
        folder.join(&run.id).display()
    );
    match &run.found {
        Some(OnRecord::OtherProgram) => text += "on record of another longhaul before\n",
        Some(OnRecord::OtherSettings(differences)) => {
            text +=
                &format!("on record with other settings before:\n  {}\n", differences.join("\n  "));
        }
        Some(OnRecord::Same) | None => {}
    }
    if let Some(why) = &run.left_out {
        text += &format!("left out: {why}\n");
    }
    for attempt in &run.attempts {
        let end = match &attempt.end {
            None if matches!(sweep.standing(run), Standing::Running(_)) => "under way".to_owned(),
            None => "cut off".to_owned(),
            Some(AttemptEnd::Valid) => "valid".to_owned(),
            Some(AttemptEnd::Invalid(reasons)) => format!("invalid: {}", reasons.join("; ")),
            Some(AttemptEnd::Failed(error)) => format!("failed: {error}"),
        };
        text += &format!("attempt {}: {end}\n", attempt.number);
        for (step, begun_s, seconds) in &attempt.steps {
            let took = seconds.map_or_else(|| "-".to_owned(), format::duration);
            text += &format!("  {step:<14} {took:>8}  from {}\n", date(*begun_s));
        }
    }
    for kept in failed_records(folder, &run.id) {
        text += &format!("a record that does not count: {}\n", kept.display());
    }
    text
}

fn document(found: &Found) -> Value {
    let Found { folder, sweep } = found;
    let runs: Vec<Value> = sweep.runs.iter().map(|run| run_document(found, run, false)).collect();
    let steps: serde_json::Map<String, Value> =
        mean_steps(sweep).into_iter().map(|(step, mean_s)| (key(step), json!(mean_s))).collect();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    json!({
        "directory": folder, "title": sweep.started.title, "method": sweep.started.method, "sweep": sweep.started.sweep,
        "command": sweep.started.command, "running": sweep.is_running, "pid": sweep.started.pid,
        "began_unix_s": sweep.started.at_s, "began_ago_s": now_s - sweep.started.at_s,
        "ended_unix_s": sweep.stopped.as_ref().map(|(at_s, _)| at_s),
        "error": sweep.stopped.as_ref().and_then(|(_, error)| error.as_ref()),
        "mean_seconds": steps, "runs": runs,
    })
}

/// The name of a step in JSON.
fn key(step: Step) -> String {
    json!(step).as_str().unwrap_or_default().to_owned()
}

fn run_document(found: &Found, run: &RunState, with_attempts: bool) -> Value {
    let standing = found.sweep.standing(run);
    let step = match standing {
        Standing::Running(step) | Standing::CutOff(step) => Some(key(step)),
        _ => None,
    };
    let state = match standing {
        Standing::Running(_) => "running".to_owned(),
        Standing::CutOff(_) => "cut_off".to_owned(),
        Standing::LeftOut => "left_out".to_owned(),
        standing => words(standing),
    };
    let mut document = json!({
        "id": run.id, "state": state, "step": step, "attempts": run.attempts.len(), "left_out": run.left_out,
    });
    if with_attempts {
        let failed = failed_records(&found.folder, &run.id);
        document["directory"] = json!(found.folder.join(&run.id));
        document["found"] = json!(run.found);
        document["failed_records"] = json!(failed);
        document["attempts"] = run.attempts.iter().map(attempt_document).collect();
    }
    document
}

fn attempt_document(attempt: &AttemptState) -> Value {
    let steps: Vec<Value> = attempt
        .steps
        .iter()
        .map(|(step, begun_s, seconds)| json!({"step": step, "began_unix_s": begun_s, "seconds": seconds}))
        .collect();
    let (end, reasons) = match &attempt.end {
        None => (None, Vec::new()),
        Some(AttemptEnd::Valid) => (Some("valid"), Vec::new()),
        Some(AttemptEnd::Invalid(reasons)) => (Some("invalid"), reasons.clone()),
        Some(AttemptEnd::Failed(error)) => (Some("failed"), vec![error.clone()]),
    };
    json!({"attempt": attempt.number, "end": end, "reasons": reasons, "steps": steps})
}
