// SPDX-License-Identifier: GPL-2.0-or-later
//! What a watch has sent, in a file of lines: after a restart it goes on where it was.
//!
//! A line is added and on the disk when the receiver has a file. A line that a crash has cut is ignored: its file is compared
//! once more. Two watches do not share such a file.

use crate::{Error, parcel::store::state_folder};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The most bytes that are read of it.
const MOST: u64 = 1 << 30;
/// Lines of files that were sent again later, before it is written without them.
const SUPERSEDED: usize = 10_000;

/// A file as it was when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub bytes: u64,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

impl Version {
    pub(super) fn of(data: &fs::Metadata) -> Self {
        Self { bytes: data.len(), modified: (data.mtime(), data.mtime_nsec()) }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    name: std::borrow::Cow<'l, str>,
    #[serde(flatten)]
    version: Version,
}

/// What was sent.
#[derive(Debug)]
pub(super) struct Sent {
    path: PathBuf,
    file: File,
    versions: HashMap<String, Version>,
}

/// Where a watch of this folder for this receiver notes what it has sent, unless another file is named: in `longhaul/watch` in
/// `$XDG_STATE_HOME`, or in `~/.local/state`.
///
/// # Errors
/// The environment has neither directory, or the folder cannot be found.
pub fn default_watch_state(folder: &Path, receiver: &str) -> Result<PathBuf, Error> {
    let whole = folder.canonicalize().map_err(|error| Error::file("watch", folder, error))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(whole.as_os_str().as_encoded_bytes()).update(b"\0").update(receiver.as_bytes());
    let name = format!("{}.jsonl", &hasher.finalize().to_hex()[..16]);
    let none = "no place to note what was sent: HOME is not set. Name a file: --state FILE";
    Ok(state_folder().ok_or_else(|| Error::Usage(none.to_owned()))?.join("watch").join(name))
}

impl Sent {
    /// Opens and locks the file, which is made if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::file("open", path, error);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(std::io::Error::other("it is not a regular file")));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| failed(std::io::Error::other("another longhaul send --watch uses it")))?;
        let (versions, lines) = read(&file).map_err(failed)?;
        let mut sent = Self { path: path.to_owned(), file, versions };
        if lines > sent.versions.len() + SUPERSEDED {
            sent.rewrite().map_err(failed)?;
        }
        Ok(sent)
    }

    /// Whether a file was sent as it is.
    pub(super) fn has(&self, name: &str, version: Version) -> bool {
        self.versions.get(name) == Some(&version)
    }

    /// A file was sent.
    pub(super) fn add(&mut self, name: &str, version: Version) -> Result<(), Error> {
        let line = line(name, version);
        let written = (&self.file).write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::file("write", &self.path, error))?;
        self.versions.insert(name.to_owned(), version);
        Ok(())
    }

    /// Writes it anew, without lines that later ones have superseded. The lock goes over to the new file.
    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut whole = String::new();
        for (name, version) in &self.versions {
            whole += &line(name, *version);
        }
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let mut options = File::options();
        let file =
            options.read(true).append(true).create(true).truncate(false).mode(0o600).open(&new)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        (&file).write_all(whole.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        Ok(())
    }
}

fn line(name: &str, version: Version) -> String {
    let line = Line { name: name.into(), version };
    serde_json::to_string(&line).expect("it has a form in JSON") + "\n"
}

/// The latest version of each file, and how many lines there are. The file ends with a whole line afterwards.
fn read(file: &File) -> std::io::Result<(HashMap<String, Version>, usize)> {
    let (mut versions, mut lines, mut whole) = (HashMap::new(), 0, 0);
    let mut reader = BufReader::new(file.take(MOST));
    let mut text = Vec::new();
    while reader.read_until(b'\n', &mut text)? > 0 {
        if text.last() != Some(&b'\n') {
            break;
        }
        whole += text.len() as u64;
        lines += 1;
        if let Ok(Line { name, version }) = serde_json::from_slice(&text) {
            versions.insert(name.into_owned(), version);
        }
        text.clear();
    }
    file.set_len(whole)?;
    Ok((versions, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(bytes: u64) -> Version {
        Version { bytes, modified: (-5, 7) }
    }

    #[test]
    fn notes_outlast_a_restart_and_a_cut_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/state");
        let mut sent = Sent::open(&path).unwrap();
        for bytes in 0..3 {
            sent.add("a/\"b\"\n", version(bytes)).unwrap();
        }
        sent.add("c", version(9)).unwrap();
        assert!(Sent::open(&path).unwrap_err().to_string().contains("another"), "it is locked");
        drop(sent);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut sent = Sent::open(&path).unwrap();
            sent.add("d", version(4)).unwrap();
            drop(sent);
            let sent = Sent::open(&path).unwrap();
            assert!(sent.has("d", version(4)) && !sent.has("c", version(9)));
        }
        fs::write(&path, &whole).unwrap();
        let sent = Sent::open(&path).unwrap();
        assert!(sent.has("a/\"b\"\n", version(2)) && sent.has("c", version(9)));
        assert!(!sent.has("c", version(8)) && !sent.has("d", version(4)));
    }

    #[test]
    fn superseded_lines_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let lines: String = (0..SUPERSEDED as u64 + 3).map(|n| line("a", version(n))).collect();
        fs::write(&path, lines).unwrap();
        let mut sent = Sent::open(&path).unwrap();
        sent.add("b", version(1)).unwrap();
        assert!(Sent::open(&path).is_err(), "it is locked");
        drop(sent);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert!(Sent::open(&path).unwrap().has("a", version(SUPERSEDED as u64 + 2)));
    }

    #[test]
    fn other_files_are_refused_or_ignored() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Sent::open(directory.path()).is_err());
        assert!(Sent::open(Path::new("/dev/null")).is_err());
        let path = directory.path().join("state");
        fs::write(&path, b"\xff\n{}\n{\"name\":1}\n[]\n").unwrap();
        assert!(Sent::open(&path).unwrap().versions.is_empty());
    }
}
