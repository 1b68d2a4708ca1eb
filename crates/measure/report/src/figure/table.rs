// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure as a table: a block for each panel, a row for each value, a column for each line; of a CDF a row for
//! each quantile.

use super::{Bars, Figure, FigureForm, Panel, Point};
use crate::{
    axis_unit::AxisUnit,
    distribution::{BoxSummary, interpolated, sorted},
    format,
};

/// The row below the others: how far the swept key moves the metric.
const DIFFERENCE: &str = "first - last";

impl Figure {
    /// The means as text with their intervals, or what else the figure shows. The last row of each panel of
    /// lines is the first value's less the last one's.
    pub fn table(&self) -> String {
        let unit = AxisUnit::of(&self.y, self.largest());
        let mut text = format!("{}: {}\n{}\n", self.title, unit.axis, self.about());
        for panel in &self.panels {
            text.push('\n');
            if !panel.fixed.is_empty() {
                text += &format!("{}\n", panel.fixed);
            }
            text += &aligned(&match self.form {
                FigureForm::Lines => self.rows(panel, &unit),
                FigureForm::Box => self.box_rows(panel, &unit),
                FigureForm::Cdf => self.quantile_rows(panel, &unit),
            });
        }
        text
    }

    fn rows(&self, panel: &Panel, unit: &AxisUnit) -> Vec<Vec<String>> {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.write(value));
        let functions = panel.overlays.iter().map(|overlay| &overlay.name);
        let head = std::iter::once(&self.x).chain(&self.lines).chain(functions).cloned();
        let mut rows: Vec<Vec<String>> = vec![head.collect()];
        for (at, label) in panel.labels.iter().enumerate() {
            let text = |point: Point| self.written(&point, unit);
            let points =
                panel.points.iter().map(|line| line[at].map_or_else(|| "-".to_owned(), text));
            let functions = panel.overlays.iter().map(|overlay| number(overlay.values[at]));
            rows.push(std::iter::once(label.clone()).chain(points).chain(functions).collect());
        }
        if panel.labels.len() > 1 {
            let moved = |line: &Vec<Option<Point>>| {
                let ends = line.first().copied().flatten().zip(line.last().copied().flatten());
                number(ends.map(|(first, last)| first.middle(self.bars) - last.middle(self.bars)))
            };
            let functions = panel.overlays.iter().map(|overlay| {
                let ends = overlay.values.first().copied().flatten();
                let ends = ends.zip(overlay.values.last().copied().flatten());
                number(ends.map(|(first, last)| first - last))
            });
            let moved = panel.points.iter().map(moved).chain(functions);
            rows.push(std::iter::once(DIFFERENCE.to_owned()).chain(moved).collect());
        }
        align_columns(&mut rows);
        rows
    }

    fn written(&self, point: &Point, unit: &AxisUnit) -> String {
        match self.bars {
            Bars::Range => format::spread(&point.range(), |value| unit.write(value)),
            Bars::None => unit.write(point.mean),
            Bars::Ci95 => {
                let half = point
                    .ci95_half_width
                    .map(|half| format!(" (±{})", unit.write_half_width(half)));
                unit.write(point.mean) + &half.unwrap_or_default()
            }
        }
    }

    /// Of each box the median and the quartiles.
    fn box_rows(&self, panel: &Panel, unit: &AxisUnit) -> Vec<Vec<String>> {
        let text = |sample: &[f64]| {
            let Some(of) = BoxSummary::of(sample) else { return "-".to_owned() };
            let [low, high] = [of.lower_quartile, of.upper_quartile].map(|value| unit.write(value));
            format!("{} ({low}–{high})", unit.write(of.median))
        };
        let mut rows = vec![std::iter::once(&self.x).chain(&self.lines).cloned().collect()];
        for (at, label) in panel.labels.iter().enumerate() {
            let cells = panel.values.iter().map(|line| text(&line[at]));
            rows.push(std::iter::once(label.clone()).chain(cells).collect());
        }
        align_columns(&mut rows);
        rows
    }

    /// Quantiles of each line, and how many values it has.
    fn quantile_rows(&self, panel: &Panel, unit: &AxisUnit) -> Vec<Vec<String>> {
        const SHARES: [(&str, f64); 7] = [
            ("minimum", 0.0),
            ("5 %", 0.05),
            ("25 %", 0.25),
            ("median", 0.5),
            ("75 %", 0.75),
            ("95 %", 0.95),
            ("maximum", 1.0),
        ];
        let row = |name: &str, cell: &dyn Fn(&[f64]) -> String| {
            let cells = panel.values.iter().map(|line| cell(&line[0]));
            std::iter::once(name.to_owned()).chain(cells).collect::<Vec<String>>()
        };
        let mut rows: Vec<Vec<String>> =
            vec![std::iter::once(&"quantile".to_owned()).chain(&self.lines).cloned().collect()];
        rows.extend(SHARES.map(|(name, share)| {
            row(name, &|sample| {
                let value = interpolated(&sorted(sample), share);
                value.map_or_else(|| "-".to_owned(), |value| unit.write(value))
            })
        }));
        rows.push(row("values", &|sample| sample.len().to_string()));
        rows
    }
}

/// Pads all columns but the first for the part in parentheses.
fn align_columns(rows: &mut [Vec<String>]) {
    for column in 1..rows.first().map_or(0, Vec::len) {
        format::align_ranges(rows.iter_mut().skip(1).map(|row| &mut row[column]));
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
