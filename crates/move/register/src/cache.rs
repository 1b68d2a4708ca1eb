// SPDX-License-Identifier: GPL-2.0-or-later
//! The last known announcements of a register, in a file of the user.
//!
//! Threats. Announcements in it are signed, and verified when it is read. A damaged or too large file, and one of another register,
//! is ignored. It is replaced atomically.

use crate::announcement_set::AnnouncementList;
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

/// The file.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    name: String,
    register: PathBuf,
}

/// A list, and when it was received.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CachedList {
    register: PathBuf,
    pub at: UnixTime,
    pub list: AnnouncementList,
}

impl Cache {
    /// The cache of a register file; `None` without a home directory.
    pub fn of(register: &Path) -> Option<Self> {
        Some(Self::at(host::state_directory()?.join("longhaul"), register))
    }

    pub fn at(directory: PathBuf, register: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        register.hash(&mut hasher);
        let name = format!("register-{:016x}.json", hasher.finish());
        Self { directory, name, register: register.to_owned() }
    }

    /// The cached list of this register.
    pub fn read(&self) -> Option<CachedList> {
        let file = self.directory.join(&self.name);
        let metadata = fs::metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return None;
        }
        let cached: CachedList = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        (cached.register == self.register).then_some(cached)
    }

    /// Replaces the cached list.
    pub fn write(&self, at: UnixTime, list: AnnouncementList) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let cached = CachedList { register: self.register.clone(), at, list };
        let text = serde_json::to_vec(&cached)?;
        RunDirectory::at(&self.directory)?.write(&self.name, &text, 0o600).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_its_own_cache() {
        let directory = tempfile::tempdir().unwrap();
        let cache = |register: &str| Cache::at(directory.path().join("s"), Path::new(register));
        let list = AnnouncementList { depots: vec!["a.b.c".to_owned()] };
        let at = UnixTime::try_from(7).unwrap();
        cache("/etc/a.toml").write(at, list.clone()).unwrap();
        assert_eq!(cache("/etc/b.toml").read(), None);
        let state = cache("/etc/a.toml").read().unwrap();
        assert_eq!((state.at, state.list), (at, list));
        let mut other = cache("/etc/b.toml");
        other.name = cache("/etc/a.toml").name;
        assert_eq!(other.read(), None, "file names may collide");
        for text in ["", "{", "{\"register\": 1}"] {
            fs::write(directory.path().join("s").join(&other.name), text).unwrap();
            assert_eq!(cache("/etc/a.toml").read(), None, "{text}");
        }
    }
}
