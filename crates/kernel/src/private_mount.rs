// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's file systems, whatever is mounted where, and whoever's.

use rustix::{
    fd::OwnedFd,
    io,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen},
};

/// The root of a file system of that kind as the calling thread's namespaces have it. Nobody else sees
/// it, and it goes with the descriptor.
pub fn root(kind: &str) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)
}
