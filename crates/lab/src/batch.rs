// SPDX-License-Identifier: GPL-2.0-or-later
//! All runs of a scenario, one after the other, each into a folder of its own. What is there
//! already, as the scenario has it now, is not run again.

use crate::{
    emu::{self, Bench},
    error::LabError,
    payload::Payloads,
};
use record::Record;
use scenario::Run;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

/// How often a run is tried that turns out invalid: what kept the emulator from keeping up is often
/// gone a moment later.
const ATTEMPTS: u32 = 2;

/// How to run a scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder that the records' folders go into.
    pub out: PathBuf,
    /// The program that is a depot.
    pub longhaul: PathBuf,
    /// The command line to put on record.
    pub command: Vec<String>,
}

/// What happens, for who watches.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run begins: the n-th of so many, from 1.
    Begins(usize, usize, &'a Run),
    /// A run was on record already.
    Known(usize, usize, &'a Record),
    /// A run has ended.
    Ended(usize, usize, &'a Record),
}

/// Runs what is not on record yet; answers all records, in the order of the runs.
///
/// # Errors
/// The first run that could not take place ends it all; what was finished before stays on record.
pub fn run_all(
    runs: &[Run],
    options: &Options,
    mut watch: impl FnMut(Event<'_>),
) -> Result<Vec<Record>, LabError> {
    let interrupted = on_signals()?;
    let work = WorkFolder::new(&options.out)?;
    let mut payloads = Payloads::new(work.0.clone());
    let mut records = Vec::with_capacity(runs.len());
    for (n, run) in (1..).zip(runs) {
        let run = &emu::as_run(run)?;
        let folder = options.out.join(&run.id);
        if let Some(record) = on_record(&folder, run)? {
            watch(Event::Known(n, runs.len(), &record));
            records.push(record);
            continue;
        }
        for attempt in 1..=ATTEMPTS {
            watch(Event::Begins(n, runs.len(), run));
            let of_run = work.folder("run")?;
            let mut bench = Bench {
                folder: &of_run,
                longhaul: &options.longhaul,
                command: &options.command,
                payloads: &mut payloads,
                interrupted: &interrupted,
            };
            let record = emu::run(run, &mut bench)?;
            replace(&folder, &record, &work.0.join("replaced"))?;
            keep_logs(&of_run, &folder)?;
            fs::remove_dir_all(&of_run).map_err(|e| LabError::file("remove", &of_run, e))?;
            watch(Event::Ended(n, runs.len(), &record));
            if record.manifest.valid || attempt == ATTEMPTS {
                records.push(record);
                break;
            }
        }
    }
    Ok(records)
}

fn on_signals() -> Result<Arc<AtomicBool>, LabError> {
    use signal_hook::{consts, flag};
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        // A second one ends the program at once, as if nothing were registered.
        flag::register_conditional_default(signal, Arc::clone(&interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
            .map_err(|e| LabError::system("watch for signals", e))?;
    }
    Ok(interrupted)
}

/// The record of the same run, if there is one that counts. One that does not count, or that can't
/// be read, will be replaced; one of another scenario is somebody's measurement.
fn on_record(folder: &Path, run: &Run) -> Result<Option<Record>, LabError> {
    let Ok(record) = Record::open(folder) else { return Ok(None) };
    let same = serde_json::to_value(run).is_ok_and(|run| run == record.manifest.scenario);
    if !same {
        return Err(LabError::Unsupported(format!(
            "{} holds this run of a scenario with other settings; give another --out, or remove it",
            folder.display()
        )));
    }
    Ok(record.manifest.valid.then_some(record))
}

/// Writes a record where one may be that does not count. That one is moved aside first: however
/// this ends, the folder holds a whole record or none.
fn replace(folder: &Path, record: &Record, aside: &Path) -> Result<(), LabError> {
    if folder.exists() {
        fs::rename(folder, aside).map_err(|e| LabError::file("move aside", folder, e))?;
        fs::remove_dir_all(aside).map_err(|e| LabError::file("remove", aside, e))?;
    }
    Ok(record.write(folder)?)
}

/// What the servers and clients said, beside the record.
fn keep_logs(from: &Path, folder: &Path) -> Result<(), LabError> {
    let to = folder.join("logs");
    let failed = |e| LabError::file("keep the logs in", &to, e);
    fs::create_dir_all(&to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let (Some(name), true) = (path.file_name(), path.extension().is_some_and(|e| e == "log"))
        {
            fs::copy(&path, to.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

/// A folder for files that no record needs; removed in the end. It lies beside the folder of the
/// records, where the next lab, whatever it runs, removes what a killed one left.
struct WorkFolder(PathBuf);

impl WorkFolder {
    const PREFIX: &str = ".longhaul-";

    fn new(out: &Path) -> Result<Self, LabError> {
        let failed = |e| LabError::file("make a working folder beside", out, e);
        fs::create_dir_all(out).map_err(failed)?;
        // nginx takes the paths in its configuration as they are seen from its own folder.
        let out = fs::canonicalize(out).map_err(failed)?;
        let beside = out.parent().unwrap_or(&out);
        for entry in fs::read_dir(beside).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let of_process =
                name.to_string_lossy().strip_prefix(Self::PREFIX).map(str::parse::<u32>);
            let gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
            if of_process.is_some_and(|pid| pid.is_ok_and(gone)) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let folder = beside.join(format!("{}{}", Self::PREFIX, std::process::id()));
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(Self(folder))
    }

    fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).map_err(|e| LabError::file("make", &folder, e))?;
        Ok(folder)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // Nothing can be done about it, and the next run tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}
