// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one figure as papers have them: a metric over a swept key, a line for each way, a panel
//! for each combination of the other keys. As SVG ([`Figure::svg`]) and as a table ([`Figure::table`]).
//!
//! Reads no series, so hundreds of records take a moment. Values are medians over the repeats that
//! count; the picture shows the range from the least to the most beside them.

mod chart;
mod table;
mod unit;

pub(crate) use {table::aligned, unit::Unit};

use crate::{
    Error,
    capacity::Paths,
    sweep::{self, Value},
};
use record::{Manifest, Metrics, Record, Standing, Summary, stats::MedianRange};
use serde::Serialize;
use std::{cmp::Ordering, path::Path};

/// The y that is not a key of `metrics`: `goodput_bps` over what the flows' paths carry together.
const GOODPUT_SHARE: &str = "goodput_share";

/// A metric over a swept key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The scenario's title.
    pub title: String,
    /// The paper and figure that it is from.
    pub source: Option<String>,
    /// The swept key along the panels, without the `vars.` of a variable.
    pub x: String,
    /// The metric, as in `metrics` of a summary, or `goodput_share`.
    pub y: String,
    /// What the lines are of: a way, and its method where there are several.
    pub lines: Vec<String>,
    /// One for each combination of the other swept keys.
    pub panels: Vec<Panel>,
    /// Records read.
    pub runs: usize,
    /// Those that do not count.
    pub left_out: usize,
}

/// One combination of the keys that are not along the panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Those keys and their values: "background 20%"; empty without others.
    pub fixed: String,
    /// The values of the key along the panel, as the scenario has them.
    pub labels: Vec<String>,
    /// Of each line, the point at each of these values; null where no run that counts has the metric.
    pub points: Vec<Vec<Option<Point>>>,
}

/// The repeats of one way at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Median over the runs that count.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The largest of them.
    pub most: f64,
    /// How many they are.
    pub runs: usize,
}

/// What a figure needs of a run.
struct Run {
    line: String,
    is_baseline: bool,
    x: String,
    others: Vec<(String, String)>,
    started: String,
    /// None where the run does not count, or has no such metric.
    value: Option<f64>,
}

impl Figure {
    /// Reads the records at and below `dir`. `y` is a key of `metrics` that is a number, or
    /// `goodput_share`; `x` a swept key, the first that takes several values if none is given.
    ///
    /// # Errors
    /// There is no record, one cannot be read, they are of several scenarios, or there is no such key.
    pub fn read(dir: &Path, y: &str, x: Option<&str>) -> Result<Self, Error> {
        check_metric(y)?;
        let folders = record::find_records(dir)?;
        let all = folders.iter().map(|folder| Record::results(folder));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let Some((first, _)) = all.first() else { return Err(Error::Empty(dir.to_owned())) };
        if let Some((other, _)) = all.iter().find(|(other, _)| other.title != first.title) {
            let titles = [&first.title, &other.title].map(|title| format!("\"{title}\""));
            return Err(Error::Figure(format!(
                "{} holds records of several scenarios, {}; name the folder of one",
                dir.display(),
                titles.join(" and ")
            )));
        }
        let x = swept_key(&all, x)?;
        let several_methods = all.iter().any(|(other, _)| other.method != first.method);
        let runs = all.iter().map(|(manifest, summary)| {
            let value = of_run(manifest, summary, y);
            Run::new(manifest, value, &x, several_methods)
        });
        Ok(Self {
            title: first.title.clone(),
            source: first.source.clone(),
            runs: all.len(),
            left_out: all.iter().filter(|(manifest, summary)| !counts(manifest, summary)).count(),
            ..Self::of(runs.collect(), &x, y)
        })
    }

    fn of(mut runs: Vec<Run>, x: &str, y: &str) -> Self {
        // The baseline first, then as they ran.
        runs.sort_by(|a, b| (!a.is_baseline, &a.started).cmp(&(!b.is_baseline, &b.started)));
        let lines = distinct(runs.iter().map(|run| &run.line));
        let mut fixed = distinct(runs.iter().map(|run| &run.others));
        fixed.sort_by(|a, b| by_value(a, b));
        let panels = fixed.iter().map(|others| {
            let here: Vec<&Run> = runs.iter().filter(|run| run.others == *others).collect();
            Panel::of(&here, &lines, others)
        });
        Self {
            title: String::new(),
            source: None,
            x: short(x).to_owned(),
            y: y.to_owned(),
            panels: panels.collect(),
            lines,
            runs: runs.len(),
            left_out: 0,
        }
    }

    /// The largest value of all panels.
    fn largest(&self) -> f64 {
        let points = self.panels.iter().flat_map(|panel| panel.points.iter().flatten().flatten());
        points.map(|point| point.most).fold(0.0, f64::max)
    }

    /// Where it is from and how many runs it is made of.
    fn about(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("{source}; ")).unwrap_or_default();
        let left_out = match self.left_out {
            0 => String::new(),
            n => format!(", {n} of them left out (invalid, failed or not finished)"),
        };
        let counted = self.panels.iter().flat_map(|panel| panel.points.iter().flatten().flatten());
        let most = counted.map(|point| point.runs).max().unwrap_or(0);
        let medians = if most > 1 {
            format!(", medians of up to {most} (least–most)")
        } else {
            String::new()
        };
        format!("{source}{} runs{left_out}{medians}", self.runs)
    }
}

