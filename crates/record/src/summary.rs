// SPDX-License-Identifier: GPL-2.0-or-later
//! `summary.json`: what came out, for each flow, each link, each traffic source and the run as a whole.
//!
//! Every key is always there; what the method cannot give is null. A flow whose transfer was cut
//! off keeps the figures up to then and says so in `timed_out` and `outcome`.

use crate::{Direction, Files, Metrics, stats};
use netmodel::{Counters, Spacing};
use serde::{Deserialize, Serialize};

/// What came out of one run.
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
    /// What traffic did: source by source, or of more than `most` sources together.
    pub fn traffic_up_to(&self, most: usize) -> Vec<TrafficSummary> {
        if self.traffic.len() > most { vec![self.traffic_together()] } else { self.traffic.clone() }
    }

    /// What all traffic sources did together, under a name that says how many they are.
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

/// One flow: data on its way from a source to a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// The flow's name in the scenario.
    pub name: String,
    /// The program that received the data: `curl`, `wget`, …
    #[serde(default)]
    pub client: Option<String>,
    /// Bytes of content that arrived.
    pub bytes: u64,
    /// Bytes of content that should have arrived; null for a flow that is limited by time.
    pub bytes_expected: Option<u64>,
    /// When the client was started, in seconds since the run's start.
    pub start_s: f64,
    /// When it ended, or was ended, in seconds since the run's start.
    pub end_s: f64,
    /// `end_s - start_s`: start-up, redirects and handshakes included.
    pub seconds: f64,
    /// `bytes * 8 / seconds`.
    pub goodput_bps: f64,
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
    /// What became of the flow, for people: "complete", "cut at the time limit of 60 s", …
    pub outcome: String,
    /// Its TCP connections in the direction of the data.
    pub hops: Vec<HopSummary>,
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
}

impl HopSummary {
    /// The bandwidth-delay product in full segments; `None` where one of its factors is not known.
    pub fn bdp_segments(&self) -> Option<f64> {
        let bits = self.bottleneck_bps? as f64 * (self.base_rtt_us? / 1e6);
        let segment = self.segment_bytes.filter(|bytes| *bytes > 0)?;
        Some(bits / 8.0 / segment as f64)
    }
}

/// One direction of one link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// The link's name in the scenario.
    pub name: String,
    /// `forward` (as the scenario names the link's ends) or `backward`.
    pub direction: String,
    /// The configured rate in bits a second; null for a link without one.
    pub rate_bps: Option<u64>,
    /// Bytes that went onto the link, headers included.
    pub bytes: u64,
    /// Segments that went onto the link; those that the queue dropped are not among them.
    pub segments: u64,
    /// Segments that the queue dropped: at its limit, or by its discipline before.
    pub queue_drops: u64,
    /// Of those, segments that the queue's discipline dropped; 0 in records made before there was this key.
    #[serde(default)]
    pub early_drops: u64,
    /// Segments that were lost on the link.
    pub losses: u64,
    /// Segments that the queue marked (ECN); 0 in records made before there was this key.
    #[serde(default)]
    pub marks: u64,
    /// Share of the rate that was used over the run, between 0 and 1.
    pub utilisation: Option<f64>,
    /// The longest queue, in bytes.
    pub queue_max_bytes: Option<u64>,
    /// The time a segment waited in the queue, by the mean over segments, in microseconds.
    pub queue_mean_delay_us: Option<f64>,
    /// The time from a segment's last bit on the link to the next one's first, by the mean, in
    /// microseconds; null where no two segments were seen.
    pub gap_mean_us: Option<f64>,
    /// The standard deviation of these gaps, in microseconds.
    pub gap_deviation_us: Option<f64>,
    /// The gap that one in a hundred does not exceed, to within 3.2 %, in microseconds.
    pub gap_p1_us: Option<f64>,
    /// The median gap, to within 3.2 %, in microseconds.
    pub gap_p50_us: Option<f64>,
    /// The gap that 99 in a hundred do not exceed, to within 3.2 %, in microseconds.
    pub gap_p99_us: Option<f64>,
    /// How many segments followed one another without a gap, by the mean over such bursts; a gap of
    /// up to an eighth of a segment is none.
    pub burst_mean_segments: Option<f64>,
    /// The longest burst.
    pub burst_max_segments: Option<u64>,
    /// Gap frames that went onto the link; they are in none of the figures above but `utilisation` and
    /// the queue's largest.
    #[serde(default)]
    pub gap_frames: u64,
    /// Their bytes.
    #[serde(default)]
    pub gap_bytes: u64,
}

