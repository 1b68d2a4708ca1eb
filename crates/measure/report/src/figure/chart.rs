// SPDX-License-Identifier: GPL-2.0-or-later
//! What a figure shows as a chart: lines over a swept key, boxes at its values, or steps of distributions.

use super::{FLOW, Figure, FigureForm, Panel, VARIANT};
use crate::{
    axis_unit::AxisUnit,
    chart::{
        Axis, Chart, MarkedPoint, Panel as ChartPanel, Series, Shape, Size, Style,
        palette::{algorithm_colour, styles},
    },
    distribution::{BoxSummary, sorted},
};

/// The widest box, in CSS pixels, and the part of a value's room that its boxes take.
const WIDEST_BOX: f64 = 34.0;
const FILLED: f64 = 0.76;
/// Bars of few repeats can be huge: what is more than this above the largest value is cut off.
const MOST_ABOVE: f64 = 1.25;

impl Figure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let over =
            if self.form == FigureForm::Cdf { String::new() } else { format!(" over {}", self.x) };
        Chart {
            title: self.title.clone(),
            description: format!("{}: {}{over}", self.title, self.unit().axis),
            about: self.about(),
            panels: self.panels.iter().map(|panel| self.panel(panel)).collect(),
        }
        .svg()
    }

    fn panel(&self, panel: &Panel) -> ChartPanel {
        // One panel has more room than several abreast.
        let size = match self.panels.len() {
            0 | 1 => Size { width: 460.0, height: 300.0 },
            _ => Size { width: 290.0, height: 230.0 },
        };
        let (x, y, shapes) = match self.form {
            FigureForm::Lines => (self.swept_axis(panel), self.value_axis(), self.points_of(panel)),
            FigureForm::Box => {
                let x = Axis::names(&self.x, &panel.labels);
                (x, self.distribution_axis(self.log_y), self.boxes(panel, size))
            }
            FigureForm::Cdf => {
                let along = self.distribution_axis(self.log_x);
                let shares = panel.values.iter().map(|values| self.steps(&values[0], &along));
                let shares = shares.collect();
                let of = if self.by_flow { "share of flows" } else { "share of runs" };
                (along, Axis::up_to(1.0, &AxisUnit::counts(of, 1.0)), shares)
            }
        };
        let styles = styles(&self.line_keys, self.colour_by);
        let lines = self.lines.iter().zip(styles).zip(shapes);
        let lines = lines.map(|((name, style), shape)| Series::new(name, style, shape));
        let functions = panel.overlays.iter().map(|overlay| {
            let curve = overlay.curve.iter().map(|(at, value)| [*at, *value]).collect();
            let style = Style::plain(algorithm_colour(&overlay.algorithm), 0.9);
            Series::new(&overlay.name, style, Shape::Line(curve))
        });
        ChartPanel::new(panel.fixed.clone(), size, x, y, lines.chain(functions).collect())
    }

    pub(super) fn unit(&self) -> AxisUnit {
        AxisUnit::of(&self.y, self.largest())
    }

    /// Whether variants or flows are along the panels, which have no order that a line could follow.
    fn has_names(&self) -> bool {
        self.x == VARIANT || self.x == FLOW
    }

    fn swept_axis(&self, panel: &Panel) -> Axis {
        if self.has_names() {
            return Axis::names(&self.x, &panel.labels);
        }
        let (positions, is_logarithmic) = panel.positions(self.log_x);
        let how = if is_logarithmic { " (logarithmic)" } else { "" };
        Axis::swept(&format!("{}{how}", self.x), &positions, &panel.labels)
    }

    /// From zero, or by logarithms where that is asked for; as far as bars go.
    fn value_axis(&self) -> Axis {
        let most = self.largest();
        let bars = self.points().filter_map(|point| point.bar(self.bars)).map(|[_, end]| end);
        let bars = bars.fold(most, f64::max).min(MOST_ABOVE * most);
        let overlays = || self.panels.iter().flat_map(|panel| &panel.overlays);
        let functions = || overlays().flat_map(|overlay| overlay.curve.iter().map(|(_, y)| *y));
        // A function may go farther than what was measured, but not make that flat.
        let largest = functions().filter(|value| *value < 2.0 * most).fold(bars, f64::max);
        if !self.log_y {
            return Axis::up_to(largest, &self.unit());
        }
        let values = self.points().flat_map(|point| [point.least, point.middle(self.bars)]);
        let above_zero = values.chain(functions()).filter(|value| *value > 0.0);
        Axis::logarithmic(above_zero.reduce(f64::min).unwrap_or(most), largest, &self.unit())
    }

    /// From near the least value to the largest, or by logarithms.
    fn distribution_axis(&self, is_logarithmic: bool) -> Axis {
        let values = self.panels.iter().flat_map(|panel| panel.values.iter().flatten().flatten());
        let drawn = values.copied().filter(|value| !is_logarithmic || *value > 0.0);
        let (least, largest) = (drawn.reduce(f64::min), self.largest());
        let least = least.unwrap_or(largest);
        if is_logarithmic {
            Axis::logarithmic(least, largest, &self.unit())
        } else {
            Axis::between(least, largest, &self.unit())
        }
    }

    fn points_of(&self, panel: &Panel) -> Vec<Shape> {
        let at = self.swept_axis(panel).ticks;
        let are_joined = !self.has_names();
        let points = panel.points.iter().map(|line| {
            let known = at.iter().zip(line).filter_map(|((x, _), point)| Some((*x, (*point)?)));
            let points = known.map(|(x, point)| MarkedPoint {
                x,
                y: point.middle(self.bars),
                bar: point.bar(self.bars),
            });
            Shape::Points { points: points.collect(), are_joined }
        });
        points.collect()
    }

    /// At each value a box for each line, side by side.
    fn boxes(&self, panel: &Panel, size: Size) -> Vec<Shape> {
        let room = size.width / panel.labels.len().max(1) as f64;
        let lines = self.lines.len() as f64;
        let step = (FILLED / lines.max(1.0)).min(WIDEST_BOX / room);
        let boxes = panel.values.iter().enumerate().map(|(n, samples)| {
            let middle = 0.5 + (n as f64 - (lines - 1.0) / 2.0) * step;
            let boxes = samples.iter().enumerate().filter_map(|(at, sample)| {
                let left = at as f64 + middle - 0.4 * step;
                Some((left..left + 0.8 * step, BoxSummary::of(&drawn(sample, self.log_y))?))
            });
            Shape::Boxes(boxes.collect())
        });
        boxes.collect()
    }

    /// Up by one over the number of values at each of them, from one end of the axis to the other.
    fn steps(&self, sample: &[f64], along: &Axis) -> Shape {
        let sample = sorted(&drawn(sample, self.log_x));
        let [start, end] = along.ends;
        let step = |(n, value): (usize, f64)| [value, (n + 1) as f64 / sample.len() as f64];
        let steps = sample.iter().copied().enumerate().map(step);
        let ends = ([start, 0.0], [end, 1.0]);
        let points = std::iter::once(ends.0).chain(steps).chain(std::iter::once(ends.1));
        Shape::Steps(if sample.is_empty() { Vec::new() } else { points.collect() })
    }
}

/// The values that an axis has a place for.
fn drawn(sample: &[f64], is_logarithmic: bool) -> Vec<f64> {
    sample.iter().copied().filter(|value| !is_logarithmic || *value > 0.0).collect()
}
