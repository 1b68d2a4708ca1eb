// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls that libbpf-rs does not wrap. All `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "calls of libbpf and of the kernel that libbpf-rs does not wrap")]

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::NonNull,
};

/// Has the kernel count and time BPF programs until the descriptor is closed.
pub fn enable_statistics() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; a descriptor that is not negative is new and ours.
    unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// How often a program ran while statistics were on, and for how long in all, in nanoseconds.
pub fn program_runs(program: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: `info` is `size` bytes of plain data, of which the kernel writes at most as many.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((info.run_cnt, info.run_time_ns)) }
}

/// Has a program see each packet that leaves a device, before those that are there: what it sends itself
/// comes to them, and each packet once.
pub fn attach_tcx(program: &ProgramMut<'_>, device: u32) -> io::Result<Link> {
    let (program, device) = (program.as_libbpf_object(), device.cast_signed());
    let options = libbpf_sys::bpf_tcx_opts {
        sz: size_of::<libbpf_sys::bpf_tcx_opts>() as libbpf_sys::size_t,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the program is loaded, and the options outlive the call. The result is null, with the
    // reason in errno, or a link that is ours alone.
    unsafe {
        let link =
            libbpf_sys::bpf_program__attach_tcx(program.as_ptr(), device, &raw const options);
        let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
        Ok(Link::from_ptr(link))
    }
}
