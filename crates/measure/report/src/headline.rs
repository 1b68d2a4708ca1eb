// SPDX-License-Identifier: GPL-2.0-or-later
//! What came out, in sentences: medians, ratios, and what they do not prove.

#![allow(clippy::format_push_string)] // a few sentences a page: plain is better than fast

use crate::{
    format,
    scenario_runs::{Cell, Gain, ScenarioRuns},
};
use std::collections::BTreeMap;

/// The sentences above a group's table, the most important first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// What was found for each variant and client.
    pub findings: Vec<Finding>,
    /// What limits the findings.
    pub caveats: Vec<String>,
}

/// What was found for one variant and client.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The variant and client.
    pub name: String,
    /// The rest of the sentence: "571 Mb/s by the median of 3 runs."
    pub text: String,
}

impl Headline {
    pub fn new(group: &ScenarioRuns) -> Self {
        let findings = if group.points.len() > 1 { over_sweep(group) } else { at_point(group) };
        Self { findings, caveats: caveats(group) }
    }
}

fn at_point(group: &ScenarioRuns) -> Vec<Finding> {
    let mut cells: Vec<&Cell> =
        group.cells.iter().filter(|cell| cell.included_runs() > 0).collect();
    // Every other sentence contains the baseline's value, and the table has other clients'.
    let like_for_like = |cell: &&Cell| {
        cell.gain.as_ref().is_some_and(|gain| group.cells[gain.over].client == cell.client)
    };
    if cells.iter().any(like_for_like) {
        cells.retain(like_for_like);
    }
    let median = |cell: &Cell| cell.median_bps().unwrap_or_default();
    cells.sort_by(|a, b| median(b).total_cmp(&median(a)));
    cells
        .into_iter()
        .map(|cell| Finding { name: name(group, cell), text: at_point_text(group, cell) })
        .collect()
}

fn at_point_text(group: &ScenarioRuns, cell: &Cell) -> String {
    let median = cell.median_bps().unwrap_or_default();
    let mut text = format::rate(median);
    text += &match cell.included_runs() {
        1 => " in one run".to_owned(),
        n => format!(" by the median of {n} runs"),
    };
    if let Some(capacity) = cell.capacity() {
        let share = format::percent(median / capacity.bps);
        let what = if capacity.of_one_link { "link" } else { "that the paths carry together" };
        text += &format!(", {share} of the {} {what}", format::rate(capacity.bps));
    }
    if let Some(gain) = &cell.gain {
        let base = &group.cells[gain.over];
        let base_bps = format::rate(base.median_bps().unwrap_or_default());
        let factor = format::times(gain.factor);
        text += &format!("; {factor} times the {base_bps} of {}", name(group, base));
        if gain.overlap {
            text += ", but the ranges of the two overlap";
        }
    }
    text + "."
}

fn over_sweep(group: &ScenarioRuns) -> Vec<Finding> {
    let mut by_variant = BTreeMap::<_, Vec<(&Cell, &Gain)>>::new();
    for cell in &group.cells {
        if let Some(gain) = &cell.gain {
            by_variant
                .entry((cell.variant, &cell.method, &cell.client))
                .or_default()
                .push((cell, gain));
        }
    }
    let mut all: Vec<_> = by_variant.into_values().collect();
    // The first finding is the page's headline.
    let largest = |cells: &[(&Cell, &Gain)]| {
        cells.iter().map(|(_, gain)| gain.factor).fold(f64::NEG_INFINITY, f64::max)
    };
    all.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    all.into_iter().map(|cells| over_sweep_finding(group, &cells)).collect()
}

/// The gain at the sweep's first and last point: "1.0 times direct at rtt 10ms (ranges overlap),
/// 2.5 times at rtt 90ms."
fn over_sweep_finding(group: &ScenarioRuns, cells: &[(&Cell, &Gain)]) -> Finding {
    let at = |(cell, gain): &(&Cell, &Gain)| {
        let overlap = if gain.overlap { " (the ranges overlap)" } else { "" };
        format!("at {}{overlap}", point(group, cell))
    };
    let (first, gain) = cells[0];
    let base = name(group, &group.cells[gain.over]);
    let mut text = format!("{} times {base} {}", format::times(gain.factor), at(&cells[0]));
    if let [_, .., last] = cells {
        text += &format!(", {} times {}", format::times(last.1.factor), at(last));
    }
    Finding { name: name(group, first), text: text + ", by medians." }
}

fn caveats(group: &ScenarioRuns) -> Vec<String> {
    let mut caveats = Vec::new();
    let fewest = group.cells.iter().map(Cell::included_runs).filter(|n| *n > 0).min().unwrap_or(0);
    if fewest > 0 && fewest < 3 {
        let runs = if fewest == 1 { "a single run" } else { "two runs" };
        caveats.push(format!(
            "Some figures rest on {runs}; the spread between runs can be larger than the \
             differences shown. Repeat at least three times before drawing conclusions."
        ));
    }
    let cut: usize = group.cells.iter().map(Cell::cut_runs).sum();
    if cut > 0 {
        let transfers = if cut == 1 { "One transfer" } else { "Some transfers" };
        caveats.push(format!(
            "{transfers} reached the time limit ({cut} in all, marked “cut”): the goodput is what \
             had arrived by then, and the time is a lower bound."
        ));
    }
    caveats
}

/// A variant and, where the group has several, the method and the client: "two depots, CUBIC (curl)",
/// "direct (sim)".
pub fn name(group: &ScenarioRuns, cell: &Cell) -> String {
    let label = &group.variant(cell).label;
    let mut words = Vec::new();
    if group.several_methods() {
        words.push(cell.method.as_str());
    }
    let of_method = group.cells.iter().filter(|other| other.method == cell.method);
    if of_method.into_iter().any(|other| other.client != cell.client) {
        words.push(&cell.client);
    }
    if words.is_empty() { label.clone() } else { format!("{label} ({})", words.join(", ")) }
}

/// A point of the sweep: "rtt 90ms, loss 0.1%".
pub fn point(group: &ScenarioRuns, cell: &Cell) -> String {
    let settings = group.points[cell.point].iter().map(|(key, value)| format!("{key} {value}"));
    settings.collect::<Vec<_>>().join(", ")
}
