// SPDX-License-Identifier: GPL-2.0-or-later
//! What a figure shall show, and whether records have it.

use crate::{Error, capacity::GOODPUT_SHARE, chart::palette::ColourBy, sweep_chart::Measure};
use record::{Metrics, Record, metrics::FlowMetrics, warm_up};
use serde::Serialize;
use std::path::Path;

/// What a figure shall show.
#[derive(Debug, Clone)]
pub struct FigureQuery<'a> {
    /// A key of `metrics` that is a number, or `goodput_share`; by flow, a key of a flow's.
    pub y: &'a str,
    /// A swept key, with or without its `vars.`, or `variant`; if none is given, the first that takes several values,
    /// else the variant.
    pub x: Option<&'a str>,
    /// Whether there is a line for each flow, or one for all flows of a variant. In a distribution, whether each flow of a
    /// run has a value.
    pub by_flow: bool,
    /// How much of each run's beginning is left out, in seconds.
    pub warm_up_s: f64,
    /// Whether the metric is drawn by its logarithm.
    pub log_y: bool,
    /// Whether the swept key is; without it where its values span a factor of 30. In a CDF, whether the metric is.
    pub log_x: bool,
    /// What stands for the repeats; if none is given, confidence intervals where there are any.
    pub bars: Option<Bars>,
    /// What a line's colour stands for; if none is given, what gives most colours.
    pub colour_by: Option<ColourBy>,
    /// The kind of figure.
    pub form: FigureForm,
    /// Response functions to draw, by the congestion controls' names; `response` for those of the lines.
    pub overlay: Vec<String>,
}

impl Default for FigureQuery<'_> {
    fn default() -> Self {
        Self {
            y: "goodput_bps",
            x: None,
            by_flow: false,
            warm_up_s: 0.0,
            log_y: false,
            log_x: false,
            bars: None,
            colour_by: None,
            form: FigureForm::Lines,
            overlay: Vec::new(),
        }
    }
}

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureForm {
    /// A point for the repeats at each value of the swept key.
    Lines,
    /// Quartiles, whiskers and what lies beyond them at each value.
    Box,
    /// The share of the values up to each one.
    Cdf,
}

/// What stands for the repeats at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bars {
    /// Their mean with its 95 % confidence interval.
    Ci95,
    /// Their median with minimum and maximum.
    Range,
    /// Their mean alone.
    None,
}

/// The metric that tells transfers at and below `dir` apart, and whether its axis is better logarithmic: the time where
/// their sizes differ, since each size has a goodput of its own; otherwise goodput.
///
/// # Errors
/// A record cannot be read.
pub fn suited_metric(dir: &Path, by_flow: bool) -> Result<(&'static str, bool), Error> {
    let summaries = record::find_records(dir)?
        .iter()
        .map(|folder| Ok(Record::results(folder)?.summary))
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(match Measure::of_runs(summaries.iter()) {
        Measure::Goodput => ("goodput_bps", false),
        Measure::Seconds => (if by_flow { "seconds" } else { "completion_mean_s" }, true),
    })
}

/// The keys of a flow's summary that a figure can have; those of its metrics come on top.
pub(super) const OF_FLOWS: [&str; 4] = ["goodput_bps", "seconds", "retransmits", "timeouts"];

impl FigureQuery<'_> {
    /// Whether there is such a metric: those that one number can be of.
    pub(super) fn check_metric(&self) -> Result<(), Error> {
        let y = self.y;
        let keys = |all: serde_json::Value| {
            let all = all.as_object().expect("a table").clone().into_iter();
            all.filter(|(_, value)| value.is_null()).map(|(key, _)| key).collect::<Vec<_>>()
        };
        let mut known = if self.by_flow {
            keys(serde_json::to_value(FlowMetrics::default()).expect("plain data"))
        } else {
            keys(serde_json::to_value(Metrics::default()).expect("plain data"))
        };
        let more: &[&str] = if self.by_flow { &OF_FLOWS } else { &[GOODPUT_SHARE] };
        known.extend(more.iter().map(|key| (*key).to_owned()));
        if !known.iter().any(|key| key == y) {
            let known = known.join(", ");
            let of = if self.by_flow { " of a flow" } else { "" };
            return Err(Error::Figure(format!(
                "there is no metric \"{y}\"{of}; there are {known}"
            )));
        }
        let is_kept = if self.by_flow { warm_up::keeps_of_flow } else { warm_up::keeps_of_run };
        if self.warm_up_s > 0.0 && y != GOODPUT_SHARE && !is_kept(y) {
            let can: Vec<&str> =
                known.iter().map(String::as_str).filter(|key| is_kept(key)).collect();
            return Err(Error::Figure(format!(
                "{y} is of a whole run; without a warm-up there are {}",
                can.join(", ")
            )));
        }
        Ok(())
    }
}
