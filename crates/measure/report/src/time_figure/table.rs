// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as a table: a row for each line of each panel.

use super::{TimeFigure, TimeLine};
use crate::{axis_unit::AxisUnit, figure::aligned};

impl TimeFigure {
    /// Mean, minimum and maximum of the samples of each line.
    pub fn table(&self) -> String {
        let unit = self.unit();
        let span = format!("from {:.3} to {:.3} s", self.span_s.start, self.span_s.end);
        let mut text = format!("{}: {}\n{}, {span}\n", self.title, unit.axis, self.about());
        for panel in &self.panels {
            let head = panel.heading();
            text += &if head.is_empty() { "\n".to_owned() } else { format!("\n{head}\n") };
            let columns = ["", "samples", "mean", "minimum", "maximum"].map(str::to_owned).to_vec();
            let rows = panel.lines.iter().map(|line| self.row(line, &unit));
            text += &aligned(&std::iter::once(columns).chain(rows).collect::<Vec<_>>());
        }
        text
    }

    fn row(&self, line: &TimeLine, unit: &AxisUnit) -> Vec<String> {
        let count = line.values.len();
        let least = line.values.iter().copied().reduce(f64::min);
        let most = line.values.iter().copied().reduce(f64::max);
        let mean = line.values.iter().sum::<f64>() / count.max(1) as f64;
        let mean = Some(mean).filter(|_| count > 0);
        let written = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.write(value));
        let name = self.lines[line.line].clone();
        vec![name, count.to_string(), written(mean), written(least), written(most)]
    }
}
