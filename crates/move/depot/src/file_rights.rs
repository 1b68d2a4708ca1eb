// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that `depot check` can use and the depot perhaps cannot: root may read and write all, the depot's own user may not.

use crate::{
    config::{AccessTo, Config},
    observe::AccessLogError,
};
use host::{SettingFile, User};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// How many symbolic links lead to an access log at most, as in the kernel.
const MOST_LINKS: usize = 40;
/// The right of everybody to read a file, and to search a directory.
const OTHERS_READ: u32 = 0o004;
const OTHERS_SEARCH: u32 = 0o001;

/// Warns if this process is root's and the configuration names files that not all users can read: a depot that runs as
/// another user may fail on them.
pub fn warn_of_root_rights(config: &Config) {
    if !User::current().is_root() {
        return;
    }
    for SettingFile { setting, path } in config.files() {
        if let Some(closed) = closed_to_others(&path) {
            tracing::warn!(
                setting,
                file = %path.display(),
                closed = %closed.display(),
                remedy = "check as the user that the depot runs as: longhaul depot check --user NAME FILE",
                "root can read this file, but not every user can"
            );
        }
    }
}

/// What keeps some users from reading a file: the file itself, or a directory on the way.
fn closed_to_others(file: &Path) -> Option<PathBuf> {
    let whole = fs::canonicalize(file).ok()?;
    let lacks = |path: &Path, right| fs::metadata(path).is_ok_and(|it| it.mode() & right == 0);
    let directories = whole.ancestors().skip(1);
    let closed = directories.filter(|directory| lacks(directory, OTHERS_SEARCH)).last();
    closed.or_else(|| lacks(&whole, OTHERS_READ).then_some(whole.as_path())).map(Path::to_owned)
}

/// Checks whether the access log could be opened, without creating or changing anything.
///
/// # Errors
/// It could not.
pub(crate) fn check_access_log(config: &Config) -> Result<(), AccessLogError> {
    let AccessTo::File(path) = &config.log.access else { return Ok(()) };
    let checked = can_append(path, MOST_LINKS);
    checked.map_err(|error| AccessLogError { path: path.clone(), error })
}

fn can_append(path: &Path, links: usize) -> io::Result<()> {
    match fs::metadata(path) {
        // Opening a file without writing leaves it unchanged.
        Ok(metadata) if metadata.is_file() => {
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            OpenOptions::new().append(true).custom_flags(flags).open(path).map(drop)
        }
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // The reader of a pipe would see it opened and closed.
        Ok(_) => access(path, Access::WRITE_OK),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            // A link that leads nowhere is where the file would be made.
            match fs::read_link(path) {
                Ok(target) if links > 0 => can_append(&directory.join(target), links - 1),
                _ if !directory.is_dir() => Err(error),
                _ => access(directory, Access::WRITE_OK | Access::EXEC_OK),
            }
        }
        Err(error) => Err(error),
    }
}

/// Whether the process has these rights, its effective user's.
fn access(path: &Path, rights: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, rights, AtFlags::EACCESS)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn check(path: &Path) -> Result<(), String> {
        let text = format!("log.access = {:?}", path.display().to_string());
        let config = Config::from_toml(&text, "x").unwrap();
        check_access_log(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn access_log_check_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        check(&at("new.log")).unwrap();
        assert!(!at("new.log").exists(), "the check has made the file");
        fs::write(at("old.log"), "a line\n").unwrap();
        let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let before = modified(&at("old.log"));
        check(&at("old.log")).unwrap();
        assert_eq!(fs::read(at("old.log")).unwrap(), b"a line\n");
        assert_eq!(modified(&at("old.log")), before);
        symlink("target.log", at("link.log")).unwrap();
        check(&at("link.log")).unwrap();
        assert!(!at("target.log").exists());
    }

    #[test]
    fn unopenable_access_log_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("loop.log", at("loop.log")).unwrap();
        symlink("missing/target.log", at("lost.log")).unwrap();
        for path in [at("missing/a.log"), at("lost.log"), at("loop.log"), at("")] {
            let error = check(&path).expect_err(&path.display().to_string());
            assert!(error.contains("`log.access`"), "{error}");
        }
    }

    #[test]
    fn first_inaccessible_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (inner, file) = (folder.path().join("inner"), folder.path().join("inner/key"));
        fs::create_dir(&inner).unwrap();
        fs::write(&file, "").unwrap();
        mode(folder.path(), 0o755);
        mode(&inner, 0o755);
        mode(&file, 0o644);
        assert_eq!(closed_to_others(&file), None);
        mode(&file, 0o640);
        assert_eq!(closed_to_others(&file), Some(fs::canonicalize(&file).unwrap()));
        mode(&inner, 0o700);
        assert_eq!(closed_to_others(&file), Some(fs::canonicalize(&inner).unwrap()));
    }
}
