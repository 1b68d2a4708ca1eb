// SPDX-License-Identifier: GPL-2.0-or-later
//! Denials and rate limits in a file, so that they outlast the process, also if it is killed.
//!
//! ```text
//! {"denied":{"who":{"client":"192.0.2.7/32"},"until_unix_s":1790000000,"why":"too much"}}
//! {"limit":{"whose":{"ticket":"5f0c"},"rate_bps":100000000}}
//! {"end":2}
//! ```
//! Each line stands by itself, so that one damaged line does not take the others with it; the last line says how many
//! there are. A file that is damaged, or that others could have written, is reported, and a copy stays under its name
//! with `.damaged`. Lines that can be read apply all the same; of a file that others could have written, none does.
//! Replacing it is atomic: a new file, synced, is renamed, and the directory is synced.
//! Only the depot that serves writes it: one that drains would bring back what it knew.

use super::{Limit, Limited};
use crate::admission::denied::{Denial, MOST};
use protocol::ticket::MAX_ID_LEN;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

/// Maximum size of the file, in bytes: more than all denials and limits take.
const LONGEST_FILE: u64 = 8 << 20;
/// The lowest rate that may be set, in bit/s: with less a transfer stands still.
pub(super) const LEAST_BPS: u64 = 8_000;
/// Maximum number of damaged lines that are logged one by one.
const MOST_REPORTED: usize = 10;

/// What the operator has decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decisions {
    /// Denied clients and tickets.
    pub denied: Vec<Denial>,
    /// Rates of clients and tickets.
    pub limits: Vec<Limit>,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Kept {
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether the file has all decisions.
    is_good: bool,
    /// Since when.
    good: SystemTime,
    /// Whether it was not written as it should be.
    is_owed: bool,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Denied(Denial),
    Limit(Limit),
    /// How many lines there are before this one.
    End(usize),
}

