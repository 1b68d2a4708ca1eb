// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one long table, as pandas, R and SQL engines take it ("tidy data", Wickham 2014): a row for each
//! run, entity and metric. As CSV ([`MetricsTable::csv`]) and as Parquet ([`MetricsTable::parquet`]).
//!
//! [`MetricsTable::intervals`] puts repeats together.
//!
//! What a run does not know has no row. A swept key is a column of its own with the texts of the scenario,
//! and where all of them are numbers, with or without units, another one with the numbers.

mod entities;
mod intervals;

use crate::{Error, swept_value::SweptValue};
use entities::Row;
pub use intervals::IntervalsTable;
use record::{
    Manifest, Record, RunResults,
    manifest::short_key,
    parquet_table::{ColumnKind, ColumnValues, ROWS_IN_GROUP, TableWriter},
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
};

/// Columns before those of swept keys, and after them.
const BEFORE: [&str; 8] =
    ["scenario", "run", "method", "variant", "point", "repeat", "seed", "record"];
const AFTER: [&str; 5] = ["entity", "standing", "metric", "value", "unit"];

/// The metrics of some records as one long table.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsTable {
    swept: Vec<Swept>,
    runs: Vec<Run>,
}

/// A swept key.
#[derive(Debug, Clone, PartialEq)]
struct Swept {
    key: String,
    /// The column's name: the key, without the `vars.` of a variable where that names no other column.
    column: String,
    /// The name of the column with the numbers, where the key's values are numbers.
    numbers: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Run {
    manifest: Manifest,
    folder: PathBuf,
    rows: Vec<Row>,
}

impl MetricsTable {
    /// Reads the records at and below these folders; each once, however often it is named. The
    /// first `warm_up_s` seconds of each run are left out.
    ///
    /// # Errors
    /// There is no record at or below one of them, or one cannot be read.
    pub fn read(dirs: &[PathBuf], warm_up_s: f64) -> Result<Self, Error> {
        let (mut seen, mut runs) = (BTreeSet::new(), Vec::new());
        for dir in dirs {
            let folders = record::find_records(dir)?;
            if folders.is_empty() {
                return Err(Error::Empty(dir.clone()));
            }
            for folder in folders {
                if seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                    runs.push(Run::read(folder, warm_up_s)?);
                }
            }
        }
        Ok(Self { swept: swept(&runs, [&BEFORE, &AFTER]), runs })
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.runs.iter().map(|run| run.rows.len()).sum()
    }

    /// The names of the columns.
    fn columns(&self) -> Vec<&str> {
        let swept = self.swept.iter().map(|swept| swept.column.as_str());
        let numbers = self.swept.iter().filter_map(|swept| swept.numbers.as_deref());
        BEFORE.into_iter().chain(swept).chain(numbers).chain(AFTER).collect()
    }

    /// Writes the table as CSV (RFC 4180), with the columns' names in the first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn csv(&self, into: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(into);
        csv.write_record(self.columns())?;
        for run in &self.runs {
            let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
            let of_run: Vec<String> =
                run.texts().into_iter().chain(run.swept(&self.swept)).collect();
            let numbers: Vec<String> = run.numbers(&self.swept).into_iter().map(number).collect();
            for Row { entity, verdict, metric } in &run.rows {
                let (value, name) = (metric.value.to_string(), verdict.name());
                let row = [entity, name, &metric.name, &value, metric.unit];
                csv.write_record(of_run.iter().chain(&numbers).map(String::as_str).chain(row))?;
            }
        }
        csv.flush()
    }

    /// Writes the table as a Parquet file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn parquet(&self, into: impl Write + Send) -> io::Result<()> {
        let mut kinds = vec![ColumnKind::Texts; BEFORE.len() + self.swept.len()];
        kinds[BEFORE.iter().position(|name| *name == "repeat").expect("a column")] =
            ColumnKind::Integers;
        kinds.extend(
            self.swept.iter().filter(|s| s.numbers.is_some()).map(|_| ColumnKind::OptionalDoubles),
        );
        kinds.extend([
            ColumnKind::Texts,
            ColumnKind::Texts,
            ColumnKind::Texts,
            ColumnKind::Doubles,
            ColumnKind::Texts,
        ]);
        let columns: Vec<(&str, ColumnKind)> = self.columns().into_iter().zip(kinds).collect();
        let mut table = TableWriter::new(into, "metrics", &columns)?;
        let mut group: Vec<(&Run, &[Row])> = Vec::new();
        let mut rows_in_group = 0;
        for run in &self.runs {
            // Whole runs together until a group is full; only a run of very many rows is cut.
            for rows in run.rows.chunks(ROWS_IN_GROUP) {
                if rows_in_group + rows.len() > ROWS_IN_GROUP {
                    table.write(self.group(&std::mem::take(&mut group)))?;
                    rows_in_group = 0;
                }
                rows_in_group += rows.len();
                group.push((run, rows));
            }
        }
        if rows_in_group > 0 {
            table.write(self.group(&group))?;
        }
        table.close()
    }

    /// The columns of some rows.
    fn group(&self, parts: &[(&Run, &[Row])]) -> Vec<ColumnValues> {
        let of_runs = |text: &dyn Fn(&Run) -> String| {
            ColumnValues::Texts(parts.iter().map(|(run, rows)| (text(run), rows.len())).collect())
        };
        let rows = || parts.iter().flat_map(|(_, rows)| rows.iter());
        let of_rows = |text: &dyn Fn(&Row) -> String| {
            ColumnValues::Texts(rows().map(|row| (text(row), 1)).collect())
        };
        let mut columns: Vec<ColumnValues> = BEFORE
            .iter()
            .enumerate()
            .map(|(n, name)| match *name {
                "repeat" => ColumnValues::Integers(
                    parts
                        .iter()
                        .flat_map(|(run, rows)| {
                            std::iter::repeat_n(i64::from(run.manifest.repeat), rows.len())
                        })
                        .collect(),
                ),
                _ => of_runs(&|run| run.texts()[n].clone()),
            })
            .collect();
        columns.extend(self.swept.iter().map(|swept| of_runs(&|run| run.value(swept).to_owned())));
        let numbers = self.swept.iter().filter(|swept| swept.numbers.is_some());
        columns.extend(numbers.map(|swept| {
            let each = parts
                .iter()
                .flat_map(|(run, rows)| std::iter::repeat_n(run.number(swept), rows.len()));
            ColumnValues::OptionalDoubles(each.collect())
        }));
        columns.extend([
            of_rows(&|row| row.entity.clone()),
            of_rows(&|row| row.verdict.name().to_owned()),
            of_rows(&|row| row.metric.name.clone()),
            ColumnValues::Doubles(rows().map(|row| row.metric.value).collect()),
            of_rows(&|row| row.metric.unit.to_owned()),
        ]);
        columns
    }
}

