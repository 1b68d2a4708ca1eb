// SPDX-License-Identifier: GPL-2.0-or-later
//! The functions of `longhaul/lsl.h`, which documents them. Pointers and lengths are checked here, and no panic leaves.
#![expect(unsafe_code, reason = "programs in C pass pointers and descriptors")]

mod system;

pub use crate::calls::lsl_info;
use crate::{
    calls,
    failure::{Failure, last, remember},
};
use libc::{c_char, c_int, c_void, size_t};
use std::{
    ffi::CStr,
    os::fd::{BorrowedFd, IntoRawFd},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
};
pub(crate) use system::{duplicate, unread, watch, with_signals_blocked};

/// The longest value of an option, and the longest address.
const LONGEST: usize = 1 << 20;
/// The version, with the zero byte that ends a text in C.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// Does what a function is for; -1 with errno if it fails.
fn call(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure::new(libc::EIO, "longhaul has failed, which is a bug: please report it"))
    });
    result.unwrap_or_else(|failure| {
        // Nothing may change errno after this.
        let _ = catch_unwind(AssertUnwindSafe(|| remember(&failure.text)));
        let errno = failure.errno;
        drop(failure);
        system::set_errno(errno);
        -1
    })
}

/// The program's descriptor.
fn borrow<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if fd < 0 {
        return Err(Failure::new(libc::EBADF, "the descriptor is negative"));
    }
    // SAFETY: it is not -1. The program keeps it open during the call, as with every function that takes one; where it
    // does not, the system's calls fail with EBADF, and nothing here relies on more.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// A text of the program.
///
/// # Safety
/// It is null, or ends with a zero byte and lasts for `'a`.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::new(libc::EFAULT, "the address is a null pointer"));
    }
    // SAFETY: it is not null; the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(text) };
    if text.count_bytes() > LONGEST {
        return Err(Failure::invalid("the address is too long"));
    }
    text.to_str().map_err(|_| Failure::invalid("the address is not UTF-8"))
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn lsl_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Why the latest call of this thread that failed did so.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_error() -> *const c_char {
    catch_unwind(last).unwrap_or(c"".as_ptr())
}

/// A new descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_socket(flags: c_int) -> c_int {
    call(|| Ok(calls::socket(flags)?.into_raw_fd()))
}

/// Sets an option.
///
/// # Safety
/// `value` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsl_setsockopt(
    fd: c_int,
    option: c_int,
    value: *const c_void,
    length: size_t,
) -> c_int {
    call(|| {
        let value: &[u8] = match (value.is_null(), length) {
            (_, 0) => &[],
            (true, _) => return Err(Failure::new(libc::EFAULT, "the value is a null pointer")),
            (false, 1..=LONGEST) => {
                // SAFETY: it is not null, and the caller vouches for its length.
                unsafe { slice::from_raw_parts(value.cast(), length) }
            }
            _ => return Err(Failure::invalid("the value is too long")),
        };
        calls::set(borrow(fd)?, option, value).map(|()| 0)
    })
}

/// Reads an option.
///
/// # Safety
/// `length` is null or points to the length of `value`, which is null or has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsl_getsockopt(
    fd: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut size_t,
) -> c_int {
    call(|| {
        if value.is_null() || length.is_null() {
            return Err(Failure::new(libc::EFAULT, "the value or its length is a null pointer"));
        }
        let found = calls::get(borrow(fd)?, option)?;
        // SAFETY: it is not null, and the caller vouches for what it points to.
        let room = unsafe { ptr::replace(length, found.len()) };
        if room < found.len() {
            return Err(Failure::new(libc::ERANGE, format!("{} bytes are needed", found.len())));
        }
        // SAFETY: `value` is not null, has `room` bytes, and is not what was allocated here.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), found.len()) };
        Ok(0)
    })
}

/// Begins a session.
///
/// # Safety
/// `destination` is null, or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsl_connect(fd: c_int, destination: *const c_char) -> c_int {
    // SAFETY: the caller vouches for it.
    call(|| calls::connect(borrow(fd)?, unsafe { text(destination) }?).map(|()| 0))
}

/// Takes an address to listen at.
///
/// # Safety
/// `address` is null, or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsl_bind(fd: c_int, address: *const c_char) -> c_int {
    // SAFETY: the caller vouches for it.
    call(|| calls::bind(borrow(fd)?, unsafe { text(address) }?).map(|()| 0))
}

/// Listens.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_listen(fd: c_int, backlog: c_int) -> c_int {
    call(|| calls::listen(borrow(fd)?, backlog).map(|()| 0))
}

/// Takes a session that waits.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_accept(fd: c_int, flags: c_int) -> c_int {
    call(|| Ok(calls::accept(borrow(fd)?, flags)?.into_raw_fd()))
}

/// Everything that was received is safe: the other end is told.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_confirm(fd: c_int) -> c_int {
    call(|| calls::confirm(borrow(fd)?).map(|()| 0))
}

/// Waits for something to happen.
#[unsafe(no_mangle)]
pub extern "C" fn lsl_wait(fd: c_int, event: c_int, timeout_ms: c_int) -> c_int {
    call(|| calls::wait(borrow(fd)?, event, timeout_ms).map(|()| 0))
}

/// Says how far a session is.
///
/// # Safety
/// `info` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsl_getinfo(fd: c_int, info: *mut lsl_info, size: size_t) -> c_int {
    call(|| {
        if info.is_null() {
            return Err(Failure::new(libc::EFAULT, "the information is a null pointer"));
        }
        if !(size_of::<u64>()..=LONGEST).contains(&size) {
            return Err(Failure::invalid("the size is that of struct lsl_info"));
        }
        let found = calls::info(borrow(fd)?)?;
        // SAFETY: `info` is not null and has `size` bytes, of which no more are written; `found` has as many as are
        // copied, none of them padding. Programs of other versions have a shorter or a longer structure.
        unsafe {
            ptr::write_bytes(info.cast::<u8>(), 0, size);
            let known = size.min(size_of::<lsl_info>());
            ptr::copy_nonoverlapping(ptr::from_ref(&found).cast::<u8>(), info.cast(), known);
        }
        Ok(0)
    })
}
