// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps safely: every `unsafe` of this crate is here.

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
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::Command,
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
