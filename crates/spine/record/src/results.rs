// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of a scenario's runs as `longhaul lab run`, `longhaul sim` and `longhaul demo` print them with
//! `--json`: every flow of every run, and medians over the repeats.
//!
//! Medians are over the runs whose verdict includes them ([`RunVerdict::in_medians`]). A median stands with the
//! smallest and the largest value under three keys: `median_X`, `least_X`, `most_X`.
//!
//! [`RunVerdict::in_medians`]: crate::RunVerdict::in_medians

mod flow;
mod flow_medians;
mod intervals;
mod range_keys;
mod run_medians;
mod traffic_medians;

pub use flow::FlowResult;
pub use flow_medians::{FlowMedians, flow_medians};
pub use intervals::{MetricInterval, intervals, intervals_by};
pub use run_medians::{RunMedians, run_medians};
pub use traffic_medians::{TrafficMedians, traffic_medians};

use crate::RunResults;
use serde::Serialize;
use std::path::PathBuf;

/// Output of `longhaul lab run --json` and `longhaul sim --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioResults {
    /// The scenario's title.
    pub title: String,
    /// The folder of the records.
    pub out: PathBuf,
    /// Every flow of every run.
    pub runs: Vec<FlowResult>,
    /// Medians over the repeats, flow by flow.
    pub medians: Vec<FlowMedians>,
    /// Medians over the repeats, of all flows of a run together.
    pub totals: Vec<RunMedians>,
    /// Medians over the repeats, of traffic sources.
    pub traffic: Vec<TrafficMedians>,
    /// Mean and confidence interval over the repeats, of every metric.
    pub intervals: Vec<MetricInterval>,
}

impl ScenarioResults {
    /// The results of a scenario's runs. `baseline` is the name of the variant that ratios are to.
    pub fn new(
        title: String,
        out: PathBuf,
        records: &[RunResults],
        baseline: Option<&str>,
    ) -> Self {
        let runs = FlowResult::of_all(records);
        Self {
            title,
            out,
            medians: flow_medians(&runs, baseline),
            totals: run_medians(records, baseline),
            traffic: traffic_medians(records),
            intervals: intervals(records),
            runs,
        }
    }
}

