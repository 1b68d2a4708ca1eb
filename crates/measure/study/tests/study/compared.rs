// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of papers beside those of runs on paper.

use longhaul_study::{Ledger, Row, compared};
use record::{Manifest, RunResults, Summary};
use serde_json::json;

fn run(variant: &str, point: &[(&str, &str)], goodput_bps: f64) -> RunResults {
    let manifest: Manifest = serde_json::from_value(json!({
        "schema": record::SCHEMA, "id": "r", "title": "t", "variant": { "name": variant, "label": variant },
        "baseline": "base", "point": point, "repeat": 1, "seed": 1, "method": "sim", "started": "2026-01-01T00:00:00Z",
        "valid": true, "references": if variant == "two" { json!([{ "gain": 2.0, "note": "" }]) } else { json!([]) },
    }))
    .unwrap();
    let mut summary = Summary::default();
    summary.metrics.goodput_bps = Some(goodput_bps);
    RunResults { manifest, summary }
}

fn row(paper: &str, item: &str) -> Row {
    Ledger::own().find(paper, item).unwrap().clone()
}

#[test]
fn medians_of_variants_at_points_are_compared() {
    let at = [("vars.buffer", "64KB")];
    let results = [
        run("paced", &at, 400e6),
        run("paced", &at, 500e6),
        run("paced", &at, 454.4e6),
        run("paced", &[("vars.buffer", "512KB")], 1e6),
        run("not-paced", &at, 138.4e6),
    ];
    let found = compared(&row("001", "III"), &results);
    let of = |what: &str| found.iter().find(|it| it.what == what).unwrap();
    assert_eq!(of("paced, 64 KB").ours, Some(454.4e6));
    assert_eq!(of("not paced, 64 KB").ratio, Some(1.0));
    assert_eq!(of("not paced, 512 KB").ours, None);
}

#[test]
fn differences_are_of_two_points() {
    let point = |delay| [("vars.background", "20%"), ("vars.delay", delay)];
    let results = [
        run("bic", &point("10ms"), 700e6),
        run("bic", &point("200ms"), 500e6),
        run("libra", &point("10ms"), 1e6),
    ];
    let found = compared(&row("002", "table 1"), &results);
    assert!((found[0].ours.unwrap() - 20.0).abs() < 1e-9, "{found:?}");
    assert!(found.iter().skip(1).all(|it| it.ours.is_none()));
    // What is not swept in the quick form is at its one value.
    let results = [
        run("bic", &[("vars.delay", "10ms")], 700e6),
        run("bic", &[("vars.delay", "200ms")], 500e6),
    ];
    assert!(compared(&row("002", "table 1"), &results)[0].ours.is_some());
}

#[test]
fn gains_of_the_scenario_are_compared() {
    let results = [run("base", &[], 10.0), run("two", &[], 18.0), run("two", &[], 22.0)];
    let found = compared(&row("000", "8"), &results);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].paper, found[0].ours, found[0].ratio), (2.0, Some(2.0), Some(1.0)));
}
