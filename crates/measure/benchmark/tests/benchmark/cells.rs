// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs that took place on paper only.

use longhaul_benchmark::{Card, Cell, Extent, Outcomes, Plan};
use record::{FlowSummary, LinkSummary, Manifest, OfferedFiles, RunResults, Summary};
use serde_json::json;

/// A run of a variant at a point under the seed of that number.
pub fn cell(variant: Option<&str>, point: &[(&str, &str)], seed: u32) -> Cell {
    let variant = variant.map(|name| json!({ "name": name, "label": name }));
    let manifest: Manifest = serde_json::from_value(json!({
        "schema": record::SCHEMA, "id": "r", "title": "t", "variant": variant, "point": point, "repeat": seed, "seed": 1,
        "method": "sim", "started": "2026-01-01T00:00:00Z", "valid": true, "invalid_reasons": [],
    }))
    .unwrap();
    Cell::new(None, RunResults { manifest, summary: Summary::default() }, OfferedFiles::default())
}

/// Its flows, by name and seconds, each with that goodput.
pub fn with_flows(mut cell: Cell, flows: &[(&str, f64, f64)]) -> Cell {
    let flow = |(name, seconds, goodput): &(&str, f64, f64)| FlowSummary {
        name: (*name).to_owned(),
        seconds: Some(*seconds),
        goodput_bps: Some(*goodput),
        ..FlowSummary::default()
    };
    cell.results.summary.flows = flows.iter().map(flow).collect();
    cell
}

pub fn with_bottleneck(mut cell: Cell, rate_bps: u64, goodput_bps: f64) -> Cell {
    let (name, direction) = ("bottleneck".to_owned(), "forward".to_owned());
    let link = LinkSummary { name, direction, rate_bps: Some(rate_bps), ..LinkSummary::default() };
    cell.results.summary.links = vec![link];
    cell.results.summary.metrics.goodput_bps = Some(goodput_bps);
    cell
}

pub fn plan(candidates: &[&str], tasks: &[&str]) -> Plan {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    Plan::new(&owned(candidates), &owned(tasks), &[], Extent::Quick).unwrap()
}

/// The card of task `short` with these times by candidate and seed; the first candidate is the reference.
pub fn card_of(times: &[(&str, &[f64])]) -> Card {
    let mut outcomes = Outcomes::default();
    for (candidate, times) in times {
        for (seed, seconds) in (1..).zip(*times) {
            let cell = with_flows(cell(Some("short"), &[], seed), &[("file", *seconds, 1.0)]);
            outcomes.add(candidate, "conditions", cell);
        }
    }
    let candidates: Vec<&str> = times.iter().map(|(candidate, _)| *candidate).collect();
    let seeds = times[0].1.len() as u32;
    Card::new(&plan(&candidates, &["short"]).with_seeds(None, Some(seeds)), "sim", "0", &outcomes)
}
