// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of running networks in `/run/longhaul`: the hosts files of their nodes, and the locks of
//! names. Each file goes with its owner; what a killed one leaves behind is recognised and
//! removed by the next.

use host::{RUN_DIRECTORY, RunDirectory};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

const HOSTS: &str = "hosts-";

/// A file's path in the folder.
pub fn path(name: &str) -> PathBuf {
    Path::new(RUN_DIRECTORY).join(name)
}

/// A file that commands on the nodes of one network see as `/etc/hosts`.
#[derive(Debug)]
pub struct HostsFile(PathBuf);

impl HostsFile {
    /// Writes one, readable by every user's programs.
    pub fn write(text: &str) -> io::Result<Self> {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("{HOSTS}{}-{number}", std::process::id());
        Ok(Self(RunDirectory::open()?.write(&name, text.as_bytes(), 0o644)?))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes those whose process is gone. Errors are ignored: remaining files do no harm.
    pub fn remove_abandoned() {
        for entry in std::fs::read_dir(RUN_DIRECTORY).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if owner(&name.to_string_lossy()).is_some_and(|pid| !is_alive(pid)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for HostsFile {
    fn drop(&mut self) {
        // The error has no recipient any more.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The process in the name of a hosts file.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(HOSTS)?.split_once('-')?.0.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The right to a name. The kernel takes it back when its holder ends, by whatever cause.
#[derive(Debug)]
pub struct NameLock {
    path: PathBuf,
    _file: File,
}

impl NameLock {
    /// Takes it; `None` where another holds it.
    pub fn take(name: &str) -> io::Result<Option<Self>> {
        let (folder, name) = (RunDirectory::open()?, format!("wan-{name}.lock"));
        let path = folder.path(&name);
        loop {
            let file = folder.lock_file(&name)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // The holder before removed its file before it let go: then this is the lock of nothing.
            let locked = file.metadata()?;
            let named = std::fs::metadata(&path);
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // Without a file the next holder makes one; with one left behind it takes that.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_at_a_time() {
        let name = format!("lock-test-{}", std::process::id());
        let lock = NameLock::take(&name).unwrap().expect("the lock is free");
        assert!(NameLock::take(&name).unwrap().is_none());
        let file = lock.path.clone();
        drop(lock);
        assert!(!file.exists(), "nothing is left behind");
        assert!(NameLock::take(&name).unwrap().is_some());
    }

    #[test]
    fn hosts_files_of_ended_processes_are_removed() {
        // A process that has just ended; its number is not given again at once.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        RunDirectory::open().unwrap();
        let abandoned = path(&format!("{HOSTS}{}-0", child.id()));
        std::fs::write(&abandoned, "").unwrap();
        let kept = HostsFile::write("127.0.0.1 localhost\n").unwrap();
        HostsFile::remove_abandoned();
        assert!(!abandoned.exists());
        let file = kept.path().to_owned();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
        drop(kept);
        assert!(!file.exists());
    }
}
