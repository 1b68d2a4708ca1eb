// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's file systems, whatever is mounted where, and whoever's.

use rustix::{
    fd::OwnedFd,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen},
};
use std::io;

/// The root of a file system of that kind (`sysfs`, `cgroup2`) as the calling thread's namespaces have it.
/// No other process sees it, and it goes with the descriptor.
///
/// # Errors
/// Not permitted (it takes root), or the kernel has no such file system.
pub fn private_mount(kind: &str) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}
