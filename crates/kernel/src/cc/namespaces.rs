// SPDX-License-Identifier: GPL-2.0-or-later
//! Every network namespace that can be reached: a thread is in it, a process has it open, or it has
//! a name (`ip netns`).

use crate::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    thread,
};

/// A network namespace.
pub struct Namespace {
    /// Its number, as in `/proc/PID/ns/net`.
    pub inode: u64,
    file: File,
}

impl Namespace {
    /// Runs something inside, on a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let entered = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        };
        thread::scope(|scope| scope.spawn(entered).join().expect("namespace work does not panic"))
    }
}

/// All of them, each once. What vanishes meanwhile is left out.
pub fn all() -> Result<Vec<Namespace>, Error> {
    let mut found = BTreeMap::new();
    let processes = fs::read_dir("/proc").map_err(|e| Error::system("read /proc", e))?;
    let numbered = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
    for process in processes.flatten().filter(numbered) {
        for thread in entries(&process.path().join("task")) {
            offer(&mut found, thread.path().join("ns/net"));
        }
        for fd in entries(&process.path().join("fd")) {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            if target.as_os_str().as_encoded_bytes().starts_with(b"net:[") {
                offer(&mut found, fd.path());
            }
        }
    }
    for named in entries(Path::new("/run/netns")) {
        // Where a name is left of a namespace that is gone, there is an ordinary file.
        if is_namespace(&named.path()) {
            offer(&mut found, named.path());
        }
    }
    Ok(found.into_values().collect())
}

/// None of a folder that is gone, or was never there.
fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn offer(found: &mut BTreeMap<u64, Namespace>, path: PathBuf) {
    let Ok(inode) = fs::metadata(&path).map(|metadata| metadata.ino()) else { return };
    if let (false, Ok(file)) = (found.contains_key(&inode), File::open(path)) {
        found.insert(inode, Namespace { inode, file });
    }
}

fn is_namespace(path: &Path) -> bool {
    /// linux/magic.h: `NSFS_MAGIC`.
    const NAMESPACES: u64 = 0x6e73_6673;
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == NAMESPACES)
}
