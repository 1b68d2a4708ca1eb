// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of one scenario, put together: a cell for each point of the sweep, variant, method and client.

use crate::{
    capacity::Capacity,
    run::{Run, Transfer},
    swept_value::SweptValue,
    traces,
};
use record::{
    Limit, LimitShares, LimitedBy, RunVerdict,
    manifest::Point,
    repeats,
    stats::{self, MeanEstimate, MedianRange},
};

/// The runs of one scenario.
#[derive(Debug)]
pub struct ScenarioRuns {
    pub title: String,
    pub source: Option<String>,
    /// The baseline first, then in the order in which they first ran.
    pub variants: Vec<Variant>,
    /// The name of the variant that the others are compared with.
    pub baseline: Option<String>,
    /// The sweep's points, in order; one empty point without a sweep.
    pub points: Vec<Point>,
    /// By point, then by variant, then by method, then by client.
    pub cells: Vec<Cell>,
    /// In the order in which they started.
    pub runs: Vec<Run>,
}

/// A variant of moving the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    pub label: String,
    /// Its colour on the page, the same in every group.
    pub colour: usize,
}

/// The repeats of one variant by one method with one client at one point.
#[derive(Debug)]
pub struct Cell {
    pub point: usize,
    pub variant: usize,
    pub method: String,
    pub client: String,
    pub repeats: Vec<Repeat>,
    /// Over the baseline's cell of the same method; `None` for the baseline itself and where one of them is empty.
    pub gain: Option<Gain>,
}

/// One run's part in a cell.
#[derive(Debug)]
pub struct Repeat {
    /// The index of the run in its group.
    pub run: usize,
    pub transfer: Transfer,
}

/// The ratio of a cell's median goodput to the baseline's.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    pub factor: f64,
    /// The baseline's cell.
    pub over: usize,
    /// Whether the two ranges, from the slowest to the fastest run, overlap.
    pub overlap: bool,
}

impl Cell {
    /// Those repeats that count.
    pub fn included(&self) -> impl Iterator<Item = &Repeat> {
        self.repeats.iter().filter(|repeat| repeat.transfer.verdict.in_medians())
    }

    pub fn included_runs(&self) -> usize {
        self.included().count()
    }

    /// Goodputs that count, in bits a second.
    pub fn goodputs(&self) -> Vec<f64> {
        self.included().filter_map(|repeat| repeat.transfer.goodput_bps).collect()
    }

    /// Completion times that count, in seconds; those of cut transfers are lower bounds.
    pub fn seconds(&self) -> Vec<f64> {
        self.included().filter_map(|repeat| repeat.transfer.seconds).collect()
    }

    /// How many of those that count were cut off by the time limit.
    pub fn cut_runs(&self) -> usize {
        self.included().filter(|repeat| repeat.transfer.verdict == RunVerdict::Cut).count()
    }

    pub fn median_bps(&self) -> Option<f64> {
        stats::median(&self.goodputs())
    }

    /// Segments sent again in those that count; those that do not know are left out.
    pub fn retransmits(&self) -> Vec<f64> {
        self.included().filter_map(|repeat| Some(repeat.transfer.retransmits? as f64)).collect()
    }

    /// What held the flows of those that count up most.
    pub fn limited_by(&self) -> Option<LimitedBy> {
        LimitedBy::of_mean(&self.limit_shares())
    }

    /// How much of their time recovery waited for the receive window, where it did.
    pub fn window_in_recovery(&self) -> Option<f64> {
        let share = record::mean_share(&self.limit_shares(), Limit::WindowInRecovery);
        share.filter(|share| *share > 0.0)
    }

    fn limit_shares(&self) -> Vec<LimitShares> {
        self.included().flat_map(|repeat| repeat.transfer.limited.iter().copied()).collect()
    }

    /// The slowest and the fastest goodput.
    pub fn range_bps(&self) -> Option<(f64, f64)> {
        MedianRange::of(&self.goodputs()).map(|range| (range.least, range.most))
    }

    /// What the paths can carry, when it is the same in all runs.
    pub fn capacity(&self) -> Option<Capacity> {
        let capacity = self.repeats.first()?.transfer.capacity;
        capacity.filter(|_| self.repeats.iter().all(|r| r.transfer.capacity == capacity))
    }

    /// Whether these transfers go on as long as the runs do.
    pub fn is_endless(&self) -> bool {
        self.repeats.iter().any(|repeat| repeat.transfer.endless)
    }

    /// Mean completion time; no interval when a cut transfer makes it a lower bound.
    pub fn mean_seconds(&self) -> Option<MeanEstimate> {
        let estimate = stats::mean_ci95(&self.seconds())?;
        Some(if self.cut_runs() > 0 {
            MeanEstimate { half_width: None, ..estimate }
        } else {
            estimate
        })
    }

    /// The run closest to the median goodput: of those that count, or else of all.
    pub fn representative(&self) -> Option<usize> {
        let Some(median) = self.median_bps() else {
            return self.repeats.first().map(|repeat| repeat.run);
        };
        let distance =
            |repeat: &&Repeat| (repeat.transfer.goodput_bps.unwrap_or(median) - median).abs();
        let closest = self.included().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        closest.map(|repeat| repeat.run)
    }
}

