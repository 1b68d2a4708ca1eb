// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps safely: every `unsafe` of this crate is here.

#![expect(unsafe_code, reason = "system calls that no library in use wraps")]

use libc::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    SECCOMP_SET_MODE_FILTER, sock_filter, sock_fprog,
};
pub(crate) use libc::{seccomp_notif, seccomp_notif_resp};
use rustix::{
    io::Errno,
    ioctl::{Opcode, Setter, Updater, ioctl, opcode},
};
use std::{
    io::{self, ErrorKind},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
};
use tokio::io::{Interest, unix::AsyncFd};

const RECEIVE: Opcode = opcode::read_write::<seccomp_notif>(b'!', 0);
const SEND: Opcode = opcode::read_write::<seccomp_notif_resp>(b'!', 1);
const IS_VALID: Opcode = opcode::write::<u64>(b'!', 2);

/// A descriptor that the runtime, which has been entered, watches.
pub(crate) fn watch<D: AsFd + AsRawFd>(
    descriptor: D,
    interest: Interest,
) -> io::Result<AsyncFd<D>> {
    // SAFETY: an owned or borrowed descriptor is open, and stays the same one while it exists.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(|error| error.into_parts().1)
}

/// A descriptor that the parent process has left open for this one, by its number.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is borrowed for one call, which fails if it is not open.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_getfd(descriptor)?;
    // SAFETY: it is open, and this process, which has just begun, has no other owner for it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has a command's process do this before it becomes the program. It must be async-signal-safe.
pub(crate) fn before_exec(
    command: &mut Command,
    then: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the callers make system calls only and allocate no memory.
    unsafe { command.pre_exec(then) };
}

/// Puts the calling thread, and all that it will start, under a filter, for ever. The descriptor is where the kernel
/// asks. Async-signal-safe.
///
/// # Errors
/// EBUSY: it is under such a filter already. EINVAL, ENOSYS: the kernel has none.
pub(crate) fn install_filter(instructions: &[sock_filter]) -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let filter = instructions.as_ptr().cast_mut();
    let program = sock_fprog { len: instructions.len() as u16, filter };
    let older = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // A signal that does not kill must not tear a call off that is being answered.
    let newer = older | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match install(newer, &program) {
        Err(Errno::INVAL) => Ok(install(older, &program)?),
        result => Ok(result?),
    }
}

fn install(flags: libc::c_ulong, program: &sock_fprog) -> Result<OwnedFd, Errno> {
    // SAFETY: `program` describes instructions that live through the call, and the kernel writes to none of them.
    let fd = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const *program)
    };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the kernel has made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The next call that waits. It waits for one itself, so there had better be one.
///
/// # Errors
/// ENOENT: its thread was killed.
pub(crate) fn receive_call(calls: impl AsFd) -> io::Result<seccomp_notif> {
    // SAFETY: zeros are valid for a structure of numbers, and the kernel asks for them.
    let mut call: seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the number is that of this request, which fills such a structure.
    let request = unsafe { Updater::<RECEIVE, seccomp_notif>::new(&mut call) };
    // SAFETY: as above.
    unsafe { ioctl(calls, request) }?;
    Ok(call)
}

/// Whether a thread still waits in this call.
pub(crate) fn is_waiting(calls: impl AsFd, id: u64) -> bool {
    // SAFETY: the number is that of this request, which reads 64 bits.
    let request = unsafe { Setter::<IS_VALID, u64>::new(id) };
    // SAFETY: as above.
    unsafe { ioctl(calls, request) }.is_ok()
}

/// Answers a call.
///
/// # Errors
/// ENOENT: its thread was killed.
pub(crate) fn answer_call(calls: impl AsFd, mut answer: seccomp_notif_resp) -> io::Result<()> {
    // SAFETY: the number is that of this request, which reads and writes such a structure.
    let request = unsafe { Updater::<SEND, seccomp_notif_resp>::new(&mut answer) };
    // SAFETY: as above.
    unsafe { ioctl(calls, request) }.map_err(|error| match error {
        Errno::NOENT => ErrorKind::NotFound.into(),
        error => error.into(),
    })
}
