// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure as an SVG document. maud escapes what comes from records. Coordinates have one decimal, so
//! the same records give the same bytes.

use super::{Figure, Panel, Point};
use crate::{
    axis_unit::AxisUnit,
    svg::{CURVES, LETTER_WIDTH, LINE_HEIGHT, Page, SOFT, Scale, px, translate, vertical_text},
};
use maud::{Markup, html};

/// A panel's size and what stands around it, in CSS pixels.
const WIDTH: f64 = 290.0;
const HEIGHT: f64 = 230.0;
const LEFT_MARGIN: f64 = 58.0;
const RIGHT: f64 = 14.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 56.0;
const HEAD: f64 = 58.0;
const MOST_ABREAST: usize = 3;
const WIDEST_ABOUT: f64 = 1000.0;
/// An entry of the legend: its mark, and the least width of all.
const MARK: f64 = 34.0;
const LEGEND_ROW: f64 = 20.0;
/// A digit of a value along the panel, in fonts whose digits are wide.
const DIGIT: f64 = 7.6;

impl Figure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let scale = self.scale();
        let abreast = self.panels.len().clamp(1, MOST_ABREAST);
        let rows = self.panels.len().div_ceil(abreast);
        let (panel_width, panel_height) = (LEFT_MARGIN + WIDTH + RIGHT, ABOVE + HEIGHT + BELOW);
        // At least as wide as the title, in letters half as large again.
        let title = 32.0 + 1.5 * LETTER_WIDTH * self.title.chars().count() as f64;
        // A source may be a sentence, which no figure is as wide as.
        let about = (32.0 + LETTER_WIDTH * self.about().chars().count() as f64).min(WIDEST_ABOUT);
        let width = (abreast as f64 * panel_width).max(title).max(about);
        let (legend, legend_height) = self.legend(width);
        let panels_end = HEAD + rows as f64 * panel_height;
        let height = panels_end + legend_height + 8.0;
        let at = |n: usize| {
            let (row, column) = (n / abreast, n % abreast);
            translate(
                column as f64 * panel_width + LEFT_MARGIN,
                HEAD + row as f64 * panel_height + ABOVE,
            )
        };
        let body = html! {
            @for (n, panel) in self.panels.iter().enumerate() {
                g transform=(at(n)) { (self.panel(panel, &scale)) }
            }
            g transform=(translate(0.0, panels_end)) { (legend) }
        };
        let description = format!("{}: {} over {}", self.title, scale.unit.axis, self.x);
        let (heading, about) = (self.title.as_str(), self.about());
        Page { description, heading, about, width, height }.svg(&body)
    }

    /// From zero, or by logarithms where that is asked for and there is anything above zero.
    fn scale(&self) -> Scale {
        let unit = AxisUnit::of(&self.y, self.largest());
        let (largest, divisor) = (self.largest() / unit.divisor, unit.divisor);
        let values = self.points().flat_map(|point| [point.least, point.median]);
        let least = values.filter(|value| *value > 0.0).reduce(f64::min);
        match least.filter(|_| self.log_y) {
            Some(least) => Scale::logarithmic(least / divisor, largest, unit),
            None => Scale::up_to(largest, unit),
        }
    }

    fn panel(&self, panel: &Panel, scale: &Scale) -> Markup {
        let xs = panel.places();
        let middle_x = WIDTH / 2.0;
        let how = if scale.is_logarithmic() { " (logarithmic)" } else { "" };
        html! {
            text x=(px(middle_x)) y="-10" text-anchor="middle" font-weight="600" { (panel.fixed) }
            (scale.draw(WIDTH, HEIGHT))
            (vertical_text(&format!("{}{how}", scale.unit.axis), 14.0 - LEFT_MARGIN, HEIGHT))
            (panel.axis(&xs))
            text x=(px(middle_x)) y=(px(HEIGHT + 4.0 + 3.0 * LINE_HEIGHT)) text-anchor="middle" fill=(SOFT) {
                (self.x) @if panel.positions().1 { " (logarithmic)" }
            }
            @for (n, line) in panel.points.iter().enumerate() {
                (self.line(n, line, &xs, scale))
            }
        }
    }

    fn line(&self, n: usize, points: &[Option<Point>], xs: &[f64], scale: &Scale) -> Markup {
        let y = |value: f64| scale.y(value, HEIGHT);
        let aside = self.aside(n);
        // A logarithmic axis has no place for zero.
        let has_place = |point: &Point| !scale.is_logarithmic() || point.median > 0.0;
        let known = xs.iter().zip(points).filter_map(|(x, point)| Some((x + aside, (*point)?)));
        let known: Vec<(f64, Point)> = known.filter(|(_, point)| has_place(point)).collect();
        let path = known.iter().enumerate().map(|(at, (x, point))| {
            format!("{}{x:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, y(point.median))
        });
        let colour = self.colour(n);
        html! {
            path d=(path.collect::<String>()) fill="none" stroke=(colour) stroke-width="1.6" {}
            @for (x, point) in &known {
                @if point.runs > 1 {
                    path d=(range(*x, y(point.least), y(point.most))) fill="none" stroke=(colour) {}
                }
                (mark(n, *x, y(point.median), colour))
            }
        }
    }

    /// How far a line stands aside, so that the ranges of several do not cover one another.
    fn aside(&self, n: usize) -> f64 {
        const APART: f64 = 5.0;
        const MOST: f64 = 20.0;
        if !self.points().any(|point| point.runs > 1) {
            return 0.0;
        }
        let others = self.lines.len().saturating_sub(1) as f64;
        (n as f64 - others / 2.0) * APART.min(MOST / others.max(1.0))
    }

    fn colour(&self, n: usize) -> &'static str {
        // Eight variants need them all.
        let first = usize::from(self.lines.len() < CURVES.len());
        CURVES[(n + first) % CURVES.len()]
    }

    /// The lines' names in as many rows as they take, and the height of that.
    fn legend(&self, width: f64) -> (Markup, f64) {
        let (mut x, mut row) = (16.0, 0.0);
        let mut entries = Vec::new();
        for (n, name) in self.lines.iter().enumerate() {
            let takes = MARK + name.chars().count() as f64 * LETTER_WIDTH + 18.0;
            if x + takes > width && x > 16.0 {
                (x, row) = (16.0, row + 1.0);
            }
            entries.push((n, name, x, row * LEGEND_ROW + 12.0));
            x += takes;
        }
        let markup = html! {
            @for (n, name, x, y) in entries {
                path d=(format!("M{x:.1} {y:.1}h26")) stroke=(self.colour(n)) stroke-width="1.6" {}
                (mark(n, x + 13.0, y, self.colour(n)))
                text x=(px(x + MARK)) y=(px(y + 4.0)) { (name) }
            }
        };
        (markup, (row + 1.0) * LEGEND_ROW + 4.0)
    }
}

