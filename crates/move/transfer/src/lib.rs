// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers that end with the right bytes or a clear error: downloads and uploads over HTTP, and files, directories and
//! pipes by sessions ([`parcel`]).
//!
//! ```text
//! get   name ──▶ part, locked ──▶ attempt ──▶ whole? ──▶ digest? ──▶ fsync, rename
//!                                  ▲    │ broken, stalled: wait, resume
//!                                  └────┘ another version: from zero
//! ```
//! A program reads files into memory ([`Client::read`]), and ranges of one version of a file ([`Client::read_range`]).
//!
//! A download goes to `NAME.part`, and gets its name when it is known to be whole. It resumes only where a strong
//! validator shows that the rest belongs to what is held (RFC 9110, sections 8.8 and 14), and compares the last bytes
//! held with what the server sends again. Digests (RFC 9530) are checked while bytes come.
//!
//! Threats: servers send anything, as slowly as they like. Header sections, redirects, retries, restarts and waiting
//! are bounded; memory does not depend on the file; no text of a server reaches a terminal unchanged; no name from
//! a URL or list leads out of the directory.

mod accept;
mod addresses;
mod answer;
mod attempt;
mod blocks;
mod client;
mod completed_file;
mod ending;
mod error;
mod find;
#[cfg(test)]
mod fuzz_tests;
mod get;
mod hash;
mod http;
mod list;
mod name;
mod network_watch;
mod options;
mod own_limits;
pub mod parcel;
mod part;
mod proof;
mod put;
mod ranges;
mod retry_timing;
mod sink;
mod source;
mod stop;
mod team;
mod way;

pub use client::{Client, Destination, GetRequest};
pub use error::Error;
pub use find::{Found, Version};
pub use hash::DigestArg;
pub use list::{ListEntry, read_list};
pub use name::{MAX_NAME_LEN, check_sent_name, file_name, path_within, upload_url};
pub use options::{Options, Progress, Report, ReportedDigest, Status};
pub use own_limits::TransferLimits;
pub use put::{PutRequest, Source};
pub use stop::{Stop, StopSignal, run_until_signal};
pub use units::text::printable;

use units::text;
