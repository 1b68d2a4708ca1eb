// SPDX-License-Identifier: GPL-2.0-or-later
//! Options and results of a transfer.

use crate::{Error, TransferLimits, name::without_credentials, text::printable};
use protocol::digest::Digest;
use route::{AttemptEnd, Chooser, RouteTable};
use serde::Serialize;
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use units::{Bytes, Rate};

/// Settings of all transfers of a client.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct Options {
    /// Through which depots.
    pub routes: RouteTable,
    /// Which of them, where several lead to a URL; none: in the order in which they are written.
    pub chooser: Option<Arc<dyn Chooser>>,
    /// How fast all transfers may be together.
    pub limit_rate: Option<Rate>,
    /// The largest number of connections for one file.
    pub connections: usize,
    /// How often to try again without progress.
    pub retries: u32,
    /// The wait before the first retry.
    pub first_wait: Duration,
    /// The longest wait before a retry.
    pub longest_wait: Duration,
    /// How long nothing, or less than `min_rate`, may come.
    pub stall_time: Duration,
    /// Minimum rate over `stall_time`.
    pub min_rate: Rate,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// Replace existing files.
    pub overwrite: bool,
    /// Take existing files for complete.
    pub skip_existing: bool,
    /// Continue what an earlier process has left.
    pub resume: bool,
    /// Accept a body that only ends with its connection.
    pub allow_unknown_length: bool,
    /// Save a body with `Content-Encoding` as it was sent.
    pub save_encoded: bool,
    /// Follow redirects from https to http, and ask depots in the clear for https.
    pub allow_downgrade: bool,
    /// The largest file.
    pub max_size: Option<Bytes>,
    /// Certificates (PEM) of further authorities to trust.
    pub ca: Option<PathBuf>,
    /// Use the proxies that the environment names.
    pub proxy_from_environment: bool,
    /// Always make a digest of what is received, to be reported.
    pub report_digest: bool,
    /// Ask depots for receipts of what limited the transfer.
    pub receipts: bool,
}

impl Options {
    /// How an attempt has ended that did all it was for.
    pub(crate) fn done(&self) -> AttemptEnd {
        if self.limit_rate.is_some() { AttemptEnd::LimitedByEnds } else { AttemptEnd::Done }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            routes: RouteTable::default(),
            chooser: None,
            limit_rate: None,
            connections: 8,
            retries: 5,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            stall_time: Duration::from_secs(30),
            min_rate: Rate::bits_per_second(8000),
            connect_timeout: Duration::from_secs(15),
            overwrite: false,
            skip_existing: false,
            resume: true,
            allow_unknown_length: false,
            save_encoded: false,
            allow_downgrade: false,
            max_size: None,
            ca: None,
            proxy_from_environment: false,
            report_digest: false,
            receipts: false,
        }
    }
}

/// Progress of a transfer, for display.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    held: AtomicU64,
    hops: AtomicU32,
    connections: AtomicU32,
    note: Mutex<Option<String>>,
}

impl Progress {
    pub(crate) fn set(&self, held: u64, total: Option<u64>) {
        self.held.store(held, Ordering::Relaxed);
        self.total.store(total.map_or(0, |total| total.saturating_add(1)), Ordering::Relaxed);
    }

    pub(crate) fn set_hops(&self, hops: u32) {
        self.hops.store(hops, Ordering::Relaxed);
    }

    pub(crate) fn set_connections(&self, connections: u32) {
        self.connections.store(connections, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, text: String) {
        *self.note.lock().expect("no panic while it is held") = Some(text);
    }

    /// Bytes that are there, of this or an earlier process.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The length of the file, where it is known.
    pub fn total(&self) -> Option<u64> {
        self.total.load(Ordering::Relaxed).checked_sub(1)
    }

    /// How many proxies the answer has passed.
    pub fn hops(&self) -> u32 {
        self.hops.load(Ordering::Relaxed)
    }

    /// How many connections are in use.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Takes the latest note that has not been taken yet: why an attempt failed.
    pub fn take_note(&self) -> Option<String> {
        self.note.lock().expect("no panic while it is held").take()
    }
}

/// How a transfer ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The bytes were transferred.
    Complete,
    /// They were there already.
    Unchanged,
    /// A file was there, and was not looked at.
    Skipped,
}

/// A digest of what was transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedDigest {
    /// The digest.
    pub digest: Digest,
    /// Whether it is what the user or the server promised.
    pub verified: bool,
}

/// The results of a transfer.
#[derive(Debug)]
pub struct Report {
    /// The URL, without credentials.
    pub url: String,
    /// The file; nothing for standard output or input.
    pub file: Option<PathBuf>,
    /// Length of the file, as far as it came.
    pub bytes: u64,
    /// Bytes that were there from an earlier process.
    pub resumed_bytes: u64,
    /// From the start to the end.
    pub seconds: f64,
    /// From the start to the first byte of a body.
    pub first_byte_seconds: Option<f64>,
    /// Requests for the file, redirects not counted.
    pub attempts: u32,
    /// The largest number of connections at one time.
    pub connections: u32,
    /// How many proxies the last answer has passed.
    pub hops: u32,
    /// Depots of the last route that this client chose, the nearest first. Empty without depots, or if the server redirected.
    pub via: Vec<String>,
    /// Of the whole file.
    pub digest: Option<ReportedDigest>,
    /// What limited it; only of downloads that were transferred.
    pub limits: Option<TransferLimits>,
    /// How it ended.
    pub result: Result<Status, Error>,
}

impl Report {
    /// Of a transfer that did not begin.
    pub fn refused(url: &str, error: Error) -> Self {
        Self {
            url: printable(&without_credentials(url), 8000),
            file: None,
            bytes: 0,
            resumed_bytes: 0,
            seconds: 0.0,
            first_byte_seconds: None,
            attempts: 0,
            connections: 0,
            hops: 0,
            via: Vec::new(),
            digest: None,
            limits: None,
            result: Err(error),
        }
    }

    /// Bits a second of what this process transferred.
    pub fn goodput_bps(&self) -> f64 {
        if self.seconds <= 0.0 || matches!(self.result, Ok(Status::Unchanged | Status::Skipped)) {
            return 0.0;
        }
        self.bytes.saturating_sub(self.resumed_bytes) as f64 * 8.0 / self.seconds
    }
}
