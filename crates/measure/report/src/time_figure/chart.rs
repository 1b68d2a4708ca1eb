// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as a chart: panels below one another, of one scale.

use super::{OverTime, TimeFigure};
use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Chart, Panel, Series, Shape, Size, palette::styles},
};

impl TimeFigure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let (unit, largest) = (self.unit(), self.largest());
        let y = match self.values().filter(|value| self.log_y && *value > 0.0).reduce(f64::min) {
            Some(least) => Axis::logarithmic(least, largest, &unit),
            None => Axis::up_to(largest, &unit),
        };
        let time = if self.since_start { "time since the flow's start, s" } else { "time, s" };
        let x = Axis::time(&self.span_s, time);
        let styles = styles(&self.line_keys, self.colour_by);
        let panels = self.panels.iter().map(|panel| {
            let series = panel.lines.iter().map(|line| {
                let samples = line.time_s.iter().zip(&line.values).map(|(at, value)| [*at, *value]);
                let shape = Shape::Line(samples.collect());
                Series::new(&self.lines[line.line], styles[line.line], shape)
            });
            let size = Size { width: 640.0, height: 240.0 };
            Panel::new(panel.heading(), size, x.clone(), y.clone(), series.collect())
        });
        Chart {
            title: self.title.clone(),
            description: format!("{}: {} over time", self.title, unit.axis),
            about: self.about(),
            panels: panels.collect(),
        }
        .svg()
    }

    /// The unit of the values' axis.
    pub(super) fn unit(&self) -> AxisUnit {
        self.unit_of(self.largest())
    }

    /// The unit that suits values up to this one.
    pub(super) fn unit_of(&self, largest: f64) -> AxisUnit {
        match self.what {
            OverTime::Cwnd => AxisUnit::counts("congestion window, segments", largest),
            OverTime::Ssthresh => AxisUnit::counts("slow-start threshold, segments", largest),
            OverTime::Rtt => AxisUnit::of("round_trip_us", largest),
            OverTime::Rate => AxisUnit::of("received_bps", largest),
            OverTime::PacingRate => AxisUnit::of("pacing_rate_bps", largest),
            OverTime::Queue => AxisUnit::bytes("queue", largest),
        }
    }
}
