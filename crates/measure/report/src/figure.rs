// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns records into one figure as in papers: a metric over a swept key, a line for each variant, a panel
//! for each combination of the other keys; or a line for each flow; or the metric's distribution, as boxes or
//! as a CDF. As SVG ([`Figure::svg`]) and as a table ([`Figure::table`]).
//!
//! Reads no series where there is no warm-up to be cut off, so hundreds of records take a moment. Points are means over the
//! valid repeats with their confidence intervals, or medians with minimum and maximum.

mod chart;
mod overlay;
mod query;
mod table;

pub use overlay::Overlay;
pub use query::{Bars, FigureForm, FigureQuery, suited_metric};
pub(crate) use table::{UnitRow, aligned, with_units};

use crate::{
    Error,
    capacity::{GOODPUT_SHARE, Paths},
    chart::palette::{self, ColourBy, LineKey, MOST_LINES},
    distinct::distinct,
    format,
    ordered_runs::check_one_scenario,
    swept_value::{
        Positions, compare_points, compare_values, following_keys, is_above_zero, positions,
    },
    warm_up,
};
use query::OF_FLOWS;
use record::{
    FlowSummary, Manifest, Record, RunResults, RunVerdict, Summary,
    manifest::short_key,
    repeats,
    stats::{self, MeanEstimate, MedianRange},
};
use serde::Serialize;
use std::{collections::HashMap, path::Path};

/// What stands along the panels instead of a swept key.
const VARIANT: &str = "variant";
/// The same of values of single flows.
const FLOW: &str = "flow";

/// A metric over a swept key, or its distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The scenario's title.
    pub title: String,
    /// The paper and figure that it is from.
    pub source: Option<String>,
    /// The kind of figure.
    pub form: FigureForm,
    /// The swept key along the panels, without the `vars.` of a variable; empty of a CDF.
    pub x: String,
    /// Swept keys whose values follow from that of `x`, as those of keys do that move together.
    pub following: Vec<String>,
    /// The metric, as in `metrics` of a summary, or `goodput_share`.
    pub y: String,
    /// Whether each flow of a run has a value of its own.
    pub by_flow: bool,
    /// How much of each run's beginning is left out, in seconds.
    pub warm_up_s: f64,
    /// Whether the metric is drawn by its logarithm.
    pub log_y: bool,
    /// Whether what stands along the panels is, whatever it spans.
    pub log_x: bool,
    /// What stands for the repeats at a point.
    pub bars: Bars,
    /// What the colours of the lines stand for.
    pub colour_by: ColourBy,
    /// What the lines are of: a variant, its method where there are several, and a flow where asked for.
    pub lines: Vec<String>,
    /// The same, part by part.
    pub line_keys: Vec<LineKey>,
    /// One for each combination of the other swept keys.
    pub panels: Vec<Panel>,
    /// Records read.
    pub runs: usize,
    /// Those that do not count.
    pub left_out: usize,
    /// Runs, or with a line for each flow flows, that ended in the warm-up.
    pub ended: usize,
}

/// One combination of the keys that are not along the panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Those keys and their values: "background 20%"; empty without others.
    pub fixed: String,
    /// The values of the key along the panel, as written in the scenario. One empty string for a CDF.
    pub labels: Vec<String>,
    /// Of each line, the point at each of these values; null where no valid run has the metric.
    pub points: Vec<Vec<Option<Point>>>,
    /// Of each line, the values at each of these, which the point is made of.
    pub values: Vec<Vec<Vec<f64>>>,
    /// Response functions, where asked for.
    pub overlays: Vec<Overlay>,
}

/// The repeats of one variant at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Mean over the runs that count.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval, by Student's t; null below two runs.
    pub ci95_half_width: Option<f64>,
    /// Their median.
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
    key: LineKey,
    is_baseline: bool,
    x: String,
    others: Vec<(String, String)>,
    started: String,
    /// None where the run does not count, or has no such metric.
    value: Option<f64>,
    /// Where response functions are asked for.
    chains: Option<overlay::Chains>,
}

