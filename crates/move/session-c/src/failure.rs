// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a call failed: errno as sockets set it, and a text.

use libc::c_int;
use std::{
    cell::RefCell,
    ffi::CString,
    io::{self, ErrorKind},
};

/// Why a call failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub errno: c_int,
    pub text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Self {
        Self::new(errno_of(error.kind()), error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.raw_os_error().unwrap_or(errno_of(error.kind())), error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

fn errno_of(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::InvalidData => libc::EBADMSG,
        ErrorKind::OutOfMemory => libc::ENOBUFS,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::WouldBlock => libc::EAGAIN,
        _ => libc::EIO,
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the text of the last failure of this thread.
pub(crate) fn remember(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
}

/// Where that text is until the thread's next failure.
pub(crate) fn last() -> *const libc::c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
