// SPDX-License-Identifier: GPL-2.0-or-later
//! Network namespaces: new ones without a name, and every one that can be reached.
//!
//! A namespace lives as long as a file descriptor to it, or a process or device in it, so that nothing is
//! left when its owner ends, by whatever cause. A namespace is entered on a thread of its own, so that the
//! calling thread stays where it is.

use crate::{sys, sysctl};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::{ffi::OsStringExt, fs::MetadataExt},
    },
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// That of the calling thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes an empty one.
    ///
    /// # Errors
    /// Not permitted (it takes root), or the kernel has no network namespaces.
    pub fn new() -> io::Result<Self> {
        on_own_thread(|| {
            sys::unshare_network()?;
            File::open(CURRENT).map(Self)
        })
    }

    /// Opens one that another process holds.
    ///
    /// # Errors
    /// The process is gone, or not this user's.
    pub fn of_process(pid: u32, fd: i32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/fd/{fd}")).map(Self)
    }

    /// That of the calling thread.
    ///
    /// # Errors
    /// `/proc` does not show it.
    pub fn current() -> io::Result<Self> {
        File::open(CURRENT).map(Self)
    }

    /// Every one that can be reached, each once: a thread is in it, a process has it open, or it has a name
    /// (`ip netns`). What vanishes meanwhile is left out.
    ///
    /// # Errors
    /// The processes can't be listed.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = BTreeMap::new();
        let is_process =
            |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        for process in fs::read_dir("/proc")?.flatten().filter(is_process) {
            for thread in entries(&process.path().join("task")) {
                add(&mut found, thread.path().join("ns/net"));
            }
            for fd in entries(&process.path().join("fd")) {
                let target = fs::read_link(fd.path()).unwrap_or_default();
                if target.as_os_str().as_encoded_bytes().starts_with(b"net:[") {
                    add(&mut found, fd.path());
                }
            }
        }
        for named in entries(Path::new("/run/netns")) {
            // Where a name is left of a namespace that is gone, there is an ordinary file.
            if is_namespace(&named.path()) {
                add(&mut found, named.path());
            }
        }
        Ok(found.into_values().collect())
    }

    /// The number of the calling thread's namespace, as in `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// `/proc` does not show it.
    pub fn current_inode() -> io::Result<u64> {
        Ok(fs::metadata(CURRENT)?.ino())
    }

    /// Its number, as in `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    /// The number of its descriptor in this process, for [`Namespace::of_process`] elsewhere.
    pub fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Runs something inside, on a thread of its own. Sockets that it opens stay in the namespace. Takes no rights where that is
    /// the caller's own.
    ///
    /// # Errors
    /// The namespace can't be entered, or the error of `work`.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_own_thread(|| {
            if self.inode()? != Self::current_inode()? {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            work()
        })
    }

    /// Has a command run inside, with `hosts` in place of `/etc/hosts`.
    ///
    /// # Errors
    /// The descriptor can't be duplicated.
    pub fn enter_on_exec(&self, command: &mut Command, hosts: PathBuf) -> io::Result<()> {
        let namespace = self.0.try_clone()?;
        let hosts = CString::new(hosts.into_os_string().into_vec())?;
        sys::enter_on_exec(command, namespace, hosts);
        Ok(())
    }

    /// Gives a kernel setting that this namespace has of its own a value.
    ///
    /// # Errors
    /// There is no such setting, or it doesn't take the value.
    pub fn set_sysctl(&self, key: &str, value: &str) -> io::Result<()> {
        self.run(|| sysctl::write(key, value))
    }

    /// The words of a kernel setting, as this namespace has it.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn sysctl(&self, key: &str) -> io::Result<String> {
        self.run(|| sysctl::read(key))
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// The entries of a directory; none of one that is gone, or was never there.
fn entries(directory: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn add(found: &mut BTreeMap<u64, Namespace>, path: PathBuf) {
    let Ok(inode) = fs::metadata(&path).map(|metadata| metadata.ino()) else { return };
    if let (false, Ok(file)) = (found.contains_key(&inode), File::open(path)) {
        found.insert(inode, Namespace(file));
    }
}

fn is_namespace(path: &Path) -> bool {
    /// linux/magic.h: `NSFS_MAGIC`.
    const NAMESPACES: u64 = 0x6e73_6673;
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == NAMESPACES)
}
