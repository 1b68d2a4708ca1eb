// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as an SVG document: panels below one another, of one scale.

use super::{OverTime, TimeFigure, TimeLine, TimePanel};
use crate::{
    axis_unit::AxisUnit,
    binned_rate::{LEFT_MARGIN, time_axis},
    legend::{Sample, least_width, legend},
    palette,
    svg::{LETTER_WIDTH, Page, Scale, height_of_more_lines, translate, vertical_text, wrapped},
};
use maud::{Markup, html};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const RIGHT: f64 = 18.0;
const HEAD: f64 = 58.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 46.0;
/// Columns of a pixel's width: of samples that share one, the first, the least, the most and the last are drawn.
const COLUMN: f64 = 1.0;

impl TimeFigure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let scale = self.scale();
        let title = 32.0 + 1.5 * LETTER_WIDTH * self.title.chars().count() as f64;
        let width = (LEFT_MARGIN + WIDTH + RIGHT).max(title).max(least_width(&self.lines));
        let about = wrapped(&self.about(), width - 32.0);
        let head = HEAD + height_of_more_lines(&about);
        let panel_height = ABOVE + HEIGHT + BELOW;
        let panels_end = head + self.panels.len() as f64 * panel_height;
        let styles = palette::styles(&self.line_keys, self.colour_by);
        let (legend, legend_height) = legend(&self.lines, &styles, &[], width, Sample::Line);
        let at = |n: usize| translate(LEFT_MARGIN, head + n as f64 * panel_height + ABOVE);
        let body = html! {
            @for (n, panel) in self.panels.iter().enumerate() {
                g.panel transform=(at(n)) { (self.panel(panel, &scale, &styles)) }
            }
            g.legend transform=(translate(0.0, panels_end)) { (legend) }
        };
        let height = panels_end + legend_height + 8.0;
        let description = format!("{}: {} over time", self.title, scale.unit.axis);
        Page { description, heading: &self.title, about, width, height }.svg(&body)
    }

    fn scale(&self) -> Scale {
        let largest = self.largest();
        let unit = self.unit(largest);
        let divisor = unit.divisor;
        let least = self.values().filter(|value| *value > 0.0).reduce(f64::min);
        match least.filter(|_| self.log_y) {
            Some(least) => Scale::logarithmic(least / divisor, largest / divisor, unit),
            None => Scale::up_to(largest / divisor, unit),
        }
    }

    /// The unit of the values' axis.
    pub(super) fn unit(&self, largest: f64) -> AxisUnit {
        match self.what {
            OverTime::Cwnd => AxisUnit::counts("congestion window, segments", largest),
            OverTime::Ssthresh => AxisUnit::counts("slow-start threshold, segments", largest),
            OverTime::Rtt => AxisUnit::of("round_trip_us", largest),
            OverTime::Rate => AxisUnit::of("received_bps", largest),
            OverTime::PacingRate => AxisUnit::of("pacing_rate_bps", largest),
            OverTime::Queue => AxisUnit::bytes("queue", largest),
        }
    }

    fn panel(&self, panel: &TimePanel, scale: &Scale, styles: &[palette::Style]) -> Markup {
        let label = if panel.counts { "" } else { " (does not count)" };
        html! {
            text x="0" y="-10" font-weight="600" { (panel.label) (label) }
            (scale.draw(WIDTH, HEIGHT))
            (vertical_text(&scale.title(), 14.0 - LEFT_MARGIN, HEIGHT))
            (time_axis(&self.span_s, WIDTH, HEIGHT, self.time_title()))
            @for line in &panel.lines {
                (styles[line.line].line(&self.path(line, scale), 1.5))
            }
        }
    }

    fn time_title(&self) -> &'static str {
        if self.since_start { "time since the flow's start, s" } else { "time, s" }
    }

    /// From sample to sample. A logarithmic axis has no place for zero.
    fn path(&self, line: &TimeLine, scale: &Scale) -> String {
        let length_s = self.span_s.end - self.span_s.start;
        let x = |time_s: f64| WIDTH * (time_s - self.span_s.start) / length_s;
        let samples = line.time_s.iter().zip(&line.values);
        let placed = samples.filter(|(_, value)| !self.log_y || **value > 0.0);
        let points: Vec<(f64, f64)> =
            placed.map(|(time_s, value)| (x(*time_s), scale.y(*value, HEIGHT))).collect();
        let mut path = String::new();
        let column = |point: &(f64, f64)| (point.0 / COLUMN) as i64;
        for points in points.chunk_by(|a, b| column(a) == column(b)) {
            for (x, y) in extremes(points) {
                path += &format!("{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
            }
        }
        path
    }
}

/// Of several points the first, the lowest, the highest and the last, in their order.
fn extremes(column: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if column.len() <= 4 {
        return column.to_vec();
    }
    let by = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
    let all = 0..column.len();
    let mut kept = vec![0, column.len() - 1];
    kept.extend(all.clone().min_by(by));
    kept.extend(all.max_by(by));
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|at| column[at]).collect()
}