impl Figure {
    /// Reads the records at and below `dir`.
    ///
    /// # Errors
    /// There is no record, one cannot be read, they are of several scenarios, there is no such key, too many
    /// lines, too few repeats for an interval, or nothing that a logarithmic axis has a place for.
    pub fn read(dir: &Path, asked: &FigureQuery<'_>) -> Result<Self, Error> {
        asked.check_metric()?;
        overlay::check(asked)?;
        let folders = record::find_records(dir)?;
        let all = folders.iter().map(|folder| Record::results(folder));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = all.first().map(|results| &results.manifest) else {
            return Err(Error::Empty(dir.to_owned()));
        };
        check_one_scenario(&all)?;
        let manifests = || all.iter().map(|results| &results.manifest);
        // Of a CDF the metric is along the panels.
        let x = match asked.form {
            FigureForm::Cdf => String::new(),
            FigureForm::Lines | FigureForm::Box => swept_key(&all, asked)?,
        };
        let points: Vec<_> = manifests().map(|manifest| manifest.point.as_slice()).collect();
        let following = match asked.form {
            FigureForm::Cdf => Vec::new(),
            FigureForm::Lines | FigureForm::Box => following_keys(&x, &points),
        };
        let naming = Naming {
            methods: manifests().any(|other| other.method != first.method),
            variants: manifests().any(|other| other.variant != first.variant),
            flows: asked.form == FigureForm::Lines,
        };
        warm_up::check(all.iter().map(|results| &results.summary), asked.warm_up_s)?;
        let (mut runs, mut ended) = (Vec::new(), 0);
        for (folder, results) in folders.iter().zip(&all) {
            let cut = warmed_up(folder, &results.summary, asked.warm_up_s)?;
            for (flow, value) in values(results, cut.as_ref(), asked) {
                ended += usize::from(warm_up::has_ended(&results.summary, flow, asked.warm_up_s));
                let is_panels = |key: &str| key != x && !following.iter().any(|f| f == key);
                let mut run = Run::new(results, flow, value, &x, is_panels, naming);
                if !asked.overlay.is_empty() {
                    run.chains = overlay::Chains::of(results, flow);
                }
                runs.push(run);
            }
        }
        let left_out = all.iter().filter(|results| !results.verdict().in_medians()).count();
        let drawn = Self::of(&mut runs, &x, asked);
        if !asked.overlay.is_empty() {
            let overlays = drawn.panels.iter().map(|panel| panel.overlays.len()).sum();
            overlay::check_drawn(&runs, short_key(&x), overlays)?;
        }
        let figure = Self {
            title: first.title.clone(),
            source: first.source.clone(),
            runs: all.len(),
            left_out,
            ended,
            following: following.iter().map(|key| short_key(key).to_owned()).collect(),
            ..drawn
        };
        figure.check(asked)?;
        Ok(figure)
    }

    fn of(runs: &mut [Run], x: &str, asked: &FigureQuery<'_>) -> Self {
        // The baseline first, then as they ran.
        runs.sort_by(|a, b| (!a.is_baseline, &a.started).cmp(&(!b.is_baseline, &b.started)));
        let lines = distinct(runs.iter().map(|run| &run.line));
        let of_line = |line: &String| runs.iter().find(|run| run.line == *line);
        let line_keys: Vec<LineKey> =
            lines.iter().filter_map(of_line).map(|run| run.key.clone()).collect();
        let mut fixed = distinct(runs.iter().map(|run| &run.others));
        fixed.sort_by(|a, b| compare_points(a, b));
        let panels = fixed.iter().map(|others| {
            let here: Vec<&Run> = runs.iter().filter(|run| run.others == *others).collect();
            Panel::of(&here, &lines, others, x, asked)
        });
        Self {
            title: String::new(),
            source: None,
            form: asked.form,
            x: short_key(x).to_owned(),
            y: asked.y.to_owned(),
            by_flow: asked.by_flow,
            warm_up_s: asked.warm_up_s,
            log_y: asked.log_y,
            log_x: asked.log_x,
            bars: asked.bars.unwrap_or(Bars::Ci95),
            colour_by: asked.colour_by.unwrap_or_else(|| ColourBy::for_lines(&line_keys)),
            following: Vec::new(),
            panels: panels.collect(),
            lines,
            line_keys,
            runs: runs.len(),
            left_out: 0,
            ended: 0,
        }
    }

