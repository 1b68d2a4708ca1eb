// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as a table: a row for each line of each panel.

use super::{TimeFigure, TimeLine};
use crate::{
    axis_unit::AxisUnit,
    figure::{UnitRow, aligned, with_units},
};

impl TimeFigure {
    /// Mean, minimum and maximum of the samples of each line.
    pub fn table(&self) -> String {
        let unit = self.unit();
        let span = format!("from {:.3} to {:.3} s", self.span_s.start, self.span_s.end);
        let mut text = format!("{}: {}\n{}, {span}\n", self.title, unit.axis, self.about());
        let blocks = self.panels.iter().map(|panel| {
            let columns = ["", "samples", "mean", "minimum", "maximum"].map(str::to_owned);
            let rows = panel.lines.iter().map(|line| self.row(line, &unit));
            std::iter::once(UnitRow::head(columns.into_iter())).chain(rows).collect()
        });
        for (panel, rows) in self.panels.iter().zip(with_units(blocks.collect(), &unit)) {
            let head = panel.heading();
            text += &if head.is_empty() { "\n".to_owned() } else { format!("\n{head}\n") };
            text += &aligned(&rows);
        }
        text
    }

    fn row(&self, line: &TimeLine, common: &AxisUnit) -> UnitRow {
        let count = line.values.len();
        let least = line.values.iter().copied().reduce(f64::min);
        let most = line.values.iter().copied().reduce(f64::max);
        let mean = line.values.iter().sum::<f64>() / count.max(1) as f64;
        let mean = Some(mean).filter(|_| count > 0);
        let unit = common.of_row(most.unwrap_or(0.0), |largest| self.unit_of(largest));
        let written = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.write(value));
        let cells = [count.to_string(), written(mean), written(least), written(most)];
        UnitRow::new(&self.lines[line.line], cells.into_iter(), &unit)
    }
}
