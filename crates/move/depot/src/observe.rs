// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a depot: what it is doing, what it has done, and who may see it.
//!
//! ```text
//! connection, exchange ──▶ entry     all that is known of one request; at its end:
//!                            ├─▶ registry   counters, by outcome, reason and hop
//!                            └─▶ access_log one line, to standard error or a file
//! admin ──▶ view ──▶ registry   counters + transfers under way + TCP_INFO of their sockets
//!             └──▶ status        one document, of which /metrics is another form
//! ```
//! Observation never delays a transfer: bytes are counted in existing atomics, sockets are queried only when
//! the status is requested, and the log has its own thread.

mod access_log;
mod admin;
mod client;
mod counters;
mod counts;
mod credentials;
mod entry;
mod histogram;
mod hops;
mod line;
mod lines;
mod live;
mod metrics;
mod outcome;
mod overlay_status;
mod page;
mod receipt;
mod registry;
mod statistics;
pub mod status;
mod sums;
mod throughput;
mod view;
mod withdrawal;

pub use access_log::AccessLogError;
pub(crate) use admin::serve;
pub use client::{FetchError, fetch};
pub use counters::Counters;
pub(crate) use credentials::{UsedLogin, UsedTicket};
pub(crate) use entry::{Entry, OWN_DEFECT};
pub(crate) use hops::Clients;
pub use lines::StderrLog;
pub(crate) use live::{Asked, Live};
pub(crate) use outcome::{Direction, Fate, Outcome, in_words};
pub(crate) use registry::Ended;
pub(crate) use throughput::Throughput;
pub(crate) use view::View;
pub(crate) use withdrawal::Withdrawal;

use crate::{config::Config, packet_pacing::Paced, trace::Requests};
use access_log::AccessLog;
use counts::Counts;
use receipt::Receipts;
use registry::{Reading, Registry};
use relay::buffers::Holding;
use std::sync::Arc;

/// What all requests of a depot are told to.
#[derive(Debug)]
pub(crate) struct Observer {
    registry: Arc<Registry>,
    log: AccessLog,
    /// Counters that are not per request.
    pub counts: Counts,
    /// Generates ids of requests.
    requests: Requests,
    /// What can be asked for of ended transfers, too.
    pub receipts: Receipts,
}

impl Observer {
    /// For a depot that starts.
    pub(crate) fn new(
        config: &Config,
        paced: Arc<Paced>,
        stderr: StderrLog,
    ) -> Result<Arc<Self>, AccessLogError> {
        let (registry, log) = (Registry::new(config, paced), AccessLog::open(&config.log, stderr)?);
        Ok(Arc::new(Self {
            registry,
            log,
            counts: Counts::new(),
            requests: Requests::default(),
            receipts: Receipts::default(),
        }))
    }

    /// Measures the rates, and tells the log of transfers that last. To be called every second or so.
    pub(crate) fn look(&self) {
        self.registry.look();
        self.receipts.tidy();
        for live in self.registry.transfers(Live::is_to_be_announced) {
            live.announce(&self.log);
        }
    }

    /// Looks at the sockets of transfers, for their receipts: of all, or of some in turn where there are many. To be called
    /// ten times a second.
    pub(crate) fn note_limits(&self) {
        for live in self.registry.next_to_note() {
            live.note_limits();
        }
    }

    /// How many transfers have begun so far; the most that were under way at a time since this was last
    /// asked, and how many are now.
    pub(crate) fn crest(&self) -> (u64, (usize, usize)) {
        self.registry.crest()
    }

    /// What all transfers move together, and how many are under way.
    pub(crate) fn throughput(&self) -> (Throughput, usize) {
        self.registry.throughput()
    }

    /// All statistics of this process.
    pub(crate) fn read(&self) -> Reading {
        let mut reading = self.registry.read();
        reading.counters.add(&self.counts.read());
        reading.counters.dropped_lines = self.log.dropped();
        reading
    }

    /// The number of the last transfer.
    pub(crate) fn last_number(&self) -> u64 {
        self.registry.last_number()
    }

    /// Numbers the transfers from here on.
    pub(crate) fn number_from(&self, number: u64) {
        self.registry.number_from(number);
    }

    /// The sockets of all transfers under way, to be looked at.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        self.registry.holdings()
    }

    /// The transfers under way that are so.
    pub(crate) fn transfers(&self, are: impl Fn(&Live) -> bool) -> Vec<Arc<Live>> {
        self.registry.transfers(are)
    }

    /// Reopens the access log's file, after a log rotation has renamed it.
    pub(crate) fn reopen(&self) {
        self.log.reopen();
    }

    /// Waits until the last lines are written, but not for long.
    pub(crate) fn finish(&self) {
        self.log.finish();
    }
}
