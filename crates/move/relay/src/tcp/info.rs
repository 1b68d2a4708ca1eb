// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions to the kernel about a socket that no safe library asks.

#![expect(unsafe_code, reason = "options of sockets that no library in use wraps")]

use rustix::net::sockopt;
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};
use units::{Bytes, Rate};

pub use host::{SocketPacing, TcpInfo, tcp_info};

/// The initial window in bytes: ten segments (RFC 6928) of the usual size.
pub(crate) const INITIAL_WINDOW: u64 = 10 * 1460;

/// A socket's memory in bytes, as the kernel counts it, with its overhead.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketMemory {
    /// The limit of what is to be sent.
    pub sndbuf: usize,
    /// The limit of what was received.
    pub rcvbuf: usize,
    /// What was received and not read yet.
    pub received: usize,
    /// All that the socket holds: received, to be sent or acknowledged, and set aside for either.
    pub held: usize,
}

/// Asks for all of it at once (`SO_MEMINFO`).
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn memory(socket: impl AsFd) -> io::Result<SocketMemory> {
    let counts: [u32; 9] = get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(SocketMemory::of(counts.map(u32::cast_signed)))
}

impl SocketMemory {
    /// Of what the kernel tells (`SK_MEMINFO_VARS`). What is set aside is below zero while more is used than was.
    fn of([received, rcvbuf, _, sndbuf, set_aside, queued, _, backlog, _]: [i32; 9]) -> Self {
        let bytes = |count: i64| usize::try_from(count).unwrap_or(0);
        Self {
            sndbuf: bytes(sndbuf.into()),
            rcvbuf: bytes(rcvbuf.into()),
            received: bytes(received.into()),
            held: bytes([received, set_aside, queued, backlog].map(i64::from).into_iter().sum()),
        }
    }
}

/// Bytes written to a socket that the peer has not acknowledged (`SIOCOUTQ`); the mark of an
/// orderly close counts as one.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int to the pointer, which is valid through the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How many bytes were written to a connection so far: a number to compare with a later one. `None` if the kernel does not
/// say.
pub fn written(socket: impl AsFd) -> Option<u64> {
    // What is acknowledged between two looks would be counted twice.
    (0..10).find_map(|_| {
        let acked = tcp_info(&socket).ok()?.acked;
        let waiting = unacknowledged(&socket).ok()?;
        let same = tcp_info(&socket).ok()?.acked == acked;
        same.then(|| acked.get().saturating_add(waiting as u64))
    })
}

/// Whether the next byte of a socket is marked as urgent (`SIOCATMARK`). splice(2) stops there, and says no more than that
/// there is nothing; a read goes on.
pub fn is_at_urgent(socket: impl AsFd) -> bool {
    /// `asm-generic/sockios.h`, for all that this runs on.
    const SIOCATMARK: libc::Ioctl = 0x8905;
    let mut is_at_mark: libc::c_int = 0;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: this request writes one int to the pointer, which is valid through the call.
    let result = unsafe { libc::ioctl(socket, SIOCATMARK, &raw mut is_at_mark) };
    result == 0 && is_at_mark != 0
}

/// Sets how many bytes must have arrived before a socket becomes readable (`SO_RCVLOWAT`). Lowering it wakes a
/// waiting reader, if that many bytes have arrived.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn set_rcvlowat(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(socket.as_fd(), libc::SO_RCVLOWAT, &bytes)
}

/// Sets how TCP spaces what a socket sends.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn set_spacing(socket: impl AsFd, spacing: SocketPacing) -> io::Result<()> {
    set(socket.as_fd(), libc::SO_MAX_PACING_RATE, &spacing.to_kernel())
}

/// Lets the receive window of a connection grow to `bytes` (`TCP_WINDOW_CLAMP`): a larger receive buffer alone
/// does not raise the limit that the window had with the old one.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn set_window_clamp(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_at(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &bytes)
}

/// The limit of a connection's receive window.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn window_clamp(socket: impl AsFd) -> io::Result<usize> {
    let bytes: u32 = get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)?;
    Ok(bytes as usize)
}

/// Has a socket that is bound to an address choose its port when it connects (`IP_BIND_ADDRESS_NO_PORT`), so that
/// connections to different peers may share one. It applies to IPv6 sockets too.
///
/// # Errors
/// The kernel does not know the option, as that of older Multipath TCP, or the socket is closed.
pub fn choose_port_late(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_at(socket.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)
}

/// Whether a send buffer has a fixed size (`SO_BUF_LOCK`), so that the kernel does not tune it.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn is_sndbuf_fixed(socket: impl AsFd) -> io::Result<bool> {
    Ok(buffer_locks(socket)? & SNDBUF_LOCK != 0)
}

/// Which buffers have a fixed size (`SO_BUF_LOCK`): [`SNDBUF_LOCK`], [`RCVBUF_LOCK`].
///
/// # Errors
/// The kernel does not know the option (before Linux 5.15), or the socket is closed.
pub fn buffer_locks(socket: impl AsFd) -> io::Result<libc::c_int> {
    get(socket.as_fd(), libc::SOL_SOCKET, SO_BUF_LOCK)
}

/// Sets which buffers keep the size that they have, and has the kernel tune the others.
///
/// # Errors
/// The kernel does not know the option (before Linux 5.15), or the socket is closed.
pub fn set_buffer_locks(socket: impl AsFd, locks: libc::c_int) -> io::Result<()> {
    set(socket.as_fd(), SO_BUF_LOCK, &locks)
}

