// SPDX-License-Identifier: GPL-2.0-or-later
//! What is on record: results of runs, flows, hops, links and traffic as tables.

use crate::{
    ahead::ahead,
    arrow::Table,
    errors::Kind,
    rows::{Row, plain_keys, table},
    series::{self, Filter, Place},
};
use pyo3::prelude::*;
use record::{
    Record, RunResults, RunVerdict, find_records,
    manifest::short_key,
    repeats::{RepeatKey, group},
    results::intervals_by,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use units::quantity;

/// What tells the rows of runs apart, in every table.
const OF_RUN: [&str; 7] = ["run", "scenario", "method", "variant", "point", "repeat", "valid"];

/// Records that a thread reads in one go.
const AT_ONCE: usize = 50;

/// Records, read without their samples.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Records {
    records: Vec<(PathBuf, RunResults)>,
    /// Swept keys all of whose values are numbers.
    numbers: BTreeSet<String>,
}

#[pymethods]
impl Records {
    /// Reads the records at and below these directories, each once.
    #[staticmethod]
    fn open(py: Python<'_>, directories: Vec<PathBuf>) -> PyResult<Self> {
        let read = || {
            let (mut seen, mut chosen) = (BTreeSet::new(), Vec::new());
            for directory in directories {
                let folders = find_records(&directory).map_err(|error| error.to_string())?;
                if folders.is_empty() {
                    let place = directory.display();
                    return Err(format!(
                        "{place}: no record there; runs write them to the directory given as out"
                    ));
                }
                for folder in folders {
                    if seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                        chosen.push(folder);
                    }
                }
            }
            read_all(&chosen)
        };
        let records = py.detach(read).map_err(|error| Kind::Record.error(py, error))?;
        let numbers = numeric_keys(&records);
        Ok(Self { records, numbers })
    }

    fn __len__(&self) -> usize {
        self.records.len()
    }

    /// The directory of each.
    #[getter]
    fn directories(&self) -> Vec<PathBuf> {
        self.records.iter().map(|(folder, _)| folder.clone()).collect()
    }

    /// The directory of one, and its manifest and its summary as JSON.
    fn record(&self, index: usize) -> (&Path, String, String) {
        let (directory, RunResults { manifest, summary }) = &self.records[index];
        let text = |document| serde_json::to_string(&document).expect("plain data");
        (directory, text(json!(manifest)), text(json!(summary)))
    }

    /// A row for each run.
    fn runs(&self) -> Table {
        self.table(&[], |_, results| {
            let manifest = &results.manifest;
            let mut row = Row::new();
            row.insert("seed".into(), manifest.seed.into());
            row.insert("started".into(), manifest.started.clone().into());
            row.insert("standing".into(), results.verdict().name().into());
            row.insert("invalid_reasons".into(), manifest.invalid_reasons.join("; ").into());
            row.extend(plain_keys(&results.summary.metrics));
            vec![row]
        })
    }

    /// A row for each flow of each run.
    fn flows(&self) -> Table {
        self.table(&["flow"], |_, results| {
            let metrics = &results.summary.metrics.flows;
            let flows = results.summary.flows.iter().map(|flow| {
                let mut row = named("flow", &flow.name);
                let valid = results.manifest.valid;
                row.insert("standing".into(), RunVerdict::of(valid, [flow]).name().into());
                row.extend(plain_keys(flow));
                if let Some(of_flow) = metrics.iter().find(|it| it.name == flow.name) {
                    row.extend(plain_keys(of_flow));
                }
                row.remove("name");
                row
            });
            flows.collect()
        })
    }

    /// A row for each TCP connection of each flow.
    fn hops(&self) -> Table {
        self.table(&["flow", "hop"], |_, results| {
            let flows = results.summary.flows.iter();
            let hops = flows.flat_map(|flow| flow.hops.iter().map(move |hop| (flow, hop)));
            let rows = hops.map(|(flow, hop)| {
                let mut row = named("flow", &flow.name);
                row.insert("hop".into(), hop.index.into());
                row.extend(plain_keys(hop));
                if let Some(limited) = &hop.limited {
                    let shares = plain_keys(limited).into_iter();
                    row.extend(shares.map(|(limit, share)| (format!("limited_{limit}"), share)));
                }
                row.remove("index");
                row
            });
            rows.collect()
        })
    }

    /// A row for each direction of each link.
    fn links(&self) -> Table {
        self.table(&["link", "direction"], |_, results| {
            let rows = results.summary.links.iter().map(|link| {
                let mut row = named("link", &link.name);
                row.insert("loss_ratio".into(), json!(link.loss_ratio()));
                row.extend(plain_keys(link));
                row.remove("name");
                row
            });
            rows.collect()
        })
    }

    /// A row for each traffic source.
    fn traffic(&self) -> Table {
        self.table(&["source"], |_, results| {
            let rows = results.summary.traffic.iter().map(|source| {
                let mut row = named("source", &source.name);
                row.extend(plain_keys(source));
                row.remove("name");
                row
            });
            rows.collect()
        })
    }

    /// Samples over time.
    #[pyo3(signature = (quantities=None, entities=None))]
    fn series(
        &self,
        quantities: Option<BTreeSet<String>>,
        entities: Option<BTreeSet<String>>,
    ) -> Table {
        series::samples(self.places(), Filter { entities, quantities })
    }

    /// The files that traffic offered.
    fn files(&self) -> Table {
        series::files(self.places())
    }

    /// Mean, deviation and 95 % confidence interval of each metric over runs that are alike in `by`: "variant", "point" or swept keys.
    fn intervals(&self, py: Python<'_>, by: Option<Vec<String>>) -> PyResult<Table> {
        if let Some(by) = &by {
            self.check_keys(py, by)?;
        }
        let has = |name: &str| by.as_ref().is_none_or(|by| by.iter().any(|it| it == name));
        let key = |results: &RunResults| {
            let RepeatKey { method, variant, mut point } = results.manifest.repeat_key();
            if !has("point") {
                point.retain(|(key, _)| has(short_key(key)));
            }
            RepeatKey { method, variant: variant.filter(|_| has("variant")), point }
        };
        let all: Vec<RunResults> =
            self.records.iter().map(|(_, results)| results.clone()).collect();
        let mut rows = Vec::new();
        for (method, of_method) in group(all, |results| results.manifest.method.clone()) {
            for interval in intervals_by(&of_method, key) {
                let mut row = Row::new();
                row.insert("method".into(), method.clone().into());
                row.insert("variant".into(), json!(interval.variant));
                self.insert_point(&mut row, &interval.point);
                row.insert("flow".into(), json!(interval.flow));
                row.insert("metric".into(), interval.metric.into());
                row.insert("unit".into(), interval.unit.into());
                row.insert("n".into(), interval.runs.into());
                row.insert("mean".into(), json!(interval.mean));
                row.insert("sd".into(), json!(interval.standard_deviation));
                let end =
                    |sign: f64| interval.ci95_half_width.map(|half| interval.mean + sign * half);
                row.insert("ci_low".into(), json!(end(-1.0)));
                row.insert("ci_high".into(), json!(end(1.0)));
                rows.push(row);
            }
        }
        let always =
            ["method", "variant", "flow", "metric", "unit", "n", "mean", "sd", "ci_low", "ci_high"];
        Ok(Table::of_batch(table(&rows, if rows.is_empty() { &always } else { &[] })))
    }
}

