// SPDX-License-Identifier: GPL-2.0-or-later
//! The few system calls that no library in use wraps: all `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "system calls that no library in use wraps")]

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, IoSliceMut},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
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
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which `request` is, and keeps no pointer to it.
    unsafe {
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request))?;
    }
    Ok(file)
}

/// A request of ioctl(2) about the device of that name.
fn request_for(name: &str) -> io::Result<libc::ifreq> {
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
    Ok(request)
}

/// Opens a packet socket that sends whole frames by a device, and receives nothing.
pub fn open_packet_socket(index: u32) -> io::Result<OwnedFd> {
    let socket = new_packet_socket()?;
    bind_packet_socket(&socket, index, 0)?;
    Ok(socket)
}

/// Opens a packet socket that sends and receives all frames of a device, each with a virtio-net header, and not
/// what others send by it. The device is promiscuous as long as the socket is open.
pub fn open_frame_socket(index: u32) -> io::Result<OwnedFd> {
    const ON: libc::c_int = 1;
    let socket = new_packet_socket()?;
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        set_option(socket.as_fd(), libc::SOL_PACKET, option, &ON)?;
    }
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
    // Only now: no frame comes without its header and tag.
    bind_packet_socket(&socket, index, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

fn new_packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: nothing else owns the new descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?)) }
}

fn bind_packet_socket(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, for which zero is valid, and outlives the call.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index.cast_signed();
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)).map(drop)
    }
}

/// A VLAN tag that the kernel took off a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Its type.
    pub kind: u16,
    /// Priority and number of the VLAN.
    pub control: u16,
}

/// A frame that was received.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame {
    /// Its length, without the tag.
    pub length: usize,
    /// Its outer VLAN tag.
    pub tag: Option<Tag>,
    /// Whether it was longer than the parts.
    pub is_truncated: bool,
}

/// Receives one frame of a packet socket into parts of a buffer.
pub fn receive_frame(
    socket: BorrowedFd<'_>,
    parts: &mut [IoSliceMut<'_>],
) -> io::Result<ReceivedFrame> {
    /// Room for the one control message, and its alignment.
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    // SAFETY: msghdr is plain data, for which zero is valid. All that it points to outlives the calls, and an
    // IoSliceMut is an iovec. The kernel bounds the control messages by msg_controllen, and a message of this
    // type holds a tpacket_auxdata, which is read without regard to alignment.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = parts.as_mut_ptr().cast();
        message.msg_iovlen = parts.len() as _;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        let length = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT);
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_auxdata = !header.is_null()
            && ((*header).cmsg_level, (*header).cmsg_type)
                == (libc::SOL_PACKET, libc::PACKET_AUXDATA)
            && (*header).cmsg_len as usize
                >= libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize;
        let tag = is_auxdata
            .then(|| libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned())
            .and_then(|auxdata| tag_of(&auxdata));
        let is_truncated = message.msg_flags & libc::MSG_TRUNC != 0;
        Ok(ReceivedFrame { length, tag, is_truncated })
    }
}

fn tag_of(auxdata: &libc::tpacket_auxdata) -> Option<Tag> {
    const DOT1Q: u16 = 0x8100;
    let has = |bit| auxdata.tp_status & bit != 0;
    has(libc::TP_STATUS_VLAN_VALID).then(|| Tag {
        kind: if has(libc::TP_STATUS_VLAN_TPID_VALID) { auxdata.tp_vlan_tpid } else { DOT1Q },
        control: auxdata.tp_vlan_tci,
    })
}

/// How many frames a packet socket has dropped since this was last asked.
pub fn packet_drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the option is a tpacket_stats, which outlives the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(statistics.tp_drops.into())
}

/// How many bytes may wait in a socket to be sent, as the kernel counts them.
pub fn set_send_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
}

/// The mark of packets that a socket sends.
pub fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Sets a socket's option. `T` is the type that the kernel takes for it: plain data.
fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value outlives the call, which reads no more than its length.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
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
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
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
