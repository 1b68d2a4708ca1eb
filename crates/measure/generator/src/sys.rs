// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps: all `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "system calls that no library in use wraps")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_option<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

/// Has the kernel cut what a UDP socket sends at once into datagrams of that many bytes (`UDP_SEGMENT`, udp(7)); 0 ends it.
pub fn set_segment_size(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &i32::from(bytes))
}

/// How many bytes may wait in a socket to be sent, as the kernel counts them, whatever `net.core.wmem_max` is.
pub fn set_send_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
}

/// Has the kernel drop everything that arrives for a socket, and count it among its drops.
pub fn drop_arriving(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Classic BPF (`linux/filter.h`): return 0, the bytes to keep.
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut keep_nothing = libc::sock_filter { code, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut keep_nothing };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// How many bytes a TCP socket may hold unsent before it takes no more (`TCP_NOTSENT_LOWAT`).
pub fn set_max_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// How many bytes of a TCP socket are not acknowledged, sent or not.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the ioctl (SIOCOUTQ, which has the number of TIOCOUTQ) writes one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes)
}

/// Discards up to `most` bytes that a TCP socket has received, without copying them. Answers how many.
pub fn discard(socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer, which may then be null (tcp(7)).
    let length = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), most, flags) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// Lets this process have as many descriptors as it may.
pub fn allow_all_descriptors() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
