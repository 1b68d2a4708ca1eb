// SPDX-License-Identifier: GPL-2.0-or-later
//! Medians over the repeats of a run, of traffic sources.

use super::range_keys;
use crate::{
    RunResults, Summary, TrafficSummary,
    manifest::Point,
    repeats::{self, RepeatKey},
    stats::MedianRange,
};
use serde::Serialize;

/// The repeats of a run, and one traffic source of theirs, or all together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficMedians {
    /// The variant.
    pub variant: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The source; null for all together.
    pub source: Option<String>,
    /// How many sources these medians are of.
    pub sources: usize,
    /// Runs that the medians include.
    pub runs: usize,
    /// Runs that they do not include: invalid or failed ones.
    pub left_out: usize,
    /// Files whose clients started.
    #[serde(flatten, serialize_with = "range_keys::files_offered")]
    pub files_offered: Option<MedianRange>,
    /// Files that arrived whole.
    #[serde(flatten, serialize_with = "range_keys::files_completed")]
    pub files_completed: Option<MedianRange>,
    /// Bytes that arrived.
    #[serde(flatten, serialize_with = "range_keys::bytes")]
    pub bytes: Option<MedianRange>,
    /// Goodput over the time in which the source could send.
    #[serde(flatten, serialize_with = "range_keys::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// The median completion time of each run.
    #[serde(flatten, serialize_with = "range_keys::completion_p50_s")]
    pub completion_p50_s: Option<MedianRange>,
    /// The 99th percentile of completion times of each run.
    #[serde(flatten, serialize_with = "range_keys::completion_p99_s")]
    pub completion_p99_s: Option<MedianRange>,
}

/// A run's traffic sources with their names, or all together without a name.
fn sources(record: &RunResults) -> Vec<(Option<String>, TrafficSummary)> {
    let apart = record.summary.traffic.len() <= Summary::MOST_LISTED;
    let sources = record.summary.listed_traffic().into_iter();
    sources.map(|source| (apart.then(|| source.name.clone()), source)).collect()
}

/// Medians over the repeats, of traffic sources.
pub fn traffic_medians(records: &[RunResults]) -> Vec<TrafficMedians> {
    let all: Vec<_> = records
        .iter()
        .flat_map(|record| sources(record).into_iter().map(move |source| (record, source)))
        .collect();
    let groups = repeats::group(&all, |(record, (source, _))| {
        (record.manifest.repeat_key(), source.clone())
    });
    let medians = |((key, source), all): ((RepeatKey, Option<String>), Vec<&(&RunResults, _)>)| {
        let included: Vec<&TrafficSummary> = all
            .iter()
            .filter(|(record, _)| record.verdict().in_medians())
            .map(|(_, (_, summary))| summary)
            .collect();
        let range = |of: fn(&TrafficSummary) -> Option<f64>| {
            MedianRange::of_values(included.iter().filter_map(|summary| of(summary)))
        };
        TrafficMedians {
            variant: key.variant,
            point: key.point,
            sources: if source.is_some() { 1 } else { all[0].0.summary.traffic.len() },
            source,
            runs: included.len(),
            left_out: all.len() - included.len(),
            files_offered: range(|of| of.files_offered.map(|files| files as f64)),
            files_completed: range(|of| of.files_completed.map(|files| files as f64)),
            bytes: range(|of| Some(of.bytes as f64)),
            goodput_bps: range(|of| Some(of.goodput_bps)),
            completion_p50_s: range(|of| of.completion_p50_s),
            completion_p99_s: range(|of| of.completion_p99_s),
        }
    };
    groups.into_iter().map(medians).collect()
}
