// SPDX-License-Identifier: GPL-2.0-or-later
//! The key that signs this depot's announcements, and the keys of trusted depots.

use crate::{config::Register, observe::status::Reload};
use host::{FileError, ReloadingFile, SettingFile};
use protocol::ticket::{KeySet, Signer};
use std::{fs, path::PathBuf, sync::Arc};

/// Maximum size of a key file, in bytes.
const LONGEST: u64 = 1 << 20;

/// The keys of `[register]`.
#[derive(Debug)]
pub(crate) struct RegisterKeys {
    /// Signs this depot's announcements.
    pub own: Signer,
    trusted: ReloadingFile<KeySet>,
}

impl RegisterKeys {
    /// Reads the files.
    pub(crate) fn new(register: &Register) -> Result<Self, FileError> {
        let failed = |reason: &dyn ToString| FileError::new(&register.key, &reason.to_string());
        let pem = read(&register.key)?;
        let own = Signer::from_pem(&pem).map_err(|error| failed(&error))?;
        let files = vec![SettingFile::new("register.trust", &register.trust)];
        let names = |keys: &KeySet| keys.kids().collect::<Vec<_>>().join(",");
        let trusted = ReloadingFile::new("keys of depots", files, read_keys, names)?;
        Ok(Self { own: own.named(&register.address.to_string()), trusted })
    }

    /// The keys of trusted depots.
    pub(crate) fn trusted(&self) -> Arc<KeySet> {
        self.trusted.get()
    }

    /// Reads them again if they have changed.
    pub(crate) fn refresh(&self) {
        self.trusted.refresh();
    }

    /// Result of the last read.
    pub(crate) fn last_read(&self) -> Reload {
        Reload::of(self.trusted.last_read())
    }
}

fn read(file: &PathBuf) -> Result<String, FileError> {
    let failed = |error| FileError::io(file, &error);
    if fs::metadata(file).map_err(failed)?.len() > LONGEST {
        return Err(FileError::new(file, &"it is too large for a file of keys"));
    }
    fs::read_to_string(file).map_err(failed)
}

fn read_keys(files: &[PathBuf]) -> Result<KeySet, FileError> {
    let [file] = files else { unreachable!("one file") };
    KeySet::parse(&read(file)?).map_err(|error| FileError::new(file, &error))
}
