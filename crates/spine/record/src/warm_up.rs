// SPDX-License-Identifier: GPL-2.0-or-later
//! Results after a warm-up: the summary as if the run had begun later, from its series.
//!
//! A flow that began before the cut is treated as if it began at the cut, with the bytes that it received after it;
//! one that had ended by then is left out. Values that the series do not contain for the time after the cut are null:
//! timeouts, completion times of flows, how long something took from a start. Samples are interpolated at
//! the cut, so figures are off by a part of what came between two samples at most.

use crate::{
    Curve, Direction, Entity, FlowSummary, HopSummary, LinkSummary, Metrics, OfferedFiles,
    Quantity, Series, Summary, goodput_bps, metric::is_after_warm_up, metrics::FlowMetrics, stats,
};
use serde::{Serialize, de::DeserializeOwned};
use std::ops::Range;

/// The keys of a flow's summary, without its metrics, that can be had after a warm-up.
const FLOW_SUMMARY: [&str; 6] =
    ["bytes", "start_s", "end_s", "seconds", "goodput_bps", "retransmits"];

/// Whether a key of a run's metrics can be had after a warm-up.
pub fn keeps_of_run(key: &str) -> bool {
    is_after_warm_up(key, false)
}

/// Whether a key of a flow's summary or metrics can be had after a warm-up.
pub fn keeps_of_flow(key: &str) -> bool {
    FLOW_SUMMARY.contains(&key) || is_after_warm_up(key, true)
}

/// The keys of a link's summary that can be had after a warm-up.
pub const LINK_METRICS: [&str; 6] =
    ["rate_bps", "bytes", "queue_drops", "losses", "utilisation", "queue_max_bytes"];

/// The keys of a hop's summary that can be had after a warm-up.
pub const HOP_METRICS: [&str; 5] =
    ["bytes", "retransmits", "bottleneck_bps", "base_rtt_us", "segment_bytes"];

impl Summary {
    /// Results after the first `cut_s` seconds. `None` if a flow that was active then was not
    /// sampled. Traffic metrics cover only files whose clients started after the cut.
    #[must_use]
    pub fn after_warm_up(&self, cut_s: f64, series: &Series, files: &OfferedFiles) -> Option<Self> {
        let going = self.flows.iter().filter(|flow| flow.end_s > cut_s);
        let flows: Vec<FlowSummary> =
            going.map(|flow| flow.after(cut_s, series)).collect::<Option<_>>()?;
        let last = series.curves().filter_map(|(_, _, curve)| Some(curve.span_s()?.1));
        let end_s = match flows.iter().map(|flow| flow.end_s).reduce(f64::max) {
            Some(end) => end,
            None => last.fold(cut_s, f64::max),
        };
        let links: Vec<LinkSummary> =
            self.links.iter().map(|link| link.within(&(cut_s..end_s), series)).collect();
        let metrics = Metrics::compute(&flows, &links, &series.after(cut_s));
        let metrics = Metrics {
            // The series do not tell how much of what a link carried later was background.
            efficiency: metrics.efficiency.filter(|_| !self.has_background()),
            ..after_cut(&metrics, &links, cut_s, files)
        };
        Some(Self { flows, links, traffic: Vec::new(), metrics })
    }
}

impl Summary {
    fn has_background(&self) -> bool {
        self.links.iter().any(|link| link.background_bytes.is_some_and(|bytes| bytes > 0))
    }
}

/// The metrics that mean something after a cut.
fn after_cut(all: &Metrics, links: &[LinkSummary], cut_s: f64, files: &OfferedFiles) -> Metrics {
    let later = || files.rows.iter().filter(|file| file.start_s >= cut_s);
    let times: Vec<f64> = later().filter_map(|file| file.completion_s).collect();
    let flows = all.flows.iter().map(|flow| FlowMetrics {
        name: flow.name.clone(),
        ..without(flow, |key| !is_after_warm_up(key, true))
    });
    Metrics {
        utilisation: links.iter().filter_map(|link| link.utilisation).reduce(f64::max),
        file_completion_mean_s: stats::mean(&times),
        file_completion_p50_s: stats::quantile(&times, 0.5),
        file_completion_p99_s: stats::quantile(&times, 0.99),
        flows: flows.collect(),
        ..without(all, |key| !is_after_warm_up(key, false))
    }
}

/// The same with the defaults for some of its keys.
fn without<T: Default + Serialize + DeserializeOwned>(all: &T, left_out: fn(&str) -> bool) -> T {
    let [mut all, none] =
        [all, &T::default()].map(|it| serde_json::to_value(it).expect("plain data"));
    for (key, value) in all.as_object_mut().into_iter().flatten() {
        if left_out(key) {
            *value = none[key].clone();
        }
    }
    serde_json::from_value(all).expect("the same keys")
}

