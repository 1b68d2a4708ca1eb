// SPDX-License-Identifier: GPL-2.0-or-later
//! Medians over the repeats of a run, of all its flows together.

use super::range_keys;
use crate::{
    Metrics, RunResults,
    manifest::Point,
    repeats::{self, RepeatKey},
    stats::MedianRange,
};
use serde::Serialize;
use std::collections::HashMap;

/// The repeats of a run, and all their flows together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunMedians {
    /// The variant.
    pub variant: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// Flows of a run that are compared.
    pub flows: usize,
    /// Runs that the medians include.
    pub runs: usize,
    /// Runs that they do not include: invalid or failed ones.
    pub left_out: usize,
    /// Goodput of all flows together.
    #[serde(flatten, serialize_with = "range_keys::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// Jain's index of the flows' goodputs.
    #[serde(flatten, serialize_with = "range_keys::jain_index")]
    pub jain_index: Option<MedianRange>,
    /// The used share of the most used link.
    #[serde(flatten, serialize_with = "range_keys::utilisation")]
    pub utilisation: Option<MedianRange>,
    /// Segments sent again.
    #[serde(flatten, serialize_with = "range_keys::retransmits")]
    pub retransmits: Option<MedianRange>,
    /// The median goodput over that of the baseline variant at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// Medians over the repeats, of all flows together, and ratios to the baseline variant.
pub fn run_medians(records: &[RunResults], baseline: Option<&str>) -> Vec<RunMedians> {
    let groups = repeats::group(records, |record| record.manifest.repeat_key());
    let mut medians: Vec<RunMedians> = groups
        .into_iter()
        .map(|(RepeatKey { variant, point, .. }, all)| {
            let included: Vec<&Metrics> = all
                .iter()
                .filter(|record| record.verdict().in_medians())
                .map(|record| &record.summary.metrics)
                .collect();
            let range = |of: fn(&Metrics) -> Option<f64>| {
                MedianRange::of_values(included.iter().filter_map(|metrics| of(metrics)))
            };
            RunMedians {
                variant,
                point,
                flows: all[0].summary.compared_flows().count(),
                runs: included.len(),
                left_out: all.len() - included.len(),
                goodput_bps: range(|metrics| metrics.goodput_bps),
                jain_index: range(|metrics| metrics.jain_index),
                utilisation: range(|metrics| metrics.utilisation),
                retransmits: range(|metrics| metrics.retransmits.map(|count| count as f64)),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = medians
        .iter()
        .filter(|one| one.variant.as_deref() == baseline)
        .filter_map(|one| Some((one.point.clone(), one.goodput_bps?.median)))
        .collect();
    for one in medians.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&one.point);
        one.ratio_to_baseline = one.goodput_bps.zip(base).map(|(own, base)| own.median / base);
    }
    medians
}
