// SPDX-License-Identifier: GPL-2.0-or-later
//! A program of which a supervisor makes the connections.
//!
//! ```text
//! filter       what the kernel asks the supervisor about: connect(2), by a seccomp filter without root's rights
//! calls        the questions: who has called what, and the answers
//! caller       of whom is asked: the address in its memory, its socket
//! supervisor   answers: lets the kernel connect, or opens a session on the program's own socket
//! launch       program and supervisor as processes
//! tally        what connections there were
//! ```
//! The supervisor works on the program's own socket, which it takes a descriptor of (`pidfd_getfd(2)`), and does not
//! put another one in its place. So descriptors that were copied or are being watched, addresses that were bound, and
//! options that were set stay what they are. The price is that connect(2) takes as long as the chain needs even where
//! the socket does not block: what its owner watches must not tell of the connection to the depot.
//!
//! Threats. The program is the user's own, and this is no sandbox: a program may do without (another kind of socket,
//! UDP), and what it writes into an address while that is being read changes where it connects itself, no more. The
//! address is read once. A program of another user, or one that has hidden its memory, connects by itself. Nobody else can ask
//! the supervisor anything: the kernel's questions come by a descriptor that only it has.

mod caller;
mod calls;
mod filter;
mod launch;
mod supervisor;
mod tally;

pub use launch::{Launch, ProgramEnd, RunError, Supervisor, wait_for_program};
pub use supervisor::Rules;
pub use tally::{Connection, Outcome, Tally};
