// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one long table, as pandas, R and SQL engines take it ("tidy data", Wickham 2014): a row for each
//! run, entity and metric. As CSV ([`LongTable::csv`]) and as Parquet ([`LongTable::parquet`]).
//!
//! [`MetricsTable::intervals`] puts repeats together.
//!
//! What a run does not know has no row. A swept key is a column of its own with the texts of the scenario,
//! and where all of them are numbers, with or without units, another one with the numbers.

pub(crate) mod entities;
mod intervals;
pub(crate) mod long_table;

use crate::{Error, swept_value::SweptValue, warm_up};
use entities::Row;
pub use long_table::LongTable;
use long_table::{Column, ColumnsOf};
use record::{Manifest, Record, RunResults, manifest::short_key};
use std::{collections::BTreeSet, path::PathBuf};

/// The metrics of some records.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsTable {
    runs: Vec<Run>,
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
    /// There is no record at or below one of them, one cannot be read, or all ended in the warm-up.
    pub fn read(dirs: &[PathBuf], warm_up_s: f64) -> Result<Self, Error> {
        let (mut seen, mut runs, mut summaries) = (BTreeSet::new(), Vec::new(), Vec::new());
        for dir in dirs {
            let folders = record::find_records(dir)?;
            if folders.is_empty() {
                return Err(Error::Empty(dir.clone()));
            }
            for folder in folders {
                if seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                    let results = Record::results(&folder)?;
                    summaries.push(results.summary.clone());
                    runs.push(Run::read(folder, results, warm_up_s)?);
                }
            }
        }
        warm_up::check(summaries.iter(), warm_up_s)?;
        Ok(Self { runs })
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// A row for each metric of each entity of each run.
    pub fn metrics(&self) -> LongTable<'_> {
        let rows = self.runs.iter().flat_map(|run| run.rows.iter().map(move |row| (run, row)));
        let of = ColumnsOf::rows(rows.collect());
        let before = vec![
            of.texts("scenario", |(run, _)| (&run.manifest.title).into()),
            of.texts("run", |(run, _)| (&run.manifest.id).into()),
            of.texts("method", |(run, _)| (&run.manifest.method).into()),
            of.texts("variant", |(run, _)| run.variant().into()),
            of.texts("point", |(run, _)| run.manifest.point_text().into()),
            of.integers("repeat", |(run, _)| run.manifest.repeat.into()),
            of.texts("seed", |(run, _)| run.manifest.seed.to_string().into()),
            of.texts("record", |(run, _)| run.folder.to_string_lossy()),
        ];
        let after = vec![
            of.texts("entity", |(_, row)| (&row.entity).into()),
            of.texts("standing", |(_, row)| row.verdict.name().into()),
            of.texts("metric", |(_, row)| (&row.metric.name).into()),
            of.doubles("value", |(_, row)| row.metric.value),
            of.texts("unit", |(_, row)| row.metric.unit.into()),
        ];
        let swept = self.swept(&of, |(run, _)| run, &[&before, &after]);
        of.table("metrics", [before, swept, after])
    }

    /// Columns of the swept keys of all runs, in the order in which they come, with other names than these columns have: of
    /// each the texts, without the `vars.` of a variable where that names no other column, and after all texts the
    /// numbers of those whose values are numbers.
    fn swept<'t, R: 't>(
        &'t self,
        of: &ColumnsOf<'t, R>,
        run: fn(&R) -> &'t Run,
        others: &[&[Column<'t>]],
    ) -> Vec<Column<'t>> {
        let mut keys: Vec<(&str, bool)> = Vec::new();
        for (key, value) in self.runs.iter().flat_map(|run| &run.manifest.point) {
            match keys.iter_mut().find(|(known, _)| known == key) {
                Some((_, are_numbers)) => *are_numbers &= number(value).is_some(),
                None => keys.push((key, number(value).is_some())),
            }
        }
        let mut taken: BTreeSet<String> =
            others.iter().copied().flatten().map(|column| column.name.clone()).collect();
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        for (key, are_numbers) in keys {
            let name = free(&mut taken, [short_key(key).to_owned(), key.to_owned()]);
            if are_numbers {
                let name = free(&mut taken, [format!("{name}_number")]);
                numbers.push(of.optional(&name, move |row| number(run(row).value(key))));
            }
            texts.push(of.texts(&name, move |row| run(row).value(key).into()));
        }
        texts.append(&mut numbers);
        texts
    }
}

impl Run {
    fn read(folder: PathBuf, results: RunResults, warm_up_s: f64) -> Result<Self, Error> {
        let rows = entities::rows_of_record(&folder, &results, warm_up_s)?;
        Ok(Self { manifest: results.manifest, folder, rows })
    }

    fn variant(&self) -> &str {
        self.manifest.variant.as_ref().map_or("", |variant| &variant.name)
    }

    /// A swept key's value; empty in a scenario that does not sweep it.
    fn value(&self, key: &str) -> &str {
        let mut point = self.manifest.point.iter();
        point.find(|(one, _)| one == key).map_or("", |(_, value)| value)
    }
}

fn number(value: &str) -> Option<f64> {
    match SweptValue::parse(value) {
        SweptValue::Number(number) => Some(number),
        SweptValue::Text(_) => None,
    }
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