impl Run {
    fn new(manifest: &Manifest, value: Option<f64>, x: &str, with_method: bool) -> Self {
        let label = manifest.way.as_ref().map_or("all runs", |way| &way.label);
        let method = if with_method { format!(" ({})", manifest.method) } else { String::new() };
        let is_x = |pair: &&(String, String)| pair.0 == x;
        let others = manifest.point.iter().filter(|pair| !is_x(pair));
        Self {
            line: format!("{label}{method}"),
            is_baseline: manifest.way.as_ref().map(|way| &way.name) == manifest.baseline.as_ref(),
            x: manifest.point.iter().find(is_x).map(|(_, value)| value.clone()).unwrap_or_default(),
            others: others.map(|(key, value)| (short(key).to_owned(), value.clone())).collect(),
            started: manifest.started.clone(),
            value,
        }
    }
}

impl Panel {
    fn of(runs: &[&Run], lines: &[String], others: &[(String, String)]) -> Self {
        let mut labels = distinct(runs.iter().map(|run| &run.x));
        labels.sort_by(|a, b| value_order(a, b));
        let at = |line: &String, x: &String| {
            let same = runs.iter().filter(|run| run.line == *line && run.x == *x);
            Point::of(&same.filter_map(|run| run.value).collect::<Vec<_>>())
        };
        let points = lines.iter().map(|line| labels.iter().map(|x| at(line, x)).collect());
        let fixed = others.iter().map(|(key, value)| format!("{key} {value}"));
        Self { points: points.collect(), fixed: fixed.collect::<Vec<_>>().join(", "), labels }
    }

    /// Where each value stands, and whether by logarithms.
    fn positions(&self) -> (Vec<f64>, bool) {
        sweep::positions(&self.labels)
    }
}

impl Point {
    fn of(values: &[f64]) -> Option<Self> {
        let MedianRange { median, least, most } = MedianRange::of(values)?;
        Some(Self { median, least, most, runs: values.len() })
    }

    fn range(&self) -> MedianRange {
        let Self { median, least, most, .. } = *self;
        MedianRange { median, least, most }
    }
}

fn counts(manifest: &Manifest, summary: &Summary) -> bool {
    Standing::of(manifest.valid, &summary.flows).counts()
}

fn of_run(manifest: &Manifest, summary: &Summary, y: &str) -> Option<f64> {
    if !counts(manifest, summary) {
        return None;
    }
    if y == GOODPUT_SHARE {
        let flows = summary.flows.iter().map(|flow| flow.name.as_str());
        return Some(summary.metrics.goodput_bps? / Paths::of(manifest).capacity(flows)?.bps);
    }
    serde_json::to_value(&summary.metrics).ok()?.get(y)?.as_f64()
}

/// Whether there is such a metric: those that one number can be of.
fn check_metric(y: &str) -> Result<(), Error> {
    let all = serde_json::to_value(Metrics::default()).expect("plain data");
    let all = all.as_object().expect("a table");
    let mut known: Vec<&str> =
        all.iter().filter(|(_, value)| !value.is_array()).map(|(key, _)| key.as_str()).collect();
    known.push(GOODPUT_SHARE);
    if known.contains(&y) {
        return Ok(());
    }
    Err(Error::Figure(format!("there is no metric \"{y}\"; there are {}", known.join(", "))))
}

/// The key along the panels: the one asked for, with or without `vars.`, or the first that varies.
fn swept_key(all: &[(Manifest, Summary)], asked: Option<&str>) -> Result<String, Error> {
    let keys = distinct(all.iter().flat_map(|(manifest, _)| manifest.point.iter().map(|p| &p.0)));
    let values = |key: &String| {
        let points = all.iter().flat_map(|(manifest, _)| &manifest.point);
        distinct(points.filter(|(k, _)| k == key).map(|(_, value)| value)).len()
    };
    let found = match asked {
        Some(asked) => keys.iter().find(|key| *key == asked || short(key) == asked),
        None => keys.iter().find(|key| values(key) > 1).or(keys.first()),
    };
    found.cloned().ok_or_else(|| {
        let swept = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let asked = asked.map(|key| format!(" \"{key}\"")).unwrap_or_default();
        Error::Figure(format!("the records have no swept key{asked}; swept: {swept}"))
    })
}

/// That a value is a variable of the scenario's is no news to a reader.
fn short(key: &str) -> &str {
    key.strip_prefix("vars.").unwrap_or(key)
}

pub(crate) fn distinct<'a, T: PartialEq + Clone + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for one in all {
        if !seen.contains(one) {
            seen.push(one.clone());
        }
    }
    seen
}

fn value_order(a: &str, b: &str) -> Ordering {
    Value::parse(a).partial_cmp(&Value::parse(b)).unwrap_or(Ordering::Equal)
}

pub(crate) fn by_value(a: &[(String, String)], b: &[(String, String)]) -> Ordering {
    let pairs = a.iter().zip(b).map(|((_, a), (_, b))| value_order(a, b));
    pairs.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests;
