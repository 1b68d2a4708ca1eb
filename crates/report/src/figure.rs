// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one figure as papers have them: a metric over a swept key, a line for each variant, a panel
//! for each combination of the other keys; or a line for each flow. As SVG ([`Figure::svg`]) and as a table ([`Figure::table`]).
//!
//! Reads no series where there is no warm-up to be cut off, so hundreds of records take a moment. Values are medians over the repeats that
//! count; the picture shows the range from the least to the most beside them.

mod chart;
mod table;

pub(crate) use table::aligned;

use crate::{
    Error,
    capacity::{GOODPUT_SHARE, Paths},
    format,
    swept_value::{compare_points, compare_values, following_keys, positions},
};
use record::{
    FlowSummary, Manifest, Metrics, Record, RunResults, RunVerdict, Summary, manifest::short_key,
    metrics::FlowMetrics, repeats, stats::MedianRange, warm_up,
};
use serde::Serialize;
use std::{collections::HashMap, path::Path};

/// What stands along the panels instead of a swept key.
pub const VARIANT: &str = "variant";

/// More lines than this can't be told apart: eight colours with five marks each.
const MOST_LINES: usize = 40;

/// What a figure shall show.
#[derive(Debug, Clone, Copy)]
pub struct FigureQuery<'a> {
    /// A key of `metrics` that is a number, or `goodput_share`; by flow, a key of a flow's.
    pub y: &'a str,
    /// A swept key, with or without its `vars.`, or `variant`; if none is given, the first that takes several values,
    /// else the variant.
    pub x: Option<&'a str>,
    /// Whether there is a line for each flow, or one for all flows of a variant.
    pub by_flow: bool,
    /// How much of each run's beginning is left out, in seconds.
    pub warm_up_s: f64,
    /// Whether the metric is drawn by its logarithm.
    pub log_y: bool,
}

/// A metric over a swept key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The scenario's title.
    pub title: String,
    /// The paper and figure that it is from.
    pub source: Option<String>,
    /// The swept key along the panels, without the `vars.` of a variable.
    pub x: String,
    /// Swept keys whose values follow from that of `x`, as those of keys do that move together.
    pub following: Vec<String>,
    /// The metric, as in `metrics` of a summary, or `goodput_share`.
    pub y: String,
    /// How much of each run's beginning is left out, in seconds.
    pub warm_up_s: f64,
    /// Whether the metric is drawn by its logarithm.
    pub log_y: bool,
    /// What the lines are of: a variant, its method where there are several, and a flow where asked for.
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

/// The repeats of one variant at one point.
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
    /// Reads the records at and below `dir`.
    ///
    /// # Errors
    /// There is no record, one cannot be read, they are of several scenarios, there is no such key, or too many
    /// flows.
    pub fn read(dir: &Path, asked: &FigureQuery<'_>) -> Result<Self, Error> {
        check_metric(asked)?;
        let folders = record::find_records(dir)?;
        let all = folders.iter().map(|folder| Record::results(folder));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = all.first().map(|results| &results.manifest) else {
            return Err(Error::Empty(dir.to_owned()));
        };
        let manifests = || all.iter().map(|results| &results.manifest);
        if let Some(other) = manifests().find(|other| other.title != first.title) {
            let titles = [&first.title, &other.title].map(|title| format!("\"{title}\""));
            return Err(Error::Figure(format!(
                "{} holds records of several scenarios, {}; name the folder of one",
                dir.display(),
                titles.join(" and ")
            )));
        }
        let x = swept_key(&all, asked.x)?;
        let points: Vec<_> = manifests().map(|manifest| manifest.point.as_slice()).collect();
        let following = following_keys(&x, &points);
        let naming = Naming {
            methods: manifests().any(|other| other.method != first.method),
            variants: manifests().any(|other| other.variant != first.variant),
        };
        let mut runs = Vec::new();
        for (folder, results) in folders.iter().zip(&all) {
            let cut = warmed_up(folder, &results.summary, asked.warm_up_s)?;
            for (flow, value) in values(results, cut.as_ref(), asked) {
                let is_panels = |key: &str| key != x && !following.iter().any(|f| f == key);
                runs.push(Run::new(&results.manifest, flow, value, &x, is_panels, naming));
            }
        }
        let left_out = all.iter().filter(|results| !results.verdict().in_medians()).count();
        let figure = Self {
            title: first.title.clone(),
            source: first.source.clone(),
            runs: all.len(),
            left_out,
            warm_up_s: asked.warm_up_s,
            log_y: asked.log_y,
            following: following.iter().map(|key| short_key(key).to_owned()).collect(),
            ..Self::of(runs, &x, asked.y)
        };
        if figure.lines.len() > MOST_LINES {
            return Err(Error::Figure(format!(
                "{} lines, one for each variant and flow, cannot be told apart; {MOST_LINES} can. \
                 longhaul lab export has the values of every flow",
                figure.lines.len()
            )));
        }
        Ok(figure)
    }

    fn of(mut runs: Vec<Run>, x: &str, y: &str) -> Self {
        // The baseline first, then as they ran.
        runs.sort_by(|a, b| (!a.is_baseline, &a.started).cmp(&(!b.is_baseline, &b.started)));
        let lines = distinct(runs.iter().map(|run| &run.line));
        let mut fixed = distinct(runs.iter().map(|run| &run.others));
        fixed.sort_by(|a, b| compare_points(a, b));
        let panels = fixed.iter().map(|others| {
            let here: Vec<&Run> = runs.iter().filter(|run| run.others == *others).collect();
            Panel::of(&here, &lines, others, x)
        });
        Self {
            title: String::new(),
            source: None,
            x: short_key(x).to_owned(),
            y: y.to_owned(),
            warm_up_s: 0.0,
            log_y: false,
            following: Vec::new(),
            panels: panels.collect(),
            lines,
            runs: runs.len(),
            left_out: 0,
        }
    }

    /// The points of all panels.
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| panel.points.iter().flatten().flatten())
    }

    /// The largest value of all panels.
    fn largest(&self) -> f64 {
        self.points().map(|point| point.most).fold(0.0, f64::max)
    }

    /// Where it is from and how many runs it is made of.
    fn about(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("{source}; ")).unwrap_or_default();
        let left_out = match self.left_out {
            0 => String::new(),
            n => format!(", {n} of them left out (invalid, failed or not finished)"),
        };
        let most = self.points().map(|point| point.runs).max().unwrap_or(0);
        let medians = if most > 1 {
            format!(", medians of up to {most} (least–most)")
        } else {
            String::new()
        };
        let after = match self.warm_up_s {
            seconds if seconds > 0.0 => format!("; without the first {}", format::seconds(seconds)),
            _ => String::new(),
        };
        let following = match self.following.as_slice() {
            [] => String::new(),
            keys => format!("; {} moves together with {}", keys.join(", "), self.x),
        };
        format!("{source}{} runs{left_out}{medians}{after}{following}", self.runs)
    }
}

