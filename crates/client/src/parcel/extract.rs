// SPDX-License-Identifier: GPL-2.0-or-later
//! A tar archive becomes a directory, and nothing outside it.
//!
//! Threats: an archive names any path, links anywhere, and goes through its own links. Each name is resolved by the kernel
//! below the directory and through no link (`openat2(2)`, `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS`); links that lead
//! out are refused.

use crate::{Error, text::printable};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};
use tar::{Archive, Entry, EntryType};

/// The longest path of an entry.
const MAX_PATH: usize = 4096;

/// Puts the entries of an archive into a directory, which is empty.
pub(super) fn extract(archive: impl Read, directory: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file("write", directory, error);
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = rustix::fs::open(directory, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let mut archive = Archive::new(archive);
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = path_of(&entry)?;
        let at = |error: io::Error| Error::file("write", &directory.join(&path), error);
        if let Some(attributes) = put(root.as_fd(), &path, &mut entry).map_err(at)? {
            directories.push((path, attributes));
        }
    }
    // Last, and from within: putting something in changes a directory's date, and may need its permission.
    for (path, attributes) in directories.into_iter().rev() {
        let set = beneath(root.as_fd(), &path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
            .and_then(|file| attributes.set(&File::from(file)));
        set.map_err(|error| Error::file("write", &directory.join(&path), error))?;
    }
    Ok(())
}

/// Permissions and date.
struct Attributes {
    mode: u32,
    seconds: i64,
}

impl Attributes {
    fn of(entry: &Entry<'_, impl Read>) -> io::Result<Self> {
        let header = entry.header();
        // No entry of somebody else becomes a program that runs as its owner.
        let mode = header.mode()? & 0o777;
        Ok(Self { mode, seconds: i64::try_from(header.mtime()?).unwrap_or(i64::MAX) })
    }

    fn times(&self) -> Timestamps {
        Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: self.seconds, tv_nsec: 0 },
        }
    }

    fn set(&self, file: &File) -> io::Result<()> {
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        Ok(rustix::fs::futimens(file, &self.times())?)
    }
}

/// The path of an entry, if it stays inside.
fn path_of(entry: &Entry<'_, impl Read>) -> Result<PathBuf, Error> {
    let bytes = entry.path_bytes();
    let refused = |why: &str| {
        let name = printable(&String::from_utf8_lossy(&bytes), 200);
        Error::Answer(format!("the archive's entry {name:?} is refused: {why}"))
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
    if bytes.is_empty() || bytes.len() > MAX_PATH {
        return Err(refused("its path is empty or too long"));
    }
    for component in path.components() {
        if !matches!(component, Component::Normal(_)) {
            return Err(refused("its path leads outside"));
        }
    }
    Ok(path.components().collect())
}

/// Puts an entry in its place; with the attributes of a directory, which are set at the end.
fn put(
    root: BorrowedFd<'_>,
    path: &Path,
    entry: &mut Entry<'_, impl Read>,
) -> io::Result<Option<Attributes>> {
    let attributes = Attributes::of(entry)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().expect("a path of normal components");
    let parent = match parent {
        Some(parent) => make_directories(root, parent)?,
        None => root.try_clone_to_owned()?,
    };
    match entry.header().entry_type() {
        EntryType::Directory => {
            make_directory(parent.as_fd(), name)?;
            return Ok(Some(attributes));
        }
        EntryType::Symlink => {
            let target = link_of(entry)?;
            if leads_out(path, &target) {
                return Err(io::Error::other("the link leads outside"));
            }
            rustix::fs::symlinkat(&target, &parent, name)?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(&parent, name, &attributes.times(), flags)?;
        }
        EntryType::Link => {
            let target = link_of(entry)?;
            let target =
                normal(&target).ok_or_else(|| io::Error::other("the link leads outside"))?;
            let name_there = target.file_name().expect("a path of normal components");
            let there = match target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => beneath(root, parent, OFlags::DIRECTORY, Mode::empty())?,
                None => root.try_clone_to_owned()?,
            };
            rustix::fs::linkat(&there, name_there, &parent, name, AtFlags::empty())?;
        }
        EntryType::Regular | EntryType::Continuous => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = beneath(parent.as_fd(), Path::new(name), flags, mode)?;
            let mut file = File::from(file);
            io::copy(entry, &mut file)?;
            attributes.set(&file)?;
        }
        other => {
            return Err(io::Error::other(format!("entries of type {other:?} are not taken")));
        }
    }
    Ok(None)
}

fn link_of(entry: &Entry<'_, impl Read>) -> io::Result<PathBuf> {
    let target = entry.link_name_bytes().filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| io::Error::other("the link leads nowhere"))?;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&target)))
}

/// Only normal components, and some.
fn normal(path: &Path) -> Option<PathBuf> {
    let all = path.components().all(|part| matches!(part, Component::Normal(_)));
    (all && path.file_name().is_some()).then(|| path.to_owned())
}

/// Whether a symbolic link at this path may lead out of the directory. Steps up come first: behind a name, which may be
/// another link, nobody knows where they lead.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut above = path.components().count() - 1;
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

fn beneath(at: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, mode, resolve)?)
}

fn make_directory(at: BorrowedFd<'_>, name: impl AsRef<Path>) -> io::Result<()> {
    match rustix::fs::mkdirat(at, name.as_ref(), Mode::RWXU) {
        Err(error) if error != Errno::EXIST => Err(error.into()),
        _ => Ok(()),
    }
}

/// The directory at a path, made where it is missing.
fn make_directories(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    if let Ok(directory) = beneath(root, path, flags, Mode::empty()) {
        return Ok(directory);
    }
    let mut at = root.try_clone_to_owned()?;
    for name in path.components() {
        make_directory(at.as_fd(), name)?;
        at = beneath(at.as_fd(), Path::new(&name), flags, Mode::empty())?;
    }
    Ok(at)
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
