// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls for the other modules that have no safe wrapper.

use libc::{c_int, sigset_t};
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
};
use tokio::io::{Interest, unix::AsyncFd};

pub(super) fn set_errno(errno: c_int) {
    // SAFETY: the location is the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// A descriptor that the runtime, which has been entered, watches.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, and stays the same one until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// A copy of one of the program's descriptors, which exec closes.
pub(crate) fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is not -1. The program keeps it open during the call; where it does not, the call fails with EBADF.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// Bytes that a socket's peer has not read, with what they take in the kernel; 0 if there are none.
pub(crate) fn unread(fd: &OwnedFd) -> c_int {
    let mut unread: c_int = 0;
    // SAFETY: the request writes an int, and the descriptor is open.
    match unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) } {
        0 => unread,
        _ => 0,
    }
}

/// Does something with all signals blocked in this thread.
pub(crate) fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    /// Restores the mask, also after a panic.
    struct Mask(MaybeUninit<sigset_t>);

    impl Drop for Mask {
        fn drop(&mut self) {
            // SAFETY: it was filled when this was made.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, self.0.as_ptr(), ptr::null_mut()) };
        }
    }

    let mut all = MaybeUninit::<sigset_t>::uninit();
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: both sets are for writing; `all` is filled before it is read.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let _mask = is_blocked.then_some(Mask(before));
    body()
}
