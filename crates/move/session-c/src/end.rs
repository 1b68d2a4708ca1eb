// SPDX-License-Identifier: GPL-2.0-or-later
//! The pump's end of a socket pair.
//!
//! A Unix socket gives its peer ECONNRESET if it is closed while bytes in it are unread, and the end of the stream
//! otherwise. A failed session must not look like the end of one. So one byte always stays unread: at first one that was
//! put there before the program had its descriptor, then the last that the program has written, which has been passed on
//! already (`MSG_PEEK`). [`Inner::settle`] takes it out before a good end.
//!
//! Limits: that byte holds its buffer, at most 50 KB of the program's `SO_SNDBUF`. That is set to 416 KiB where the
//! system allows it; with less than 200 KiB `poll` might never report room for writing.

use crate::ffi::{unread, watch};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio},
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send,
        shutdown, socketpair, sockopt,
    },
};
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::sleep,
};

/// How much is read at a time, with the byte that stays.
pub(crate) const READ: usize = (64 << 10) + 1;
/// Send buffer of the program's end in bytes. The system doubles it.
const SEND_BUFFER: usize = 208 << 10;
/// How often is asked whether the program has read everything, at first and at last.
const ASK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// The pump's end.
#[derive(Debug)]
pub(crate) struct Inner {
    data: AsyncFd<OwnedFd>,
    /// The same, watched only for the program's close. Waiting on `data` for it would take readiness from writers.
    hangup: AsyncFd<OwnedFd>,
}

impl Inner {
    /// The program's end and the pump's. The runtime must have been entered.
    pub(crate) fn pair(is_cloexec: bool, is_nonblocking: bool) -> io::Result<(OwnedFd, Self)> {
        let (program, inner) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A smaller buffer is not an error.
        let _ = sockopt::set_socket_send_buffer_size(&program, SEND_BUFFER);
        send(&program, &[0], SendFlags::NOSIGNAL)?;
        ioctl_fionbio(&inner, true)?;
        ioctl_fionbio(&program, is_nonblocking)?;
        if !is_cloexec {
            fcntl_setfd(&program, FdFlags::empty())?;
        }
        let hangup = watch(inner.try_clone()?, Interest::PRIORITY)?;
        let data = watch(inner, Interest::READABLE | Interest::WRITABLE)?;
        Ok((program, Self { data, hangup }))
    }

    /// Waits for data from the program and stores it in `buffer` at index 1. Returns its length, 0 at the end.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.data.async_io(Interest::READABLE, |fd| Ok(peek_and_take(fd, buffer)?)).await
    }

    /// Gives bytes to the program, as it has room.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let write = |fd: &OwnedFd| Ok(send(fd, bytes, flags)?);
            let written = self.data.async_io(Interest::WRITABLE, write).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Nothing more comes for the program.
    pub(crate) fn end_writing(&self) {
        let _ = shutdown(self.data.get_ref(), Shutdown::Write);
    }

    /// Waits until nothing is unread by the program. Whether it has read it, and not closed its end before.
    pub(crate) async fn drained(&self) -> bool {
        let mut wait = ASK[0];
        while unread(self.data.get_ref()) > 0 {
            sleep(wait).await;
            wait = (wait * 2).min(ASK[1]);
        }
        matches!(sockopt::socket_error(self.data.get_ref()), Ok(Ok(())))
    }

    /// Waits until the program has closed its end, or shut both directions.
    pub(crate) async fn closed(&self) {
        if self.hangup.ready(Interest::PRIORITY).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// After this, closing this end is not a failure.
    pub(crate) fn settle(&self) {
        let _ = recv(self.data.get_ref(), &mut [0; 1][..], RecvFlags::DONTWAIT);
    }
}

fn peek_and_take(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let peek = |buffer: &mut [u8]| {
        recv(fd, buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(_, length)| length)
    };
    let mut length = peek(buffer)?;
    if length <= 1 {
        let mut asked = [PollFd::new(fd, PollFlags::RDHUP)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        if !asked[0].revents().contains(PollFlags::RDHUP) {
            return Err(Errno::AGAIN);
        }
        // What was written before the end may have come in between.
        length = peek(buffer)?;
    }
    let fresh = length.saturating_sub(1);
    let mut taken = 0;
    while taken < fresh {
        // The same bytes again, except the last one.
        taken += recv(fd, &mut buffer[taken..fresh], RecvFlags::DONTWAIT)?.1;
    }
    Ok(fresh)
}
