// SPDX-License-Identifier: GPL-2.0-or-later
//! A radar: some axes from one middle, on which a value of 1 lies on a circle and better values lie outside.

use super::{INK, PAPER, RULE, SOFT, Style, px, translate};
use maud::{Markup, html};
use std::f64::consts::TAU;

/// From the middle to the outermost circle, and around it for the axes' names.
const RADIUS: f64 = 190.0;
const AROUND: f64 = (RADIUS + 40.0) * 2.0;
const LEFT: f64 = 130.0;
const LEGEND_WIDTH: f64 = 170.0;
const LEGEND_ROW: f64 = 20.0;
/// Circles, of which 1 is in the middle. What lies further out is drawn on the last one.
const CIRCLES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// A line around the middle.
pub struct RadarLine {
    /// For the legend.
    pub name: String,
    /// Its look.
    pub style: Style,
    /// Its values on the axes; a gap where there is none.
    pub values: Vec<Option<f64>>,
}

/// A radar of these axes and lines as an SVG document of its own.
pub fn radar_svg(description: &str, axes: &[String], lines: &[RadarLine]) -> String {
    let width = LEFT + AROUND + LEGEND_WIDTH + LEFT;
    let height = AROUND.max(lines.len() as f64 * LEGEND_ROW + 40.0);
    let angle = |n: usize| TAU * n as f64 / axes.len().max(1) as f64;
    let document = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width:.0} {height:.0}"))
            width=(px(width)) height=(px(height)) role="img"
            font-family="system-ui, sans-serif" font-size="12" fill=(INK) {
            title { (description) }
            rect width=(px(width)) height=(px(height)) fill=(PAPER) {}
            g transform=(translate(LEFT + AROUND / 2.0, AROUND / 2.0)) {
                @for (n, circle) in CIRCLES.into_iter().enumerate() {
                    circle r=(px(distance(circle))) fill="none" stroke=(if n == CIRCLES.len() / 2 { SOFT } else { RULE })
                        stroke-width=(if n == CIRCLES.len() / 2 { "1.4" } else { "1" }) {}
                    // Beyond the outermost one is the first axis's name.
                    text x="3" y=(px(11.0 - distance(circle))) fill=(SOFT) font-size="10" { (circle) }
                }
                @for (n, name) in axes.iter().enumerate() { (axis(angle(n), name)) }
                @for line in lines { (drawn(line, &angle)) }
            }
            g transform=(translate(LEFT + AROUND + LEFT, 30.0)) {
                @for (n, line) in lines.iter().enumerate() {
                    g transform=(translate(0.0, n as f64 * LEGEND_ROW)) {
                        path d="M0 0h28" stroke=(line.style.colour) stroke-width="2" stroke-dasharray=(line.style.dash) {}
                        path d=(format!("M14 0{}", line.style.mark)) fill=(line.style.colour) {}
                        text x="36" y="4" { (line.name) }
                    }
                }
            }
        }
    };
    document.into_string() + "\n"
}

/// From the middle, by the logarithm of a value.
fn distance(value: f64) -> f64 {
    let (least, most) = (CIRCLES[0] / 2.0, CIRCLES[CIRCLES.len() - 1]);
    let share = (value.clamp(least, most) / least).ln() / (most / least).ln();
    RADIUS * share
}

fn at(angle: f64, distance: f64) -> (f64, f64) {
    (distance * angle.sin(), -distance * angle.cos())
}

fn axis(angle: f64, name: &str) -> Markup {
    let ((x, y), (text_x, text_y)) = (at(angle, RADIUS), at(angle, RADIUS + 14.0));
    let anchor = if text_x.abs() < 1.0 {
        "middle"
    } else if text_x > 0.0 {
        "start"
    } else {
        "end"
    };
    html! {
        line x2=(px(x)) y2=(px(y)) stroke=(RULE) {}
        text x=(px(text_x)) y=(px(text_y + 4.0)) text-anchor=(anchor) { (name) }
    }
}

fn drawn(line: &RadarLine, angle: &impl Fn(usize) -> f64) -> Markup {
    let places: Vec<(f64, f64)> = line
        .values
        .iter()
        .enumerate()
        .filter_map(|(n, value)| Some(at(angle(n), distance((*value)?))))
        .collect();
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let Style { colour, dash, mark, .. } = line.style;
    html! {
        polygon points=(points.join(" ")) fill="none" stroke=(colour) stroke-width="1.8" stroke-dasharray=(dash) {}
        @for (x, y) in &places {
            path d=(format!("M{x:.1} {y:.1}{mark}")) fill=(colour) {}
        }
    }
}
