// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps safely: every `unsafe` of this crate is here,
//! except for calls into libnftables (`nftables.rs`) and requests to devices (`ethtool.rs`).

#![expect(unsafe_code, reason = "system calls that no library in use wraps")]

use rustix::{
    fs::{Access, access},
    io::Errno,
    mount::{MountPropagationFlags, mount_bind, mount_change},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr,
};

/// Puts the calling thread into a new network namespace.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: no memory is involved, and no descriptors are unshared; only this thread's namespace changes.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Has a command run in a network namespace, with `hosts` in place of `/etc/hosts`.
pub fn enter_on_exec(command: &mut Command, namespace: File, hosts: CString) {
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        private_hosts(&hosts)
    };
    // SAFETY: between fork and exec only system calls are made, no memory is allocated.
    unsafe { command.pre_exec(enter) };
}

/// Reads a socket's `struct tcp_info`. An older kernel fills less of it and leaves the rest.
pub fn tcp_info(
    socket: BorrowedFd<'_>,
    info: &mut [u8; size_of::<libc::tcp_info>()],
) -> io::Result<()> {
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `info`, which lives through the call and may hold any bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a program has set the size of a socket's receive or send buffer, so that the kernel does not tune it
/// (`SO_BUF_LOCK`, Linux 5.14).
pub fn set_buffers(socket: BorrowedFd<'_>) -> io::Result<(bool, bool)> {
    /// `SOCK_RCVBUF_LOCK` and `SOCK_SNDBUF_LOCK` of linux/socket.h.
    const RECEIVE: libc::c_int = 2;
    const SEND: libc::c_int = 1;
    let mut locks: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `locks`, which lives through the call and may hold any bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUF_LOCK,
            (&raw mut locks).cast(),
            &raw mut length,
        )
    };
    let set = (locks & RECEIVE != 0, locks & SEND != 0);
    if result == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling process mounts of its own, and there puts `hosts` in place of `/etc/hosts`
/// (a system without that file keeps what it has). Async-signal-safe.
fn private_hosts(hosts: &CStr) -> io::Result<()> {
    const HOSTS: &CStr = c"/etc/hosts";
    // SAFETY: no memory is involved, and no descriptors are unshared; only this process's mounts change.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    match mount_bind(hosts, HOSTS) {
        Err(error) if error != Errno::NOENT => Err(error.into()),
        // ENOENT would be said of our own file too.
        Err(error) if access(HOSTS, Access::EXISTS).is_ok() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The name and main group of the user with this number, if the user database has one.
pub fn user_with_uid(uid: u32) -> Option<(String, u32)> {
    let (name, _, gid) = user_entry(|entry, buffer, found| {
        // SAFETY: all pointers are valid through the call, and the length is that of the buffer.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })?;
    Some((name, gid))
}

/// The number and main group of the user with this name, if the user database has one.
pub fn user_with_name(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    let (_, uid, gid) = user_entry(|entry, buffer, found| {
        // SAFETY: as above, and the name ends in a zero byte.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })?;
    Some((uid, gid))
}

/// The largest entry of a user that is read.
const MAX_USER_ENTRY: usize = 1 << 20;

/// Name, number and main group of an entry of the user database, which `ask` reads into the buffer.
fn user_entry(
    ask: impl Fn(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> Option<(String, u32, u32)> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::zeroed();
        let mut found = ptr::null_mut();
        let error = ask(entry.as_mut_ptr(), &mut buffer, &raw mut found);
        if error == libc::ERANGE && buffer.len() < MAX_USER_ENTRY {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        if error != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the call has filled the entry, whose name is a string in the buffer.
        let (entry, name) = unsafe {
            let entry = entry.assume_init();
            (entry, CStr::from_ptr(entry.pw_name))
        };
        return Some((name.to_string_lossy().into_owned(), entry.pw_uid, entry.pw_gid));
    }
}

/// Gives all threads of this process a user's numbers: the user's groups if it has a name, or else the one group.
pub fn become_user(name: Option<&str>, uid: u32, gid: u32) -> io::Result<()> {
    let name = name.map(CString::new).transpose()?;
    // Groups first: the right to set them goes with the user.
    let grouped = match &name {
        // SAFETY: the name ends in a zero byte.
        Some(name) => unsafe { libc::initgroups(name.as_ptr(), gid) },
        // SAFETY: the pointer is to one group, which lives through the call.
        None => unsafe { libc::setgroups(1, &raw const gid) },
    };
    // SAFETY: no memory is involved; the C library does it in all threads.
    let changed =
        || unsafe { libc::setresgid(gid, gid, gid) == 0 && libc::setresuid(uid, uid, uid) == 0 };
    if grouped == 0 && changed() { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the calling thread's timers precise, and gives it a real-time priority (from 1 to 99) where that is permitted.
/// Answers whether it was.
pub fn request_real_time(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: PR_SET_TIMERSLACK takes nanoseconds by value; the parameters outlive the call.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        ) == 0
    }
}
