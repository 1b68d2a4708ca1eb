// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of a host: the old value is noted and synced before a new one is made, so that whoever comes after can put it back.

use super::State;
use crate::message::Setting;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

/// The most settings.
const MOST: usize = 1000;
/// Where experiments make settings.
const PREFIX: &str = "net.";
/// In place of a value of several: it stays as it is.
const KEPT: &str = "*";

/// The settings that were made.
#[derive(Debug)]
pub struct Settings {
    file: PathBuf,
    made: Vec<Made>,
}

/// A setting: what it was, and what it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    key: String,
    before: String,
    now: String,
}

/// What became of settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// How many have their old value again.
    pub count: usize,
    /// Those that have not, and why.
    pub failures: Vec<String>,
}

impl Settings {
    /// Those that are noted.
    pub fn open(state: &State) -> io::Result<Self> {
        let file = state.file("settings.json");
        let made = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, made })
    }

    /// Makes one, and reads it back.
    ///
    /// # Errors
    /// The text names the key.
    pub fn make(&mut self, key: &str, value: &str) -> Result<Setting, String> {
        let wrong = |why: &str| format!("{key} = {value}: {why}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if !key.starts_with(PREFIX) || key.contains("..") || !key.chars().all(is_plain) {
            return Err(wrong("experiments set only keys below net"));
        }
        if value.len() > 1000 || value.contains(['\n', '\0']) || self.made.len() >= MOST {
            return Err(wrong("too long"));
        }
        let failed = |what: &str, error: &io::Error| wrong(&format!("{what}: {error}"));
        let before = host::sysctl::read(key).map_err(|e| failed("it cannot be read", &e))?;
        let value = &with_kept(&before, value);
        if is_same(&before, value) {
            return Ok(Setting { key: key.to_owned(), now: before.clone(), before });
        }
        self.made.push(Made { key: key.to_owned(), before: before.clone(), now: value.clone() });
        self.note().map_err(|e| failed("the old value cannot be noted", &e))?;
        let written = host::sysctl::write(key, value);
        written.map_err(|e| failed("the kernel does not take it", &e))?;
        let now = host::sysctl::read(key).map_err(|e| failed("it cannot be read back", &e))?;
        if !is_same(&now, value) {
            return Err(wrong(&format!("it is {now} after that")));
        }
        Ok(Setting { key: key.to_owned(), before, now })
    }

    /// Gives all their old values, the latest first. Those that were changed again by others stay as they are.
    pub fn put_back(&mut self) -> PutBack {
        let mut result = PutBack::default();
        let mut left = Vec::new();
        while let Some(made) = self.made.pop() {
            let Made { key, before, now } = &made;
            let is_ours = host::sysctl::read(key).is_ok_and(|value| is_same(&value, now));
            if !is_ours {
                continue;
            }
            match host::sysctl::write(key, before) {
                Ok(()) => result.count += 1,
                Err(error) => {
                    result.failures.push(format!(
                        "{key} is {now} and was {before}: it is not put back: {error}. Set it by hand: sysctl -w {key}=\"{before}\""
                    ));
                    left.push(made);
                }
            }
        }
        left.reverse();
        self.made = left;
        if let Err(error) = self.note() {
            result.failures.push(format!("{}: {error}", self.file.display()));
        }
        result
    }

    /// Replaces the file as a whole, and syncs it.
    fn note(&self) -> io::Result<()> {
        if self.made.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let new = self.file.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.made)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.file)
    }
}

/// The new value, with parts of the old one.
fn with_kept(before: &str, value: &str) -> String {
    let mut before = before.split_whitespace();
    let parts = value.split_whitespace().map(|part| {
        let old = before.next();
        if part == KEPT { old.unwrap_or_default() } else { part }
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// The kernel separates the values of a list by tabs.
fn is_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}