impl Limit {
    /// Checks a limit that comes from outside.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.rate_bps < LEAST_BPS {
            return Err(format!("the lowest rate is {LEAST_BPS} bit/s. To stop it, end it"));
        }
        match &self.whose {
            Limited::Ticket(id) if id.is_empty() || id.len() > MAX_ID_LEN => {
                Err("that is not a ticket name (jti)".to_owned())
            }
            Limited::Key(id) if id.is_empty() || id.len() > MAX_ID_LEN => {
                Err("that is not the name of a key (kid)".to_owned())
            }
            Limited::Transfer(_) | Limited::Session(_) => {
                Err("a transfer's limit ends with the transfer".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Kept {
    /// The file at this path, and what it says. Without a path nothing is kept.
    pub(crate) fn new(path: Option<PathBuf>) -> (Self, Decisions) {
        let read = path.as_deref().map_or_else(Reading::default, read);
        let is_good = read.damage.is_empty();
        if let Some(path) = path.as_deref().filter(|_| !is_good) {
            report(path, &read);
        }
        let state = Mutex::new(State { is_good, good: SystemTime::now(), is_owed: false });
        (Self { path, state }, read.decisions)
    }

    /// Keeps these decisions, of which the operator has just made one.
    ///
    /// # Errors
    /// The file cannot be written. [`Self::owes`] says so until it can.
    pub(crate) fn save(&self, decisions: impl FnOnce() -> Decisions) -> Result<(), String> {
        let saved = self.write(decisions);
        let mut state = self.state();
        state.is_good = saved.is_ok();
        if saved.is_ok() {
            state.good = SystemTime::now();
        }
        saved
    }

    /// Writes the file. Damage that was found in it before is still reported.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, decisions: impl FnOnce() -> Decisions) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        // Held while the file is written, so that a later state is written later.
        let mut state = self.state();
        let written = write(path, &decisions());
        state.is_owed = written.is_err();
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether the file was damaged, or could not be written.
    pub(crate) fn is_bad(&self) -> bool {
        !self.state().is_good
    }

    /// Whether decisions wait to be written.
    pub(crate) fn owes(&self) -> bool {
        self.state().is_owed
    }

    /// What it is, whether it is as it should be, and when it last was.
    pub(crate) fn last_read(&self) -> Option<(&'static str, bool, SystemTime)> {
        let state = self.state();
        self.path.as_ref().map(|_| ("operator decisions", state.is_good, state.good))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file says, and what is wrong with it.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    decisions: Decisions,
    damage: Vec<String>,
}

/// Logs the damage, and puts the file aside.
fn report(path: &Path, read: &Reading) {
    let aside = with_suffix(path, ".damaged");
    let kept = fs::rename(path, &aside).map_or_else(
        |error| format!("it cannot be put aside: {error}"),
        |()| format!("it is kept as {}", aside.display()),
    );
    let Decisions { denied, limits } = &read.decisions;
    tracing::error!(
        file = %path.display(),
        denied = denied.len(),
        limits = limits.len(),
        "the file of denials and limits (`control.state`) is damaged: what can be read of it applies, and {kept}. Compare \
         with `longhaul depot denied` and `longhaul depot limits`"
    );
    for damage in read.damage.iter().take(MOST_REPORTED) {
        tracing::error!(file = %path.display(), damage, "damaged");
    }
}

fn read(path: &Path) -> Reading {
    match read_text(path) {
        Ok(Some(text)) => parse(&text),
        Ok(None) => Reading::default(),
        Err(damage) => Reading { damage: vec![damage], ..Reading::default() },
    }
}

/// The text of a file that this user or root alone can have written. `None` if there is no file.
fn read_text(path: &Path) -> Result<Option<String>, String> {
    // Neither through a link to another file, nor waiting for the writer of a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(format!("it cannot be opened: {error}")),
    };
    let data = file.metadata().map_err(|error| error.to_string())?;
    if !data.is_file() {
        return Err("it is not a file".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0].contains(&data.uid()) || data.mode() & 0o022 != 0 {
        let (uid, mode) = (data.uid(), data.mode() & 0o7777);
        return Err(format!("another user can write it (user {uid}, mode {mode:o})"));
    }
    let mut bytes = Vec::new();
    let most = LONGEST_FILE + 1;
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 >= most {
        return Err(format!("it is longer than {LONGEST_FILE} bytes"));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn parse(text: &str) -> Reading {
    // The list of denials, as earlier versions have written it.
    if let Ok(list) = serde_json::from_str::<Vec<Denial>>(text) {
        let mut read = Reading::default();
        list.into_iter().zip(1..).for_each(|(denial, n)| read.take(n, Line::Denied(denial)));
        return read;
    }
    let (mut read, mut end) = (Reading::default(), None);
    for (line, n) in text.lines().zip(1..) {
        match serde_json::from_str(line) {
            Ok(Line::End(lines)) if lines + 1 == n && end.is_none() => end = Some(n),
            Ok(line @ (Line::Denied(_) | Line::Limit(_))) if end.is_none() => read.take(n, line),
            Ok(_) => read.damage.push(format!("line {n} is not where it belongs")),
            Err(error) => read.damage.push(format!("line {n}: {error}")),
        }
    }
    if end.is_none() {
        read.damage.push("its last line is missing, and perhaps others".to_owned());
    }
    read
}

impl Reading {
    /// Takes one line, unless it says what no operator can have said.
    fn take(&mut self, n: usize, line: Line) {
        let Decisions { denied, limits } = &mut self.decisions;
        let checked = match line {
            Line::Denied(denial) => denial.check().and_then(|()| push(denied, denial)),
            Line::Limit(limit) => limit.check().and_then(|()| push(limits, limit)),
            Line::End(_) => Ok(()),
        };
        if let Err(error) = checked {
            self.damage.push(format!("line {n}: {error}"));
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), String> {
    if list.len() >= MOST {
        return Err(format!("more than {MOST} of its kind"));
    }
    list.push(item);
    Ok(())
}

fn to_text(Decisions { denied, limits }: &Decisions) -> io::Result<String> {
    let mut text = String::new();
    let denied = denied.iter().cloned().map(Line::Denied);
    let lines = denied.chain(limits.iter().cloned().map(Line::Limit));
    let mut n = 0;
    for line in lines {
        text += &serde_json::to_string(&line)?;
        text.push('\n');
        n += 1;
    }
    text += &serde_json::to_string(&Line::End(n))?;
    text.push('\n');
    Ok(text)
}

/// Replaces the file: a reader, and a crash, finds the old one or the new one.
fn write(path: &Path, decisions: &Decisions) -> io::Result<()> {
    let text = to_text(decisions)?;
    let new = with_suffix(path, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A file of its own: not one that another user has put there.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
    let replaced = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
        return replaced;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
