// SPDX-License-Identifier: GPL-2.0-or-later
//! `summary.json`: what came out, for each flow, each link, each traffic source and the run as a whole.
//!
//! Every key is always there; what the method cannot give is null. A flow whose transfer was cut
//! off keeps the figures up to then and says so in `timed_out` and `outcome`.

use crate::{FlowSummary, LinkSummary, Metrics, TrafficSummary};
use serde::{Deserialize, Serialize};

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowSummary>,
    /// Both directions of every link.
    pub links: Vec<LinkSummary>,
    /// The traffic sources, in the scenario's order; none in records from before they were kept.
    #[serde(default)]
    pub traffic: Vec<TrafficSummary>,
    /// The metrics of Guillier's tables; see `docs/metrics.md`.
    pub metrics: Metrics,
}

impl Summary {
    /// The maximum number of flows or traffic sources that are listed one by one; results of more are those of
    /// all together.
    pub const MOST_LISTED: usize = 8;

    /// The flows that are compared: all but those that load the path in the other direction.
    pub fn compared_flows(&self) -> impl Iterator<Item = &FlowSummary> {
        self.flows.iter().filter(|flow| !flow.reverse)
    }

    /// The traffic sources one by one, or of more than [`Self::MOST_LISTED`] all together.
    pub fn listed_traffic(&self) -> Vec<TrafficSummary> {
        if self.traffic.len() > Self::MOST_LISTED {
            vec![self.traffic_together()]
        } else {
            self.traffic.clone()
        }
    }

    /// Sum of all traffic sources, under a name that contains their number.
    fn traffic_together(&self) -> TrafficSummary {
        TrafficSummary {
            name: format!("{} sources", self.traffic.len()),
            bytes: self.traffic.iter().map(|source| source.bytes).sum(),
            goodput_bps: self.metrics.traffic_goodput_bps.unwrap_or(0.0),
            files_offered: self.metrics.files_offered,
            files_completed: self.metrics.files_completed,
            completion_mean_s: self.metrics.file_completion_mean_s,
            completion_p50_s: self.metrics.file_completion_p50_s,
            completion_p99_s: self.metrics.file_completion_p99_s,
            ..TrafficSummary::default()
        }
    }
}
