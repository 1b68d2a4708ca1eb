// SPDX-License-Identifier: GPL-2.0-or-later
//! Repeats that are one and the same run: they look like a certain result, and are one measurement.

use ::lab::Recorded;
use record::{Manifest, Summary};
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
        cells.entry(cell(&record.manifest)).or_default().push(&record.summary);
    }
    cells
        .into_iter()
        .filter(|(_, runs)| runs.len() > 1 && runs.iter().all(|run| *run == runs[0]))
        .map(|(cell, runs)| (runs.len(), cell))
        .collect()
}

/// Way and point, as in ` of way "direct" at rtt=20ms`.
fn cell(manifest: &Manifest) -> String {
    let way = manifest.way.as_ref().map(|way| format!(" of way \"{}\"", way.name));
    let point = Some(manifest.point_text()).filter(|point| !point.is_empty());
    way.unwrap_or_default() + &point.map_or_else(String::new, |point| format!(" at {point}"))
}
