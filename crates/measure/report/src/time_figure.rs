// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one figure over time: congestion windows, round trips or rates of several flows, or the queues of
//! links; a line for each, and a panel for each record or all in one. As SVG ([`TimeFigure::svg`]) and as a table
//! ([`TimeFigure::table`]).
//!
//! Samples are those of the record. A rate is what arrived in bins of at least 0.1 s, at most 400 of them.

mod chart;
mod table;

use crate::{
    Error,
    chart::palette::{self, ColourBy, LineKey, MOST_LINES},
    link_figure::{bare, between, lacks},
    ordered_runs::{heading, ordered_runs, run_labels},
};
use record::{
    Curve, Entity, FlowSummary, HopSummary, Manifest, Quantity, Record, RunResults, Series,
};
use serde::Serialize;
use std::{ops::Range, path::PathBuf};

/// The narrowest bin of a rate, in seconds, and the most bins.
const BIN_S: f64 = 0.1;
const MOST_BINS: f64 = 400.0;

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OverTime {
    /// Congestion windows.
    Cwnd,
    /// Slow-start thresholds.
    Ssthresh,
    /// Smoothed round trips.
    Rtt,
    /// What clients received, in bins.
    Rate,
    /// Pacing rates.
    PacingRate,
    /// Queues of links.
    Queue,
}

impl OverTime {
    const fn quantity(self) -> Quantity {
        match self {
            Self::Cwnd => Quantity::CwndSegments,
            Self::Ssthresh => Quantity::SsthreshSegments,
            Self::Rtt => Quantity::SrttUs,
            Self::Rate => Quantity::ReceivedBytes,
            Self::PacingRate => Quantity::PacingRateBps,
            Self::Queue => Quantity::QueueBytes,
        }
    }
}

/// What to look at.
#[derive(Debug, Clone)]
pub struct TimeFigureQuery {
    /// What is shown.
    pub what: OverTime,
    /// Flows, or hops as `FLOW/N`; all of them where none is named.
    pub flows: Vec<String>,
    /// The direction of a link whose queue is shown; all that had a queue where none is named.
    pub link: Option<Entity>,
    /// From when to when, in seconds of the run.
    pub span_s: Range<f64>,
    /// Whether time counts from each flow's own start.
    pub since_start: bool,
    /// Whether all records share one panel.
    pub together: bool,
    /// Whether values are drawn by their logarithms.
    pub log_y: bool,
    /// What a line's colour stands for; if none is given, what gives most colours.
    pub colour_by: Option<ColourBy>,
}

/// Some runs over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeFigure {
    /// The scenario's title.
    pub title: String,
    /// The paper and figure that it is from.
    pub source: Option<String>,
    /// What is shown.
    pub what: OverTime,
    /// Whether time counts from each flow's own start.
    pub since_start: bool,
    /// Whether values are drawn by their logarithms.
    pub log_y: bool,
    /// What the colours of the lines stand for.
    pub colour_by: ColourBy,
    /// From when to when the panels go, in seconds.
    pub span_s: Range<f64>,
    /// The names of the lines.
    pub lines: Vec<String>,
    /// What each of these is of.
    pub line_keys: Vec<LineKey>,
    /// One for each record, or for all.
    pub panels: Vec<TimePanel>,
}

/// A record, or all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimePanel {
    /// Its variant, and what else it differs in from the others.
    pub label: String,
    /// Whether its runs count.
    pub counts: bool,
    /// Its lines, in the order of the figure's.
    pub lines: Vec<TimeLine>,
}

/// One flow, hop or link of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeLine {
    /// Which of the figure's lines it is.
    pub line: usize,
    /// When, in seconds.
    pub time_s: Vec<f64>,
    /// What, in the unit of the record: segments, microseconds, bits a second or bytes.
    pub values: Vec<f64>,
}

/// A line before it has its place in the figure.
struct Found {
    name: String,
    key: LineKey,
    curve: Curve,
}

