// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's record: one folder with `manifest.json`, `series.parquet` and `summary.json`, and
//! `files.parquet` where traffic offered files.
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

pub mod columns;
mod error;
mod files;
mod folder;
pub mod manifest;
pub mod metrics;
mod series;
mod series_file;
pub mod stats;
pub mod summary;
pub mod warm_up;

pub use error::Error;
pub use files::{Files, OfferedFile};
pub use folder::{Record, find_records};
pub use manifest::{Manifest, SCHEMA};
pub use metrics::Metrics;
pub use series::{Curve, Direction, Entity, Quantity, Series};
pub use summary::{FlowSummary, HopSummary, LinkSummary, Standing, Summary, TrafficSummary};
