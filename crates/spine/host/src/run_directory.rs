// SPDX-License-Identifier: GPL-2.0-or-later
//! `/run/longhaul`: locks, notices and sockets of commands that are root's.
//!
//! Whoever else may write in a folder can put a link where root is about to write, and have it overwrite any
//! file. So the folder has to be this user's, and nobody else may write in it; and links are not followed all
//! the same. Daemons with users of their own keep their sockets elsewhere.

use rustix::process::geteuid;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where it is.
pub const RUN_DIRECTORY: &str = "/run/longhaul";

/// Write rights of others than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// A folder in which only this user writes.
#[derive(Debug, Clone)]
pub struct RunDirectory(PathBuf);

impl RunDirectory {
    /// The folder, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made, or somebody else may write in it: then the text says who, and what to do.
    pub fn open() -> io::Result<Self> {
        Self::at(Path::new(RUN_DIRECTORY))
    }

    /// The same at another place.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn at(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o755).create(path) {
            // The mode again, for what the caller's umask took from it.
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let folder = Self(path.to_owned());
        folder.check()?;
        Ok(folder)
    }

    /// A folder within it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn subdirectory(&self, name: &str) -> io::Result<Self> {
        Self::at(&self.path(name))
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Opens a file to lock, which is made if there is none, and left as it is if there is.
    ///
    /// # Errors
    /// It cannot be opened, or is a link.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NOT_BY_LINKS);
        options.open(self.path(name))
    }

    /// Writes a file with this mode, whole or not at all, in the place of the one that there is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &[u8], mode: u32) -> io::Result<PathBuf> {
        self.replace(name, text, mode, |_| Ok(()))
    }

    /// The same, and on the disk when this returns: a crash after it leaves the new file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_synced(&self, name: &str, text: &[u8], mode: u32) -> io::Result<PathBuf> {
        let path = self.replace(name, text, mode, File::sync_all)?;
        self.sync()?;
        Ok(path)
    }

    /// Removes a file, and has that on the disk when this returns. One that is not there is no error.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_synced(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync(),
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn replace(
        &self,
        name: &str,
        text: &[u8],
        mode: u32,
        finish: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        let (path, beside) = (self.path(name), self.path(&format!("{name}.new")));
        // What a call that was cut short has left.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).custom_flags(NOT_BY_LINKS);
        let mut file = options.open(&beside)?;
        // Whatever the mask says.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text)?;
        finish(&file)?;
        fs::rename(&beside, &path)?;
        Ok(path)
    }

    fn check(&self) -> io::Result<()> {
        let Self(path) = self;
        let refused = |why: String| {
            let text = format!(
                "{} {why}: only this user may write there, or others could have it write anywhere \
                 (sockets of other users, as a depot's `handover`, belong in a folder of their own)",
                path.display()
            );
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        };
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_dir() {
            return refused("is no folder".to_owned());
        }
        let (owner, user) = (metadata.uid(), geteuid().as_raw());
        if owner != user && owner != 0 {
            return refused(format!("belongs to the user {owner}"));
        }
        if metadata.mode() & OTHERS_WRITE != 0 {
            return refused("can be written to by others than its owner".to_owned());
        }
        Ok(())
    }
}

/// `O_NOFOLLOW`; the standard library itself sees to it that children do not have the file.
const NOT_BY_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_leads_root_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, victim) =
            (RunDirectory::at(&dir.path().join("run")).unwrap(), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        for name in ["lock", "notice", "notice.new"] {
            symlink(&victim, folder.path(name)).unwrap();
        }
        assert!(folder.lock_file("lock").is_err());
        let written = folder.write("notice", b"{}", 0o644).unwrap();
        assert_eq!(fs::read_to_string(&written).unwrap(), "{}");
        assert!(fs::symlink_metadata(&written).unwrap().is_file(), "in the place of the link");
        assert_eq!(written.metadata().unwrap().mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        folder.write_synced("notice", b"[]", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&written).unwrap(), "[]");
        folder.remove_synced("notice").unwrap();
        folder.remove_synced("notice").unwrap();
        assert!(!written.exists());
        // A lock is left as it is.
        fs::write(folder.path("held"), "text").unwrap();
        folder.lock_file("held").unwrap();
        assert_eq!(fs::read_to_string(folder.path("held")).unwrap(), "text");
    }

    #[test]
    fn a_folder_that_others_may_write_in_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| RunDirectory::at(path).unwrap_err().to_string();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert!(said(&open).contains("can be written to by others"), "{}", said(&open));
        let others = dir.path().join("others");
        fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(12_345), None).unwrap();
        assert!(said(&others).contains("belongs to the user 12345"), "{}", said(&others));
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert!(said(&link).contains("is no folder"), "{}", said(&link));
        let own = RunDirectory::at(&dir.path().join("own")).unwrap();
        assert!(own.subdirectory("paced").is_ok());
        symlink(&others, own.path("inner")).unwrap();
        assert!(own.subdirectory("inner").is_err());
    }
}
