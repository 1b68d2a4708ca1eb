// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure as a table: a block for each panel, a row for each value, a column for each line.

use super::{Figure, Panel, Point};
use crate::{axis_unit::AxisUnit, format};

/// The row below the others: how far the swept key moves the metric.
const DIFFERENCE: &str = "first - last";

impl Figure {
    /// The medians as text, with the least and the most of several runs. The last row of each panel is
    /// the first value's median less the last one's.
    pub fn table(&self) -> String {
        let unit = AxisUnit::of(&self.y, self.largest());
        let mut text = format!("{}: {}\n{}\n", self.title, unit.axis, self.about());
        for panel in &self.panels {
            text.push('\n');
            if !panel.fixed.is_empty() {
                text += &format!("{}\n", panel.fixed);
            }
            text += &aligned(&self.rows(panel, &unit));
        }
        text
    }

    fn rows(&self, panel: &Panel, unit: &AxisUnit) -> Vec<Vec<String>> {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.write(value));
        let head = std::iter::once(&self.x).chain(&self.lines).cloned().collect();
        let mut rows: Vec<Vec<String>> = vec![head];
        for (at, label) in panel.labels.iter().enumerate() {
            let text = |point: Point| format::spread(&point.range(), |value| unit.write(value));
            let points =
                panel.points.iter().map(|line| line[at].map_or_else(|| "-".to_owned(), text));
            rows.push(std::iter::once(label.clone()).chain(points).collect());
        }
        if panel.labels.len() > 1 {
            let moved = |line: &Vec<Option<Point>>| {
                let ends = line.first().copied().flatten().zip(line.last().copied().flatten());
                number(ends.map(|(first, last)| first.median - last.median))
            };
            let moved = panel.points.iter().map(moved);
            rows.push(std::iter::once(DIFFERENCE.to_owned()).chain(moved).collect());
        }
        for column in 1..=panel.points.len() {
            format::align_ranges(rows.iter_mut().skip(1).map(|row| &mut row[column]));
        }
        rows
    }
}

/// The first column to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let (first, rest) = row.split_first().expect("a row has its label");
        text += &format!("{first:<0$}", widths[0]);
        for (cell, width) in rest.iter().zip(&widths[1..]) {
            text += &format!("  {cell:>width$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
