// SPDX-License-Identifier: GPL-2.0-or-later
//! Network namespaces without a name: one lives as long as a file descriptor to it, or a process or
//! device in it, so that nothing is left when its owner ends, by whatever cause.

use crate::sys;
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::Command,
    thread,
};

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
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// Opens one that another process holds.
    ///
    /// # Errors
    /// The process is gone, or not this user's.
    pub fn of_process(pid: u32, fd: i32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/fd/{fd}")).map(Self)
    }

    /// The number of its descriptor in this process, for [`Namespace::of_process`] elsewhere.
    pub fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Runs something inside, on a thread of its own. Sockets that it opens stay in the namespace.
    ///
    /// # Errors
    /// The namespace can't be entered, or what `work` answers.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_own_thread(|| {
            sys::enter_network(self.0.as_fd())?;
            work()
        })
    }

    /// Has a command run inside, with `hosts` in place of `/etc/hosts`.
    ///
    /// # Errors
    /// The descriptor can't be duplicated.
    pub fn attach(&self, command: &mut Command, hosts: PathBuf) -> io::Result<()> {
        use std::os::unix::ffi::OsStringExt;
        let namespace = self.0.try_clone()?;
        let hosts = std::ffi::CString::new(hosts.into_os_string().into_vec())?;
        // SAFETY: between fork and exec only system calls are made, no memory is allocated.
        unsafe {
            command.pre_exec(move || {
                sys::enter_network(namespace.as_fd())?;
                sys::private_hosts(&hosts)
            });
        }
        Ok(())
    }

    /// Writes a setting of the kernel's that this namespace has of its own.
    ///
    /// # Errors
    /// There is no such setting, or it doesn't take the value.
    pub fn set_sysctl(&self, key: &str, value: &str) -> io::Result<()> {
        self.run(|| std::fs::write(sysctl_path(key), value))
    }

    /// Reads a setting of the kernel's.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn sysctl(&self, key: &str) -> io::Result<String> {
        let text = self.run(|| std::fs::read_to_string(sysctl_path(key)))?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn sysctl_path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key.replace('.', "/"))
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| scope.spawn(work).join().expect("namespace work does not panic"))
}