impl Panel {
    /// Where each value stands along the panel.
    fn places(&self) -> Vec<f64> {
        const MARGIN: f64 = 14.0;
        let (positions, _) = self.positions();
        let least = positions.iter().copied().fold(f64::INFINITY, f64::min);
        let span = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
        let place = |at: &f64| {
            let share = if span > 0.0 { (at - least) / span } else { 0.5 };
            MARGIN + share * (WIDTH - 2.0 * MARGIN)
        };
        positions.iter().map(place).collect()
    }

    /// The values below the panel, in two rows where they would run into each other.
    fn axis(&self, xs: &[f64]) -> Markup {
        let mut ends = [f64::NEG_INFINITY; 2];
        let labels = xs.iter().zip(&self.labels).filter_map(|(x, label)| {
            let half = label.chars().count() as f64 * DIGIT / 2.0;
            let row = ends.iter().position(|end| x - half > end + 3.0)?;
            ends[row] = x + half;
            Some((*x, HEIGHT + 18.0 + row as f64 * LINE_HEIGHT, label))
        });
        html! {
            path d=(format!("M0 {HEIGHT:.1}H{WIDTH:.1}")) stroke=(SOFT) {}
            @for x in xs { path d=(format!("M{x:.1} {HEIGHT:.1}v4")) stroke=(SOFT) {} }
            @for (x, y, label) in labels {
                text x=(px(x)) y=(px(y)) text-anchor="middle" { (label) }
            }
        }
    }
}

/// From the least to the most, with an end each.
fn range(x: f64, least: f64, most: f64) -> String {
    let left = x - 2.5;
    format!("M{left:.1} {least:.1}h5M{x:.1} {least:.1}V{most:.1}M{left:.1} {most:.1}h5")
}

/// A point's mark: five shapes, so that lines can be told apart without colours.
fn mark(n: usize, x: f64, y: f64, colour: &str) -> Markup {
    let shape = match n % 5 {
        0 => "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
        1 => "m-3 -3h6v6h-6z",
        2 => "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
        3 => "m0 -4l4 7h-8z",
        _ => "m0 4l4 -7h-8z",
    };
    html! { path d=(format!("M{x:.1} {y:.1}{shape}")) fill=(colour) {} }
}