impl Records {
    fn places(&self) -> Vec<Place> {
        let place = |(folder, RunResults { manifest, .. }): &(PathBuf, RunResults)| Place {
            folder: folder.clone(),
            run: manifest.id.clone(),
            variant: manifest.variant.as_ref().map_or_else(String::new, |it| it.name.clone()),
            point: manifest.point_text(),
        };
        self.records.iter().map(place).collect()
    }

    /// The rows of all records, each with what tells its run apart.
    fn table(&self, always: &[&str], rows_of: impl Fn(&PathBuf, &RunResults) -> Vec<Row>) -> Table {
        let mut rows = Vec::new();
        for (folder, results) in &self.records {
            let manifest = &results.manifest;
            let mut common = Row::new();
            common.insert("run".into(), manifest.id.clone().into());
            common.insert("scenario".into(), manifest.title.clone().into());
            common.insert("method".into(), manifest.method.clone().into());
            common.insert("variant".into(), json!(manifest.variant.as_ref().map(|it| &it.name)));
            common.insert("point".into(), manifest.point_text().into());
            self.insert_point(&mut common, &manifest.point);
            common.insert("repeat".into(), manifest.repeat.into());
            common.insert("valid".into(), manifest.valid.into());
            for row in rows_of(folder, results) {
                let mut whole = common.clone();
                whole.extend(row);
                whole.insert("record".into(), folder.to_string_lossy().into());
                rows.push(whole);
            }
        }
        let always: Vec<&str> = OF_RUN.iter().chain(always).copied().collect();
        Table::of_batch(table(&rows, if rows.is_empty() { &always } else { &[] }))
    }

