// SPDX-License-Identifier: GPL-2.0-or-later
//! Medians over the repeats of a run, flow by flow.

use super::{flow::FlowResult, range_keys};
use crate::{
    Limit, LimitedBy, RunVerdict,
    manifest::Point,
    mean_share,
    repeats::{self, RepeatKey},
    stats::MedianRange,
};
use serde::Serialize;
use std::collections::HashMap;

/// The repeats of a run, and one flow of theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowMedians {
    /// The variant.
    pub variant: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The flow.
    pub flow: String,
    /// The client.
    pub client: Option<String>,
    /// Runs that the medians include.
    pub runs: usize,
    /// Runs that they do not include: invalid or failed ones, and those without a prediction.
    pub left_out: usize,
    /// Of those included, the ones that the time limit cut off, with what they moved.
    pub timed_out: usize,
    /// Why there is no prediction; null where there is one and by methods that measure.
    pub unpredicted: Option<String>,
    /// Goodput.
    #[serde(flatten, serialize_with = "range_keys::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// Completion time.
    #[serde(flatten, serialize_with = "range_keys::seconds")]
    pub seconds: Option<MedianRange>,
    /// Its strongest limit.
    pub limited_by: Option<LimitedBy>,
    /// How much of the time its recovery waited for the receive window, 0 to 1; null where that is not known.
    pub window_in_recovery: Option<f64>,
    /// The median over that of the baseline variant at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// Medians over the repeats, flow by flow, and ratios to the baseline variant.
pub fn flow_medians(results: &[FlowResult], baseline: Option<&str>) -> Vec<FlowMedians> {
    let groups = repeats::group(results, |r| (r.repeat_key(), r.flow.clone()));
    let mut medians: Vec<FlowMedians> = groups
        .into_iter()
        .map(|((RepeatKey { variant, point, .. }, flow), all)| {
            let included = || all.iter().filter(|r| r.verdict.in_medians());
            let limited: Vec<_> = included().filter_map(|r| r.limited).collect();
            FlowMedians {
                variant,
                point,
                flow,
                client: all[0].client.clone(),
                runs: included().count(),
                left_out: all.len() - included().count(),
                unpredicted: all
                    .iter()
                    .find(|r| r.verdict == RunVerdict::Unpredicted)
                    .map(|r| r.outcome.clone()),
                timed_out: included().filter(|r| r.timed_out).count(),
                goodput_bps: MedianRange::of_values(included().filter_map(|r| r.goodput_bps)),
                seconds: MedianRange::of_values(included().filter_map(|r| r.seconds)),
                limited_by: LimitedBy::of_mean(&limited),
                window_in_recovery: mean_share(&limited, Limit::WindowInRecovery),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = medians
        .iter()
        .filter(|one| one.variant.as_deref() == baseline)
        .filter_map(|one| Some(((one.point.clone(), one.flow.clone()), one.goodput_bps?.median)))
        .collect();
    for one in medians.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&(one.point.clone(), one.flow.clone()));
        one.ratio_to_baseline = one.goodput_bps.zip(base).map(|(own, base)| own.median / base);
    }
    medians
}
