// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's record: one folder with `manifest.json`, `series.parquet`, `bins.parquet` and `summary.json`,
//! and `files.parquet` where traffic offered files.
//!
//! The format is the contract between whatever runs a scenario and whatever looks at the result,
//! now or years later, here or in Python; `docs/record.md` describes it for readers without this
//! crate. The rules:
//!
//! - A record is written whole or not at all ([`Record::write`]) and never changed.
//! - Its keys and columns carry their units (`_bps`, `_bytes`, `_us`, `_s`), so the structures here
//!   hold plain numbers: they mirror the files.
//! - A summary has the same keys whatever the method; what a method cannot give is null.
//! - Reading skips what it does not know, and refuses a newer [`SCHEMA`].
//!
//! Nothing here runs anything, and no clock is read: the only I/O is the folder itself.

mod directory;
mod error;
mod flow_limits;
mod flow_summary;
mod goodput;
mod link_summary;
pub mod manifest;
pub mod metric;
pub mod metrics;
mod offered_files;
pub mod parquet_table;
pub mod repeats;
pub mod results;
mod run_results;
mod series;
mod series_file;
pub mod stats;
mod summary;
mod traffic_summary;
pub mod units;
mod verdict;
pub mod warm_up;

pub use directory::{Record, find_records};
pub use error::Error;
pub use flow_limits::{LimitedBy, mean_share, slowest_hop};
pub use flow_summary::{FlowSummary, HopSummary, PredictedFlow};
pub use goodput::goodput_bps;
pub use limits::{Limit, LimitShares, LimitTimes, SenderState};
pub use link_summary::LinkSummary;
pub use manifest::{Manifest, SCHEMA};
pub use metrics::Metrics;
pub use offered_files::{OfferedFile, OfferedFiles};
pub use run_results::RunResults;
pub use series::{Curve, Direction, Entity, Quantity, Series};
pub use summary::Summary;
pub use traffic_summary::TrafficSummary;
pub use verdict::RunVerdict;
