// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's questions: which system call somebody waits in, and the answer.

use super::filter;
use crate::sys::{self, seccomp_notif_resp};
use libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Where the kernel's questions come.
pub(super) struct Calls(AsyncFd<OwnedFd>);

/// A system call that a thread waits in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    id: u64,
    pub thread: u32,
    pub arch: u32,
    pub number: u32,
    pub arguments: [u64; 6],
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The kernel does it.
    GoOn,
    /// It was done.
    Done,
    /// It fails with this error number.
    Fails(i32),
}

impl Calls {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        sys::watch(fd, Interest::READABLE).map(Self)
    }

    /// The next call; `None` when nobody is left who could make one.
    pub(super) async fn next(&self) -> io::Result<Option<Call>> {
        loop {
            match self.0.async_io(Interest::READABLE, |fd| receive(fd)).await {
                // The thread was killed before its call could be taken.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Whether the thread still waits. What was read of it before is its own then.
    pub(super) fn is_waiting(&self, call: &Call) -> bool {
        sys::is_waiting(self.0.get_ref(), call.id)
    }

    /// Lets the thread go on. Nothing happens if it has been killed.
    pub(super) fn answer(&self, call: &Call, verdict: Verdict) {
        let (error, flags) = match verdict {
            Verdict::GoOn => (0, SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Verdict::Done => (0, 0),
            Verdict::Fails(errno) => (-errno, 0),
        };
        let answer = seccomp_notif_resp { id: call.id, val: 0, error, flags };
        let _ = sys::answer_call(self.0.get_ref(), answer);
    }
}

/// The request itself waits until there is a call, so it is made only when there is one.
fn receive(fd: impl AsFd) -> io::Result<Option<Call>> {
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default()))?;
    let state = polled[0].revents();
    if !state.contains(PollFlags::IN) {
        let is_over = state.intersects(PollFlags::HUP | PollFlags::ERR);
        return if is_over { Ok(None) } else { Err(ErrorKind::WouldBlock.into()) };
    }
    let question = sys::receive_call(fd)?;
    Ok(Some(Call {
        id: question.id,
        thread: question.pid,
        arch: question.data.arch,
        number: question.data.nr as u32 & !filter::X32,
        arguments: question.data.args,
    }))
}
