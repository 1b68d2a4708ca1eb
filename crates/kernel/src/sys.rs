// SPDX-License-Identifier: GPL-2.0-or-later
//! What libbpf-rs does not wrap: every `unsafe` of this room is here.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
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
