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
            let mut rows = match self.form {
                FigureForm::Lines | FigureForm::Box => self.rows(panel, &unit),
                FigureForm::Cdf => self.quantile_rows(panel, &unit),
            };
            for column in 1..rows[0].len() {
                format::align_ranges(rows.iter_mut().skip(1).map(|row| &mut row[column]));
            }
            text += &aligned(&rows);
        }
        text
    }

    fn rows(&self, panel: &Panel, unit: &AxisUnit) -> Vec<Vec<String>> {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.write(value));
        let functions = panel.overlays.iter().map(|overlay| &overlay.name);
        let head = std::iter::once(&self.x).chain(&self.lines).chain(functions).cloned();
        let cell = |line: usize, at: usize| match self.form {
            FigureForm::Box => quartiles(&panel.values[line][at], unit),
            _ => panel.points[line][at].map_or("-".to_owned(), |point| self.written(&point, unit)),
        };
        let mut rows: Vec<Vec<String>> = vec![head.collect()];
        for (at, label) in panel.labels.iter().enumerate() {
            let points = (0..self.lines.len()).map(|line| cell(line, at));
            let functions = panel.overlays.iter().map(|overlay| number(overlay.values[at]));
            rows.push(std::iter::once(label.clone()).chain(points).chain(functions).collect());
        }
        if panel.labels.len() > 1 && self.form == FigureForm::Lines {
            let middles = |line: &Vec<Option<Point>>| -> Vec<Option<f64>> {
                line.iter().map(|point| point.map(|point| point.middle(self.bars))).collect()
            };
            let functions = panel.overlays.iter().map(|overlay| overlay.values.clone());
            let moved = panel.points.iter().map(middles).chain(functions).map(|values| {
                let ends = values[0].zip(values[values.len() - 1]);
                number(ends.map(|(first, last)| first - last))
            });
            rows.push(std::iter::once(DIFFERENCE.to_owned()).chain(moved).collect());
        }
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

/// The median of a box and its quartiles.
fn quartiles(sample: &[f64], unit: &AxisUnit) -> String {
    let Some(of) = BoxSummary::of(sample) else { return "-".to_owned() };
    let [low, high] = [of.lower_quartile, of.upper_quartile].map(|value| unit.write(value));
    format!("{} ({low}–{high})", unit.write(of.median))
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
