// SPDX-License-Identifier: GPL-2.0-or-later
//! What `assets/report.js` reads: the charts' data, as JSON in the page.

use super::labels::COLOURS;
use crate::{
    headline,
    run::Run,
    scenario_runs::{Cell, ScenarioRuns},
    sweep_chart::SweepChart,
    traces::Trace,
};
use record::{RunVerdict, stats};
use serde::Serialize;

#[derive(Serialize)]
pub struct Page<'a> {
    groups: Vec<GroupData<'a>>,
}

#[derive(Serialize)]
struct GroupData<'a> {
    /// Each point of the sweep, as text; one empty text without a sweep.
    points: Vec<String>,
    cells: Vec<CellData<'a>>,
    runs: Vec<RunData<'a>>,
    panels: &'a [SweepChart],
}

#[derive(Serialize)]
struct CellData<'a> {
    point: usize,
    variant: &'a str,
    variant_label: &'a str,
    label: String,
    method: &'a str,
    client: &'a str,
    colour: usize,
    /// Whether its goodput counts and not its time.
    endless: bool,
    repeats: Vec<RepeatData>,
    representative: Option<usize>,
    seconds: Option<Interval>,
    goodput_bps: Option<Interval>,
}

#[derive(Serialize)]
struct RepeatData {
    run: usize,
    seconds: f64,
    goodput_bps: f64,
    cut: bool,
    counts: bool,
}

/// A mean and half the width of its confidence interval.
#[derive(Serialize)]
struct Interval {
    mean: f64,
    half: Option<f64>,
}

#[derive(Serialize)]
struct RunData<'a> {
    id: &'a str,
    repeat: u32,
    /// What its one flow can have at most.
    limit_bps: Option<f64>,
    of_links: bool,
    bin_s: f64,
    strands: &'a [Trace],
}

impl<'a> Page<'a> {
    pub fn new(groups: &'a [ScenarioRuns], panels: &'a [Vec<SweepChart>]) -> Self {
        let both = groups.iter().zip(panels);
        Self { groups: both.map(|(group, panels)| GroupData::new(group, panels)).collect() }
    }
}

impl<'a> GroupData<'a> {
    fn new(group: &'a ScenarioRuns, panels: &'a [SweepChart]) -> Self {
        let text = |point: &record::manifest::Point| {
            point.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
        };
        Self {
            points: group.points.iter().map(text).collect(),
            // Where there are no predictions there is nothing to draw; the table says why.
            cells: group
                .cells
                .iter()
                .filter(|cell| {
                    cell.repeats.iter().any(|repeat| repeat.transfer.goodput_bps.is_some())
                })
                .map(|cell| CellData::new(group, cell))
                .collect(),
            runs: group.runs.iter().map(RunData::new).collect(),
            panels,
        }
    }
}

impl<'a> CellData<'a> {
    fn new(group: &'a ScenarioRuns, cell: &'a Cell) -> Self {
        let interval = |estimate: stats::MeanEstimate| Interval {
            mean: estimate.mean,
            half: estimate.half_width,
        };
        let variant = group.variant(cell);
        Self {
            point: cell.point,
            variant: &variant.name,
            variant_label: &variant.label,
            label: headline::name(group, cell),
            method: &cell.method,
            client: &cell.client,
            colour: variant.colour % COLOURS,
            endless: cell.is_endless(),
            repeats: cell.repeats.iter().filter_map(RepeatData::new).collect(),
            representative: cell.representative(),
            seconds: cell.mean_seconds().map(interval),
            goodput_bps: stats::mean_ci95(&cell.goodputs()).map(interval),
        }
    }
}

impl RepeatData {
    /// None without a prediction.
    fn new(repeat: &crate::scenario_runs::Repeat) -> Option<Self> {
        let transfer = &repeat.transfer;
        Some(Self {
            run: repeat.run,
            seconds: transfer.seconds?,
            goodput_bps: transfer.goodput_bps?,
            cut: transfer.verdict == RunVerdict::Cut,
            counts: transfer.verdict.in_medians(),
        })
    }
}

impl<'a> RunData<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            id: &run.manifest.id,
            repeat: run.manifest.repeat,
            limit_bps: run.limit_bps(),
            of_links: run.traces.of_links,
            bin_s: run.traces.bin_s,
            strands: &run.traces.strands,
        }
    }
}
