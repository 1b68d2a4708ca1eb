// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of one direction of a link, as in `summary.json`.

use crate::Direction;
use netmodel::{Counters, GapStatistics};
use serde::{Deserialize, Serialize};

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
    /// Segments that the policer dropped; 0 in records made before there was this key, as are the next three.
    #[serde(default)]
    pub policed: u64,
    /// Of the losses, segments that were lost in an outage.
    #[serde(default)]
    pub outage_losses: u64,
    /// Segments that came late by chance.
    #[serde(default)]
    pub late: u64,
    /// Copies of segments that arrived, too.
    #[serde(default)]
    pub copies: u64,
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
    /// Of `bytes`, those of traffic and of reverse flows, with their acknowledgements; null where the method
    /// does not count them apart.
    #[serde(default)]
    pub background_bytes: Option<u64>,
}

impl LinkSummary {
    /// Converts the counters of one direction of a netmodel link. The rate and values that depend on it are
    /// left out.
    pub fn from_counters(
        name: &str,
        direction: Direction,
        counters: &Counters,
        spacing: Option<&GapStatistics>,
    ) -> Self {
        let accepted =
            counters.offered - counters.queue_drops - counters.policed - counters.too_long;
        let mean_us = counters.queueing.as_nanos() as f64 / 1e3 / accepted.max(1) as f64;
        let gap = spacing.and_then(GapStatistics::gap);
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
            policed: counters.policed,
            outage_losses: counters.outage_losses,
            late: counters.late,
            copies: counters.copies,
            queue_max_bytes: Some(counters.queue_max_bytes),
            queue_mean_delay_us: Some(mean_us),
            gap_mean_us: gap.map(|gap| gap.mean_ns / 1e3),
            gap_deviation_us: gap.map(|gap| gap.deviation_ns / 1e3),
            gap_p1_us: quantile(0.01),
            gap_p50_us: quantile(0.5),
            gap_p99_us: quantile(0.99),
            burst_mean_segments: spacing.and_then(GapStatistics::burst_mean),
            burst_max_segments: spacing.and_then(GapStatistics::burst_max),
            gap_frames: counters.gaps,
            gap_bytes: counters.gap_bytes,
            ..Self::default()
        }
    }

    /// Bytes of the flows that are compared, and of all others where they are not counted apart.
    pub fn compared_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.background_bytes.unwrap_or(0))
    }

    /// The share of the offered segments that the queue refused or the link lost; `None` when no
    /// segment was offered.
    pub fn loss_ratio(&self) -> Option<f64> {
        let offered = self.segments + self.queue_drops + self.policed;
        let lost = self.queue_drops + self.policed + self.losses;
        (offered > 0).then(|| lost as f64 / offered as f64)
    }
}
