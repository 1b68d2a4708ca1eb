// SPDX-License-Identifier: GPL-2.0-or-later
//! Which runs come together, and what is computed from them.

use super::*;
use crate::headline::Headline;
use record::{FlowSummary, Manifest, RunResults, Series, Summary};

/// A run of 1000 bytes by curl at the given rate over a link of 1000 bit/s.
fn run(variant: &str, rtt: &str, repeat: u32, bps: f64) -> Run {
    let flow = FlowSummary {
        name: "file".into(),
        client: Some("curl".into()),
        bytes: 1000,
        bytes_expected: Some(1000),
        end_s: 8000.0 / bps,
        seconds: Some(8000.0 / bps),
        goodput_bps: Some(bps),
        sha256_ok: Some(true),
        exit_code: Some(0),
        outcome: "complete".into(),
        ..FlowSummary::default()
    };
    let summary = Summary { flows: vec![flow], ..Summary::default() };
    let manifest = serde_json::json!({
        "schema": 1, "id": format!("{variant}-{rtt}-{repeat}"), "title": "test", "repeat": repeat,
        "seed": 1, "method": "emu", "started": format!("2026-01-01T00:00:{repeat:02}Z"),
        "variant": {"name": variant, "label": variant}, "baseline": "direct", "valid": true,
        "point": if rtt.is_empty() { vec![] } else { vec![("rtt", rtt)] },
        "scenario": crate::testing::one_link(&["file"]),
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    Run::new(RunResults { manifest, summary }, &Series::default(), 400)
}

fn one_group(runs: Vec<Run>) -> ScenarioRuns {
    let mut groups = by_scenario(runs);
    assert_eq!(groups.len(), 1);
    groups.remove(0)
}

fn cell<'a>(group: &'a ScenarioRuns, variant: &str) -> &'a Cell {
    group.cells.iter().find(|cell| group.variant(cell).name == variant).unwrap()
}

#[test]
fn each_method_has_a_baseline_of_its_own() {
    let by = |method: &str, variant, bps| {
        let mut run = run(variant, "", 1, bps);
        run.manifest.method = method.into();
        run
    };
    let runs = vec![
        by("emu", "direct", 100.0),
        by("sim", "direct", 50.0),
        by("emu", "depots", 300.0),
        by("sim", "depots", 200.0),
    ];
    let group = one_group(runs);
    let cells: Vec<_> = group
        .cells
        .iter()
        .map(|cell| {
            let gain = cell.gain.as_ref().map(|gain| gain.factor);
            (crate::headline::name(&group, cell), gain)
        })
        .collect();
    let expected = [
        ("direct (emu)", None),
        ("direct (sim)", None),
        ("depots (emu)", Some(3.0)),
        ("depots (sim)", Some(4.0)),
    ];
    assert_eq!(cells, expected.map(|(name, gain)| (name.to_owned(), gain)));
}

#[test]
fn medians_and_gains() {
    // The baseline runs last and is shown first all the same.
    let rates = [("depots", [500.0, 900.0, 600.0]), ("direct", [100.0, 90.0, 400.0])];
    let runs = rates.iter().flat_map(|(variant, rates)| {
        rates.iter().enumerate().map(|(i, bps)| run(variant, "", i as u32 + 1, *bps))
    });
    let group = one_group(runs.collect());
    assert_eq!(
        group.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(),
        ["direct", "depots"]
    );
    let depots = cell(&group, "depots");
    assert_eq!((depots.included_runs(), depots.median_bps()), (3, Some(600.0)));
    assert_eq!(depots.range_bps(), Some((500.0, 900.0)));
    let gain = depots.gain.as_ref().unwrap();
    assert_eq!((gain.factor, gain.overlap), (6.0, false));
    assert_eq!(cell(&group, "direct").gain, None);
    assert_eq!(group.runs[depots.representative().unwrap()].manifest.id, "depots--3");
    assert_eq!(
        Headline::new(&group).findings[0].text,
        "600 b/s by the median of 3 runs, 60 % of the 1 kb/s link; 6.0 times the 100 b/s of direct."
    );
}

