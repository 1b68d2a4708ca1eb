// SPDX-License-Identifier: GPL-2.0-or-later
//! nftables by libnftables, the library behind `nft`, in this process.
//!
//! A table with `flags owner` belongs to the socket that made it: other processes cannot change it, and the kernel removes
//! it when that socket closes, also after kill -9. `nft` as a child would close it with its first command, so the library
//! is loaded at run time: every system with `nft` has it, and others do not need it to start longhaul.

#![expect(unsafe_code, reason = "loads a shared object and calls it")]

use crate::Lack;
use libloading::{Library, Symbol};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{AddressFamily, netlink, sockopt},
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt, fs,
    os::fd::BorrowedFd,
};

const LIBRARY: &str = "libnftables.so.1";

type New = unsafe extern "C" fn(u32) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Buffer = unsafe extern "C" fn(*mut c_void) -> c_int;
type Text = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Run = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

/// Why nftables did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NftablesError {
    /// The library is missing.
    #[error(transparent)]
    Missing(Lack),
    /// The library or the kernel refused a command.
    #[error("nftables: {0}")]
    Refused(String),
}

/// A connection to the kernel's nftables, in the network namespace of the thread that opened it.
pub struct Nftables {
    library: Library,
    context: *mut c_void,
}

// SAFETY: the library keeps no state of a thread; `&mut self` lets one thread at a time use the context.
unsafe impl Send for Nftables {}

impl fmt::Debug for Nftables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nftables").finish_non_exhaustive()
    }
}

impl Nftables {
    /// Opens it. Tables that it makes with `flags owner` live until it is dropped.
    ///
    /// # Errors
    /// The library is missing, or lacks a function.
    pub fn open() -> Result<Self, NftablesError> {
        // SAFETY: the library of the system; it runs nothing when it is loaded.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|_| {
            let remedy = "install the package libnftables1 (Debian) or nftables";
            NftablesError::Missing(Lack::new(format_args!("there is no {LIBRARY}"), remedy))
        })?;
        let mut opened = Self { library, context: std::ptr::null_mut() };
        // SAFETY: libnftables.h declares it with this type.
        let context = unsafe { opened.function::<New>(b"nft_ctx_new\0")?(0) };
        if context.is_null() {
            return Err(NftablesError::Refused("out of memory".to_owned()));
        }
        opened.context = context;
        close_on_exec();
        for buffer in [&b"nft_ctx_buffer_output\0"[..], b"nft_ctx_buffer_error\0"] {
            // SAFETY: as above, and the context lives.
            let failed = unsafe { opened.function::<Buffer>(buffer)?(context) };
            if failed != 0 {
                return Err(NftablesError::Refused("out of memory".to_owned()));
            }
        }
        Ok(opened)
    }

    /// Runs commands as one transaction: all of them, or none. Answers what they print.
    ///
    /// # Errors
    /// The text is that of `nft`.
    pub fn run(&mut self, commands: &str) -> Result<String, NftablesError> {
        let refused = |text: &str| NftablesError::Refused(text.trim().to_owned());
        let commands = CString::new(commands).map_err(|_| refused("a command has a zero byte"))?;
        // SAFETY: libnftables.h declares it with this type; the context lives, and the text ends in a zero byte.
        let failed = unsafe {
            self.function::<Run>(b"nft_run_cmd_from_buffer\0")?(self.context, commands.as_ptr())
        };
        let output = self.text(b"nft_ctx_get_output_buffer\0")?;
        let error = self.text(b"nft_ctx_get_error_buffer\0")?;
        if failed == 0 { Ok(output) } else { Err(refused(&error)) }
    }

    /// What a buffer holds. It is empty afterwards.
    fn text(&self, of: &[u8]) -> Result<String, NftablesError> {
        // SAFETY: libnftables.h declares both with this type, and the context lives.
        let text = unsafe { self.function::<Text>(of)?(self.context) };
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: the library ends it with a zero byte and keeps it until the next command.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// A function of the library.
    fn function<F>(&self, name: &[u8]) -> Result<Symbol<'_, F>, NftablesError> {
        // SAFETY: the callers name the type that libnftables.h declares.
        unsafe { self.library.get(name) }.map_err(|error| NftablesError::Refused(error.to_string()))
    }
}

/// Closes netfilter's sockets of this process in its children. The library opens its own without `SOCK_CLOEXEC`, so a child
/// would keep tables that have an owner.
fn close_on_exec() {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for number in descriptors.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // SAFETY: it is borrowed for calls that fail if it is not open. Nothing is read, written or closed.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let is_netfilter = sockopt::socket_domain(descriptor) == Ok(AddressFamily::NETLINK)
            && sockopt::socket_protocol(descriptor)
                .is_ok_and(|protocol| protocol == Some(netlink::NETFILTER));
        if is_netfilter {
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}

impl Drop for Nftables {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        if let Ok(free) = self.function::<Free>(b"nft_ctx_free\0") {
            // SAFETY: the context lives, and is not used any more.
            unsafe { free(self.context) };
        }
    }
}