impl LinkSummary {
    /// What one direction of a link of the netmodel counted; its rate and what follows from that is
    /// left out.
    pub fn counted(
        name: &str,
        direction: Direction,
        counters: &Counters,
        spacing: Option<&Spacing>,
    ) -> Self {
        let accepted = counters.offered - counters.queue_drops - counters.too_long;
        let mean_us = counters.queueing.as_nanos() as f64 / 1e3 / accepted.max(1) as f64;
        let gap = spacing.and_then(Spacing::gap);
        let quantile = |share| Some(spacing?.gap_quantile(share)?.as_nanos() as f64 / 1e3);
        Self {
            name: name.to_owned(),
            direction: direction.to_string(),
            bytes: counters.carried_bytes,
            segments: accepted,
            queue_drops: counters.queue_drops,
            early_drops: counters.early_drops,
            marks: counters.marks,
            losses: counters.losses,
            queue_max_bytes: Some(counters.queue_max_bytes),
            queue_mean_delay_us: Some(mean_us),
            gap_mean_us: gap.map(|gap| gap.mean_ns / 1e3),
            gap_deviation_us: gap.map(|gap| gap.deviation_ns / 1e3),
            gap_p1_us: quantile(0.01),
            gap_p50_us: quantile(0.5),
            gap_p99_us: quantile(0.99),
            burst_mean_segments: spacing.and_then(Spacing::burst_mean),
            burst_max_segments: spacing.and_then(Spacing::burst_max),
            gap_frames: counters.gaps,
            gap_bytes: counters.gap_bytes,
            ..Self::default()
        }
    }

    /// The share of the offered segments that the queue refused or the link lost; `None` when no
    /// segment was offered.
    pub fn loss_ratio(&self) -> Option<f64> {
        let offered = self.segments + self.queue_drops;
        let lost = self.queue_drops + self.losses;
        (offered > 0).then(|| lost as f64 / offered as f64)
    }
}

/// One traffic source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficSummary {
    /// Its name in the scenario.
    pub name: String,
    /// The node that sends the data.
    pub from: String,
    /// The node that receives it.
    pub to: String,
    /// What it sends: `files`, `cbr` or `on_off`.
    pub kind: String,
    /// When it began, in seconds since the run's start.
    pub start_s: f64,
    /// When the run was over, in seconds since its start.
    pub end_s: f64,
    /// What arrived: content in order, also of files that were not complete; of datagrams whole IP packets.
    pub bytes: u64,
    /// `bytes * 8` over the time from its beginning to the run's end.
    pub goodput_bps: f64,
    /// Files whose clients started; null for what is no files.
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
    pub fn with_files(self, files: &Files) -> Self {
        if self.files_offered.is_none() {
            return self;
        }
        let own = files.of(&self.name);
        let times = Files::completions_s(own);
        Self {
            files_recorded: Some(own.len() as u64),
            completion_p50_s: stats::quantile(&times, 0.5),
            completion_p99_s: stats::quantile(&times, 0.99),
            ..self
        }
    }
}

/// Whether a transfer counts, and as what. One rule for every table and page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It ended by itself, as it should.
    Complete,
    /// The time limit cut it off; it counts with what had arrived by then.
    Cut,
    /// It ended by itself, but not as it should; it is in no median.
    Failed,
    /// The run does not count, whatever came out; it is in no median.
    Invalid,
}

impl Standing {
    /// The standing of the flows of one client in a run that is valid or not.
    pub fn of<'a>(valid: bool, flows: impl IntoIterator<Item = &'a FlowSummary>) -> Self {
        let mut standing = if valid { Self::Complete } else { Self::Invalid };
        for flow in flows {
            standing = match standing {
                Self::Complete | Self::Cut if flow.failed() => Self::Failed,
                Self::Complete if flow.timed_out => Self::Cut,
                other => other,
            };
        }
        standing
    }

    /// As it stands in documents and tables for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }

    /// Whether the transfer goes into the medians.
    pub fn counts(self) -> bool {
        matches!(self, Self::Complete | Self::Cut)
    }
}

impl FlowSummary {
    /// Whether the flow ended by itself, but not as it should.
    fn failed(&self) -> bool {
        let short = self.bytes_expected.is_some_and(|expected| self.bytes != expected);
        let error = self.exit_code.is_some_and(|code| code != 0);
        !self.timed_out && (short || error || self.sha256_ok == Some(false))
    }
}