    /// Whether it can be drawn as it was asked for.
    fn check(&self, asked: &FigureQuery<'_>) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Figure(text));
        if self.lines.len() > MOST_LINES {
            return refuse(format!(
                "{} lines, one for each variant and flow, cannot be told apart; {MOST_LINES} can. \
                 longhaul lab export has the values of every flow",
                self.lines.len()
            ));
        }
        let has_interval = self.points().any(|point| point.ci95_half_width.is_some());
        if asked.bars == Some(Bars::Ci95) && !has_interval {
            return refuse(
                "a confidence interval needs two repeats or more, and no point has them; \
                 run the scenario with --repeat 5"
                    .to_owned(),
            );
        }
        let nothing = !self.points().any(|point| point.most > 0.0);
        let of_metric = if self.form == FigureForm::Cdf { self.log_x } else { self.log_y };
        if of_metric && nothing {
            return refuse(format!(
                "a logarithmic axis has no place for {}: no value is above zero",
                self.y
            ));
        }
        if self.log_x && self.form == FigureForm::Lines {
            for panel in &self.panels {
                if let Some(label) = panel.labels.iter().find(|label| !is_above_zero(label)) {
                    return refuse(format!(
                        "--log-x needs numbers above zero along the panel; {} has \"{label}\"",
                        self.x
                    ));
                }
            }
        }
        Ok(())
    }

    /// The points of all panels.
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| panel.points.iter().flatten().flatten())
    }

    /// The largest value of all panels.
    fn largest(&self) -> f64 {
        self.points().map(|point| point.most).fold(0.0, f64::max)
    }

    /// Where it is from, how many runs it is made of, and what its marks are.
    fn about(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("{source}; ")).unwrap_or_default();
        let left_out = match self.left_out {
            0 => String::new(),
            n => format!(", {n} of them left out (invalid, failed or not finished)"),
        };
        let after = match self.warm_up_s {
            seconds if seconds > 0.0 => {
                let of = if self.by_flow { "flows" } else { "runs" };
                let ended = match self.ended {
                    0 => String::new(),
                    n => format!(", in which {n} {of} ended"),
                };
                format!("; without the first {}{ended}", format::seconds(seconds))
            }
            _ => String::new(),
        };
        let following = match self.following.as_slice() {
            [] => String::new(),
            keys => format!("; {} moves together with {}", keys.join(", "), self.x),
        };
        let marks = self.about_marks();
        let functions = if self.panels.iter().any(|panel| !panel.overlays.is_empty()) {
            "; thin lines: response functions, bounded by the path's rate"
        } else {
            ""
        };
        format!("{source}{} runs{left_out}{marks}{after}{following}{functions}", self.runs)
    }

    /// What the marks and bars are.
    fn about_marks(&self) -> String {
        let most = self.points().map(|point| point.runs).max().unwrap_or(0);
        let of = if self.by_flow { "values, one of each flow and repeat" } else { "repeats" };
        match (self.form, self.bars) {
            (FigureForm::Box, _) => format!(
                ", quartiles of up to {most} {of} (interpolated, type 7), whiskers to the outermost \
                 values within 1.5 box lengths"
            ),
            (FigureForm::Cdf, _) => format!(", distribution of up to {most} {of}"),
            (FigureForm::Lines, _) if most < 2 => String::new(),
            (FigureForm::Lines, Bars::Ci95) => {
                let single = self.points().filter(|point| point.runs == 1).count();
                let without = match single {
                    0 => String::new(),
                    1 => "; 1 point is of one run, without an interval".to_owned(),
                    n => format!("; {n} points are of one run each, without an interval"),
                };
                format!(
                    ", means of up to {most} with 95 % confidence intervals (Student's t){without}"
                )
            }
            (FigureForm::Lines, Bars::Range) => format!(", medians of up to {most} (least–most)"),
            (FigureForm::Lines, Bars::None) => format!(", means of up to {most}"),
        }
    }
}

impl Run {
    fn new(
        results: &RunResults,
        flow: Option<&str>,
        value: Option<f64>,
        x: &str,
        is_panels: impl Fn(&str) -> bool,
        naming: Naming,
    ) -> Self {
        let RunResults { manifest, summary } = results;
        let along_flow = flow.filter(|_| x == FLOW);
        let flow = flow.filter(|_| naming.flows && x != FLOW);
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
        let along = along_flow.map(str::to_owned).or(along);
        let others = manifest.point.iter().filter(|(key, _)| is_panels(key));
        let flows = summary.compared_flows().filter(|one| flow.is_none_or(|flow| one.name == flow));
        let hops = flows.flat_map(|flow| &flow.hops);
        let algorithms = hops.filter_map(|hop| hop.congestion_control.as_deref());
        Self {
            line: format!("{label}{method}"),
            key: LineKey {
                variant: variant.to_owned(),
                algorithm: palette::algorithms(algorithms),
                method: manifest.method.clone(),
                flow: flow.map(str::to_owned),
            },
            is_baseline: manifest.variant.as_ref().map(|variant| &variant.name)
                == manifest.baseline.as_ref(),
            x: along.unwrap_or_default(),
            others: others.map(|(key, value)| (short_key(key).to_owned(), value.clone())).collect(),
            started: manifest.started.clone(),
            value,
            chains: None,
        }
    }
}