impl TimeFigure {
    /// Reads the records at and below the folders, in this order.
    ///
    /// # Errors
    /// There is no record, one cannot be read, they are of several scenarios, one has no such flow or was not
    /// sampled, there are too many lines, or nothing that a logarithmic axis has a place for.
    pub fn read(dirs: &[PathBuf], asked: &TimeFigureQuery) -> Result<Self, Error> {
        let runs = ordered_runs(dirs)?;
        let manifests: Vec<&Manifest> = runs.iter().map(|(_, results)| &results.manifest).collect();
        let labels = run_labels(&manifests);
        let mut figure = Self {
            title: manifests[0].title.clone(),
            source: manifests[0].source.clone(),
            what: asked.what,
            since_start: asked.since_start,
            log_y: asked.log_y,
            colour_by: ColourBy::Flow,
            span_s: 0.0..0.0,
            lines: Vec::new(),
            line_keys: Vec::new(),
            panels: Vec::new(),
        };
        for ((dir, results), label) in runs.iter().zip(labels) {
            let found = lines_of(results, &Record::series(dir)?, asked)
                .map_err(|text| Error::Figure(format!("{}: {text}", results.manifest.id)))?;
            figure.add(label, results, found, asked.together && runs.len() > 1);
        }
        // Methods share a panel to be compared.
        let by_method = asked.together && manifests.iter().any(|m| m.method != manifests[0].method);
        figure.colour_by = asked.colour_by.unwrap_or_else(|| {
            if by_method { ColourBy::Method } else { ColourBy::for_lines(&figure.line_keys) }
        });
        figure.span_s = figure.span(&asked.span_s);
        figure.check()?;
        Ok(figure)
    }

    /// Adds a record's lines, to the one panel where all share it.
    fn add(&mut self, label: String, results: &RunResults, found: Vec<Found>, together: bool) {
        let counts = results.verdict().in_medians();
        let mut lines = Vec::new();
        for Found { name, key, curve } in found {
            let name = if together { format!("{name}, {label}") } else { name };
            let line = self.lines.iter().position(|known| *known == name).unwrap_or_else(|| {
                self.lines.push(name);
                self.line_keys.push(key);
                self.lines.len() - 1
            });
            lines.push(TimeLine { line, time_s: curve.time_s, values: curve.value });
        }
        if let Some(panel) = self.panels.last_mut().filter(|_| together) {
            panel.counts &= counts;
            panel.lines.extend(lines);
        } else {
            let label = if together { String::new() } else { label };
            self.panels.push(TimePanel { label, counts, lines });
        }
    }

    /// From the time asked for to the last sample.
    fn span(&self, asked: &Range<f64>) -> Range<f64> {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let ends = lines.filter_map(|line| line.time_s.last().copied());
        asked.start..ends.fold(asked.start, f64::max).min(asked.end)
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Figure(text));
        if self.lines.len() > MOST_LINES {
            return refuse(format!(
                "{} lines cannot be told apart; {MOST_LINES} can. Name some with --flow",
                self.lines.len()
            ));
        }
        if self.span_s.is_empty() {
            return refuse(format!("there is no sample after {} s", self.span_s.start));
        }
        if self.log_y && self.largest() <= 0.0 {
            return refuse(
                "a logarithmic axis has no place for zero, and there is nothing else".to_owned(),
            );
        }
        Ok(())
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.flat_map(|line| line.values.iter().copied())
    }

    fn largest(&self) -> f64 {
        self.values().fold(0.0, f64::max)
    }

    /// Where it is from and what it shows.
    fn about(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("{source}; ")).unwrap_or_default();
        let what = match self.what {
            OverTime::Cwnd => "congestion window of each sender",
            OverTime::Ssthresh => "slow-start threshold of each sender",
            OverTime::Rtt => "smoothed round trip of each sender",
            OverTime::Rate => "what each client received",
            OverTime::PacingRate => "pacing rate of each sender",
            OverTime::Queue => "queue of each link direction",
        };
        let since = if self.since_start { ", since each flow's own start" } else { "" };
        format!("{source}{what} over time{since}")
    }
}

impl TimePanel {
    fn heading(&self) -> String {
        heading(&self.label, self.counts)
    }
}

/// The lines of one record.
fn lines_of(
    results: &RunResults,
    series: &Series,
    asked: &TimeFigureQuery,
) -> Result<Vec<Found>, String> {
    if asked.what == OverTime::Queue {
        return queues(results, series, asked);
    }
    let flows = &results.summary.flows;
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    let is_known = |name: &str| {
        names.contains(&name)
            || name.rsplit_once('/').is_some_and(|(flow, _)| names.contains(&flow))
    };
    if let Some(unknown) = asked.flows.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no flow \"{unknown}\"; there are {}", names.join(", ")));
    }
    let mut found = Vec::new();
    for flow in flows {
        found.extend(if asked.what == OverTime::Rate {
            rate(results, flow, series, asked).into_iter().collect()
        } else {
            hops(results, flow, series, asked)
        });
    }
    if found.is_empty() {
        return Err(format!("it has no samples of {}", asked.what.quantity().name()));
    }
    Ok(found)
}

