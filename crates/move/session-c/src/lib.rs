// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions for programs in C: calls in the shape of BSD sockets, and descriptors that are ordinary ones (lsl(3)).
//!
//! ```text
//! program ── read, write, poll, close ──▶ one end of a Unix socket pair
//!                                                    ▲
//!                                                    │ pump, on background threads
//!                                                    ▼
//!                                         the other end ◀──▶ session::Session ◀──▶ depots
//! ```
//! Why a socket pair and a pump: `read`, `write`, `poll`, `select`, `epoll`, `shutdown` and `close` are the system's own,
//! so they work in any program and in any library that it uses, with signals, threads and `dup`. The price is one more
//! copy each way. Replacing these functions with `LD_PRELOAD` would save the copy, but it misses static programs,
//! direct system calls, `io_uring` and runtimes that do without libc, and `epoll` cannot be replaced at all.
//!
//! ```text
//! ffi       the functions, their pointers checked: the only unsafe code
//! calls     what each function does
//! settings  options before a session begins
//! registry  the descriptors of this process, found by their socket's cookie, which is never used again
//! pump      a task for each descriptor: bytes, ends and failures in both directions
//! end       the pump's end of the socket pair
//! failure   errno, and a text for each thread
//! ```
//! Limits: after `fork` only the parent can call `lsl_*`; the child can use descriptors while the parent lives.

mod calls;
mod end;
mod failure;
mod ffi;
mod pump;
mod registry;
mod settings;

pub use ffi::*;