impl Panel {
    fn of(
        runs: &[&Run],
        lines: &[String],
        others: &[(String, String)],
        x: &str,
        asked: &FigureQuery<'_>,
    ) -> Self {
        let mut labels = distinct(runs.iter().map(|run| &run.x));
        // Variants stay in the order of the runs, and flows in the scenario's.
        if x != VARIANT && x != FLOW {
            labels.sort_by(|a, b| compare_values(a, b));
        }
        let repeats = repeats::group(runs, |run| (&run.line, &run.x)).into_iter();
        let repeats: HashMap<_, _> = repeats.collect();
        let at = |line: &String, x: &String| -> Vec<f64> {
            let runs = repeats.get(&(line, x)).map_or(&[][..], Vec::as_slice);
            runs.iter().filter_map(|run| run.value).collect()
        };
        let values: Vec<Vec<Vec<f64>>> =
            lines.iter().map(|line| labels.iter().map(|x| at(line, x)).collect()).collect();
        let points = values.iter().map(|line| line.iter().map(|here| Point::of(here)).collect());
        let fixed = others.iter().map(|(key, value)| format!("{key} {value}"));
        let fixed = fixed.collect::<Vec<_>>().join(", ");
        let along = positions(&labels, asked.log_x);
        let overlays = overlay::of_panel(runs, lines, &labels, &along, asked);
        Self { points: points.collect(), fixed, labels, values, overlays }
    }

    /// Where each value stands, and whether by logarithms.
    fn positions(&self, log_x: bool) -> Positions {
        positions(&self.labels, log_x)
    }
}

impl Point {
    fn of(values: &[f64]) -> Option<Self> {
        let MedianRange { median, least, most } = MedianRange::of(values)?;
        let MeanEstimate { mean, half_width } = stats::mean_ci95(values)?;
        let runs = values.len();
        Some(Self { mean, ci95_half_width: half_width, median, least, most, runs })
    }

    fn range(&self) -> MedianRange {
        let Self { median, least, most, .. } = *self;
        MedianRange { median, least, most }
    }

    /// Where its mark stands.
    fn middle(&self, bars: Bars) -> f64 {
        if bars == Bars::Range { self.median } else { self.mean }
    }

    /// From where to where its bar goes; none of one run.
    fn bar(&self, bars: Bars) -> Option<[f64; 2]> {
        match bars {
            Bars::Ci95 => self.ci95_half_width.map(|half| [self.mean - half, self.mean + half]),
            Bars::Range => (self.runs > 1).then_some([self.least, self.most]),
            Bars::None => None,
        }
    }
}

/// What tells lines apart.
#[derive(Clone, Copy)]
struct Naming {
    methods: bool,
    variants: bool,
    flows: bool,
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

/// The key along the panels: the one asked for, with or without `vars.`, or the first that varies.
fn swept_key(all: &[RunResults], query: &FigureQuery<'_>) -> Result<String, Error> {
    let asked = query.x;
    let settings = || all.iter().flat_map(|results| &results.manifest.point);
    let keys = distinct(settings().map(|(key, _)| key));
    let values =
        |key: &String| distinct(settings().filter(|(k, _)| k == key).map(|(_, value)| value)).len();
    let found = match asked {
        Some(asked) => keys.iter().find(|key| *key == asked || short_key(key) == asked),
        None => keys.iter().find(|key| values(key) > 1),
    };
    let varies = distinct(all.iter().map(|results| &results.manifest.variant)).len() > 1;
    let is_asked = |name: &str| asked.is_none_or(|asked| asked == name);
    let variant = || (varies && is_asked(VARIANT)).then(|| VARIANT.to_owned());
    let flow = || (query.by_flow && is_asked(FLOW)).then(|| FLOW.to_owned());
    let single = || keys.first().filter(|_| asked.is_none()).cloned();
    let last =
        if query.form == FigureForm::Box { flow().or_else(single) } else { single().or_else(flow) };
    found.cloned().or_else(variant).or(last).ok_or_else(|| {
        let swept = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let asked = asked.map(|key| format!(" \"{key}\"")).unwrap_or_default();
        Error::Figure(format!("the records have no swept key{asked}; swept: {swept}"))
    })
}

#[cfg(test)]
mod tests;