/// Has the kernel tune a send buffer again, after its size was set. Since Linux 5.15.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn unfix_sndbuf(socket: impl AsFd) -> io::Result<()> {
    set_buffer_locks(&socket, buffer_locks(&socket)? & !SNDBUF_LOCK)
}

/// From `asm-generic/socket.h`, and its two bits from `linux/socket.h`.
const SO_BUF_LOCK: libc::c_int = 72;
/// The send buffer has a fixed size.
pub const SNDBUF_LOCK: libc::c_int = 1;
/// The receive buffer has a fixed size.
pub const RCVBUF_LOCK: libc::c_int = 2;

/// Sets an option of sockets whose value is a plain number.
fn set<T: Number>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    set_at(socket, libc::SOL_SOCKET, option, value)
}

/// Sets an option whose value is a plain number.
fn set_at<T: Number>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The rate at which a socket sends at most, in bytes a second.
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
#[cfg(test)]
pub fn max_pacing_rate(socket: impl AsFd) -> io::Result<u64> {
    get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)
}

/// How many bytes the kernel keeps unsent before a socket takes no more (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// The kernel does not know the option, or the socket is closed.
pub fn notsent_lowat(socket: impl AsFd) -> io::Result<u32> {
    get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)
}

/// Whether a connection is one of Multipath TCP (RFC 8684), and has not fallen back to TCP.
pub fn is_mptcp(socket: impl AsFd) -> bool {
    get::<libc::c_int>(socket.as_fd(), libc::IPPROTO_TCP, TCP_IS_MPTCP).is_ok_and(|is| is == 1)
}

/// Whether a socket is one of Multipath TCP, connected or not.
pub fn is_mptcp_socket(socket: impl AsFd) -> bool {
    get::<libc::c_int>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PROTOCOL)
        .is_ok_and(|protocol| protocol == libc::IPPROTO_MPTCP)
}

/// From `linux/tcp.h`, since 5.16.
const TCP_IS_MPTCP: libc::c_int = 43;

/// A number that may hold any bits.
trait Number: Copy + Default {}
impl Number for libc::c_int {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for [u32; 9] {}

/// Reads an option whose value is a plain number.
fn get<T: Number>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which lives through the call and may hold any bits.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Settings of a connection that stay until they are set again.
#[derive(Debug, Clone)]
pub struct Settled {
    congestion: String,
    notsent_lowat: Option<Bytes>,
    mptcp: bool,
}

impl Settled {
    /// Reads it back, of a connection that stands.
    pub fn read(socket: impl AsFd) -> Self {
        let socket = socket.as_fd();
        Self {
            congestion: sockopt::tcp_congestion(socket).unwrap_or_default(),
            notsent_lowat: notsent_lowat(socket)
                .ok()
                .filter(|bytes| *bytes != u32::MAX)
                .map(|bytes| Bytes::new(bytes.into())),
            mptcp: is_mptcp(socket),
        }
    }
}

/// What is in force on a socket, as the kernel says it. Buffers are the kernel's figures: twice
/// what was asked for, because it counts its own overhead.
#[derive(Debug, Clone, Default)]
pub struct InForce {
    /// The congestion control.
    pub congestion: String,
    /// Limit of the send buffer.
    pub sndbuf_bytes: usize,
    /// Limit of the receive buffer.
    pub rcvbuf_bytes: usize,
    /// What both hold.
    pub held_bytes: usize,
    /// Smoothed round trip, in microseconds.
    pub rtt_us: u32,
    /// Shortest round trip seen lately, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Congestion window.
    pub cwnd: Bytes,
    /// How fast the peer was last seen to take bytes.
    pub delivery_rate: Option<Rate>,
    /// How its packets are spaced.
    pub spacing: SocketPacing,
    /// How much is kept unsent, if that is limited.
    pub notsent_lowat: Option<Bytes>,
    /// Whether it is a connection of Multipath TCP.
    pub mptcp: bool,
}

impl InForce {
    /// Reads back what is not `settled`; what the kernel does not tell stays empty.
    pub fn read(socket: impl AsFd, settled: &Settled) -> Self {
        let socket = socket.as_fd();
        let info = tcp_info(socket).unwrap_or_default();
        let memory = memory(socket).unwrap_or_default();
        let Settled { congestion, notsent_lowat, mptcp } = settled.clone();
        Self {
            congestion,
            sndbuf_bytes: memory.sndbuf,
            rcvbuf_bytes: memory.rcvbuf,
            held_bytes: memory.held,
            rtt_us: info.rtt_us,
            min_rtt_us: info.min_rtt_us,
            retransmits: info.retransmits,
            cwnd: info.cwnd,
            delivery_rate: info.delivery_rate,
            spacing: info.spacing,
            notsent_lowat,
            mptcp,
        }
    }
}

/// Makes a close of this connection a reset, by any process and at any exit of this one, or undoes that.
pub fn reset_on_close(socket: impl AsFd, on: bool) {
    let linger = on.then_some(Duration::ZERO);
    // A socket that cannot be told so is closed already.
    let _ = sockopt::set_socket_linger(socket, linger);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_alloc_may_be_negative() {
        let memory = SocketMemory::of([5_000, 9, 0, 7, -1_000, 300, 0, 20, 0]);
        assert_eq!((memory.received, memory.held), (5_000, 4_320));
        assert_eq!(SocketMemory::of([0, 0, 0, 0, -1, 0, 0, 0, 0]).held, 0);
    }

    /// Linux gives an accepted connection the linger time of its listener.
    #[test]
    fn accepted_connection_is_reset_as_its_listener_says() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        reset_on_close(&listener, true);
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let read = std::io::Read::read(&mut client, &mut [0]);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