impl FlowSummary {
    fn after(&self, cut_s: f64, series: &Series) -> Option<Self> {
        if self.start_s >= cut_s {
            return Some(Self { timeouts: None, ..self.clone() });
        }
        let received = series.curve(&Entity::Flow(self.name.clone()), Quantity::ReceivedBytes)?;
        let bytes = less(self.bytes, received, cut_s);
        let seconds = self.end_s - cut_s;
        let hops: Vec<HopSummary> =
            self.hops.iter().map(|hop| hop.after(&self.name, cut_s, series)).collect();
        Some(Self {
            bytes,
            bytes_expected: None,
            start_s: cut_s,
            seconds: Some(seconds),
            goodput_bps: Some(goodput_bps(bytes, seconds)),
            retransmits: hops.iter().map(|hop| hop.retransmits).sum(),
            timeouts: None,
            hops,
            ..self.clone()
        })
    }
}

impl HopSummary {
    fn after(&self, flow: &str, cut_s: f64, series: &Series) -> Self {
        let entity = Entity::Hop { flow: flow.to_owned(), index: self.index };
        let rest =
            |all: Option<u64>, quantity| Some(less(all?, series.curve(&entity, quantity)?, cut_s));
        Self {
            bytes: rest(self.bytes, Quantity::AckedBytes),
            retransmits: rest(self.retransmits, Quantity::Retransmits),
            timeouts: None,
            ..self.clone()
        }
    }
}

/// The part of a running total after the cut.
fn less(all: u64, total: &Curve, cut_s: f64) -> u64 {
    // Before the first sample there was nothing.
    let early = total.span_s().is_none_or(|(first, _)| cut_s < first);
    let before = if early { 0.0 } else { total.at(cut_s) };
    (all as f64 - before).max(0.0).round() as u64
}

impl LinkSummary {
    fn within(&self, span_s: &Range<f64>, series: &Series) -> Self {
        let direction = match self.direction.as_str() {
            "backward" => Direction::Backward,
            _ => Direction::Forward,
        };
        let entity = Entity::Link { name: self.name.clone(), direction };
        let sum = |quantity| {
            let curve = series.curve(&entity, quantity);
            curve.map_or(0.0, |curve| curve.since(span_s.start).value.iter().sum()) as u64
        };
        let queue = series.curve(&entity, Quantity::QueueBytes);
        let carried = series
            .curve(&entity, Quantity::ThroughputBps)
            .and_then(|bins| carried_bytes(bins, span_s));
        let seconds = span_s.end - span_s.start;
        let share = |rate: u64| Some(carried? * 8.0 / (rate as f64 * seconds));
        Self {
            name: self.name.clone(),
            direction: self.direction.clone(),
            rate_bps: self.rate_bps,
            bytes: carried.unwrap_or(0.0).round() as u64,
            queue_drops: sum(Quantity::Drops),
            losses: sum(Quantity::Losses),
            utilisation: self.rate_bps.filter(|_| seconds > 0.0).and_then(share),
            queue_max_bytes: queue.map(|queue| {
                queue.since(span_s.start).value.iter().copied().fold(0.0, f64::max) as u64
            }),
            ..Self::default()
        }
    }
}

/// Bytes in the bins of a monitor within a span. Bins at its ends are weighted by their part in it.
fn carried_bytes(bins: &Curve, span_s: &Range<f64>) -> Option<f64> {
    let width_s = bins.time_s.get(1)? - bins.time_s[0];
    let part = |(from, bps): (&f64, &f64)| {
        let inside = span_s.end.min(from + width_s) - span_s.start.max(*from);
        bps / 8.0 * inside.max(0.0)
    };
    Some(bins.time_s.iter().zip(&bins.value).map(part).sum())
}

impl Series {
    /// The samples at and after a time. Running totals have one at that time, interpolated.
    fn after(&self, cut_s: f64) -> Self {
        let mut after = Self::default();
        for (entity, quantity, curve) in self.curves() {
            let mut rest = curve.since(cut_s);
            let first_s = rest.time_s.first().copied();
            let began = curve.span_s().is_some_and(|(first, _)| first < cut_s);
            if quantity.is_total() && began && first_s.is_some_and(|first| first > cut_s) {
                rest.time_s.insert(0, cut_s);
                rest.value.insert(0, curve.at(cut_s));
            }
            *after.curve_mut(entity, quantity) = rest;
        }
        after
    }
}

impl Curve {
    fn since(&self, time_s: f64) -> Self {
        let from = self.time_s.partition_point(|t| *t < time_s);
        Self { time_s: self.time_s[from..].to_vec(), value: self.value[from..].to_vec() }
    }
}

