// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of one flow and of its hops, as in `summary.json`.

use crate::LimitShares;
use serde::{Deserialize, Serialize};

/// One flow: data on its way from a source to a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// The flow's name in the scenario.
    pub name: String,
    /// The program that received the data: `curl`, `wget`, …
    #[serde(default)]
    pub client: Option<String>,
    /// Whether it only loads the path in the other direction: it is in no metric of the run then.
    #[serde(default)]
    pub reverse: bool,
    /// Bytes of content that arrived.
    pub bytes: u64,
    /// Bytes of content that should have arrived; null for a flow that is limited by time.
    pub bytes_expected: Option<u64>,
    /// When the client was started, in seconds since the run's start.
    pub start_s: f64,
    /// When it ended, or was ended, in seconds since the run's start; `start_s` of a flow without a prediction.
    pub end_s: f64,
    /// `end_s - start_s`: start-up, redirects and handshakes included; null for a flow without a prediction.
    pub seconds: Option<f64>,
    /// `bytes * 8 / seconds`; null for a flow without a prediction.
    pub goodput_bps: Option<f64>,
    /// The form that a prediction is from; null for flows without one and by other methods than `model`.
    #[serde(default)]
    pub prediction: Option<PredictedFlow>,
    /// Segments sent again, on all hops.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, on all hops.
    pub timeouts: Option<u64>,
    /// Whether the received content's SHA-256 is the source's; null when nothing was compared.
    pub sha256_ok: Option<bool>,
    /// The client's exit code; null when it was ended by a signal or is not a program.
    pub exit_code: Option<i32>,
    /// Whether the run's time limit cut the transfer off.
    pub timed_out: bool,
    /// Outcome of the flow in words: "complete", "cut at the time limit of 60 s", …
    pub outcome: String,
    /// Its TCP connections in the direction of the data.
    pub hops: Vec<HopSummary>,
}

/// The closed form that a flow's goodput is from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictedFlow {
    /// The form, and where it is from.
    pub source: String,
    /// The lower end of the interval that 95 of 100 runs lie in; null where nothing is random.
    pub low_bps: Option<f64>,
    /// The upper end.
    pub high_bps: Option<f64>,
}

/// One TCP connection of a flow, seen from its sender.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HopSummary {
    /// Counted in the direction of the data; 0 leaves the source. Where the flow has several
    /// streams, the count goes on from one stream to the next, so it names a hop of the flow.
    pub index: u32,
    /// Which of the flow's parallel streams the hop belongs to, from 0.
    #[serde(default)]
    pub stream: u32,
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// The congestion control in force at the sender, as read back.
    pub congestion_control: Option<String>,
    /// Bytes acknowledged.
    pub bytes: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// The smallest round-trip time that the sender measured, in microseconds.
    pub min_rtt_us: Option<f64>,
    /// The smoothed round-trip time at the end, in microseconds.
    pub srtt_us: Option<f64>,
    /// The rate of the slowest link under the hop in the direction of the data, in bits a second;
    /// null where it is not known or no link has one.
    pub bottleneck_bps: Option<u64>,
    /// The hop's round-trip time with all queues empty, in microseconds, by the links' delays.
    pub base_rtt_us: Option<f64>,
    /// A full segment as it goes over the bottleneck, headers included, in bytes.
    pub segment_bytes: Option<u64>,
    /// Limits of the sender, as shares of the time from its first byte to the acknowledgement of its last; null if
    /// nothing was sent.
    #[serde(default)]
    pub limited: Option<LimitShares>,
}

impl HopSummary {
    /// The bandwidth-delay product in full segments; `None` where one of its factors is not known.
    pub fn bdp_segments(&self) -> Option<f64> {
        let bits = self.bottleneck_bps? as f64 * (self.base_rtt_us? / 1e6);
        let segment = self.segment_bytes.filter(|bytes| *bytes > 0)?;
        Some(bits / 8.0 / segment as f64)
    }
}

impl FlowSummary {
    /// Whether a method that predicts has no prediction of it. Its outcome says why.
    pub fn is_unpredicted(&self) -> bool {
        self.goodput_bps.is_none()
    }

    /// Whether the time limit came before the end of a flow that has one.
    pub fn is_cut_off(&self) -> bool {
        self.timed_out && self.bytes_expected.is_some()
    }

    /// Whether the flow ended by itself, but not as it should.
    pub(crate) fn failed(&self) -> bool {
        let short = self.bytes_expected.is_some_and(|expected| self.bytes != expected);
        let error = self.exit_code.is_some_and(|code| code != 0);
        !self.is_unpredicted()
            && !self.timed_out
            && (short || error || self.sha256_ok == Some(false))
    }
}