/// A line for each hop of a flow that was asked for.
fn hops(
    results: &RunResults,
    flow: &FlowSummary,
    series: &Series,
    asked: &TimeFigureQuery,
) -> Vec<Found> {
    let several = flow.hops.len() > 1;
    let is_asked = |hop: &&HopSummary| {
        let own = format!("{}/{}", flow.name, hop.index);
        asked.flows.is_empty() || asked.flows.iter().any(|name| *name == flow.name || *name == own)
    };
    let line = |hop: &HopSummary| {
        let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
        let curve = series.curve(&entity, asked.what.quantity())?;
        let own = if several { format!("{}/{}", flow.name, hop.index) } else { flow.name.clone() };
        let control = hop.congestion_control.as_deref();
        let name = control
            .filter(|name| *name != own)
            .map_or(own.clone(), |name| format!("{own} ({name})"));
        let key = key(results, control.into_iter(), Some(own));
        Some(Found { name, key, curve: shifted(curve, flow, asked) })
    };
    flow.hops.iter().filter(is_asked).filter_map(line).collect()
}

/// Rate at which a flow's client received, in bins that begin at the flow's start.
fn rate(
    results: &RunResults,
    flow: &FlowSummary,
    series: &Series,
    asked: &TimeFigureQuery,
) -> Option<Found> {
    if !asked.flows.is_empty() && !asked.flows.contains(&flow.name) {
        return None;
    }
    let received = series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes)?;
    let (_, last_s) = received.span_s()?;
    let sampled_s = received.time_s.get(1).map_or(0.0, |second| second - received.time_s[0]);
    let shown_s = asked.span_s.end.min(last_s) - asked.span_s.start;
    let bin_s = BIN_S.max(shown_s / MOST_BINS).max(sampled_s);
    let bins = ((last_s - flow.start_s) / bin_s).floor().max(0.0) as usize;
    // Before the first sample there was nothing.
    let mut total = Curve::default();
    if flow.start_s < received.time_s[0] {
        total.push(flow.start_s, 0.0);
    }
    total.time_s.extend(&received.time_s);
    total.value.extend(&received.value);
    let mut curve = Curve::default();
    for (n, bytes) in total.increments(flow.start_s, bin_s, bins).into_iter().enumerate() {
        curve.push(flow.start_s + bin_s * (n as f64 + 0.5), bytes * 8.0 / bin_s);
    }
    let controls = flow.hops.iter().filter_map(|hop| hop.congestion_control.as_deref());
    let key = key(results, controls, Some(flow.name.clone()));
    Some(Found { name: flow.name.clone(), key, curve: shifted(&curve, flow, asked) })
}

/// A line for the link direction that was asked for, or for each that had a queue.
fn queues(
    results: &RunResults,
    series: &Series,
    asked: &TimeFigureQuery,
) -> Result<Vec<Found>, String> {
    if asked.since_start || !asked.flows.is_empty() {
        return Err(
            "a queue is of a link, not of a flow: --flow and --since-start do not go with it"
                .to_owned(),
        );
    }
    let curves = series.curves().filter(|(_, quantity, _)| *quantity == Quantity::QueueBytes);
    let curves = curves.filter(|(entity, _, curve)| match &asked.link {
        Some(link) => link == *entity,
        None => curve.value.iter().any(|bytes| *bytes > 0.0),
    });
    let found: Vec<Found> = curves
        .map(|(entity, _, curve)| Found {
            name: bare(entity),
            key: key(results, std::iter::empty(), Some(bare(entity))),
            curve: between(curve, &asked.span_s),
        })
        .collect();
    match (&asked.link, found.is_empty()) {
        (Some(link), true) => Err(lacks(link, Quantity::QueueBytes, series)),
        (None, true) => Err("no link has samples of a queue".to_owned()),
        _ => Ok(found),
    }
}

fn key<'a>(
    results: &RunResults,
    controls: impl Iterator<Item = &'a str>,
    flow: Option<String>,
) -> LineKey {
    let variant = results.manifest.variant.as_ref().map_or("all runs", |variant| &variant.label);
    LineKey {
        variant: variant.to_owned(),
        algorithm: palette::algorithms(controls),
        method: results.manifest.method.clone(),
        flow,
    }
}

/// The samples in the time asked for, counted from the flow's start where that is asked for.
fn shifted(curve: &Curve, flow: &FlowSummary, asked: &TimeFigureQuery) -> Curve {
    let zero_s = if asked.since_start { flow.start_s } else { 0.0 };
    let time_s = curve.time_s.iter().map(|time_s| time_s - zero_s).collect();
    between(&Curve { time_s, value: curve.value.clone() }, &asked.span_s)
}

#[cfg(test)]
mod tests;
