// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps: all `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "system calls that no library in use wraps")]

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a TAP device of that name in the calling thread's network namespace, with the virtio-net
/// header, checksum offload and segmentation offload for TCP and, since Linux 6.2, UDP. It lives as long as the
/// file.
pub fn open_tap(name: &str) -> io::Result<File> {
    const TUN_F_CSUM: libc::c_uint = 0x01;
    const TUN_F_TSO4: libc::c_uint = 0x02;
    const TUN_F_TSO6: libc::c_uint = 0x04;
    const TUN_F_TSO_ECN: libc::c_uint = 0x08;
    /// `TUN_F_USO4` and `TUN_F_USO6`, which the kernel takes together.
    const TUN_F_USO: libc::c_uint = 0x20 | 0x40;
    let file = open_device(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR)?;
    let offload = |kinds: libc::c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe {
            libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(kinds))
        })
    };
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    offload(tcp | TUN_F_USO).or_else(|_| offload(tcp))?;
    Ok(file)
}

/// Opens a new TUN device of that name in the calling thread's network namespace, without offloads:
/// each read is one IP packet, whole and with its checksums. It lives as long as the file.
pub fn open_tun(name: &str) -> io::Result<File> {
    open_device(name, libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL)
}

fn open_device(name: &str, flags: libc::c_int) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: ifreq is plain data; zero is a valid value of each of its fields.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let name = name.as_bytes_with_nul();
    if name.len() > request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which `request` is, and keeps no pointer to it.
    unsafe {
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request))?;
    }
    Ok(file)
}

/// Opens a packet socket that sends whole frames by a device, and receives nothing.
pub fn open_packet_socket(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: nothing else owns the new descriptor. sockaddr_ll is plain data, for which zero is valid,
    // and outlives the call.
    unsafe {
        let socket = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_ifindex = index.cast_signed();
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length))?;
        Ok(socket)
    }
}

/// How many bytes may wait in a socket to be sent, as the kernel counts them.
pub fn set_send_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    // SAFETY: the option is an int that outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Has the kernel kill the calling process when the thread that made it ends; fails where the
/// process that made it, `parent`, has ended already. Async-signal-safe.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number by value.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: no memory is involved.
    if unsafe { libc::getppid() }.cast_unsigned() == parent {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Caps what a TCP socket sends by pacing, in bytes a second.
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    // SAFETY: the option is a 64-bit integer that outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_second).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// When the kernel received the packet that was last read from a socket, by the real-time clock.
/// The first call only switches time-stamping on, and fails.
pub fn receive_time(socket: BorrowedFd<'_>) -> io::Result<std::time::Duration> {
    // As asm-generic/sockios.h has it for 64-bit systems.
    const SIOCGSTAMPNS: libc::c_ulong = 0x8907;
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the ioctl writes one timespec.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS, &raw mut at) })?;
    Ok(std::time::Duration::new(at.tv_sec as u64, at.tv_nsec as u32))
}

/// Splits the process in two. In the child, the result is `None`, the session is its own, and
/// standard input, output and error are `/dev/null`.
///
/// # Safety
/// The process must have one thread only.
pub unsafe fn fork_into_background() -> io::Result<Option<libc::pid_t>> {
    // SAFETY: with one thread, no lock can be held by another at the moment of the fork.
    let pid = check(unsafe { libc::fork() })?;
    if pid > 0 {
        return Ok(Some(pid));
    }
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // SAFETY: descriptors 0 to 2 are the process's own to replace.
    unsafe {
        check(libc::setsid())?;
        for standard in 0..3 {
            check(libc::dup2(null.as_raw_fd(), standard))?;
        }
    }
    Ok(None)
}
