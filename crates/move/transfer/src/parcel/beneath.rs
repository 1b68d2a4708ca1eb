// SPDX-License-Identifier: GPL-2.0-or-later
//! Names beneath one directory, which no link leads out of.
//!
//! The kernel resolves each name below a descriptor of the directory and through no symbolic link (`openat2(2)`,
//! `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS`), so that a name that is replaced between a look and its use gains nothing.
//! A symbolic link may be made if it stays inside from where it is, and a hard link only to a regular file: a second name of
//! a symbolic link would have another place to start from.

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    io,
    path::{Component, Path, PathBuf},
};

/// Opens what is beneath a directory.
pub(super) fn open(
    at: BorrowedFd<'_>,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(at, path.as_ref(), flags | OFlags::CLOEXEC, mode, resolve)?)
}

/// Makes a directory that only its owner may read, unless there is one.
pub(super) fn make_directory(at: BorrowedFd<'_>, name: impl AsRef<Path>) -> io::Result<()> {
    match rustix::fs::mkdirat(at, name.as_ref(), Mode::RWXU) {
        Err(error) if error != Errno::EXIST => Err(error.into()),
        _ => Ok(()),
    }
}

/// The directory at a path, made where it is missing.
fn make_directories(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    if let Ok(directory) = open(root, path, flags, Mode::empty()) {
        return Ok(directory);
    }
    let mut at = root.try_clone_to_owned()?;
    for name in path.components() {
        make_directory(at.as_fd(), name)?;
        at = open(at.as_fd(), name, flags, Mode::empty())?;
    }
    Ok(at)
}

/// The directory of an entry, made where it is missing, and its name in it.
pub(super) fn place_of<'p>(
    root: BorrowedFd<'_>,
    path: &'p Path,
) -> io::Result<(OwnedFd, &'p OsStr)> {
    let name = path.file_name().expect("a path of normal components");
    let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => make_directories(root, parent)?,
        None => root.try_clone_to_owned()?,
    };
    Ok((parent, name))
}

/// Makes a hard link to an earlier entry, or checks that it is there already.
pub(super) fn hard_link(
    root: BorrowedFd<'_>,
    target: &Path,
    (parent, name): (BorrowedFd<'_>, &OsStr),
    may_be_there: bool,
) -> io::Result<()> {
    let target = normal(target).ok_or_else(|| io::Error::other("the link leads outside"))?;
    // Without O_NOFOLLOW a symbolic link is refused, not opened.
    let found = open(root, &target, OFlags::PATH, Mode::empty())?;
    let found = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("hard links to anything but a file are refused"));
    }
    let (there, name_there) = match target.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => (open(root, above, OFlags::DIRECTORY, Mode::empty())?, target.file_name()),
        None => (root.try_clone_to_owned()?, target.file_name()),
    };
    let name_there = name_there.expect("a path of normal components");
    let made = rustix::fs::linkat(&there, name_there, parent, name, AtFlags::empty());
    let is_made = match made {
        Err(Errno::EXIST) if may_be_there => false,
        made => made.map(|()| true)?,
    };
    let linked = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if is_same(&found, &linked) {
        return Ok(());
    }
    if is_made {
        // The target was replaced meanwhile.
        rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
    }
    Err(io::Error::other("it is another file now"))
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Only normal components, and some.
fn normal(path: &Path) -> Option<PathBuf> {
    let all = path.components().all(|part| matches!(part, Component::Normal(_)));
    (all && path.file_name().is_some()).then(|| path.to_owned())
}

/// Whether a symbolic link at this path may lead out of the directory. `..` is allowed only at the beginning: after
/// a name, which may be another link, its target is unknown.
pub(super) fn leads_out(path: &Path, target: &Path) -> bool {
    let mut above = path.components().count().saturating_sub(1);
    let mut names = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => names = true,
            Component::CurDir => {}
            Component::ParentDir if names || above == 0 => return true,
            Component::ParentDir => above -= 1,
            Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::leads_out;
    use std::path::Path;

    #[test]
    fn links_may_go_up_to_the_directory_and_then_down() {
        for (path, target, out) in [
            ("link", "file", false),
            ("link", "../file", true),
            ("a/link", "../file", false),
            ("a/link", "../../file", true),
            ("a/link", "../b/../../file", true),
            ("link", "a/..", true),
            ("link", "./a/b", false),
            ("a/link", "/etc/passwd", true),
            ("a/b/link", "../../c/./d", false),
        ] {
            assert_eq!(leads_out(Path::new(path), Path::new(target)), out, "{path} -> {target}");
        }
    }
}
