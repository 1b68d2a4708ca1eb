// SPDX-License-Identifier: GPL-2.0-or-later
//! A store in a directory of a Linux file system.
//!
//! All names are opened below descriptors of the store's directories, so the store may be moved while it is open. Its
//! directories belong to this user or root, and no other user may write them.
//! Limits: the file system must make a file durable at fdatasync(2) and a directory's entries at fsync(2) of the directory,
//! as ext4, XFS and Btrfs do. A disk that confirms what it has not written is not found out.

use super::{Disk, DiskFile, Extent, Folder, Place};
use crate::error::OpenError;
use rustix::{
    fs::{
        Access, AtFlags, CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags, accessat,
        fallocate, fdatasync, flock, fstat, fstatvfs, fsync, ftruncate, mkdirat, openat, renameat,
        statat, unlinkat,
    },
    io::{Errno, pread, pwritev, retry_on_intr},
};
use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The file that holds the lock and names the process.
const LOCK: &str = "lock";
const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A directory, locked for this process.
#[derive(Debug)]
pub struct RealDisk {
    root: OwnedFd,
    /// Of [`Folder::INNER`], once they exist.
    inner: [Mutex<Option<Arc<OwnedFd>>>; 3],
    lock: Mutex<Option<OwnedFd>>,
}

impl RealDisk {
    /// The directory at this path, which is made if only it is missing.
    ///
    /// # Errors
    /// It cannot be used, others could change it, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: Errno| OpenError::directory(path, &error.into());
        match rustix::fs::mkdir(path, PRIVATE_FOLDER) {
            Ok(()) => sync_parent(path).map_err(failed)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let root = open_root(path)?;
        let lock = openat(&root, LOCK, OFlags::RDWR | OFlags::CREATE | SAFELY, PRIVATE_FILE)
            .map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(OpenError::InUse { path: path.to_owned(), by: owner_of(&lock) });
            }
            Err(error) => return Err(failed(error)),
        }
        // For people alone, so it need not be durable.
        let pid = format!("{}\n", std::process::id());
        let _ = ftruncate(&lock, 0).and_then(|()| rustix::io::pwrite(&lock, pid.as_bytes(), 0));
        Ok(Self { root, inner: Default::default(), lock: Mutex::new(Some(lock)) })
    }

    /// The directory at this path to look at, without a lock, and without changing anything. `None` if it is missing and could
    /// be made.
    ///
    /// # Errors
    /// It cannot be used, or others could change it.
    pub fn look(path: &Path) -> Result<Option<Self>, OpenError> {
        let failed = |error: Errno| OpenError::directory(path, &error.into());
        let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        let can_use = |path: &Path| accessat(CWD, path, rights, AtFlags::EACCESS);
        match rustix::fs::stat(path) {
            Ok(_) => {}
            Err(Errno::NOENT) => {
                can_use(&parent_of(path)).map_err(failed)?;
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
        let root = open_root(path)?;
        can_use(path).map_err(failed)?;
        Ok(Some(Self { root, inner: Default::default(), lock: Mutex::new(None) }))
    }

    /// Does something with a directory's descriptor, which is opened if it is not.
    fn with<T>(
        &self,
        folder: Folder,
        work: impl FnOnce(&OwnedFd) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let Some(n) = Folder::INNER.iter().position(|inner| *inner == folder) else {
            return Ok(work(&self.root)?);
        };
        let descriptor = {
            let mut kept = locked(&self.inner[n]);
            if kept.is_none() {
                let opened = openat(&self.root, folder.name(), OPEN_FOLDER, Mode::empty())?;
                *kept = Some(Arc::new(opened));
            }
            kept.clone().ok_or(Errno::BADF)?
        };
        Ok(work(&descriptor)?)
    }
}

/// A store's directory, which nobody else may change.
fn open_root(path: &Path) -> Result<OwnedFd, OpenError> {
    let failed = |error: Errno| OpenError::directory(path, &error.into());
    // The path itself may be a link that the operator has made.
    let flags = OPEN_FOLDER.difference(OFlags::NOFOLLOW);
    let root = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&root).map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0].contains(&stat.st_uid) || stat.st_mode & 0o022 != 0 {
        return Err(OpenError::OthersCanWrite {
            path: path.to_owned(),
            uid: stat.st_uid,
            mode: stat.st_mode & 0o7777,
        });
    }
    Ok(root)
}