/// Output of `longhaul demo --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoResults {
    /// Every flow of every run.
    pub runs: Vec<FlowResult>,
    /// Medians over the repeats, flow by flow.
    pub medians: Vec<FlowMedians>,
    /// The rate of every link; 0 where links have none.
    pub link_bps: u64,
    /// The page.
    pub report: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowSummary, HopSummary, Manifest, Metrics, Summary, TrafficSummary};

    fn text(document: &impl Serialize) -> String {
        serde_json::to_string(document).unwrap()
    }

    /// Repeat `number` of a variant, with one flow of 1000 bytes in 1 s, and traffic.
    fn record(variant: &str, number: u32, bytes: u64, valid: bool) -> RunResults {
        let manifest = serde_json::json!({
            "schema": 1, "id": format!("{variant},r{number}"), "title": "t", "variant": {"name": variant, "label": variant},
            "point": [["vars.rtt", "90ms"]], "repeat": number, "seed": 1, "method": "sim", "started": "",
            "valid": valid, "invalid_reasons": if valid { vec![] } else { vec!["late"] },
        });
        let hop = HopSummary { congestion_control: Some("cubic".into()), ..HopSummary::default() };
        let flow = FlowSummary {
            name: "file".into(),
            bytes,
            seconds: Some(1.0),
            goodput_bps: Some(crate::goodput_bps(bytes, 1.0)),
            outcome: "complete".into(),
            hops: vec![hop],
            ..FlowSummary::default()
        };
        let traffic = TrafficSummary {
            name: "web".into(),
            bytes: 50,
            goodput_bps: 400.0,
            files_offered: Some(2),
            files_completed: Some(1),
            completion_p50_s: Some(0.5),
            ..TrafficSummary::default()
        };
        let metrics =
            Metrics { goodput_bps: flow.goodput_bps, jain_index: Some(1.0), ..Metrics::default() };
        RunResults {
            manifest: serde_json::from_value::<Manifest>(manifest).unwrap(),
            summary: Summary {
                flows: vec![flow],
                traffic: vec![traffic],
                metrics,
                ..Summary::default()
            },
        }
    }

    #[test]
    fn documents_have_every_key_in_its_order() {
        let records = [
            record("direct", 1, 100, true),
            record("depots", 1, 300, true),
            record("direct", 2, 200, true),
            record("depots", 2, 900, false),
        ];
        let of = ScenarioResults::new("t".into(), "out".into(), &records, Some("direct"));
        assert_eq!(
            text(&of.runs[3]),
            r#"{"id":"depots,r2","method":"sim","variant":"depots","point":[["vars.rtt","90ms"]],"repeat":2,"flow":"file","client":null,"bytes":900,"seconds":1.0,"goodput_bps":7200.0,"prediction":null,"sha256_ok":null,"timed_out":false,"outcome":"complete","congestion_control":["cubic"],"limited":null,"standing":"invalid","valid":false,"invalid_reasons":["late"]}"#
        );
        assert_eq!(
            text(&of.medians),
            r#"[{"variant":"direct","point":[["vars.rtt","90ms"]],"flow":"file","client":null,"runs":2,"left_out":0,"timed_out":0,"unpredicted":null,"median_goodput_bps":1200.0,"least_goodput_bps":800.0,"most_goodput_bps":1600.0,"median_seconds":1.0,"least_seconds":1.0,"most_seconds":1.0,"limited_by":null,"window_in_recovery":null,"ratio_to_baseline":1.0},{"variant":"depots","point":[["vars.rtt","90ms"]],"flow":"file","client":null,"runs":1,"left_out":1,"timed_out":0,"unpredicted":null,"median_goodput_bps":2400.0,"least_goodput_bps":2400.0,"most_goodput_bps":2400.0,"median_seconds":1.0,"least_seconds":1.0,"most_seconds":1.0,"limited_by":null,"window_in_recovery":null,"ratio_to_baseline":2.0}]"#
        );
        assert_eq!(
            text(&of.totals[1]),
            r#"{"variant":"depots","point":[["vars.rtt","90ms"]],"flows":1,"runs":1,"left_out":1,"median_goodput_bps":2400.0,"least_goodput_bps":2400.0,"most_goodput_bps":2400.0,"median_jain_index":1.0,"least_jain_index":1.0,"most_jain_index":1.0,"median_utilisation":null,"least_utilisation":null,"most_utilisation":null,"median_retransmits":null,"least_retransmits":null,"most_retransmits":null,"ratio_to_baseline":2.0}"#
        );
        assert_eq!(
            text(&of.traffic[0]),
            r#"{"variant":"direct","point":[["vars.rtt","90ms"]],"source":"web","sources":1,"runs":2,"left_out":0,"median_files_offered":2.0,"least_files_offered":2.0,"most_files_offered":2.0,"median_files_completed":1.0,"least_files_completed":1.0,"most_files_completed":1.0,"median_bytes":50.0,"least_bytes":50.0,"most_bytes":50.0,"median_goodput_bps":400.0,"least_goodput_bps":400.0,"most_goodput_bps":400.0,"median_completion_p50_s":0.5,"least_completion_p50_s":0.5,"most_completion_p50_s":0.5,"median_completion_p99_s":null,"least_completion_p99_s":null,"most_completion_p99_s":null}"#
        );
        let keys = |text: &str| -> Vec<String> {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(
            keys(&text(&of)),
            ["title", "out", "runs", "medians", "totals", "traffic", "intervals"]
        );
        let ScenarioResults { runs, medians, .. } = of;
        let demo = DemoResults { runs, medians, link_bps: 5, report: "report.html".into() };
        assert_eq!(keys(&text(&demo)), ["runs", "medians", "link_bps", "report"]);
    }
}
