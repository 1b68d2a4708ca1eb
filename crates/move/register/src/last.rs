// SPDX-License-Identifier: GPL-2.0-or-later
//! The last known state of a register, in a file of the user's.
//!
//! Threats. Announcements in it are signed, and checked again when it is read. A file that is damaged, too large or about another
//! register counts as none. It is replaced as a whole.

use crate::known::Told;
use host::RunDirectory;
use protocol::{announcement::MAX_ANNOUNCEMENTS_BODY, ticket::UnixTime};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The largest file that is read.
const LONGEST: u64 = MAX_ANNOUNCEMENTS_BODY as u64 + (64 << 10);

/// Where it is.
#[derive(Debug)]
pub(crate) struct Last {
    directory: PathBuf,
    name: String,
    register: PathBuf,
}

/// What was heard, and when.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    register: PathBuf,
    pub at: UnixTime,
    pub told: Told,
}

impl Last {
    /// That of a register's file; none without a home.
    pub fn of(register: &Path) -> Option<Self> {
        Some(Self::at(host::state_directory()?.join("longhaul"), register))
    }

    pub fn at(directory: PathBuf, register: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        register.hash(&mut hasher);
        let name = format!("register-{:016x}.json", hasher.finish());
        Self { directory, name, register: register.to_owned() }
    }

    /// What is there.
    pub fn read(&self) -> Option<State> {
        let file = self.directory.join(&self.name);
        let metadata = fs::metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return None;
        }
        let state: State = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        (state.register == self.register).then_some(state)
    }

    /// Replaces it.
    pub fn write(&self, at: UnixTime, told: Told) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let state = State { register: self.register.clone(), at, told };
        let text = serde_json::to_vec(&state)?;
        RunDirectory::at(&self.directory)?.write(&self.name, &text, 0o600).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let last = |register: &str| Last::at(directory.path().join("s"), Path::new(register));
        let told = Told { depots: vec!["a.b.c".to_owned()] };
        let at = UnixTime::try_from(7).unwrap();
        last("/etc/a.toml").write(at, told.clone()).unwrap();
        assert_eq!(last("/etc/b.toml").read(), None);
        let state = last("/etc/a.toml").read().unwrap();
        assert_eq!((state.at, state.told), (at, told));
        let mut other = last("/etc/b.toml");
        other.name = last("/etc/a.toml").name;
        assert_eq!(other.read(), None, "names may be the same by chance");
        for text in ["", "{", "{\"register\": 1}"] {
            fs::write(directory.path().join("s").join(&other.name), text).unwrap();
            assert_eq!(last("/etc/a.toml").read(), None, "{text}");
        }
    }
}