impl Run {
    fn read(folder: PathBuf, warm_up_s: f64) -> Result<Self, Error> {
        let RunResults { manifest, summary } = Record::results(&folder)?;
        let rows = if warm_up_s > 0.0 {
            let (series, files) = (Record::series(&folder)?, Record::files(&folder)?);
            entities::rows_after(&manifest, &summary, warm_up_s, &series, &files)
        } else {
            entities::rows(&manifest, &summary)
        };
        Ok(Self { manifest, folder, rows })
    }

    /// The cells of the columns before those of swept keys.
    fn texts(&self) -> [String; BEFORE.len()] {
        let Manifest { title, id, method, variant, repeat, seed, .. } = &self.manifest;
        [
            title.clone(),
            id.clone(),
            method.clone(),
            variant.as_ref().map(|variant| variant.name.clone()).unwrap_or_default(),
            self.manifest.point_text(),
            repeat.to_string(),
            seed.to_string(),
            self.folder.display().to_string(),
        ]
    }

    /// A swept key's value; empty in a scenario that does not sweep it.
    fn value(&self, swept: &Swept) -> &str {
        let mut point = self.manifest.point.iter();
        point.find(|(key, _)| *key == swept.key).map_or("", |(_, value)| value)
    }

    fn number(&self, swept: &Swept) -> Option<f64> {
        match SweptValue::parse(self.value(swept)) {
            SweptValue::Number(number) => Some(number),
            SweptValue::Text(_) => None,
        }
    }

    fn swept(&self, all: &[Swept]) -> Vec<String> {
        all.iter().map(|swept| self.value(swept).to_owned()).collect()
    }

    fn numbers(&self, all: &[Swept]) -> Vec<Option<f64>> {
        let with_numbers = all.iter().filter(|swept| swept.numbers.is_some());
        with_numbers.map(|swept| self.number(swept)).collect()
    }
}

/// The swept keys of all runs, in the order in which they come, with columns that have other names than these.
fn swept(runs: &[Run], others: [&[&str]; 2]) -> Vec<Swept> {
    let mut all: Vec<Swept> = Vec::new();
    for (key, value) in runs.iter().flat_map(|run| &run.manifest.point) {
        let is_number = matches!(SweptValue::parse(value), SweptValue::Number(_));
        if let Some(known) = all.iter_mut().find(|swept| swept.key == *key) {
            known.numbers = known.numbers.take().filter(|_| is_number);
        } else {
            let numbers = is_number.then(String::new);
            all.push(Swept { key: key.clone(), column: String::new(), numbers });
        }
    }
    let mut taken: BTreeSet<String> =
        others.iter().copied().flatten().map(|name| (*name).to_owned()).collect();
    for swept in &mut all {
        let short = short_key(&swept.key);
        swept.column = free(&mut taken, [short.to_owned(), swept.key.clone()]);
        let column = &swept.column;
        swept.numbers =
            swept.numbers.take().map(|_| free(&mut taken, [format!("{column}_number")]));
    }
    all
}

/// The first of the names that no other column has, made longer if need be.
fn free(taken: &mut BTreeSet<String>, names: impl IntoIterator<Item = String>) -> String {
    let mut name = String::new();
    for candidate in names {
        if taken.insert(candidate.clone()) {
            return candidate;
        }
        name = candidate;
    }
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests;
