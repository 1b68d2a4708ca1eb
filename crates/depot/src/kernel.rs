// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions to the kernel about a socket that no safe library asks.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// What TCP knows of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TcpInfo {
    /// The smoothed round trip, in microseconds.
    pub rtt_us: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// How long ago the peer last acknowledged anything, while bytes are being sent again; else 0.
    pub unanswered: Duration,
}

/// Asks for `TCP_INFO`.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    // SAFETY: a C structure of integers, for which all bits zero is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: pointer and length describe `info`, which lives through the call; an older kernel
    // fills less of it and leaves the rest zero.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        // Without bytes under way the last acknowledgement may be old: there was nothing to answer.
        let unanswered_ms = if info.tcpi_retransmits > 0 { info.tcpi_last_ack_recv } else { 0 };
        Ok(TcpInfo {
            rtt_us: info.tcpi_rtt,
            retransmits: info.tcpi_total_retrans,
            unanswered: Duration::from_millis(unanswered_ms.into()),
        })
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes written to a socket that the peer has not acknowledged (`SIOCOUTQ`); the mark of an
/// orderly close counts as one.
pub(crate) fn unacknowledged(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int to the pointer, which is valid through the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}
