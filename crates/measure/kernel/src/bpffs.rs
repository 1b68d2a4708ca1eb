// SPDX-License-Identifier: GPL-2.0-or-later
//! Where files keep in the kernel what no process holds.
//!
//! `/sys/fs/bpf` where one is mounted, as systemd does; else a BPF file system of longhaul's own in
//! `/run/longhaul/bpf`, unmounted when the last file in it is gone. Called under the lock.
//!
//! A process may have mounts of its own, without either. Then pins are looked for with the eyes of
//! process 1, but none is made: that would go with those mounts.

use crate::Error;
use host::{RUN_DIRECTORY, RunDirectory};
use rustix::{
    fs::statfs,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const MACHINES: &str = "/sys/fs/bpf";
const OURS: &str = "longhaul";

fn own() -> PathBuf {
    Path::new(RUN_DIRECTORY).join("bpf")
}

/// Where pins may be: longhaul's folders, which need not be there.
pub fn pin_directories() -> impl Iterator<Item = PathBuf> {
    let machine = if has_own_mounts() { "/proc/1/root" } else { "" };
    // Not `join`, which an absolute path would replace.
    let seen = move |path: PathBuf| PathBuf::from(format!("{machine}{}", path.display()));
    let roots = [MACHINES.into(), own()].into_iter().map(seen).filter(|root| mounted(root));
    roots.map(|root| root.join(OURS))
}

/// Whether the calling thread sees other mounts than process 1; not if that can't be told.
fn has_own_mounts() -> bool {
    let mounts_of = |who| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    mounts_of("1").is_some_and(|machines| mounts_of("thread-self") != Some(machines))
}

/// Refuses to work with pins that would not be the machine's.
pub fn require_machines_mounts() -> Result<(), Error> {
    if has_own_mounts() { Err(Error::OwnMounts) } else { Ok(()) }
}

/// linux/magic.h: `BPF_FS_MAGIC`.
const BPF_FS: u64 = 0xcafe_4a11;

/// Longhaul's folder in the BPF file system to use, mounted if there is none. It need not be there.
pub fn file_system() -> Result<PathBuf, Error> {
    let machines = PathBuf::from(MACHINES);
    if mounted(&machines) {
        return Ok(machines.join(OURS));
    }
    let own = own();
    if !mounted(&own) {
        let failed = |e| Error::system(format!("mount a BPF file system at {}", own.display()), e);
        RunDirectory::open().and_then(|folder| folder.subdirectory("bpf")).map_err(failed)?;
        mount("bpf", &own, "bpf", MountFlags::empty(), c"mode=0700")
            .map_err(|e| failed(e.into()))?;
    }
    Ok(own.join(OURS))
}

/// Removes what is empty: our folders, and the file system if it was ours.
pub fn remove_empty_directories() {
    let own = own();
    for root in [Path::new(MACHINES), &own] {
        if mounted(root) {
            // Not while others are in it.
            let _ = fs::remove_dir(root.join(OURS).join("pace"));
            let _ = fs::remove_dir(root.join(OURS));
        }
    }
    if mounted(&own) && !own.join(OURS).exists() {
        // Another process may be using it; the next removal tries again.
        let _ = unmount(&own, UnmountFlags::empty());
        let _ = fs::remove_dir(&own);
    }
}

/// Removes a folder of pins, if it is there: these files, in that order.
pub fn clear(folder: &Path, files: &[&str]) -> Result<(), Error> {
    let failed = |e| Error::system(format!("remove {}", folder.display()), e);
    for file in files {
        absent_is_fine(fs::remove_file(folder.join(file))).map_err(failed)?;
    }
    absent_is_fine(fs::remove_dir(folder)).map_err(failed)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Whether a pin is there.
pub fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|e| Error::system(format!("look for {}", path.display()), e))
}

fn mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == BPF_FS)
}
