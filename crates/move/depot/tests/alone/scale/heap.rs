// SPDX-License-Identifier: GPL-2.0-or-later
//! How many bytes a daemon has allocated and not freed, exactly: its allocator counts them where
//! the test can see it, in a file that both have mapped.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::CStr,
    path::Path,
    ptr,
    sync::atomic::{
        AtomicIsize, AtomicPtr,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Names the file, in the environment of the daemon.
pub const FILE: &str = match FILE_C.to_str() {
    Ok(name) => name,
    Err(_) => panic!("it is ASCII"),
};
const FILE_C: &CStr = c"LONGHAUL_TEST_HEAP";

/// The system's allocator, which counts.
pub struct Counted;

/// A count that is kept by another process.
pub struct Heap(&'static AtomicIsize);

impl Heap {
    /// Makes the file.
    pub fn at(file: &Path) -> Self {
        std::fs::write(file, [0; size_of::<AtomicIsize>()]).unwrap();
        let name = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).unwrap();
        Self(map(&name).expect("the file that was made just now"))
    }

    /// Bytes allocated and not freed.
    pub fn live(&self) -> isize {
        self.0.load(Relaxed)
    }
}

// SAFETY: all is the system's; counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        let given = unsafe { System.alloc(layout) };
        if !given.is_null() {
            count(layout.size().cast_signed());
        }
        given
    }

    unsafe fn dealloc(&self, given: *mut u8, layout: Layout) {
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(given, layout) };
        count(-(layout.size().cast_signed()));
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        let given = unsafe { System.alloc_zeroed(layout) };
        if !given.is_null() {
            count(layout.size().cast_signed());
        }
        given
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised to this function.
        let given = unsafe { System.realloc(old, layout, size) };
        if !given.is_null() {
            count(size.cast_signed() - layout.size().cast_signed());
        }
        given
    }
}

fn count(bytes: isize) {
    static OWN: AtomicIsize = AtomicIsize::new(0);
    static COUNTER: AtomicPtr<AtomicIsize> = AtomicPtr::new(ptr::null_mut());
    let mut counter = COUNTER.load(Acquire);
    if counter.is_null() {
        // The first allocation of all, before there is a second thread.
        // SAFETY: the name ends with a zero, and no other code changes the environment that early.
        let name = unsafe { libc::getenv(FILE_C.as_ptr()) };
        let file = (!name.is_null()).then(|| {
            // SAFETY: what getenv gives ends with a zero.
            map(unsafe { CStr::from_ptr(name) })
        });
        counter = ptr::from_ref(file.flatten().unwrap_or(&OWN)).cast_mut();
        COUNTER.store(counter, Release);
    }
    // SAFETY: it points to a static, or to a mapping that is never undone.
    unsafe { &*counter }.fetch_add(bytes, Relaxed);
}

/// The count in a file. Allocates nothing.
fn map(file: &CStr) -> Option<&'static AtomicIsize> {
    // SAFETY: the name ends with a zero; the mapping is of the length asked for, aligned to a page,
    // and stays until the process ends.
    unsafe {
        let fd = libc::open(file.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let mapped = libc::mmap(ptr::null_mut(), size_of::<AtomicIsize>(), access, shared, fd, 0);
        libc::close(fd);
        (mapped != libc::MAP_FAILED).then(|| &*mapped.cast())
    }
}
