// SPDX-License-Identifier: GPL-2.0-or-later
//! How much memory the kernel may use for a connection, in steps, and what that takes back.
//!
//! Each level keeps what those before it do. The first two can be taken back whole; a receive buffer that was cut is
//! raised again as far as the kernel lets this process (`net.core.rmem_max` without `CAP_NET_ADMIN`).

use crate::tcp::{
    info::{self, RCVBUF_LOCK, SNDBUF_LOCK},
    socket_options::{keep_unsent, raise_rcvbuf},
};
use std::{io, os::fd::AsFd};
use units::Bytes;

/// What waits unsent at [`MemoryLevel::Small`].
const UNSENT: Bytes = Bytes::new(16 << 10);
/// The window that is offered at [`MemoryLevel::Small`]: enough to see over any path whether the connection is at work.
const WINDOW: usize = 64 << 10;

/// A larger receive buffer needs no help to grow again.
const TO_START: usize = 256 << 10;

/// How much memory the kernel may use for a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryLevel {
    /// The kernel tunes the buffers.
    #[default]
    Free,
    /// The buffers grow no further.
    Fixed,
    /// Little waits unsent, and a small window is offered. Bytes within an earlier, larger window may still
    /// arrive.
    Small,
    /// The receive buffer is cut to what is in it: more than that is dropped.
    Cut,
}

/// A level that is in force, and how to take it back.
#[derive(Debug, Default)]
pub(super) struct Restriction {
    pub level: MemoryLevel,
    /// The buffers that the depot itself has fixed, as bits of `SO_BUF_LOCK`.
    fixed: libc::c_int,
    /// What was kept unsent before.
    unsent: Option<u32>,
    /// The limit of the window before.
    window: Option<usize>,
    /// The receive buffer before.
    rcvbuf: Option<usize>,
}

impl Restriction {
    /// Goes to a level. A buffer whose size the configuration fixes stays as it is.
    ///
    /// # Errors
    /// The kernel refuses; what was done so far is remembered.
    pub(super) fn set(&mut self, socket: impl AsFd, level: MemoryLevel) -> io::Result<()> {
        let socket = socket.as_fd();
        if level < MemoryLevel::Cut
            && let Some(before) = self.rcvbuf.take()
        {
            // Without the right to, less is what there is.
            let _ = raise_rcvbuf(socket, Bytes::new(before as u64));
        }
        if level < MemoryLevel::Small {
            if let Some(before) = self.unsent.take() {
                keep_unsent(socket, Bytes::new(before.into()))?;
            }
            if let Some(before) = self.window.take() {
                info::set_window_clamp(socket, before)?;
                // The kernel grows a buffer only when more is read in a round trip than ever before, and with as much as
                // this buffer holds it has counted already.
                let rcvbuf = info::memory(socket)?.rcvbuf;
                let _ = raise_rcvbuf(socket, Bytes::new(4 * rcvbuf.min(TO_START) as u64));
            }
        }
        if level == MemoryLevel::Free && self.fixed != 0 {
            info::set_buffer_locks(socket, info::buffer_locks(socket)? & !self.fixed)?;
            self.fixed = 0;
        }
        if level >= MemoryLevel::Fixed && self.level == MemoryLevel::Free {
            let before = info::buffer_locks(socket)?;
            self.fixed = (SNDBUF_LOCK | RCVBUF_LOCK) & !before;
            info::set_buffer_locks(socket, before | self.fixed)?;
        }
        let is_tuned = self.fixed & RCVBUF_LOCK != 0;
        if level >= MemoryLevel::Small && self.unsent.is_none() {
            self.unsent = Some(info::notsent_lowat(socket)?);
            keep_unsent(socket, UNSENT)?;
            if is_tuned {
                self.window = Some(info::window_clamp(socket)?);
                info::set_window_clamp(socket, WINDOW)?;
            }
        }
        if level == MemoryLevel::Cut && self.rcvbuf.is_none() && is_tuned {
            let memory = info::memory(socket)?;
            let wanted = memory.received.max(WINDOW);
            if wanted < memory.rcvbuf {
                self.rcvbuf = Some(memory.rcvbuf);
                rustix::net::sockopt::set_socket_recv_buffer_size(socket, wanted / 2)?;
            }
        }
        self.level = level;
        Ok(())
    }
}
