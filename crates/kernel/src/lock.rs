// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that change what is loaded take turns.

use crate::Error;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

/// What longhaul keeps while the machine runs.
pub const FOLDER: &str = "/run/longhaul";

/// Held from the first look to the last change.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until nobody else has it. It goes with the process, too.
    pub fn take() -> Result<Self, Error> {
        let path = format!("{FOLDER}/kernel.lock");
        let failed = |e| Error::system(format!("lock {path}"), e);
        fs::create_dir_all(FOLDER).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::system("lock", e))?;
        Ok(Self { _file: file })
    }
}
