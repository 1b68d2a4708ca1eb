// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of routes, in a file that all of a user's processes share.
//!
//! Threats. The file is the user's own (mode 0600, in a directory of mode 0700): it tells which hosts were used. One that is damaged, too
//! large or of another version counts as empty. It is replaced as a whole, under a lock, so no process reads half of it.

use overlay::Memory;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// The largest file that is read.
const LONGEST: u64 = 16 << 20;
/// The form of the file. Another one is not read, and replaced.
const VERSION: u32 = 1;

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct Knowledge {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    routes: Memory,
}

#[derive(Serialize)]
struct Written<'m> {
    version: u32,
    routes: &'m Memory,
}

/// Seconds since 1970.
pub(crate) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

impl Knowledge {
    /// In the user's directory of states: `longhaul/routes.json`; none without a home.
    pub fn usual() -> Option<Self> {
        Some(Self { file: host::state_directory()?.join("longhaul/routes.json") })
    }

    /// In this file.
    #[cfg(test)]
    pub fn at(file: PathBuf) -> Self {
        Self { file }
    }

    /// What is there.
    pub fn read(&self) -> Memory {
        let mut memory = read(&self.file).unwrap_or_default();
        memory.bound();
        memory
    }

    /// Changes what is there, and returns it. What cannot be written is lost: a transfer does not fail for that.
    pub fn update(&self, change: impl FnOnce(&mut Memory)) -> Memory {
        let locked = self.locked();
        let mut memory = self.read();
        change(&mut memory);
        if let Ok(_lock) = locked {
            // The next process learns it by itself.
            let _ = self.write(&memory);
        }
        memory
    }

    fn directory(&self) -> &Path {
        self.file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Held by one process at a time, which ends with the file.
    fn locked(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory())?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(self.file.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    fn write(&self, memory: &Memory) -> io::Result<()> {
        let text = serde_json::to_vec(&Written { version: VERSION, routes: memory })?;
        let new = self.file.with_extension("new");
        // It may be left by a process that was killed; the lock is held.
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        let mut file = options.create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        fs::rename(&new, &self.file)
    }
}

fn read(file: &Path) -> Option<Memory> {
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let document: Document = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (document.version == VERSION).then_some(document.routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlay::{Candidate, End, Hop, Seen};
    use std::{os::unix::fs::PermissionsExt, thread};

    fn learn(knowledge: &Knowledge, route: &str, n: u32) {
        let candidate = Candidate {
            key: route.to_owned(),
            hops: vec![Hop::of_round_trip(0.1)],
            claims: Vec::new(),
        };
        let seen = Seen { at_s: now_s(), bytes: 1 << 20, seconds: f64::from(n), end: End::Done };
        knowledge.update(|memory| memory.ended("there", &candidate, None, seen));
    }

    #[test]
    fn processes_that_write_at_once_lose_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let knowledge = Knowledge::at(directory.path().join("a/b/routes.json"));
        thread::scope(|scope| {
            for writer in 0..4 {
                let knowledge = &knowledge;
                scope.spawn(move || {
                    for n in 0..5 {
                        learn(knowledge, &format!("d{writer}{n}"), n);
                    }
                });
            }
        });
        let memory = knowledge.read();
        assert_eq!(memory.paths("there").count(), 20);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&knowledge.file), mode(knowledge.directory())), (0o600, 0o700));
        assert!(!knowledge.file.with_extension("new").exists());
    }

    #[test]
    fn what_cannot_be_read_is_empty_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let knowledge = Knowledge::at(directory.path().join("routes.json"));
        for text in ["", "{", "{\"version\": 2, \"routes\": {\"places\": {}}}", "[1]", "\0\u{1}"] {
            fs::write(&knowledge.file, text).unwrap();
            assert_eq!(knowledge.read().destinations().count(), 0, "{text}");
        }
        learn(&knowledge, "d", 1);
        assert_eq!(knowledge.read().destinations().collect::<Vec<_>>(), ["there"]);
    }

    #[test]
    fn place_that_cannot_be_written_fails_nothing() {
        let knowledge = Knowledge::at("/proc/longhaul/routes.json".into());
        learn(&knowledge, "d", 1);
        assert_eq!(knowledge.read().destinations().count(), 0);
    }
}
