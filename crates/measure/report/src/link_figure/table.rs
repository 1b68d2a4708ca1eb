// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as a table: a row for each record.

use super::{LinkFigure, LinkPanel, LinkStatistics};
use crate::{figure::aligned, format};

impl LinkFigure {
    /// The numbers as text.
    pub fn table(&self) -> String {
        let span = format!("from {:.3} to {:.3} s", self.span_s.start, self.span_s.end);
        let mut text = format!("{}\n{}, {span}\n{}\n", self.title, self.about(), self.compared());
        if self.panels.iter().any(|panel| !panel.counts) {
            text += "* does not count: invalid, failed or not finished\n";
        }
        text + "\n" + &aligned(&self.rows())
    }

    /// What bins and windows are compared with, where it is the same in all panels.
    fn compared(&self) -> String {
        let mut text = format!("bins of {}", format::duration(self.panels[0].bin_s));
        let same = |value: fn(&LinkPanel) -> Option<f64>| {
            let mut values = self.panels.iter().map(value);
            let first = values.next().flatten();
            first.filter(|first| values.all(|value| value == Some(*first)))
        };
        if let Some(rate) = same(|panel| panel.bottleneck_bps) {
            text += &format!("; bottleneck {}", format::rate(rate));
        }
        if let Some(bdp) = same(|panel| panel.bdp_packets) {
            text += &format!("; bandwidth-delay product {bdp:.0} packets");
        }
        text
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let with_hop = self.hop.is_some();
        let mut head = vec!["run", "mean", "peak", "above 1.1x"];
        if with_hop {
            head.extend(["cwnd > bdp", "peak before", "peak after"]);
        }
        head.push("drops");
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        for panel in &self.panels {
            let star = if panel.counts { "" } else { " *" };
            let mut row = vec![format!("{}{star}", panel.label)];
            row.extend(cells(&panel.numbers, with_hop));
            rows.push(row);
        }
        rows
    }
}

fn cells(numbers: &LinkStatistics, with_hop: bool) -> Vec<String> {
    let rate = |value: Option<f64>| value.map_or("-".to_owned(), format::rate);
    let share = |share: f64| format!("{:.2} %", share * 100.0);
    let above = numbers.above_share.map_or("-".to_owned(), share);
    let mut cells = vec![rate(Some(numbers.mean_bps)), rate(Some(numbers.peak_bps)), above];
    if with_hop {
        let filled = numbers.filled_at_s.map_or("never".to_owned(), |at| format!("{at:.3} s"));
        cells.extend([filled, rate(numbers.peak_before_bps), rate(numbers.peak_after_bps)]);
    }
    cells.push(numbers.drops.to_string());
    cells
}