    /// Columns of a point: each swept key as it is written, and as a number where all its values are numbers.
    fn insert_point(&self, row: &mut Row, point: &[(String, String)]) {
        for (key, value) in point {
            let name = free_name(short_key(key));
            row.insert(name.clone(), value.clone().into());
            if self.numbers.contains(key)
                && let Some((_, number)) = quantity(value)
            {
                row.insert(format!("{name}_number"), json!(number));
            }
        }
    }

    fn check_keys(&self, py: Python<'_>, by: &[String]) -> PyResult<()> {
        let points = self.records.iter().flat_map(|(_, results)| &results.manifest.point);
        let mut known: BTreeSet<&str> = points.map(|(key, _)| short_key(key)).collect();
        known.extend(["variant", "point"]);
        match by.iter().find(|name| !known.contains(name.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<&str> = known.into_iter().collect();
                let text = format!("by={unknown:?}: these records differ in {}", known.join(", "));
                Err(Kind::Record.error(py, text))
            }
        }
    }
}

fn named(column: &str, name: &str) -> Row {
    Row::from_iter([(column.to_owned(), Value::from(name))])
}

/// The results of records.
fn read_all(folders: &[PathBuf]) -> Result<Vec<(PathBuf, RunResults)>, String> {
    let parts: Vec<Vec<PathBuf>> = folders.chunks(AT_ONCE).map(<[PathBuf]>::to_vec).collect();
    let read = |part: Vec<PathBuf>| -> Result<Vec<_>, String> {
        let results = |folder: PathBuf| {
            let results = Record::results(&folder).map_err(|error| error.to_string())?;
            Ok((folder, results))
        };
        part.into_iter().map(results).collect()
    };
    let read: Result<Vec<Vec<_>>, String> = ahead(parts, read).collect();
    Ok(read?.into_iter().flatten().collect())
}

/// The name of a swept key's column: one of the other columns gets a `_`.
fn free_name(key: &str) -> String {
    let taken = OF_RUN.contains(&key) || ["flow", "metric", "record", "seed"].contains(&key);
    if taken { format!("{key}_") } else { key.to_owned() }
}

fn numeric_keys(records: &[(PathBuf, RunResults)]) -> BTreeSet<String> {
    let points = || records.iter().flat_map(|(_, results)| &results.manifest.point);
    let texts: BTreeSet<&String> =
        points().filter(|(_, value)| quantity(value).is_none()).map(|(key, _)| key).collect();
    points().map(|(key, _)| key).filter(|key| !texts.contains(key)).cloned().collect()
}
