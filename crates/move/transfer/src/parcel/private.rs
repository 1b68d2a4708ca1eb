// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that only their owner may read while they are incomplete: what comes may be private, and its own permissions are
//! set when it is complete.

use crate::{Error, part::open_locked};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::{File, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Permissions of a file that only its owner may read.
const OWNER_ONLY: u32 = 0o600;

/// Creates a private file, unless there is something with that name.
pub(super) fn create(path: &Path) -> Result<(), Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::from_raw_mode(OWNER_ONLY)) {
        Err(error) if error != Errno::EXIST => Err(Error::file("open", path, error)),
        _ => Ok(()),
    }
}

/// Makes an open file private, also one that was there before.
pub(super) fn restrict(file: &File) {
    // Some file systems have no permissions.
    let _ = file.set_permissions(Permissions::from_mode(OWNER_ONLY));
}

/// Opens and locks a private file, which is created if it is missing.
pub(super) fn open(path: &Path) -> Result<File, Error> {
    create(path)?;
    let file = open_locked(path)?;
    restrict(&file);
    Ok(file)
}

/// Permissions of a new directory as the process's umask has them.
pub(super) fn usual_directory_mode() -> u32 {
    // umask(2) can only be read by setting it, for all threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    0o777 & !mask.unwrap_or(0o022)
}
