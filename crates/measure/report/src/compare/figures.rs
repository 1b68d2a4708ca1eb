// SPDX-License-Identifier: GPL-2.0-or-later
//! The figures of a comparison: runs over time, completion times, and the repeats of each metric. A side has one colour in all.

use super::{
    cells::{Cell, text_of},
    compared_by::{ComparedBy, congestion_controls},
    compared_runs::ComparedRuns,
    comparison::{Comparison, values},
    comparison_figure::{ComparisonFigure, FigureData, chart, panel_size},
    timeline::{Bins, Course, Spread, Values, spread},
};
use crate::{
    Error,
    axis_unit::AxisUnit,
    chart::{
        Axis, Panel, Series, Shape, Style,
        palette::{ColourBy, LineKey, algorithms, styles},
    },
    distribution::{BoxSummary, sorted},
};
use record::{OfferedFiles, Record};

/// Cells that are drawn: more panels are not looked at.
pub const MOST_PANELS: usize = 12;
/// Completion times that a table has of a side of a cell.
const MOST_TIMES: usize = 20_000;

/// What lines and areas over time are.
const MEANS_AND_BANDS: &str =
    "lines are means over the repeats, bands reach from minimum to maximum";

/// What is drawn of a cell.
struct DrawnCell {
    label: String,
    point: String,
    /// For each course the spread over the runs of each side.
    courses: [Vec<Vec<Spread>>; Course::ALL.len()],
    /// Sorted completion times of each side, in seconds.
    completions_s: Vec<Vec<f64>>,
    end_s: f64,
}

/// All figures for which the records have data, of the first [`MOST_PANELS`] cells.
///
/// # Errors
/// The series of a record cannot be read.
pub fn figures(
    compared: &ComparedRuns,
    cells: &[Cell<'_>],
    comparison: &Comparison,
) -> Result<Vec<ComparisonFigure>, Error> {
    let labels = comparison.labels();
    let cells = &cells[..cells.len().min(MOST_PANELS)];
    let drawn = cells.iter().zip(&labels).map(|(cell, label)| DrawnCell::read(cell, label));
    let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    let look = Look { sides: &compared.sides, styles: side_styles(compared) };
    let over_time = Course::ALL.into_iter().enumerate();
    let mut found: Vec<ComparisonFigure> =
        over_time.filter_map(|(n, course)| look.over_time(course, n, &drawn)).collect();
    found.extend(look.completions(&drawn));
    found.extend(look.boxes(cells, &labels, comparison));
    Ok(found)
}

impl DrawnCell {
    /// Reads the series of the cell's runs, one at a time.
    fn read(cell: &Cell<'_>, label: &str) -> Result<Self, Error> {
        let flows = cell.sides.iter().flatten().flat_map(|run| &run.results.summary.flows);
        let end_s = flows.map(|flow| flow.end_s).fold(0.0, f64::max);
        let bins = Bins::until(end_s);
        let mut drawn = Self {
            label: label.to_owned(),
            point: text_of(&cell.parameters),
            courses: [const { Vec::new() }; Course::ALL.len()],
            completions_s: Vec::new(),
            end_s,
        };
        for runs in &cell.sides {
            let mut of_side: [Vec<Values>; Course::ALL.len()] =
                [const { Vec::new() }; Course::ALL.len()];
            let mut completions_s = Vec::new();
            for run in runs {
                let (summary, series) = (&run.results.summary, Record::series(&run.folder)?);
                for (values, course) in of_side.iter_mut().zip(Course::ALL) {
                    values.push(course.of(summary, &series, bins));
                }
                let finite = summary.compared_flows().filter(|flow| flow.bytes_expected.is_some());
                completions_s
                    .extend(finite.filter(|flow| !flow.timed_out).filter_map(|flow| flow.seconds));
                if !summary.traffic.is_empty() {
                    let files = Record::files(&run.folder)?;
                    completions_s.extend(OfferedFiles::completion_times_s(&files.rows));
                }
            }
            for (of_cell, of_side) in drawn.courses.iter_mut().zip(&of_side) {
                of_cell.push(spread(of_side, bins));
            }
            drawn.completions_s.push(sorted(&completions_s));
        }
        Ok(drawn)
    }
}

/// The same look of each side in all figures.
fn side_styles(compared: &ComparedRuns) -> Vec<Style> {
    let key = |side: usize| {
        let runs = compared.runs.iter().filter(|run| run.side == side);
        let mut controls = runs.map(|run| congestion_controls(&run.results));
        // A side of one congestion control has its colour, as in other figures.
        let first = controls.next().filter(|first| controls.all(|other| other == *first));
        let algorithm = first.map(|names| algorithms(names.split(" and "))).unwrap_or_default();
        let name = compared.sides[side].clone();
        LineKey { variant: name.clone(), algorithm, method: name, flow: None }
    };
    let keys: Vec<LineKey> = (0..compared.sides.len()).map(key).collect();
    let by = if compared.by == ComparedBy::Method { ColourBy::Method } else { ColourBy::Variant };
    styles(&keys, by)
}

struct Look<'c> {
    sides: &'c [String],
    styles: Vec<Style>,
}

