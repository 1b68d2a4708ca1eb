// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison as CSV, and its summary as Markdown.

use crate::{
    WITHIN,
    cells::{Cell, Figures},
};

const COLUMNS: [&str; 19] = [
    "algorithm",
    "rate_mbps",
    "rtt_ms",
    "buffer_bdp",
    "flows",
    "ns2_goodput_mbps",
    "goodput_mbps",
    "ns2_each_flow_mbps",
    "each_flow_mbps",
    "ns2_utilisation",
    "utilisation",
    "ns2_drops",
    "drops",
    "ns2_whole_goodput_mbps",
    "whole_goodput_mbps",
    "ns2_whole_drops",
    "whole_drops",
    "ns2_timeouts",
    "timeouts",
];

/// A line per cell. Goodput, utilisation and drops without `whole` are those of the second half of the run.
pub fn csv(cells: &[Cell], found: &[Figures]) -> String {
    let rows = cells.iter().zip(found).map(|(cell, here)| row(cell, here));
    let lines = [COLUMNS.join(",")].into_iter().chain(rows);
    lines.map(|line| line + "\n").collect()
}

/// How many cells are within the bound.
pub fn summary(cells: &[Cell], found: &[Figures]) -> String {
    let within = |difference: fn(&Cell, &Figures) -> f64| {
        cells
            .iter()
            .zip(found)
            .filter(|(cell, here)| difference(cell, here).abs() <= WITHIN)
            .count()
    };
    format!(
        "| {} cells, goodput within 10 % of ns-2 | cells |\n|---|---|\n\
         | mean per flow, second half of the run | {} |\n\
         | mean per flow, whole run | {} |\n\
         | every single flow, second half | {} |\n",
        cells.len(),
        within(of_all),
        within(of_whole),
        within(of_each),
    )
}

fn change(here: f64, there: f64) -> f64 {
    here / there - 1.0
}

/// The difference of all flows together, which is that of their mean.
fn of_all(cell: &Cell, here: &Figures) -> f64 {
    change(here.total_bps(), cell.ns2.total_bps())
}

/// The same, of the whole run.
fn of_whole(cell: &Cell, here: &Figures) -> f64 {
    change(total(&here.whole_goodput_bps), total(&cell.ns2.whole_goodput_bps))
}

/// The difference of the flow that differs most.
fn of_each(cell: &Cell, here: &Figures) -> f64 {
    let pairs = cell.ns2.goodput_bps.iter().zip(&here.goodput_bps);
    let changes = pairs.map(|(there, here)| change(*here, *there));
    changes.max_by(|a, b| a.abs().total_cmp(&b.abs())).expect("a cell has flows")
}

fn row(cell: &Cell, here: &Figures) -> String {
    let ns2 = &cell.ns2;
    let mega = |bps: f64| format!("{:.1}", bps / 1e6);
    let each = |bps: &[f64]| bps.iter().map(|bps| mega(*bps)).collect::<Vec<_>>().join(" ");
    let cells = [
        cell.algorithm.clone(),
        (cell.rate_bps / 1_000_000).to_string(),
        cell.rtt_ms.to_string(),
        format!("{:.1}", cell.buffer_bdp),
        cell.flows.to_string(),
        mega(ns2.total_bps()),
        mega(here.total_bps()),
        each(&ns2.goodput_bps),
        each(&here.goodput_bps),
        format!("{:.3}", ns2.utilisation),
        format!("{:.3}", here.utilisation),
        ns2.drops.to_string(),
        here.drops.to_string(),
        mega(total(&ns2.whole_goodput_bps)),
        mega(total(&here.whole_goodput_bps)),
        ns2.whole_drops.to_string(),
        here.whole_drops.to_string(),
        ns2.timeouts.to_string(),
        here.timeouts.to_string(),
    ];
    cells.join(",")
}

fn total(goodput_bps: &[f64]) -> f64 {
    goodput_bps.iter().sum()
}