impl Run {
    fn new(
        manifest: &Manifest,
        flow: Option<&str>,
        value: Option<f64>,
        x: &str,
        is_panels: impl Fn(&str) -> bool,
        naming: Naming,
    ) -> Self {
        let variant = manifest.variant.as_ref().map_or("all runs", |variant| &variant.label);
        let label = match flow {
            None if x == VARIANT => "all flows".to_owned(),
            Some(flow) if naming.variants && x != VARIANT => format!("{variant}: {flow}"),
            Some(flow) => flow.to_owned(),
            None => variant.to_owned(),
        };
        let method = if naming.methods { format!(" ({})", manifest.method) } else { String::new() };
        let swept = manifest.point.iter().find(|(key, _)| key == x).map(|(_, value)| value.clone());
        let along = if x == VARIANT { Some(variant.to_owned()) } else { swept };
        let others = manifest.point.iter().filter(|(key, _)| is_panels(key));
        Self {
            line: format!("{label}{method}"),
            is_baseline: manifest.variant.as_ref().map(|variant| &variant.name)
                == manifest.baseline.as_ref(),
            x: along.unwrap_or_default(),
            others: others.map(|(key, value)| (short_key(key).to_owned(), value.clone())).collect(),
            started: manifest.started.clone(),
            value,
        }
    }
}

impl Panel {
    fn of(runs: &[&Run], lines: &[String], others: &[(String, String)], x: &str) -> Self {
        let mut labels = distinct(runs.iter().map(|run| &run.x));
        // Variants stay in the order of the runs.
        if x != VARIANT {
            labels.sort_by(|a, b| compare_values(a, b));
        }
        let repeats = repeats::group(runs, |run| (&run.line, &run.x)).into_iter();
        let repeats: HashMap<_, _> = repeats.collect();
        let at = |line: &String, x: &String| {
            let values = repeats.get(&(line, x))?.iter().filter_map(|run| run.value);
            Point::of(&values.collect::<Vec<_>>())
        };
        let points = lines.iter().map(|line| labels.iter().map(|x| at(line, x)).collect());
        let fixed = others.iter().map(|(key, value)| format!("{key} {value}"));
        Self { points: points.collect(), fixed: fixed.collect::<Vec<_>>().join(", "), labels }
    }

