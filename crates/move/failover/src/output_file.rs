// SPDX-License-Identifier: GPL-2.0-or-later
//! A file that other programs read: replaced whole, and only where it differs.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A file, and what was written into it last.
pub(super) struct OutputFile {
    path: PathBuf,
    written: Option<String>,
}

/// What has become of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// It had the text already.
    Same,
    /// It had another one.
    Renewed,
    /// It had another one than was written into it last.
    Restored,
}

impl OutputFile {
    /// One that was not written yet.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), written: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Ensures that it has this text.
    pub(super) fn renew(&mut self, text: String) -> io::Result<Renewal> {
        let renewal = match replace(&self.path, &text)? {
            false => Renewal::Same,
            true if self.written.as_ref() == Some(&text) => Renewal::Restored,
            true => Renewal::Renewed,
        };
        self.written = Some(text);
        Ok(renewal)
    }
}

/// Checks that a file can be written at this path: it is absolute, its directory exists, and it is a file, a
/// link or free.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if !path.is_absolute() {
        return Err(io::Error::other("expected a path that begins with /"));
    }
    let folder = path.parent().ok_or_else(|| io::Error::other("expected a file's path"))?;
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", folder.display())));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() && !there.is_symlink() => {
            Err(io::Error::other("the path exists and is not a file"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Ensures that a file has this text, whole or not at all; says whether it had another. A link is
/// replaced, and not followed.
fn replace(path: &Path, text: &str) -> io::Result<bool> {
    check(path)?;
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file && fs::read(path)? == text.as_bytes() {
        return Ok(false);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // What a run that was killed has left.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
    // Whatever the mask says: other users' programs read it.
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_atomically_if_different() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("include"), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("include.new")).unwrap();
        assert!(replace(&path, "text").unwrap());
        assert!(!replace(&path, "text").unwrap(), "it is the same");
        assert!(replace(&path, "more").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "more");
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        // Nothing but files is replaced.
        for bad in ["/dev/null", "relative", "", "/", "/no/such/folder/x", "/proc/self/status/x"] {
            assert!(check(Path::new(bad)).is_err(), "{bad}");
            assert!(replace(Path::new(bad), "text").is_err(), "{bad}");
        }
        assert!(replace(dir.path(), "text").is_err());
    }

    #[test]
    fn text_of_another_writer_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = OutputFile::new(&dir.path().join("file"));
        let mut renew = |text: &str| file.renew(text.to_owned()).unwrap();
        assert_eq!(renew("a"), Renewal::Renewed);
        assert_eq!(renew("a"), Renewal::Same);
        assert_eq!(renew("b"), Renewal::Renewed);
        fs::write(dir.path().join("file"), "other").unwrap();
        assert_eq!(renew("b"), Renewal::Restored);
    }
}
