// SPDX-License-Identifier: GPL-2.0-or-later
//! Repeats that are one and the same run: they look like a certain result, and are one measurement.

use ::lab::Recorded;
use record::Summary;
use serde_json::Value;
use std::collections::BTreeMap;

/// Says so of all repeats, at one point by one way, whose results are equal to the last digit.
pub fn warn_of_the_same(records: &[Recorded]) {
    for (repeats, what) in the_same(records) {
        eprintln!(
            "warning: the {repeats} repeats{what} are one and the same run, and count as one: nothing \
             that happens there is drawn by the seed"
        );
    }
}

/// How many repeats, and of what.
fn the_same(records: &[Recorded]) -> Vec<(usize, String)> {
    let mut cells: BTreeMap<String, Vec<&Summary>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.manifest.valid) {
        cells.entry(cell(&record.manifest.scenario)).or_default().push(&record.summary);
    }
    cells
        .into_iter()
        .filter(|(_, runs)| runs.len() > 1 && runs.iter().all(|run| *run == runs[0]))
        .map(|(cell, runs)| (runs.len(), cell))
        .collect()
}

/// Way and point, as in ` of way "direct" at vars.rtt=20ms`.
fn cell(run: &Value) -> String {
    let way = run["way"]["name"].as_str().map(|way| format!(" of way \"{way}\""));
    let setting = |setting: &Value| {
        let text = |key: &str| setting[key].as_str().unwrap_or_default().to_owned();
        format!("{}={}", text("key"), text("value"))
    };
    let settings: Vec<String> =
        run["point"].as_array().into_iter().flatten().map(setting).collect();
    let point =
        if settings.is_empty() { String::new() } else { format!(" at {}", settings.join(", ")) };
    way.unwrap_or_default() + &point
}