    /// Where each value stands, and whether by logarithms.
    fn positions(&self) -> (Vec<f64>, bool) {
        positions(&self.labels)
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

/// What tells lines apart.
#[derive(Clone, Copy)]
struct Naming {
    methods: bool,
    variants: bool,
}

/// The summary without the warm-up; none where that cannot be told from the series.
fn warmed_up(folder: &Path, summary: &Summary, warm_up_s: f64) -> Result<Option<Summary>, Error> {
    if warm_up_s <= 0.0 {
        return Ok(Some(summary.clone()));
    }
    let (series, files) = (Record::series(folder)?, Record::files(folder)?);
    Ok(summary.after_warm_up(warm_up_s, &series, &files))
}

/// A run's value, or that of each of its flows with its name. `cut` is the summary without the warm-up; whether
/// something counts is seen from the whole one.
fn values<'a>(
    whole: &'a RunResults,
    cut: Option<&Summary>,
    asked: &FigureQuery<'_>,
) -> Vec<(Option<&'a str>, Option<f64>)> {
    let manifest = &whole.manifest;
    if !asked.by_flow {
        let counted = cut.filter(|_| whole.verdict().in_medians());
        return vec![(None, counted.and_then(|summary| of_run(manifest, summary, asked.y)))];
    }
    let value = |flow: &FlowSummary| {
        let counted = cut.filter(|_| RunVerdict::of(manifest.valid, [flow]).in_medians())?;
        of_flow(counted, &flow.name, asked.y)
    };
    whole.summary.flows.iter().map(|flow| (Some(flow.name.as_str()), value(flow))).collect()
}

fn of_run(manifest: &Manifest, summary: &Summary, y: &str) -> Option<f64> {
    if y == GOODPUT_SHARE {
        let flows = summary.compared_flows().map(|flow| flow.name.as_str());
        return Some(summary.metrics.goodput_bps? / Paths::of(manifest).capacity(flows)?.bps);
    }
    serde_json::to_value(&summary.metrics).ok()?.get(y)?.as_f64()
}

fn of_flow(summary: &Summary, name: &str, y: &str) -> Option<f64> {
    let flow = summary.flows.iter().find(|flow| flow.name == name)?;
    if OF_FLOWS.contains(&y) {
        return serde_json::to_value(flow).ok()?.get(y)?.as_f64();
    }
    let metrics = summary.metrics.flows.iter().find(|metrics| metrics.name == name)?;
    serde_json::to_value(metrics).ok()?.get(y)?.as_f64()
}

/// The keys of a flow's summary that a figure can have; those of its metrics come on top.
const OF_FLOWS: [&str; 4] = ["goodput_bps", "seconds", "retransmits", "timeouts"];

/// Whether there is such a metric: those that one number can be of.
fn check_metric(asked: &FigureQuery<'_>) -> Result<(), Error> {
    let y = asked.y;
    let keys = |all: serde_json::Value| {
        let all = all.as_object().expect("a table").clone().into_iter();
        all.filter(|(_, value)| value.is_null()).map(|(key, _)| key).collect::<Vec<_>>()
    };
    let mut known = if asked.by_flow {
        keys(serde_json::to_value(FlowMetrics::default()).expect("plain data"))
    } else {
        keys(serde_json::to_value(Metrics::default()).expect("plain data"))
    };
    let more: &[&str] = if asked.by_flow { &OF_FLOWS } else { &[GOODPUT_SHARE] };
    known.extend(more.iter().map(|key| (*key).to_owned()));
    if !known.iter().any(|key| key == y) {
        let known = known.join(", ");
        let of = if asked.by_flow { " of a flow" } else { "" };
        return Err(Error::Figure(format!("there is no metric \"{y}\"{of}; there are {known}")));
    }
    let after: &[&str] = if asked.by_flow { &warm_up::FLOW_METRICS } else { &warm_up::RUN_METRICS };
    if asked.warm_up_s > 0.0 && y != GOODPUT_SHARE && !after.contains(&y) {
        let can: Vec<&str> =
            known.iter().map(String::as_str).filter(|key| after.contains(key)).collect();
        return Err(Error::Figure(format!(
            "{y} is of a whole run; without a warm-up there are {}",
            can.join(", ")
        )));
    }
    Ok(())
}

/// The key along the panels: the one asked for, with or without `vars.`, or the first that varies.
fn swept_key(all: &[RunResults], asked: Option<&str>) -> Result<String, Error> {
    let settings = || all.iter().flat_map(|results| &results.manifest.point);
    let keys = distinct(settings().map(|(key, _)| key));
    let values =
        |key: &String| distinct(settings().filter(|(k, _)| k == key).map(|(_, value)| value)).len();
    let found = match asked {
        Some(asked) => keys.iter().find(|key| *key == asked || short_key(key) == asked),
        None => keys.iter().find(|key| values(key) > 1),
    };
    let varies = distinct(all.iter().map(|results| &results.manifest.variant)).len() > 1;
    let variant =
        || (varies && asked.is_none_or(|asked| asked == VARIANT)).then(|| VARIANT.to_owned());
    let single = || keys.first().filter(|_| asked.is_none()).cloned();
    found.cloned().or_else(variant).or_else(single).ok_or_else(|| {
        let swept = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let asked = asked.map(|key| format!(" \"{key}\"")).unwrap_or_default();
        Error::Figure(format!("the records have no swept key{asked}; swept: {swept}"))
    })
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

#[cfg(test)]
mod tests;
