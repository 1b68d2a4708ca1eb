// SPDX-License-Identifier: GPL-2.0-or-later
//! Where records and the files of a run in progress lie.

use crate::{differences::differences, error::ExperimentError, method::Method};
use record::{Record, RunResults};
use scenario::Run;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where records that do not count are kept. Records are not looked for in hidden folders.
const FAILED: &str = ".failed";
/// The most that are kept of a run.
const MOST_FAILED: usize = 5;

/// What lies in a run's folder.
pub enum Found {
    /// Nothing, or a record that does not count, can't be read, lacks a capture, or is of another version of a user's congestion control:
    /// it will be replaced.
    Nothing,
    /// The record of the run, by this program's sources or by others.
    Record { of_run: Box<RunResults>, same_program: bool },
    /// A record of the scenario as it was before it was changed, and where that differs.
    Changed(Vec<String>),
}

/// What is on record of a run by its method. A record by another method is refused: two methods share no folder.
pub fn on_record(folder: &Path, run: &Run, method: &dyn Method) -> Result<Found, ExperimentError> {
    let Ok(record) = Record::results_if_whole(folder) else { return Ok(Found::Nothing) };
    let now = serde_json::to_value(run).expect("a run is plain data");
    if record.manifest.method != method.name() {
        return Err(ExperimentError::Unsupported(format!(
            "{} holds this run by another method; give another --out, or remove it",
            folder.display()
        )));
    }
    if now != record.manifest.scenario {
        return Ok(Found::Changed(differences(&record.manifest.scenario, &now)));
    }
    let same_program = record.manifest.sources.as_deref() == Some(method.source_hash());
    let has_captures =
        record.manifest.captures.iter().all(|capture| folder.join(&capture.file).exists());
    Ok(if record.manifest.valid && has_captures && method.has_same_inputs(run, &record.manifest) {
        Found::Record { of_run: Box::new(record), same_program }
    } else {
        Found::Nothing
    })
}

/// A folder for files that no record needs; removed in the end. It is next to the directory of the
/// records, where the next lab, whatever it runs, removes the remains of a killed one.
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    const PREFIX: &str = ".longhaul-";

    /// Makes the folder of the records, too.
    pub fn new(out: &Path) -> Result<Self, ExperimentError> {
        let failed = |e| ExperimentError::file("make a working directory next to", out, e);
        fs::create_dir_all(out).map_err(failed)?;
        // nginx takes the paths in its configuration as they are seen from its own folder.
        let out = fs::canonicalize(out).map_err(failed)?;
        let parent = out.parent().unwrap_or(&out);
        for entry in fs::read_dir(parent).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
            if Self::process_of(&name.to_string_lossy()).is_some_and(gone) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        // One process may run several labs.
        let name = |number: u32| format!("{}{}-{number}", Self::PREFIX, std::process::id());
        let mut folders = (0..=u32::MAX).map(|number| parent.join(name(number)));
        let made = folders.find_map(|folder| match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            made => Some(made.map(|()| Self(folder))),
        });
        made.expect("there are more numbers than folders").map_err(failed)
    }

    /// The process that made a folder of this name, if it is a working folder.
    fn process_of(name: &str) -> Option<u32> {
        let (process, number) = name.strip_prefix(Self::PREFIX)?.split_once('-')?;
        number.parse::<u32>().ok()?;
        process.parse().ok()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it, made where there is none.
    pub fn folder(&self, name: &str) -> Result<PathBuf, ExperimentError> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).map_err(|e| ExperimentError::file("make", &folder, e))?;
        Ok(folder)
    }

    /// Puts a record where one may be that does not count. The new one is written whole before the
    /// old one is moved aside: however this ends, the folder holds a whole record or none.
    /// Captures of the record are moved there from `captures`.
    pub fn replace(
        &self,
        folder: &Path,
        record: &Record,
        captures: &Path,
    ) -> Result<(), ExperimentError> {
        let of_run = self.folder(&format!("record-{}", record.manifest.id))?;
        let (written, aside) = (of_run.join("new"), of_run.join("old"));
        record.write(&written)?;
        for capture in &record.manifest.captures {
            let from = captures.join(&capture.file);
            fs::rename(&from, written.join(&capture.file))
                .map_err(|e| ExperimentError::file("keep the capture", &from, e))?;
        }
        if folder.exists() {
            fs::rename(folder, &aside)
                .map_err(|e| ExperimentError::file("move aside", folder, e))?;
        } else if let Some(above) = folder.parent() {
            fs::create_dir_all(above).map_err(|e| ExperimentError::file("make", above, e))?;
        }
        fs::rename(&written, folder)
            .map_err(|e| ExperimentError::file("put a record into", folder, e))?;
        fs::remove_dir_all(&of_run).map_err(|e| ExperimentError::file("remove", &of_run, e))
    }
}