#[test]
fn overlapping_ranges_are_reported() {
    let rates = [("direct", 100.0), ("direct", 300.0), ("depots", 290.0), ("depots", 500.0)];
    let runs = rates.iter().enumerate().map(|(i, (variant, bps))| run(variant, "", i as u32, *bps));
    let group = one_group(runs.collect());
    assert!(cell(&group, "depots").gain.as_ref().unwrap().overlap);
    let headline = Headline::new(&group);
    assert!(
        headline.findings[0].text.ends_with("direct, but the ranges of the two overlap."),
        "{headline:?}"
    );
    assert!(headline.caveats[0].contains("two runs"), "{headline:?}");
}

#[test]
fn invalid_runs_are_listed_and_in_no_median() {
    let mut invalid = run("direct", "", 1, 1.0);
    invalid.manifest.valid = false;
    invalid.manifest.invalid_reasons = vec!["the emulator was late".into()];
    let mut short = run("direct", "", 2, 2.0);
    short.summary.flows[0].bytes = 999;
    short.summary.flows[0].outcome = "ended early".into();
    let mut wrong = run("direct", "", 3, 3.0);
    wrong.summary.flows[0].sha256_ok = Some(false);
    let group = one_group(vec![invalid, short, wrong, run("direct", "", 4, 400.0)]);
    let direct = cell(&group, "direct");
    assert_eq!(
        (direct.included_runs(), direct.repeats.len(), direct.median_bps()),
        (1, 4, Some(400.0))
    );
    let left_out: Vec<String> =
        group.left_out().map(|(run, why)| format!("{} {why}", run.manifest.repeat)).collect();
    assert_eq!(left_out, ["1 the emulator was late", "2 curl: ended early", "3 curl: complete"]);
}

#[test]
fn a_cut_transfer_counts_as_far_as_it_got() {
    let mut cut = run("direct", "", 1, 100.0);
    let flow = &mut cut.summary.flows[0];
    (flow.timed_out, flow.bytes, flow.sha256_ok, flow.exit_code) = (true, 500, None, None);
    let group = one_group(vec![cut, run("direct", "", 2, 100.0)]);
    let direct = cell(&group, "direct");
    assert_eq!(
        (direct.included_runs(), direct.cut_runs(), direct.median_bps()),
        (2, 1, Some(75.0))
    );
    // The times are bounds now, so their mean has no interval.
    assert_eq!(direct.mean_seconds().unwrap().half_width, None);
    assert!(Headline::new(&group).caveats.iter().any(|text| text.contains("time limit")));
}

#[test]
fn points_are_ordered_and_compared_each_for_itself() {
    let runs = [("90ms", 50.0, 200.0), ("100ms", 40.0, 100.0), ("10ms", 900.0, 950.0)];
    let runs = runs.iter().flat_map(|(rtt, direct, depots)| {
        [run("direct", rtt, 1, *direct), run("depots", rtt, 1, *depots)]
    });
    let group = one_group(runs.collect());
    let points: Vec<&str> = group.points.iter().map(|point| point[0].1.as_str()).collect();
    assert_eq!(points, ["10ms", "90ms", "100ms"]);
    let gains: Vec<f64> =
        group.cells.iter().filter_map(|cell| Some(cell.gain.as_ref()?.factor)).collect();
    assert_eq!(gains, [950.0 / 900.0, 4.0, 2.5]);
    assert_eq!(
        Headline::new(&group).findings[0].text,
        "1.1 times direct at rtt 10ms, 2.5 times at rtt 100ms, by medians."
    );
}

#[test]
fn another_client_is_compared_with_what_there_is() {
    let mut wget = run("depots", "", 1, 300.0);
    wget.summary.flows[0].client = Some("wget".into());
    let group = one_group(vec![run("direct", "", 1, 100.0), wget]);
    let gain = cell(&group, "depots").gain.as_ref().unwrap();
    assert_eq!((gain.factor, group.cells[gain.over].client.as_str()), (3.0, "curl"));
}
