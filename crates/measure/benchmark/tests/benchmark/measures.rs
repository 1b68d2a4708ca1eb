// SPDX-License-Identifier: GPL-2.0-or-later

use crate::cells::{cell, plan, with_bottleneck, with_flows};
use longhaul_benchmark::{Card, Cell, Outcomes};
use record::{OfferedFile, TrafficSummary};

/// The reference's absolute scores of a task's measures, from one seed.
fn scores(task: &str, scenario: &'static str, cells: Vec<Cell>) -> Vec<(String, f64)> {
    let mut outcomes = Outcomes::default();
    for cell in cells {
        outcomes.add("lh_reno", scenario, cell);
    }
    scored(task, &outcomes)
}

fn scored(task: &str, outcomes: &Outcomes) -> Vec<(String, f64)> {
    let plan = plan(&[], &[task]).with_seeds(None, Some(1));
    let card = Card::new(&plan, "sim", "0", outcomes);
    let measures = card.tasks[0].measures.iter();
    measures
        .map(|it| (it.key.clone(), it.scores[0].absolute.map_or(f64::NAN, |score| score.mean)))
        .collect()
}

fn assert_close(found: &[(String, f64)], expected: &[(&str, f64)]) {
    for (key, value) in expected {
        let (_, other) = found.iter().find(|(known, _)| known == key).unwrap();
        assert!((other / value - 1.0).abs() < 1e-9, "{key}: {other}, not {value}");
    }
}

#[test]
fn times_of_many_sources_match_hand_computation() {
    let times = [1.0, 1.0, 1.0, 3.0].map(|seconds| ("file", seconds, 1.0));
    let one = with_bottleneck(with_flows(cell(None, &[], 1), &times), 1_000_000_000, 5e8);
    let found = scores("sources", "sources", vec![one]);
    let expected = [
        ("completion_mean_s", 1.5),
        ("completion_deviation_s", 0.75_f64.sqrt()),
        ("completion_p95_p50", 3.0),
        ("efficiency", 0.5),
    ];
    assert_close(&found, &expected);
}

#[test]
fn outage_itself_is_no_loss() {
    let file =
        |variant, seconds| with_flows(cell(Some(variant), &[], 1), &[("file", seconds, 1.0)]);
    let found = scores("outage", "conditions", vec![file("plain", 4.0), file("outage", 7.5)]);
    assert_close(&found, &[("recovery_s", 1.5)]);
    // One that ends before the outage is over has lost nothing.
    let found = scores("outage", "conditions", vec![file("plain", 4.0), file("outage", 4.0)]);
    assert_close(&found, &[("recovery_s", 1e-3)]);
}

#[test]
fn deadline_share_ignores_files_near_the_end() {
    let mut one = cell(None, &[], 1);
    let (start_s, end_s) = (0.0, 10.0);
    one.results.summary.traffic =
        vec![TrafficSummary { start_s, end_s, ..TrafficSummary::default() }];
    let file = |start_s, completion_s| OfferedFile {
        source: "files1".into(),
        number: 1,
        start_s,
        size_bytes: Some(1),
        completion_s,
    };
    one.files.rows = vec![
        file(0.0, Some(1.5)),
        file(1.0, Some(2.5)),
        file(2.0, None),
        file(7.9, Some(2.0)),
        // Not over by the end, whatever happens.
        file(9.0, Some(0.1)),
    ];
    assert_close(&scores("deadlines", "files", vec![one.clone()]), &[("in_time", 0.5)]);
    let found = scores("files", "files", vec![one]);
    let expected = [("completion_mean_s", 6.1 / 4.0), ("completion_p95_p50", 2.5 / 1.5)];
    assert_close(&found, &expected);
}

#[test]
fn harm_is_the_other_flows_loss() {
    let mut outcomes = Outcomes::default();
    let meeting = |variant, flows: &[(&str, f64, f64)]| {
        let point = [("vars.queue", "2bdp")];
        Cell {
            other: Some("lh_cubic".to_owned()),
            ..with_flows(cell(Some(variant), &point, 1), flows)
        }
    };
    let alone = || meeting("alone", &[("other", 1.0, 40.0)]);
    let both = |own, other| meeting("two", &[("own1", 1.0, own), ("other", 1.0, other)]);
    for (candidate, own, other) in [("lh_reno", 30.0, 10.0), ("lh_cubic", 20.0, 20.0)] {
        outcomes.add(candidate, "beside", alone());
        outcomes.add(candidate, "beside", both(own, other));
    }
    let found = scored("beside", &outcomes);
    assert_close(&found, &[("cubic_keeps", 0.25), ("cubic_keeps_of_own", 0.5), ("own_part", 0.75)]);
    let plan = plan(&["lh_cubic"], &["beside"]).with_seeds(None, Some(1));
    let card = Card::new(&plan, "sim", "0", &outcomes);
    let keeps = |own: &str| card.grid.iter().find(|it| it.own == own && it.other == "lh_cubic");
    assert!((keeps("lh_reno").unwrap().other_keeps - 0.25).abs() < 1e-9);
    assert!((keeps("lh_cubic").unwrap().other_keeps - 0.5).abs() < 1e-9);
}

#[test]
fn sources_that_pause_are_compared_by_what_they_delivered() {
    let times = [("file", 4.0, 1.0)];
    let mut one = with_bottleneck(with_flows(cell(None, &[], 1), &times), 1_000_000_000, 5e8);
    let source = |bytes| TrafficSummary { bytes, ..TrafficSummary::default() };
    one.results.summary.traffic = vec![source(300), source(100)];
    one.results.summary.links[0].utilisation = Some(0.75);
    let found = scores("on-off", "on-off", vec![one]);
    let expected =
        [("completion_mean_s", 4.0), ("others_fairness", 160_000.0 / 200_000.0), ("use", 0.75)];
    assert_close(&found, &expected);
}

#[test]
fn processor_time_is_a_score_of_emulated_runs_only() {
    let file = || with_flows(cell(None, &[], 1), &[("file", 2.0, 1.0)]);
    let found = scores("bulk", "bulk", vec![file()]);
    assert_eq!(found.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["completion_s"]);
    let mut emulated = file();
    emulated.results.summary.metrics.cpu_per_gbit_s = Some(0.5);
    let found = scores("bulk", "bulk", vec![emulated]);
    assert_close(&found, &[("completion_s", 2.0), ("cpu_per_gbit_s", 0.5)]);
}
