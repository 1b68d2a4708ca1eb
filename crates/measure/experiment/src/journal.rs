// SPDX-License-Identifier: GPL-2.0-or-later
//! What happened to the runs of a scenario, in a file next to their records: `.sweep.jsonl`, a JSON object in each line.
//!
//! The records decide what is run again. The journal says what the engine did, also while it runs, and after it was killed: a line is
//! written at once, and half a line at the end does not count.
//!
//! Threats. The file is in a folder of the user's; a damaged one costs its lines and nothing else. Only so much of it is read
//! ([`LONGEST`]).

use crate::{error::ExperimentError, step::Step};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const NAME: &str = ".sweep.jsonl";
/// A longer journal, in bytes, is emptied when the next engine begins. Earlier attempts are lost then, and no record.
const LONGEST: u64 = 64 << 20;
/// The longest time for which a look at the lock may hold it.
const LOOKS: Duration = Duration::from_millis(200);

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Entry {
    /// The engine begins.
    Started(Started),
    /// What was on record when it began.
    Found {
        /// Which run.
        run: String,
        /// What was there.
        found: OnRecord,
    },
    /// A step of an attempt begins, and the one before ends.
    Step {
        /// When, in seconds since 1970.
        at_s: f64,
        /// Which run.
        run: String,
        /// Which attempt, from 1; counted on when the engine begins again.
        attempt: u32,
        /// Which step.
        step: Step,
    },
    /// An attempt has ended with a record.
    Ended {
        /// When, in seconds since 1970.
        at_s: f64,
        /// Which run.
        run: String,
        /// Which attempt.
        attempt: u32,
        /// Why it does not count; empty if it does.
        invalid: Vec<String>,
    },
    /// An attempt has ended without one.
    Failed {
        /// When, in seconds since 1970.
        at_s: f64,
        /// Which run.
        run: String,
        /// Which attempt.
        attempt: u32,
        /// Why.
        error: String,
    },
    /// A run is left out.
    LeftOut {
        /// Which run.
        run: String,
        /// Why.
        why: String,
    },
    /// The engine ends.
    Stopped {
        /// When, in seconds since 1970.
        at_s: f64,
        /// Why, if not all was done.
        error: Option<String>,
    },
}

/// How the engine began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// When, in seconds since 1970.
    pub at_s: f64,
    /// SHA-256 over all runs as they take place: the identity of the sweep.
    pub sweep: String,
    /// The scenario's title.
    pub title: String,
    /// The method.
    pub method: String,
    /// The command line.
    pub command: Vec<String>,
    /// Its process.
    pub pid: u32,
    /// The runs, in their order.
    pub runs: Vec<String>,
}

/// What was on record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRecord {
    /// This run.
    Same,
    /// The same by another longhaul.
    OtherProgram,
    /// The run of a scenario with other settings: where they differ.
    OtherSettings(Vec<String>),
}

/// Seconds since 1970.
pub(crate) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The journal, while an engine writes it. Another one is refused meanwhile.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens that of a folder, which is made; with what it says so far.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Entry>), ExperimentError> {
        let path = folder.join(NAME);
        let failed = |e| ExperimentError::file("open the journal", &path, e);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let file = options.open(&path).map_err(failed)?;
        if !lock(&file).map_err(failed)? {
            return Err(ExperimentError::Busy(folder.to_owned()));
        }
        let (entries, whole) = read(&file).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        // A line that was cut short would spoil the next one.
        let keep = if length > LONGEST { 0 } else { whole };
        if keep < length {
            file.set_len(keep).map_err(failed)?;
        }
        Ok((Self { path, file }, entries))
    }

    /// Adds a line.
    pub fn write(&mut self, entry: &Entry) -> Result<(), ExperimentError> {
        let mut line = serde_json::to_vec(entry).expect("an entry is plain data");
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written.map_err(|e| ExperimentError::file("write the journal", &self.path, e))
    }
}

/// Takes the lock of the engine; whether it is free.
fn lock(file: &File) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if begun.elapsed() > LOOKS => return Ok(false),
            Err(Errno::WOULDBLOCK) => thread::sleep(LOOKS / 20),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether an engine has the journal of a folder.
pub(crate) fn is_held(folder: &Path) -> io::Result<bool> {
    match File::open(folder.join(NAME)) {
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the journal of a folder says; nothing where there is none.
pub(crate) fn read_entries(folder: &Path) -> io::Result<Vec<Entry>> {
    match File::open(folder.join(NAME)) {
        Ok(file) => Ok(read(&file)?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The entries of a file, and the length of its whole lines. A line that is no entry is passed over.
fn read(file: &File) -> io::Result<(Vec<Entry>, u64)> {
    let mut reader = BufReader::new(file.take(LONGEST));
    let (mut entries, mut whole, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Ok((entries, whole));
        }
        whole += length as u64;
        entries.extend(serde_json::from_slice::<Entry>(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(run: &str) -> Entry {
        Entry::LeftOut { run: run.to_owned(), why: "known well enough".to_owned() }
    }

    #[test]
    fn journal_goes_on_behind_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("out/sim");
        assert_eq!(read_entries(&folder).unwrap(), []);
        let (mut journal, before) = Journal::open(&folder).unwrap();
        assert_eq!(before, []);
        journal.write(&entry("a")).unwrap();
        assert!(matches!(Journal::open(&folder), Err(ExperimentError::Busy(_))));
        assert_eq!(read_entries(&folder).unwrap(), [entry("a")], "while it is written");
        assert!(is_held(&folder).unwrap());
        drop(journal);
        assert!(!is_held(&folder).unwrap());
        let path = folder.join(NAME);
        for half in ["{\"what\":\"left_out\",\"run\":\"b", "{}\nnot JSON\n\0\0\0"] {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(half.as_bytes()).unwrap();
            drop(file);
            let (mut journal, before) = Journal::open(&folder).unwrap();
            let known = before.len();
            journal.write(&entry("c")).unwrap();
            let after = read_entries(&folder).unwrap();
            assert_eq!((after.len(), after.last()), (known + 1, Some(&entry("c"))));
        }
        File::options().write(true).open(&path).unwrap().set_len(LONGEST + 1).unwrap();
        let (mut journal, _) = Journal::open(&folder).unwrap();
        journal.write(&entry("d")).unwrap();
        drop(journal);
        assert_eq!(read_entries(&folder).unwrap(), [entry("d")]);
    }
}
