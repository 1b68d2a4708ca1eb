// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions at rest: a depot keeps what a sender has left, until receivers have collected it or it expires.
//!
//! ```text
//! Writer ── append ──▶ data file                        Reader ◀── verified blocks ── data file
//!    └── promise ──▶ queue ──▶ leader, one round for all that wait:
//!                              data files, headers, directories, journal are synced; then all are answered
//! ```
//! A promise holds after a crash: those bytes, that expiry, that end. Nothing that is not promised is shown to readers.
//! [`Store`] has the operations; `docs/store.md` the layout, the limits and what is promised; record 0032 the reasons.
//!
//! The crate blocks in system calls and knows no runtime: [`Promise`] and [`Reader::poll_past`] are polled as any future,
//! and the caller says where a round runs ([`Runner`]). Times of day are arguments.
//!
//! ```text
//! store      the operations
//!   writer     the sending end of a session
//!   reader     the receiving ends
//!   commit     rounds: what waits is synced together
//!   recovery   a store is opened
//! shared     what all of them use
//!   catalogue  what is known of sessions, in memory; space and keys
//!   journal    the file of the sessions' states
//! promise    answers that are waited for
//! blocks     the layout of a data file
//! header     the file with what never changes of a session
//! record     rounds of the journal, as bytes
//! disk       files and directories, and where they are; disk/real: Linux
//! limits     how much is taken, and why not
//! error      what can go wrong
//! ```

mod access;
mod blocks;
mod catalogue;
mod commit;
pub mod disk;
mod error;
mod header;
mod journal;
mod limits;
mod promise;
mod reader;
mod record;
mod recovery;
mod shared;
mod store;
mod writer;

pub use access::AccessKey;
pub use blocks::{BLOCK, MAX_LENGTH, file_bytes};
pub use commit::{Job, Runner};
pub use error::{Gone, OpenError, StoreError};
pub use header::MAX_NOTE;
pub use limits::{Allowance, Limits, Refusal, Usage};
pub use promise::Promise;
pub use reader::{Read, Reader};
pub use record::Status;
pub use recovery::{Damage, JournalEnd, Report};
pub use store::{NewSession, READ_GRACE, SessionInfo, Store};
pub use writer::Writer;

/// For tests from outside of the crate: what files of a store mean.
#[doc(hidden)]
pub mod formats {
    pub use crate::{header::Header, record::parse as parse_journal};
}
