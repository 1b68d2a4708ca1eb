// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that change what is loaded take turns.

use crate::Error;
use host::RunDirectory;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

/// Held from the first look to the last change.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until no other process holds the lock. The end of the process also releases it.
    pub fn take() -> Result<Self, Error> {
        let file = RunDirectory::open().and_then(|folder| folder.lock_file("kernel.lock"));
        let file = file.map_err(|e| Error::system("lock longhaul's kernel programs", e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::system("lock", e))?;
        Ok(Self { _file: file })
    }
}