/// Keeps the record of a run that does not count, before the run is tried again. Up to five of each run are kept, then the last one is
/// replaced.
pub fn keep_failed(records: &Path, id: &str) -> Result<(), ExperimentError> {
    let record = records.join(id);
    if !record.exists() {
        return Ok(());
    }
    let places = failed_places(records, id);
    let place = places.iter().find(|place| !place.exists()).unwrap_or(&places[MOST_FAILED - 1]);
    let failed = |e| ExperimentError::file("keep a record that does not count in", place, e);
    if place.exists() {
        fs::remove_dir_all(place).map_err(failed)?;
    }
    fs::create_dir_all(records.join(FAILED)).map_err(failed)?;
    fs::rename(&record, place).map_err(failed)
}

/// The records of a run that do not count, of those that are kept.
pub fn failed_records(records: &Path, id: &str) -> Vec<PathBuf> {
    failed_places(records, id).into_iter().filter(|place| place.exists()).collect()
}

fn failed_places(records: &Path, id: &str) -> [PathBuf; MOST_FAILED] {
    std::array::from_fn(|n| records.join(FAILED).join(format!("{id}.{}", n + 1)))
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // Nothing can be done about it, and the next run tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies the logs of servers and clients to the record.
pub fn keep_logs(from: &Path, folder: &Path) -> Result<(), ExperimentError> {
    let to = folder.join("logs");
    let failed = |e| ExperimentError::file("keep the logs in", &to, e);
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let (Some(name), true) = (path.file_name(), path.extension().is_some_and(|e| e == "log"))
        {
            fs::create_dir_all(&to).map_err(failed)?;
            fs::copy(&path, to.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_folders_are_apart_and_those_of_ended_processes_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = folder.path().join(format!(".longhaul-{}-3", ended.id()));
        let others = [".longhaul-x", ".longhaul-1-x"].map(|name| folder.path().join(name));
        for folder in others.iter().chain([&left]) {
            fs::create_dir(folder).unwrap();
        }
        let out = folder.path().join("out");
        let two = [(); 2].map(|()| WorkDirectory::new(&out).unwrap());
        assert_ne!(two[0].path(), two[1].path());
        let paths = two.each_ref().map(|work| work.path().to_owned());
        assert!(!left.exists() && others.iter().chain(&paths).all(|folder| folder.exists()));
        drop(two);
        assert!(!paths.iter().any(|folder| folder.exists()));
    }

    #[test]
    fn records_that_do_not_count_are_kept_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("a,r1");
        keep_failed(folder.path(), "a,r1").unwrap();
        assert!(failed_records(folder.path(), "a,r1").is_empty());
        for n in 1..=MOST_FAILED + 2 {
            fs::create_dir(&record).unwrap();
            fs::write(record.join("n"), n.to_string()).unwrap();
            keep_failed(folder.path(), "a,r1").unwrap();
            assert!(!record.exists());
        }
        let kept = failed_records(folder.path(), "a,r1");
        let numbers: Vec<String> =
            kept.iter().map(|place| fs::read_to_string(place.join("n")).unwrap()).collect();
        assert_eq!(numbers, ["1", "2", "3", "4", "7"]);
    }
}
