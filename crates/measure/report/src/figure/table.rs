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
        let unit = self.unit();
        let blocks = self.panels.iter().map(|panel| match self.form {
            FigureForm::Lines | FigureForm::Box => self.rows(panel, &unit),
            FigureForm::Cdf => self.quantile_rows(panel, &unit),
        });
        let blocks = with_units(blocks.collect(), &unit);
        let mut text = format!("{}: {}\n{}\n", self.title, unit.axis, self.about());
        for (panel, mut rows) in self.panels.iter().zip(blocks) {
            text.push('\n');
            if !panel.fixed.is_empty() {
                text += &format!("{}\n", panel.fixed);
            }
            for column in 1..rows[0].len() {
                format::align_ranges(rows.iter_mut().skip(1).map(|row| &mut row[column]));
            }
            text += &aligned(&rows);
        }
        text
    }

    fn rows(&self, panel: &Panel, common: &AxisUnit) -> Vec<UnitRow> {
        let functions = panel.overlays.iter().map(|overlay| &overlay.name);
        let head = std::iter::once(&self.x).chain(&self.lines).chain(functions).cloned();
        let cell = |line: usize, at: usize, unit: &AxisUnit| match self.form {
            FigureForm::Box => quartiles(&panel.values[line][at], unit),
            _ => panel.points[line][at].map_or("-".to_owned(), |point| self.written(&point, unit)),
        };
        let mut rows = vec![UnitRow::head(head)];
        for (at, label) in panel.labels.iter().enumerate() {
            let measured = panel.points.iter().filter_map(|line| Some(line[at]?.most));
            let unit = self.row_unit(measured, common);
            let points = (0..self.lines.len()).map(|line| cell(line, at, &unit));
            let functions = panel.overlays.iter().map(|overlay| number(overlay.values[at], &unit));
            rows.push(UnitRow::new(label, points.chain(functions), &unit));
        }
        if panel.labels.len() > 1 && self.form == FigureForm::Lines {
            let middles = |line: &Vec<Option<Point>>| -> Vec<Option<f64>> {
                line.iter().map(|point| point.map(|point| point.middle(self.bars))).collect()
            };
            let functions = panel.overlays.iter().map(|overlay| overlay.values.clone());
            let moved = panel.points.iter().map(middles).chain(functions).map(|values| {
                let ends = values[0].zip(values[values.len() - 1]);
                ends.map(|(first, last)| first - last)
            });
            let moved: Vec<Option<f64>> = moved.collect();
            let unit = self.row_unit(moved.iter().flatten().map(|value| value.abs()), common);
            let cells = moved.into_iter().map(|value| number(value, &unit));
            rows.push(UnitRow::new(DIFFERENCE, cells, &unit));
        }
        rows
    }

    fn row_unit(&self, values: impl Iterator<Item = f64>, common: &AxisUnit) -> AxisUnit {
        common.of_row(values.fold(0.0, f64::max), |largest| AxisUnit::of(&self.y, largest))
    }

    fn written(&self, point: &Point, unit: &AxisUnit) -> String {
        match self.bars {
            Bars::Range => format::spread(&point.range(), |value| unit.write(value)),
            Bars::None => unit.write(point.mean),
            Bars::Ci95 => {
                let half = point
                    .ci95_half_width
                    .map(|half| format!(" (±{})", unit.write_half_width(point.mean, half)));
                unit.write(point.mean) + &half.unwrap_or_default()
            }
        }
    }

    /// Quantiles of each line, and how many values it has.
    fn quantile_rows(&self, panel: &Panel, common: &AxisUnit) -> Vec<UnitRow> {
        const SHARES: [(&str, f64); 7] = [
            ("minimum", 0.0),
            ("5 %", 0.05),
            ("25 %", 0.25),
            ("median", 0.5),
            ("75 %", 0.75),
            ("95 %", 0.95),
            ("maximum", 1.0),
        ];
        let mut rows = vec![UnitRow::head(
            std::iter::once(&"quantile".to_owned()).chain(&self.lines).cloned(),
        )];
        let samples: Vec<Vec<f64>> = panel.values.iter().map(|line| sorted(&line[0])).collect();
        rows.extend(SHARES.map(|(name, share)| {
            let values: Vec<Option<f64>> =
                samples.iter().map(|sample| interpolated(sample, share)).collect();
            let unit = self.row_unit(values.iter().flatten().copied(), common);
            UnitRow::new(name, values.into_iter().map(|value| number(value, &unit)), &unit)
        }));
        let counts = samples.iter().map(|sample| sample.len().to_string());
        rows.push(UnitRow { unit: None, ..UnitRow::new("values", counts, common) });
        rows
    }
}

/// A row of a table, and the unit that its cells are in; none of a row of other things.
pub(crate) struct UnitRow {
    unit: Option<&'static str>,
    cells: Vec<String>,
}

impl UnitRow {
    pub fn head(cells: impl Iterator<Item = String>) -> Self {
        Self { unit: None, cells: cells.collect() }
    }

    pub fn new(label: &str, cells: impl Iterator<Item = String>, unit: &AxisUnit) -> Self {
        let cells = std::iter::once(label.to_owned()).chain(cells).collect();
        Self { unit: Some(unit.symbol), cells }
    }
}

/// The rows of a table's blocks, with a column of units if one of them has another unit than the table.
pub(crate) fn with_units(blocks: Vec<Vec<UnitRow>>, common: &AxisUnit) -> Vec<Vec<Vec<String>>> {
    let mut units = blocks.iter().flatten().filter_map(|row| row.unit);
    let are_mixed = units.any(|unit| unit != common.symbol);
    let cells = |(n, row): (usize, UnitRow)| {
        let mut cells = row.cells;
        if are_mixed {
            let unit = row.unit.unwrap_or(if n == 0 { "unit" } else { "" });
            cells.insert(1, unit.to_owned());
        }
        cells
    };
    blocks.into_iter().map(|rows| rows.into_iter().enumerate().map(cells).collect()).collect()
}

fn number(value: Option<f64>, unit: &AxisUnit) -> String {
    value.map_or("-".to_owned(), |value| unit.write(value))
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
