// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison as Markdown.

use crate::{
    WITHIN,
    cells::{Cell, Figures},
};

const HEAD: &str = "\
| algorithm | Mb/s | RTT ms | buffer BDP | flows | goodput, Mb/s: ns-2 | here | difference \
| each flow, Mb/s: ns-2 | here | largest difference | used: ns-2 | here | drops: ns-2 | here \
| whole run, Mb/s: ns-2 | here | drops: ns-2 | here | timeouts: ns-2 | here |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// A row a cell, and before them how many are within the bound.
pub fn draw(cells: &[Cell], found: &[Figures]) -> String {
    let pairs = || cells.iter().zip(found);
    let together = pairs().filter(|(cell, here)| of_all(cell, here).abs() <= WITHIN).count();
    let whole = pairs().filter(|(cell, here)| of_whole(cell, here).abs() <= WITHIN).count();
    let each = pairs().filter(|(cell, here)| of_each(cell, here).abs() <= WITHIN).count();
    let rows: String = pairs().map(|(cell, here)| row(cell, here)).collect();
    format!(
        "{} cells. Within 10 %: {together} by the mean goodput per flow in the second half, {whole} by \
         that of the whole run, {each} by the goodput of every single flow in the second half.\n\n\
         {HEAD}{rows}",
        cells.len(),
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
    let percent = |change: f64| {
        let mark = if change.abs() > WITHIN { "**" } else { "" };
        format!("{mark}{:+.1} %{mark}", 100.0 * change)
    };
    let cells = [
        cell.algorithm.clone(),
        (cell.rate_bps / 1_000_000).to_string(),
        cell.rtt_ms.to_string(),
        format!("{:.1}", cell.buffer_bdp),
        cell.flows.to_string(),
        mega(ns2.total_bps()),
        mega(here.total_bps()),
        percent(of_all(cell, here)),
        each(&ns2.goodput_bps),
        each(&here.goodput_bps),
        percent(of_each(cell, here)),
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
    format!("| {} |\n", cells.join(" | "))
}

fn total(goodput_bps: &[f64]) -> f64 {
    goodput_bps.iter().sum()
}
