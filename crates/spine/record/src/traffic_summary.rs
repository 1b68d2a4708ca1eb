// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of one traffic source, as in `summary.json`.

use crate::{OfferedFiles, stats};
use serde::{Deserialize, Serialize};

/// One traffic source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficSummary {
    /// Its name in the scenario.
    pub name: String,
    /// The node that sends the data.
    pub from: String,
    /// The node that receives it.
    pub to: String,
    /// Kind of source: `files`, `cbr` or `on_off`.
    pub kind: String,
    /// When it began, in seconds since the run's start.
    pub start_s: f64,
    /// When the run was over, in seconds since its start.
    pub end_s: f64,
    /// Bytes that arrived: content in order, also of incomplete files; for datagrams, whole IP packets.
    pub bytes: u64,
    /// `bytes * 8` over the time from its beginning to the run's end.
    pub goodput_bps: f64,
    /// Files whose clients started; null for traffic other than files.
    pub files_offered: Option<u64>,
    /// Of those, the ones that arrived whole.
    pub files_completed: Option<u64>,
    /// Of those offered, the ones in `files.parquet`: all, or a sample.
    pub files_recorded: Option<u64>,
    /// Mean time from a client's start until it had its file, over all files that arrived whole.
    pub completion_mean_s: Option<f64>,
    /// The median of these times, over those in `files.parquet`.
    pub completion_p50_s: Option<f64>,
    /// The time that 99 in a hundred do not exceed, over those in `files.parquet`.
    pub completion_p99_s: Option<f64>,
}

impl TrafficSummary {
    /// Adds the quantiles of completion times, and how many files they are from.
    #[must_use]
    pub fn with_completion_quantiles(self, files: &OfferedFiles) -> Self {
        if self.files_offered.is_none() {
            return self;
        }
        let own = files.of_source(&self.name);
        let times = OfferedFiles::completion_times_s(own);
        Self {
            files_recorded: Some(own.len() as u64),
            completion_p50_s: stats::quantile(&times, 0.5),
            completion_p99_s: stats::quantile(&times, 0.99),
            ..self
        }
    }
}
