// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a program whose TCP connections a supervisor makes (seccomp user notification).
//!
//! ```text
//! filter       the seccomp filter: which system calls the kernel asks the supervisor about
//! calls        the kernel's questions, and the answers
//! caller       the calling thread: the address in its memory, its socket
//! supervisor   answers: the kernel connects, or the supervisor opens a session on the program's own socket
//! launch       the processes
//! tally        the connections so far
//! accounts     what they carry, as the kernel tells
//! ```
//! The supervisor uses the program's own socket (`pidfd_getfd(2)`) and does not install another one. Copied descriptors,
//! epoll registrations, bound addresses and options therefore stay valid. The cost: connect(2) on a non-blocking socket
//! also waits for the chain, because the socket must not become writable before the session is open.
//!
//! Threats. This is not a sandbox: the program belongs to the user and may use UDP or change an address while the
//! supervisor reads it. The supervisor reads the address once and connects to what it has read. Processes that hide their
//! memory connect directly. Only the supervisor has the descriptor on which the kernel asks, so no other process can.

mod accounts;
mod caller;
mod calls;
mod filter;
mod launch;
mod supervisor;
mod tally;

pub use launch::{Launch, ProgramEnd, RunError, Supervisor, wait_for_program};
pub use supervisor::Rules;
pub use tally::{Connection, Outcome, Report, ReportedConnection, ReportedHop, Tally, Traffic};
