// SPDX-License-Identifier: GPL-2.0-or-later
//! Mean, deviation and confidence interval of every metric over the repeats of a run.

use crate::{
    FlowSummary, RunResults, RunVerdict, Summary,
    manifest::Point,
    repeats::{self, RepeatKey},
    stats,
    units::Unit,
};
use serde::Serialize;
use serde_json::Value;

/// One metric of the repeats of a run, or of one flow of theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricInterval {
    /// The variant.
    pub variant: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The flow; null for all of a run together.
    pub flow: Option<String>,
    /// A key of `metrics` in `summary.json`, or of a flow's.
    pub metric: String,
    /// Its unit.
    pub unit: &'static str,
    /// Runs that have a value.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// The standard deviation (n - 1); null below two values.
    pub standard_deviation: Option<f64>,
    /// Half the width of the mean's 95 % confidence interval, by Student's t; null below two values.
    pub ci95_half_width: Option<f64>,
}

/// Keys of a flow's summary that are metrics.
const OF_FLOW: [&str; 4] = ["goodput_bps", "seconds", "retransmits", "timeouts"];

/// A metric's name and its value in one run.
type Named = (String, f64);

/// Every metric that is a number, of all flows together and then flow by flow. Runs that medians leave out are left out,
/// and the time of a transfer that the time limit cut off: it is only a lower bound.
pub fn intervals(records: &[RunResults]) -> Vec<MetricInterval> {
    intervals_by(records, |record| record.manifest.repeat_key())
}

/// The same of runs that share another key than repeats do.
pub fn intervals_by(
    records: &[RunResults],
    key: impl Fn(&RunResults) -> RepeatKey,
) -> Vec<MetricInterval> {
    let included = records.iter().filter(|record| record.verdict().in_medians());
    let mut all = Vec::new();
    for (key, runs) in repeats::group(included, |record| key(record)) {
        let summaries: Vec<&Summary> = runs.iter().map(|run| &run.summary).collect();
        let together = summaries.iter().flat_map(|summary| numbers(&summary.metrics));
        add(&mut all, &key, None, together);
        let names = summaries.iter().flat_map(|summary| &summary.flows).map(|flow| &flow.name);
        for (name, _) in repeats::group(names, |name| *name) {
            let values = summaries.iter().flat_map(|summary| of_flow(summary, name));
            add(&mut all, &key, Some(name), values);
        }
    }
    all
}

fn add(
    all: &mut Vec<MetricInterval>,
    key: &RepeatKey,
    flow: Option<&String>,
    values: impl Iterator<Item = Named>,
) {
    for (metric, values) in repeats::group(values, |(name, _)| name.clone()) {
        let sample: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
        let Some(estimate) = stats::mean_ci95(&sample) else { continue };
        all.push(MetricInterval {
            variant: key.variant.clone(),
            point: key.point.clone(),
            flow: flow.cloned(),
            unit: Unit::of_key(&metric).name(),
            metric,
            runs: sample.len(),
            mean: estimate.mean,
            standard_deviation: stats::sample_deviation(&sample),
            ci95_half_width: estimate.half_width,
        });
    }
}

fn of_flow(summary: &Summary, name: &String) -> Vec<Named> {
    let Some(flow) = summary.flows.iter().find(|flow| flow.name == *name) else {
        return Vec::new();
    };
    let is_bound = |key: &str| key == "seconds" && RunVerdict::of(true, [flow]) == RunVerdict::Cut;
    let own = numbers::<FlowSummary>(flow).into_iter();
    let own = own.filter(|(key, _)| OF_FLOW.contains(&key.as_str()) && !is_bound(key));
    let metrics = summary.metrics.flows.iter().find(|metrics| metrics.name == *name);
    own.chain(metrics.into_iter().flat_map(numbers)).collect()
}

/// The keys of a document whose values are numbers.
fn numbers<T: Serialize>(document: &T) -> Vec<Named> {
    let Ok(Value::Object(keys)) = serde_json::to_value(document) else { return Vec::new() };
    keys.into_iter().filter_map(|(key, value)| Some((key, value.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    fn run(repeat: u32, valid: bool, goodput_bps: f64, timed_out: bool) -> RunResults {
        let manifest = serde_json::json!({
            "schema": 1, "id": format!("r{repeat}"), "title": "t", "variant": null, "point": [], "repeat": repeat,
            "seed": 1, "method": "sim", "started": "", "valid": valid, "invalid_reasons": [],
        });
        let flow = FlowSummary {
            name: "f".into(),
            seconds: Some(f64::from(repeat)),
            goodput_bps: Some(goodput_bps),
            timed_out,
            outcome: "complete".into(),
            ..FlowSummary::default()
        };
        let metrics = Metrics { goodput_bps: Some(goodput_bps), ..Metrics::default() };
        RunResults {
            manifest: serde_json::from_value(manifest).unwrap(),
            summary: Summary { flows: vec![flow], metrics, ..Summary::default() },
        }
    }

    /// Of 1, 2, 4 and 9 by hand: deviation sqrt(38 / 3), and 3.182446 of the t table for 3 degrees of freedom.
    #[test]
    fn interval_is_that_of_students_t() {
        let records = [
            run(1, true, 1.0, false),
            run(2, true, 2.0, false),
            run(3, true, 4.0, true),
            run(4, true, 9.0, false),
            run(5, false, 99.0, false),
        ];
        let all = intervals(&records);
        let of = |flow: Option<&str>, metric: &str| {
            all.iter().find(|i| i.flow.as_deref() == flow && i.metric == metric).unwrap()
        };
        for flow in [None, Some("f")] {
            let goodput = of(flow, "goodput_bps");
            assert_eq!((goodput.runs, goodput.mean, goodput.unit), (4, 4.0, "bit/s"));
            let near = |found: Option<f64>, by_hand: f64| (found.unwrap() - by_hand).abs() < 1e-3;
            assert!(near(goodput.standard_deviation, 3.559_026), "{goodput:?}");
            assert!(near(goodput.ci95_half_width, 5.663_204), "{goodput:?}");
        }
        let seconds = of(Some("f"), "seconds");
        assert_eq!((seconds.runs, seconds.mean), (3, 7.0 / 3.0), "not of the one that was cut off");
        assert!(all.iter().all(|interval| interval.metric != "jain_index"), "no value, no metric");
    }

    #[test]
    fn single_run_has_no_interval() {
        let all = intervals(&[run(1, true, 1.0, false)]);
        assert!(!all.is_empty());
        assert!(all.iter().all(|i| i.standard_deviation.is_none() && i.ci95_half_width.is_none()));
    }
}
