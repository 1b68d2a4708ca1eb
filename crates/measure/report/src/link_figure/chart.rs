// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure over time as an SVG document: panels below one another, the rate on the left axis, with one scale
//! in all, and the window on the right axis.

use super::{LinkFigure, LinkPanel};
use crate::{
    axis_unit::AxisUnit,
    binned_rate::{LEFT_MARGIN, band, columns, steps, time_axis},
    format,
    svg::{BLUE, LETTER_WIDTH, ORANGE, Page, SOFT, Scale, px, translate, vertical_text},
};
use maud::{Markup, html};

const RATE: &str = BLUE;
const WINDOW: &str = ORANGE;

const RIGHT: f64 = 74.0;
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 190.0;
const HEAD: f64 = 102.0;
const BETWEEN: f64 = 76.0;

impl LinkFigure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let rate = self.rate_scale();
        let windows = self.largest_windows();
        let at = |n: usize| translate(LEFT_MARGIN, HEAD + n as f64 * (HEIGHT + BETWEEN));
        let body = html! {
            g transform=(translate(LEFT_MARGIN, 66.0)) { (self.legend()) }
            @for (n, panel) in self.panels.iter().enumerate() {
                g transform=(at(n)) { (self.panel(panel, &rate, windows[n])) }
            }
        };
        let height = HEAD + self.panels.len() as f64 * (HEIGHT + BETWEEN) - 24.0;
        let description = format!("{}: rate over time of link {}", self.title, self.link);
        let width = LEFT_MARGIN + WIDTH + RIGHT;
        Page { description, heading: &self.title, about: vec![self.about()], width, height }
            .svg(&body)
    }

    /// To the largest bin; but a bin of a full link that has a packet more than it should may stand a little
    /// above the scale.
    fn rate_scale(&self) -> Scale {
        let peak = self.peak_bps();
        let link = self.panels.iter().filter_map(|panel| panel.link_bps).fold(0.0, f64::max);
        let largest = if peak > link && peak < 1.05 * link { link } else { peak };
        let unit = AxisUnit::of("rate_bps", largest);
        Scale::up_to(largest / unit.divisor, unit)
    }

    /// Up to what the scale of each panel's window goes: the same in all, unless some would then be flat.
    fn largest_windows(&self) -> Vec<f64> {
        let largest = |panel: &LinkPanel| panel.cwnd.value.iter().copied().fold(0.0, f64::max);
        let own: Vec<f64> = self.panels.iter().map(largest).collect();
        let most = own.iter().copied().fold(0.0, f64::max);
        if own.iter().any(|one| *one < most / 5.0) { own } else { vec![most; own.len()] }
    }

    fn panel(&self, panel: &LinkPanel, rate: &Scale, largest: f64) -> Markup {
        let window = Scale::up_to(largest, AxisUnit::of("cwnd", largest));
        let span_s = self.span_s.end - self.span_s.start;
        let bins = columns(&panel.bins_bps, WIDTH * panel.length_s() / span_s);
        let y = |value: f64| rate.y(value, HEIGHT);
        let label = if panel.counts { "" } else { " (does not count)" };
        html! {
            text x="0" y="-8" font-weight="600" { (panel.label) (label) }
            (rate.draw(WIDTH, HEIGHT))
            (vertical_text(&rate.unit.axis, 16.0 - LEFT_MARGIN, HEIGHT))
            (time_axis(&self.span_s, WIDTH, HEIGHT, "time, s"))
            path d=(band(&bins, y)) fill=(RATE) fill-opacity="0.4" {}
            path d=(steps(&bins, y)) fill="none" stroke=(RATE) stroke-width="1.2" {}
            @if let Some(bottleneck) = panel.bottleneck_bps.filter(|bps| *bps <= rate.top * rate.unit.divisor) {
                (dashed(&format!("M0 {:.1}H{WIDTH:.1}", y(bottleneck))))
            }
            @if self.hop.is_some() {
                (window.draw_right(WIDTH, HEIGHT))
                (vertical_text("congestion window, packets", WIDTH + RIGHT - 12.0, HEIGHT))
                path d=(self.window(panel, &window)) fill="none" stroke=(WINDOW) stroke-width="1.6" {}
                @if let Some(at_s) = panel.numbers.filled_at_s.filter(|at| self.span_s.contains(at)) {
                    (dashed(&format!("M{:.1} 0V{HEIGHT:.1}", self.x(at_s))))
                }
            }
        }
    }

    fn x(&self, time_s: f64) -> f64 {
        WIDTH * (time_s - self.span_s.start) / (self.span_s.end - self.span_s.start)
    }

    /// From sample to sample; those that would not move the line are left out.
    fn window(&self, panel: &LinkPanel, scale: &Scale) -> String {
        let mut path = String::new();
        let mut last = String::new();
        for (time_s, packets) in panel.cwnd.time_s.iter().zip(&panel.cwnd.value) {
            let y = px(scale.y(*packets, HEIGHT));
            if path.is_empty() {
                path = format!("M{:.1} {y}", self.x(*time_s));
            } else if y != last {
                path += &format!("H{:.1}V{y}", self.x(*time_s));
            }
            last = y;
        }
        match panel.cwnd.time_s.last() {
            Some(end_s) => path + &format!("H{:.1}", self.x(*end_s)),
            None => path,
        }
    }

    fn legend(&self) -> Markup {
        let bin = format::duration(self.panels[0].bin_s);
        let many = self.panels.iter().any(|panel| panel.bins_bps.len() > WIDTH as usize);
        let mut entries = Vec::new();
        if many {
            entries.push((Mark::Band, format!("least to most bin of {bin}")));
            entries.push((Mark::Line(RATE), "mean".to_owned()));
        } else {
            entries.push((Mark::Line(RATE), format!("each bin of {bin}")));
        }
        let dashes = match (&self.hop, self.panels[0].bottleneck_bps) {
            (Some(_), _) => "the bottleneck's rate; when the window first holds more than the path",
            (None, Some(_)) => "the link's rate",
            (None, None) => "",
        };
        if self.hop.is_some() {
            entries.push((Mark::Line(WINDOW), "congestion window".to_owned()));
        }
        if !dashes.is_empty() {
            entries.push((Mark::Dashes, dashes.to_owned()));
        }
        let mut next = 0.0;
        let placed: Vec<_> = entries
            .into_iter()
            .map(|(mark, text)| {
                let x = next;
                next += 32.0 + text.chars().count() as f64 * LETTER_WIDTH + 18.0;
                (x, mark, text)
            })
            .collect();
        html! {
            @for (x, mark, text) in placed {
                @match mark {
                    Mark::Band => rect x=(px(x)) y="-9.5" width="24" height="11" fill=(RATE)
                        fill-opacity="0.4" {},
                    Mark::Line(colour) => path d=(format!("M{x:.1} -4h24")) stroke=(colour)
                        stroke-width="1.6" {},
                    Mark::Dashes => (dashed(&format!("M{x:.1} -4h24"))),
                }
                text x=(px(x + 30.0)) y="0" { (text) }
            }
        }
    }
}

/// The symbol of an entry of the legend.
enum Mark {
    Band,
    Line(&'static str),
    Dashes,
}

fn dashed(d: &str) -> Markup {
    html! { path d=(d) fill="none" stroke=(SOFT) stroke-width="1.2" stroke-dasharray="5 4" {} }
}
