// SPDX-License-Identifier: GPL-2.0-or-later
//! The owner's key: 32 random bytes in a file that only its owner may read. It is the seed of an Ed25519 key.

use crate::{Error, part::is_own};
use protocol::session::request::SigningKey;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Length of the file.
const LENGTH: usize = 32;

/// The key with which sessions are left, listed, extended and dropped.
#[derive(Debug, Clone)]
pub struct OwnerKey(Arc<SigningKey>);

/// Where the key is unless another file is named: `longhaul/owner.key` in `$XDG_STATE_HOME`, or in `~/.local/state`.
///
/// # Errors
/// The environment has neither directory.
pub fn default_owner_key() -> Result<PathBuf, Error> {
    let none = "no place for the owner's key: HOME is not set. Name a file: --owner-key FILE";
    let folder = state_folder().ok_or_else(|| Error::Usage(none.to_owned()))?;
    Ok(folder.join("owner.key"))
}

/// Where longhaul keeps what outlasts a process: `longhaul` in `$XDG_STATE_HOME`, or in `~/.local/state`.
pub(in crate::parcel) fn state_folder() -> Option<PathBuf> {
    Some(host::state_directory()?.join("longhaul"))
}

impl OwnerKey {
    /// Reads the key, which is made if the file is missing.
    ///
    /// # Errors
    /// The file cannot be used, or others can read it.
    pub fn read_or_make(path: &Path) -> Result<Self, Error> {
        match open(path) {
            Err(Errno::NOENT) => make(path)?,
            Err(error) => return Err(Error::file("open", path, error)),
            Ok(file) => return read(path, file),
        }
        read(path, open(path).map_err(|error| Error::file("open", path, error))?)
    }

    /// Reads the key.
    ///
    /// # Errors
    /// The file is missing, cannot be used, or others can read it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match open(path) {
            Err(Errno::NOENT) => Err(Error::Usage(format!(
                "{}: no owner's key yet, so nothing was left from here. To use another one: --owner-key FILE",
                path.display()
            ))),
            Err(error) => Err(Error::file("open", path, error)),
            Ok(file) => read(path, file),
        }
    }

    /// What signs requests.
    pub(super) fn signing_key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.0)
    }
}

fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn read(path: &Path, file: File) -> Result<OwnerKey, Error> {
    let failed = |error: io::Error| Error::file("read", path, error);
    let refused = |why: &str| Error::Usage(format!("{}: {why}", path.display()));
    let data = file.metadata().map_err(failed)?;
    if !data.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if !is_own(&data) {
        return Err(refused("it belongs to another user"));
    }
    if data.permissions().mode() & 0o077 != 0 {
        let why = format!(
            "others can read or change this key. Make it private: chmod 600 {}",
            path.display()
        );
        return Err(refused(&why));
    }
    let mut seed = Vec::new();
    file.take(LENGTH as u64 + 1).read_to_end(&mut seed).map_err(failed)?;
    let seed: [u8; LENGTH] =
        seed.try_into().map_err(|_| refused("it is not an owner's key: that has 32 bytes"))?;
    Ok(OwnerKey(Arc::new(SigningKey::from_seed(&seed))))
}

/// Makes a key, unless another process does so at the same time.
fn make(path: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file("write", path, error);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let seed: [u8; LENGTH] = host::random().map_err(failed)?;
    // It appears as a whole, with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(&seed).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(error.error));
        }
        _ => {}
    }
    // The key is there: without this a loss of power could lose it.
    let _ = fs::File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_made_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/longhaul/owner.key");
        let missing = OwnerKey::read(&path).unwrap_err().to_string();
        assert!(missing.contains("--owner-key"), "{missing}");
        let key = OwnerKey::read_or_make(&path).unwrap();
        for again in [OwnerKey::read_or_make(&path), OwnerKey::read(&path)] {
            assert_eq!(again.unwrap().0.public(), key.0.public());
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "nothing else is left");
        make(&path).unwrap();
        let same = OwnerKey::read(&path).unwrap();
        assert_eq!(same.0.public(), key.0.public(), "a key is not replaced");
    }

    #[test]
    fn unsafe_key_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        for (length, mode, why) in [
            (32, 0o640, "chmod 600"),
            (32, 0o602, "chmod 600"),
            (31, 0o600, "32 bytes"),
            (33, 0o600, "32 bytes"),
            (0, 0o600, "32 bytes"),
        ] {
            fs::write(&path, vec![7; length]).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for read in [OwnerKey::read(&path), OwnerKey::read_or_make(&path)] {
                let error = read.unwrap_err().to_string();
                assert!(error.contains(why), "{length} bytes, mode {mode:o}: {error}");
            }
        }
        let error = OwnerKey::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("regular file"), "{error}");
    }
}