impl Quantity {
    /// Whether it counts from the run's start.
    fn is_total(self) -> bool {
        matches!(
            self,
            Self::AckedBytes | Self::DeliveredBytes | Self::Retransmits | Self::ReceivedBytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OfferedFile;

    /// A flow that receives 100 bytes a second for 10 s, and then 300; with a sample each second.
    fn series(name: &str, seconds: u32) -> Series {
        let mut series = Series::default();
        let received = series.curve_mut(&Entity::Flow(name.into()), Quantity::ReceivedBytes);
        for t in 0..=seconds {
            let bytes = if t <= 10 { 100 * t } else { 1000 + 300 * (t - 10) };
            received.push(t.into(), bytes.into());
        }
        let hop = Entity::Hop { flow: name.into(), index: 0 };
        for t in 0..=seconds {
            series.push(&hop, Quantity::Retransmits, t.into(), f64::from(t / 2));
            series.push(&hop, Quantity::SrttUs, t.into(), if t < 10 { 9000.0 } else { 1000.0 });
        }
        let link = Entity::Link { name: "haul".into(), direction: Direction::Forward };
        for t in 0..seconds {
            let bps = if t < 10 { 800.0 } else { 2400.0 };
            series.push(&link, Quantity::ThroughputBps, t.into(), bps);
            series.push(&link, Quantity::Drops, t.into(), 1.0);
        }
        series
    }

    fn summary() -> Summary {
        let flow = |name: &str, start_s: f64, end_s: f64, bytes: u64| FlowSummary {
            name: name.into(),
            bytes,
            start_s,
            end_s,
            seconds: Some(end_s - start_s),
            goodput_bps: Some(bytes as f64 * 8.0 / (end_s - start_s)),
            retransmits: Some(10),
            timeouts: Some(1),
            hops: vec![HopSummary { retransmits: Some(10), ..HopSummary::default() }],
            ..FlowSummary::default()
        };
        let link = LinkSummary {
            name: "haul".into(),
            direction: "forward".into(),
            rate_bps: Some(4800),
            bytes: 4000,
            segments: 40,
            utilisation: Some(0.3),
            ..LinkSummary::default()
        };
        Summary {
            flows: vec![
                flow("file", 0.0, 20.0, 4000),
                flow("early", 0.0, 5.0, 100),
                flow("late", 12.0, 20.0, 2400),
            ],
            links: vec![link],
            ..Summary::default()
        }
    }

    #[test]
    fn figures_are_those_of_the_time_after_the_cut() {
        let file = |number, start_s, completion_s| OfferedFile {
            source: "web".into(),
            number,
            start_s,
            size_bytes: Some(1),
            completion_s: Some(completion_s),
        };
        let files = OfferedFiles { rows: vec![file(1, 9.0, 100.0), file(2, 10.0, 0.5)] };
        let after = summary().after_warm_up(10.0, &series("file", 20), &files).unwrap();
        let names: Vec<&str> = after.flows.iter().map(|flow| flow.name.as_str()).collect();
        assert_eq!(names, ["file", "late"], "one had ended");
        let (cut, late) = (&after.flows[0], &after.flows[1]);
        assert_eq!((cut.start_s, cut.bytes, cut.goodput_bps), (10.0, 3000, Some(2400.0)));
        assert_eq!((cut.retransmits, cut.timeouts), (Some(5), None));
        assert_eq!((late.start_s, late.bytes, late.goodput_bps), (12.0, 2400, Some(2400.0)));
        let metrics = &after.metrics;
        // 5400 bytes in 10 s; both flows alike.
        assert_eq!((metrics.goodput_bps, metrics.jain_index), (Some(4320.0), Some(1.0)));
        assert_eq!(metrics.flows[0].rtt_mean_us, Some(1000.0));
        assert_eq!((metrics.drops, metrics.timeouts), (Some(10), None));
        assert_eq!(metrics.completion_mean_s, None);
        assert_eq!(metrics.file_completion_p99_s, Some(0.5));
        let link = &after.links[0];
        assert_eq!((link.bytes, link.utilisation, link.queue_drops), (3000, Some(0.5), 10));
    }

    #[test]
    fn a_cut_between_samples_is_interpolated() {
        let after =
            summary().after_warm_up(10.5, &series("file", 20), &OfferedFiles::default()).unwrap();
        assert_eq!((after.flows[0].bytes, after.flows[0].goodput_bps), (2850, Some(2400.0)));
        assert_eq!(after.links[0].bytes, 2850);
    }

    #[test]
    fn a_flow_that_was_not_sampled_cannot_be_cut() {
        assert_eq!(
            summary().after_warm_up(10.0, &series("other", 20), &OfferedFiles::default()),
            None
        );
        // With nothing to cut, all stays.
        let after =
            summary().after_warm_up(0.0, &series("other", 20), &OfferedFiles::default()).unwrap();
        assert_eq!(after.flows.len(), 3);
        assert_eq!(after.flows[0].bytes, summary().flows[0].bytes);
    }

    #[test]
    fn listed_run_metrics_match_the_summary() {
        let after =
            summary().after_warm_up(10.0, &series("file", 20), &OfferedFiles::default()).unwrap();
        let value = serde_json::to_value(&after.metrics).unwrap();
        for (key, value) in value.as_object().unwrap().iter().filter(|(key, _)| *key != "flows") {
            let known = !value.is_null() && !value.as_array().is_some_and(Vec::is_empty);
            assert!(!known || keeps_of_run(key), "{key} is not listed");
        }
    }
}
