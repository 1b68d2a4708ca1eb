// SPDX-License-Identifier: GPL-2.0-or-later
//! The repeats of each run put together: mean, standard deviation and 95 % confidence interval of every metric, a row for each entity
//! and metric. Runs and flows that medians leave out are left out, and the time of a transfer that the time limit cut off: it is only
//! a lower bound.

use super::{MetricsTable, Row, Run, Swept};
use record::{
    RunVerdict,
    parquet_table::{ColumnKind, ColumnValues, ROWS_IN_GROUP, TableWriter},
    repeats, stats,
};
use std::{
    io::{self, Write},
    path::Path,
};

/// Columns before those of swept keys, and after them.
const BEFORE: [&str; 5] = ["scenario", "method", "variant", "point", "records"];
const AFTER: [&str; 8] = ["entity", "metric", "unit", "n", "mean", "sd", "ci_low", "ci_high"];

/// The metrics of repeats as one long table.
#[derive(Debug)]
pub struct IntervalsTable<'t> {
    swept: Vec<Swept>,
    rows: Vec<Interval<'t>>,
}

#[derive(Debug)]
struct Interval<'t> {
    /// One of the repeats.
    run: &'t Run,
    /// Of one of them.
    row: &'t Row,
    n: usize,
    mean: f64,
    /// Standard deviation (n - 1) and half the width of the confidence interval; none of a single run.
    spread: Option<(f64, f64)>,
}

impl MetricsTable {
    /// Its runs with their repeats put together. Repeats lie in one folder; a run that lies in two of them is two measurements.
    pub fn intervals(&self) -> IntervalsTable<'_> {
        let key = |run: &&Run| {
            let folder = run.folder.parent().map(Path::to_owned);
            (run.manifest.title.clone(), folder, run.manifest.repeat_key())
        };
        let mut rows = Vec::new();
        for (_, runs) in repeats::group(&self.runs, key) {
            let all = runs.iter().flat_map(|run| run.rows.iter().map(move |row| (*run, row)));
            let counted = all.filter(|(_, row)| is_counted(row));
            let name = |(_, row): &(&Run, &Row)| (row.entity.clone(), row.metric.name.clone());
            for (_, values) in repeats::group(counted, name) {
                let sample: Vec<f64> = values.iter().map(|(_, row)| row.metric.value).collect();
                let Some(estimate) = stats::mean_ci95(&sample) else { continue };
                let (run, row) = values[0];
                let spread = stats::sample_deviation(&sample).zip(estimate.half_width);
                rows.push(Interval { run, row, n: sample.len(), mean: estimate.mean, spread });
            }
        }
        IntervalsTable { swept: super::swept(&self.runs, [&BEFORE, &AFTER]), rows }
    }
}

fn is_counted(row: &Row) -> bool {
    let is_bound = row.verdict == RunVerdict::Cut
        && row.entity.starts_with("flow:")
        && row.metric.name == "seconds";
    row.verdict.in_medians() && !is_bound
}

impl Interval<'_> {
    /// The cells of the columns before those of swept keys.
    fn texts(&self) -> [String; BEFORE.len()] {
        let manifest = &self.run.manifest;
        let variant = manifest.variant.as_ref().map(|variant| variant.name.clone());
        let folder = self.run.folder.parent().unwrap_or(&self.run.folder);
        [
            manifest.title.clone(),
            manifest.method.clone(),
            variant.unwrap_or_default(),
            manifest.point_text(),
            folder.display().to_string(),
        ]
    }

    fn deviation(&self) -> Option<f64> {
        self.spread.map(|(deviation, _)| deviation)
    }

    /// The ends of the confidence interval.
    fn low(&self) -> Option<f64> {
        self.spread.map(|(_, half)| self.mean - half)
    }

    fn high(&self) -> Option<f64> {
        self.spread.map(|(_, half)| self.mean + half)
    }
}

impl IntervalsTable<'_> {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The names of the columns and what they hold.
    fn columns(&self) -> Vec<(&str, ColumnKind)> {
        let texts = |names: &[&'static str]| -> Vec<_> {
            names.iter().map(|name| (*name, ColumnKind::Texts)).collect()
        };
        let swept = &self.swept;
        let mut columns: Vec<(&str, ColumnKind)> = texts(&BEFORE);
        columns.extend(swept.iter().map(|swept| (swept.column.as_str(), ColumnKind::Texts)));
        let numbers = swept.iter().filter_map(|swept| swept.numbers.as_deref());
        columns.extend(numbers.map(|name| (name, ColumnKind::OptionalDoubles)));
        let kinds = [
            ColumnKind::Texts,
            ColumnKind::Texts,
            ColumnKind::Texts,
            ColumnKind::Integers,
            ColumnKind::Doubles,
            ColumnKind::OptionalDoubles,
            ColumnKind::OptionalDoubles,
            ColumnKind::OptionalDoubles,
        ];
        columns.extend(AFTER.into_iter().zip(kinds));
        columns
    }

    /// Writes the table as CSV (RFC 4180), with the columns' names in the first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn csv(&self, into: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(into);
        csv.write_record(self.columns().into_iter().map(|(name, _)| name))?;
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        for row in &self.rows {
            let mut texts: Vec<String> = row.texts().to_vec();
            texts.extend(row.run.swept(&self.swept));
            texts.extend(row.run.numbers(&self.swept).into_iter().map(number));
            let Row { entity, metric, .. } = row.row;
            texts.extend([entity.clone(), metric.name.clone(), metric.unit.to_owned()]);
            texts.extend([row.n.to_string(), row.mean.to_string()]);
            texts.extend([row.deviation(), row.low(), row.high()].map(number));
            csv.write_record(&texts)?;
        }
        csv.flush()
    }

    /// Writes the table as a Parquet file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn parquet(&self, into: impl Write + Send) -> io::Result<()> {
        let mut table = TableWriter::new(into, "intervals", &self.columns())?;
        for rows in self.rows.chunks(ROWS_IN_GROUP) {
            table.write(self.group(rows))?;
        }
        table.close()
    }

    /// The columns of some rows.
    fn group(&self, rows: &[Interval<'_>]) -> Vec<ColumnValues> {
        let texts = |text: &dyn Fn(&Interval<'_>) -> String| {
            ColumnValues::Texts(rows.iter().map(|row| (text(row), 1)).collect())
        };
        let doubles = |value: &dyn Fn(&Interval<'_>) -> Option<f64>| {
            ColumnValues::OptionalDoubles(rows.iter().map(value).collect())
        };
        let mut columns: Vec<ColumnValues> =
            (0..BEFORE.len()).map(|n| texts(&|row| row.texts()[n].clone())).collect();
        let swept = &self.swept;
        columns.extend(swept.iter().map(|swept| texts(&|row| row.run.value(swept).to_owned())));
        let numbers = swept.iter().filter(|swept| swept.numbers.is_some());
        columns.extend(numbers.map(|swept| doubles(&|row| row.run.number(swept))));
        columns.extend([
            texts(&|row| row.row.entity.clone()),
            texts(&|row| row.row.metric.name.clone()),
            texts(&|row| row.row.metric.unit.to_owned()),
            ColumnValues::Integers(
                rows.iter().map(|row| i64::try_from(row.n).unwrap_or(i64::MAX)).collect(),
            ),
            ColumnValues::Doubles(rows.iter().map(|row| row.mean).collect()),
            doubles(&|row| row.deviation()),
            doubles(&|row| row.low()),
            doubles(&|row| row.high()),
        ]);
        columns
    }
}