impl Look<'_> {
    fn over_time(&self, course: Course, n: usize, cells: &[DrawnCell]) -> Option<ComparisonFigure> {
        let most =
            |of: &DrawnCell| of.courses[n].iter().flatten().map(|at| at.most).reduce(f64::max);
        let largest = cells.iter().filter_map(most).reduce(f64::max)?;
        let (name, title, unit, caption) = describe(course, largest);
        let panels = cells.iter().map(|cell| {
            let end_s = cell.end_s.max(f64::MIN_POSITIVE);
            let series = cell.courses[n].iter().enumerate();
            let series = series.flat_map(|(side, at)| [self.band(side, at), self.line(side, at)]);
            let size = panel_size(cells.len());
            let (x, y) = (Axis::time(&(0.0..end_s), "time, s"), Axis::up_to(largest, &unit));
            Panel::new(cell.label.clone(), size, x, y, series.collect())
        });
        let rows = cells.iter().flat_map(|cell| {
            let sides = cell.courses[n].iter().zip(self.sides);
            sides.flat_map(|(spread, side)| {
                let texts = [cell.point.clone(), side.clone()];
                spread
                    .iter()
                    .map(move |at| (texts.to_vec(), vec![at.time_s, at.mean, at.least, at.most]))
            })
        });
        Some(ComparisonFigure {
            name,
            chart: chart(title, &format!("{caption}; {MEANS_AND_BANDS}"), panels.collect()),
            data: FigureData {
                texts: &["point", "side"],
                numbers: &["time_s", "mean", "minimum", "maximum"],
                rows: rows.collect(),
            },
        })
    }

    fn line(&self, side: usize, spread: &[Spread]) -> Series {
        let points = spread.iter().map(|at| [at.time_s, at.mean]).collect();
        Series::new(&self.sides[side], self.styles[side], Shape::Line(points))
    }

    fn band(&self, side: usize, spread: &[Spread]) -> Series {
        let width_s = spread.windows(2).map(|two| two[1].time_s - two[0].time_s).reduce(f64::min);
        let half_s = width_s.unwrap_or(0.0) / 2.0;
        let area = |at: &Spread| [at.time_s - half_s..at.time_s + half_s, at.least..at.most];
        let style = Style { fill_opacity: "0.18", ..self.styles[side] };
        Series::new("", style, Shape::Areas(spread.iter().map(area).collect()))
    }

    fn completions(&self, cells: &[DrawnCell]) -> Option<ComparisonFigure> {
        let all = || cells.iter().flat_map(|cell| cell.completions_s.iter().flatten().copied());
        let (least, largest) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
        let unit = AxisUnit::of("completion_s", largest);
        let is_wide = least > 0.0 && largest > 30.0 * least;
        let x = if is_wide {
            Axis::logarithmic(least, largest, &unit)
        } else {
            Axis::between(least, largest, &unit)
        };
        let y = Axis::up_to(1.0, &AxisUnit::counts("share of transfers", 1.0));
        let panels =
            cells.iter().filter(|cell| cell.completions_s.iter().any(|times| !times.is_empty()));
        let panels: Vec<&DrawnCell> = panels.collect();
        let drawn = panels.iter().map(|cell| {
            let sides =
                cell.completions_s.iter().enumerate().filter(|(_, times)| !times.is_empty());
            let series = sides.map(|(side, times)| {
                let steps = shares(times).map(|(time_s, share)| [time_s, share]);
                let [start, end] = x.ends;
                let points = std::iter::once([start, 0.0]).chain(steps).chain([[end, 1.0]]);
                Series::new(&self.sides[side], self.styles[side], Shape::Steps(points.collect()))
            });
            Panel::new(
                cell.label.clone(),
                panel_size(panels.len()),
                x.clone(),
                y.clone(),
                series.collect(),
            )
        });
        let rows = cells.iter().flat_map(|cell| {
            cell.completions_s.iter().zip(self.sides).flat_map(|(times, side)| {
                let texts = [cell.point.clone(), side.clone()];
                // Of millions, as many as show the distribution.
                let every = times.len().div_ceil(MOST_TIMES).max(1);
                let kept = shares(times).enumerate().filter(move |(n, _)| (n + 1) % every == 0);
                kept.map(move |(_, (time_s, share))| (texts.to_vec(), vec![time_s, share]))
            })
        });
        let caption = "of all transfers that ended, over all repeats; those that the end of the run cut off have none";
        Some(ComparisonFigure {
            name: "completion",
            chart: chart("Completion times", caption, drawn.collect()),
            data: FigureData {
                texts: &["point", "side"],
                numbers: &["completion_s", "share"],
                rows: rows.collect(),
            },
        })
    }

    /// A panel for each metric, with a box for each side at each combination of parameters.
    fn boxes(
        &self,
        cells: &[Cell<'_>],
        labels: &[String],
        comparison: &Comparison,
    ) -> Option<ComparisonFigure> {
        let differences = comparison.cells.iter().flat_map(|cell| &cell.differences);
        let mut names: Vec<(&String, &String)> = Vec::new();
        for one in differences {
            if names.len() < MOST_PANELS && !names.contains(&(&one.entity, &one.metric)) {
                names.push((&one.entity, &one.metric));
            }
        }
        let of_cells: Vec<Vec<_>> =
            cells.iter().map(|cell| cell.sides.iter().map(|runs| values(runs)).collect()).collect();
        let (mut panels, mut rows) = (Vec::new(), Vec::new());
        for (entity, metric) in &names {
            let name = ((*entity).clone(), (*metric).clone());
            let sample = |cell: usize, side: usize| {
                of_cells[cell][side].get(&name).map_or(&[][..], |(_, values)| values)
            };
            panels.push(self.box_panel(&name, &labels[..cells.len()], names.len(), &sample)?);
            for (at, cell) in cells.iter().enumerate() {
                for (side, side_name) in self.sides.iter().enumerate() {
                    let texts =
                        [&text_of(&cell.parameters), side_name, entity, metric].map(Clone::clone);
                    rows.extend(
                        sample(at, side).iter().map(|value| (texts.to_vec(), vec![*value])),
                    );
                }
            }
        }
        let caption = "of each metric: quartiles, and whiskers to the outermost values within 1.5 box lengths";
        Some(ComparisonFigure {
            name: "repeats",
            chart: chart("Repeats", caption, panels),
            data: FigureData {
                texts: &["point", "side", "entity", "metric"],
                numbers: &["value"],
                rows,
            },
        })
    }

    fn box_panel<'v>(
        &self,
        (entity, metric): &(String, String),
        labels: &[String],
        panels: usize,
        sample: &impl Fn(usize, usize) -> &'v [f64],
    ) -> Option<Panel> {
        let sides = self.sides.len();
        let all = || {
            (0..labels.len()).flat_map(|cell| {
                (0..sides).flat_map(move |side| sample(cell, side).iter().copied())
            })
        };
        let (least, largest) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
        let step = 0.76 / sides as f64;
        let series = (0..sides).map(|side| {
            let boxes = (0..labels.len()).filter_map(|cell| {
                let left = cell as f64 + 0.12 + (side as f64 + 0.1) * step;
                Some((left..left + 0.8 * step, BoxSummary::of(sample(cell, side))?))
            });
            Series::new(&self.sides[side], self.styles[side], Shape::Boxes(boxes.collect()))
        });
        let heading = if entity == "run" { metric.clone() } else { format!("{entity}/{metric}") };
        let y = Axis::between(least, largest, &AxisUnit::of(metric, largest));
        Some(Panel::new(heading, panel_size(panels), Axis::names("", labels), y, series.collect()))
    }
}

/// Each of the sorted times and the share of all that are no longer.
fn shares(times: &[f64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    times.iter().enumerate().map(|(n, time_s)| (*time_s, (n + 1) as f64 / times.len() as f64))
}

/// File name, title, unit and caption.
fn describe(course: Course, largest: f64) -> (&'static str, &'static str, AxisUnit, &'static str) {
    match course {
        Course::Throughput => (
            "throughput",
            "Throughput over time",
            AxisUnit::of("throughput_bps", largest),
            "what arrived of all flows together, also what waits for a lost segment",
        ),
        Course::Window => (
            "window",
            "Congestion windows over time",
            AxisUnit::counts("congestion window, segments", largest),
            "mean congestion window of the connections",
        ),
        Course::RoundTrip => (
            "round-trip",
            "Round trips over time",
            AxisUnit::of("round_trip_us", largest),
            "mean smoothed round trip of the connections",
        ),
        Course::Queue => (
            "queue",
            "Queues over time",
            AxisUnit::bytes("queue", largest),
            "bytes in the queues of all links together",
        ),
        Course::Fairness => (
            "fairness",
            "Fairness over time",
            AxisUnit::of("jain_index", 1.0),
            "Jain's index of the flows' throughputs, while two or more are there",
        ),
    }
}
