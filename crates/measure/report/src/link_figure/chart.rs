// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as a chart: panels below one another, the rate on the left axis, with one scale in all, and the
//! window on the right axis.

use super::{LinkFigure, LinkPanel};
use crate::{
    axis_unit::AxisUnit,
    binned_rate::binned_rate,
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style},
};

const WINDOW: Style = Style::plain("#d55e00", 1.6);
const REFERENCE: Style = Style { dash: "5 4", ..Style::plain("#4c5561", 1.2) };
const SIZE: Size = Size { width: 860.0, height: 190.0 };

impl LinkFigure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let windows = self.largest_windows();
        let panels = self.panels.iter().zip(windows).map(|(panel, most)| self.panel(panel, most));
        Chart {
            title: self.title.clone(),
            description: format!("{}: rate over time of link {}", self.title, self.link),
            about: self.about(),
            panels: panels.collect(),
        }
        .svg()
    }

    /// To the largest bin; but a bin of a full link that has a packet more than it should may stand a little
    /// above the axis.
    fn rate_axis(&self) -> Axis {
        let peak = self.peak_bps();
        let link = self.panels.iter().filter_map(|panel| panel.link_bps).fold(0.0, f64::max);
        let largest = if peak > link && peak < 1.05 * link { link } else { peak };
        Axis::up_to(largest, &AxisUnit::of("rate_bps", largest))
    }

    /// Up to what the axis of each panel's window goes: the same in all, unless some would then be flat.
    fn largest_windows(&self) -> Vec<f64> {
        let largest = |panel: &LinkPanel| panel.cwnd.value.iter().copied().fold(0.0, f64::max);
        let own: Vec<f64> = self.panels.iter().map(largest).collect();
        let most = own.iter().copied().fold(0.0, f64::max);
        if own.iter().any(|one| *one < most / 5.0) { own } else { vec![most; own.len()] }
    }

    fn panel(&self, panel: &LinkPanel, largest_window: f64) -> Panel {
        let rate = self.rate_axis();
        let shown_bps = rate.ends[1];
        let span_s = &self.span_s;
        let width = SIZE.width * panel.length_s() / (span_s.end - span_s.start);
        let mut series = binned_rate(&panel.bins_bps, span_s.start, panel.bin_s, width);
        let has_window = self.hop.is_some();
        let reference = if has_window {
            "the bottleneck's rate; when the window first holds more than the path"
        } else {
            "the link's rate"
        };
        if let Some(bps) = panel.bottleneck_bps.filter(|bps| *bps <= shown_bps) {
            let level = Shape::Line(vec![[span_s.start, bps], [span_s.end, bps]]);
            series.push(Series::new(reference, REFERENCE, level));
        }
        if has_window {
            let samples = panel.cwnd.time_s.iter().zip(&panel.cwnd.value);
            let window = Shape::Steps(samples.map(|(at, packets)| [*at, *packets]).collect());
            let window = Series::new("congestion window", WINDOW, window);
            series.push(Series { on_right: true, ..window });
        }
        if let Some(at_s) = panel.numbers.filled_at_s.filter(|at| span_s.contains(at)) {
            let moment = Shape::Line(vec![[at_s, 0.0], [at_s, shown_bps]]);
            series.push(Series::new(reference, REFERENCE, moment));
        }
        let window = AxisUnit::counts("congestion window, packets", largest_window);
        Panel {
            right: has_window.then(|| Axis::up_to(largest_window, &window)),
            ..Panel::new(panel.heading(), SIZE, Axis::time(span_s, "time, s"), rate, series)
        }
    }
}
