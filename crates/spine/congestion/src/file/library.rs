// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads what was compiled, from memory: a directory for temporary files may forbid programs.

#![expect(unsafe_code, reason = "loads a shared object and calls it")]

use super::{
    error::FileError,
    fault::{self, Origin, Raise},
    source::Source,
};
use crate::ffi::FfiAlgorithm;
use libloading::{Library, Symbol};
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    ffi::c_void,
    fs::File,
    io::{self, Write},
    mem::MaybeUninit,
    os::fd::AsRawFd,
};

/// `longhaul_cc_open` of guard.c.
type Open = unsafe extern "C" fn(*mut FfiAlgorithm, Raise, *const c_void);

/// The algorithm of a compiled file, each function with its guard around it. It stays loaded.
pub(super) fn open(source: &Source, library: &[u8]) -> Result<&'static FfiAlgorithm, FileError> {
    let mut file: File = memfd_create("longhaul-cc", MemfdFlags::CLOEXEC)
        .map_err(io::Error::from)
        .map_err(FileError::system("make a file in memory"))?
        .into();
    file.write_all(library).map_err(FileError::system("write a file in memory"))?;
    // It stays open: the loader tells libraries apart by name, and places of faults are looked up in it.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let refused = |error: libloading::Error| {
        FileError::system("load what was compiled")(io::Error::other(error))
    };
    // SAFETY: it was linked from the file and guard.c without a library; what runs at loading is `__tsan_init` of
    // guard.c, and constructors if the file has any, which are the user's.
    let loaded = unsafe { Library::new(&path) }.map_err(refused)?;
    let origin = Origin::new(source, file);
    let mut entry = MaybeUninit::<FfiAlgorithm>::uninit();
    {
        // SAFETY: guard.c defines it with this type.
        let open: Symbol<'_, Open> =
            unsafe { loaded.get(b"longhaul_cc_open\0") }.map_err(refused)?;
        let origin: &'static Origin = Box::leak(Box::new(origin));
        // SAFETY: it writes the whole entry, and keeps the other two, which live as long as the process.
        unsafe { open(entry.as_mut_ptr(), fault::raise, std::ptr::from_ref(origin).cast()) };
    }
    // The entry's strings and functions are in it.
    std::mem::forget(loaded);
    // SAFETY: written by `longhaul_cc_open`.
    Ok(Box::leak(Box::new(unsafe { entry.assume_init() })))
}