/// The process that has written itself into a lock file, as it wrote itself.
fn owner_of(lock: &OwnedFd) -> String {
    let mut text = [0; 20];
    let length = pread(lock, &mut text[..], 0).unwrap_or(0);
    let digits = text[..length].iter().take_while(|byte| byte.is_ascii_digit());
    digits.map(|byte| char::from(*byte)).collect()
}

/// Makes the name of a directory that was just made durable.
fn sync_parent(path: &Path) -> rustix::io::Result<()> {
    let parent = parent_of(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(rustix::fs::open(parent, flags, Mode::empty())?)
}

fn parent_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or_else(|| ".".into(), Path::to_owned)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for RealDisk {
    fn make_folders(&self) -> io::Result<()> {
        for folder in Folder::INNER {
            match mkdirat(&self.root, folder.name(), PRIVATE_FOLDER) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn create(&self, place: Place) -> io::Result<Box<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | SAFELY;
        let open = |folder: &OwnedFd| openat(folder, place.name(), flags, PRIVATE_FILE);
        Ok(Box::new(RealFile(self.with(place.folder(), open)?)))
    }

    fn open(&self, place: Place, may_change: bool) -> io::Result<Box<dyn DiskFile>> {
        let rights = if may_change { OFlags::RDWR } else { OFlags::RDONLY };
        let open = |folder: &OwnedFd| openat(folder, place.name(), rights | SAFELY, Mode::empty());
        Ok(Box::new(RealFile(self.with(place.folder(), open)?)))
    }

    fn extent(&self, place: Place) -> io::Result<Option<Extent>> {
        let stat = self.with(place.folder(), |folder| {
            match statat(folder, place.name(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(None),
                stat => stat.map(Some),
            }
        })?;
        // st_blocks are of 512 bytes, whatever the file system's are.
        Ok(stat.map(|stat| Extent {
            length: stat.st_size as u64,
            allocated: stat.st_blocks as u64 * 512,
        }))
    }

    fn rename(&self, from: Place, to: Place) -> io::Result<()> {
        self.with(from.folder(), |old| {
            Ok(self.with(to.folder(), |new| renameat(old, from.name(), new, to.name())))
        })?
    }

    fn remove(&self, place: Place) -> io::Result<()> {
        self.with(place.folder(), |folder| unlinkat(folder, place.name(), AtFlags::empty()))
    }

    fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        let synced = self.with(folder, |descriptor| fsync(descriptor));
        if synced.is_err()
            && let Some(n) = Folder::INNER.iter().position(|inner| *inner == folder)
        {
            *locked(&self.inner[n]) = None;
        }
        synced
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.with(folder, |descriptor| Dir::read_from(descriptor))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let system = fstatvfs(&self.root)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn unlock(&self) {
        locked(&self.lock).take();
    }
}

/// An open file of a store.
#[derive(Debug)]
struct RealFile(OwnedFd);

impl DiskFile for RealFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut got = 0;
        while got < into.len() {
            match retry_on_intr(|| pread(&self.0, &mut into[got..], at + got as u64))? {
                0 => break,
                more => got += more,
            }
        }
        Ok(got)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        let (mut parts, mut at) = (parts.to_vec(), at);
        let mut left = &mut parts[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let written = retry_on_intr(|| pwritev(&self.0, left, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Never repeated, not even after EINTR: what a second call says of the first one's pages is unknown.
        Ok(fdatasync(&self.0)?)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(fstat(&self.0)?.st_size as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| ftruncate(&self.0, length))?)
    }

    fn allocate(&self, length: u64) -> io::Result<bool> {
        match retry_on_intr(|| fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, length)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn begin_write_back(&self, at: u64, length: u64) {
        sys::begin_write_back(self.0.as_fd(), at, length);
    }
}

/// The system call that no library in use wraps.
mod sys {
    #![expect(unsafe_code, reason = "sync_file_range(2)")]

    use std::os::fd::{AsRawFd, BorrowedFd};

    /// Has the kernel begin to write a range. It is only asked: errors come with the next fdatasync.
    pub(super) fn begin_write_back(file: BorrowedFd<'_>, at: u64, length: u64) {
        let (at, length) = (at.cast_signed(), length.cast_signed());
        // SAFETY: no memory is involved; the descriptor is open for the time of the call.
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, length, libc::SYNC_FILE_RANGE_WRITE) };
    }
}