/// Puts runs of the same title together; groups and runs come in the order in which they started.
pub fn by_scenario(mut runs: Vec<Run>) -> Vec<ScenarioRuns> {
    runs.sort_by(|a, b| {
        (&a.manifest.started, &a.manifest.id).cmp(&(&b.manifest.started, &b.manifest.id))
    });
    traces::colour(runs.iter_mut().map(|run| &mut run.traces));
    let mut by_title: Vec<(String, Vec<Run>)> = Vec::new();
    for run in runs {
        match by_title.iter_mut().find(|(title, _)| *title == run.manifest.title) {
            Some((_, runs)) => runs.push(run),
            None => by_title.push((run.manifest.title.clone(), vec![run])),
        }
    }
    let mut palette = Vec::new();
    by_title.into_iter().map(|(title, runs)| ScenarioRuns::new(title, runs, &mut palette)).collect()
}

impl ScenarioRuns {
    fn new(title: String, runs: Vec<Run>, palette: &mut Vec<String>) -> Self {
        let baseline = runs.iter().find_map(|run| run.manifest.baseline.clone());
        let variants = variants(&runs, baseline.as_deref(), palette);
        let points = points(&runs);
        let mut cells = cells(&runs, &variants, &points);
        compare(
            &mut cells,
            variants.iter().position(|variant| Some(&variant.name) == baseline.as_ref()),
        );
        let source = runs.iter().find_map(|run| run.manifest.source.clone());
        Self { title, source, variants, baseline, points, cells, runs }
    }

    pub fn variant(&self, cell: &Cell) -> &Variant {
        &self.variants[cell.variant]
    }

    /// Whether there are runs by more than one method.
    pub fn several_methods(&self) -> bool {
        self.cells.iter().any(|cell| cell.method != self.cells[0].method)
    }

    /// Whether a cell belongs to the variant that the others are compared with.
    pub fn is_baseline(&self, cell: &Cell) -> bool {
        Some(&self.variant(cell).name) == self.baseline.as_ref()
    }

    /// The runs that do not count, with their reasons.
    pub fn left_out(&self) -> impl Iterator<Item = (&Run, String)> {
        self.runs.iter().filter_map(|run| {
            let failed = || {
                let transfers = run.transfers().into_iter();
                let failed = transfers.filter(|t| t.verdict == RunVerdict::Failed);
                failed.map(|t| format!("{}: {}", t.client, t.outcome)).collect::<Vec<_>>()
            };
            let reasons =
                if run.manifest.valid { failed() } else { run.manifest.invalid_reasons.clone() };
            let counts = run.manifest.valid && reasons.is_empty();
            (!counts).then(|| (run, reasons.join("; ")))
        })
    }
}

fn variants(runs: &[Run], baseline: Option<&str>, palette: &mut Vec<String>) -> Vec<Variant> {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        if !named.iter().any(|(name, _)| *name == run.variant()) {
            named.push((run.variant(), run.variant_label()));
        }
    }
    named.sort_by_key(|(name, _)| Some(*name) != baseline);
    let mut colour = |name: &str| {
        palette.iter().position(|known| known == name).unwrap_or_else(|| {
            palette.push(name.to_owned());
            palette.len() - 1
        })
    };
    named
        .into_iter()
        .map(|(name, label)| Variant {
            name: name.into(),
            label: label.into(),
            colour: colour(name),
        })
        .collect()
}

/// The points in the order of their values, key by key.
fn points(runs: &[Run]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for run in runs {
        if !points.contains(&run.manifest.point) {
            points.push(run.manifest.point.clone());
        }
    }
    points.sort_by(|a, b| {
        let values =
            |point: &Point| point.iter().map(|(_, v)| SweptValue::parse(v)).collect::<Vec<_>>();
        values(a).partial_cmp(&values(b)).unwrap_or(std::cmp::Ordering::Equal)
    });
    points
}

fn cells(runs: &[Run], variants: &[Variant], points: &[Point]) -> Vec<Cell> {
    let transfers = runs.iter().enumerate().flat_map(|(run, of_run)| {
        of_run.transfers().into_iter().map(move |transfer| Repeat { run, transfer })
    });
    let mut groups = repeats::group(transfers, |repeat| {
        let run = &runs[repeat.run];
        let point = points.iter().position(|point| *point == run.manifest.point);
        let variant = variants.iter().position(|variant| variant.name == run.variant());
        let (point, variant) =
            point.zip(variant).expect("points and variants were taken from the runs");
        (point, variant, run.manifest.method.clone(), repeat.transfer.client.clone())
    });
    groups.sort_by(|(a, _), (b, _)| a.cmp(b));
    let cell = |((point, variant, method, client), repeats)| Cell {
        point,
        variant,
        method,
        client,
        repeats,
        gain: None,
    };
    groups.into_iter().map(cell).collect()
}

/// Sets each cell's gain: over the baseline by the same method with the same client, or else with its
/// first one.
fn compare(cells: &mut [Cell], baseline: Option<usize>) {
    let Some(baseline) = baseline else { return };
    for index in 0..cells.len() {
        let cell = &cells[index];
        let candidates = || {
            let all = cells.iter().enumerate();
            all.filter(|(_, base)| {
                (base.variant, base.point, &base.method) == (baseline, cell.point, &cell.method)
            })
        };
        let same_client = candidates().find(|(_, base)| base.client == cell.client);
        let Some((over, base)) = same_client.or_else(|| candidates().next()) else { continue };
        if cell.variant != baseline {
            cells[index].gain = gain(cell, base, over);
        }
    }
}

fn gain(cell: &Cell, base: &Cell, over: usize) -> Option<Gain> {
    let factor = cell.median_bps()? / base.median_bps().filter(|bps| *bps > 0.0)?;
    let ((a_min, a_max), (b_min, b_max)) = (cell.range_bps()?, base.range_bps()?);
    Some(Gain { factor, over, overlap: a_min <= b_max && b_min <= a_max })
}

#[cfg(test)]
mod tests;
