// SPDX-License-Identifier: GPL-2.0-or-later
//! What is drawn between the axes of a panel: lines, steps, areas, marks with bars, and boxes.

use super::{Axis, Panel, Style, px};
use crate::distribution::BoxSummary;
use maud::{Markup, html};
use std::ops::Range;

/// Data of one kind, in values of its axes.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend; not there if empty.
    pub name: String,
    pub style: Style,
    pub shape: Shape,
    /// Whether its values are of the axis at the right.
    pub on_right: bool,
    /// A class that a page gives its colour by.
    pub class: String,
}

/// How data are drawn.
#[derive(Debug, Clone)]
pub enum Shape {
    /// From point to point.
    Line(Vec<[f64; 2]>),
    /// Level from each point to the next one.
    Steps(Vec<[f64; 2]>),
    /// Filled, each over a part of both axes.
    Areas(Vec<[Range<f64>; 2]>),
    /// Marks, and a line through them if joined.
    Points { points: Vec<MarkedPoint>, are_joined: bool },
    /// Boxes with whiskers, each over a part of the axis below.
    Boxes(Vec<(Range<f64>, BoxSummary)>),
}

/// A value with the bar through it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarkedPoint {
    pub x: f64,
    pub y: f64,
    pub bar: Option<[f64; 2]>,
}

impl Series {
    pub fn new(name: &str, style: Style, shape: Shape) -> Self {
        let (name, class) = (name.to_owned(), String::new());
        Self { name, style, shape, on_right: false, class }
    }

    pub(super) fn draw(&self, panel: &Panel) -> Markup {
        let y = panel.right.as_ref().filter(|_| self.on_right).unwrap_or(&panel.y);
        let frame = Frame { series: self, x: &panel.x, y, panel };
        match &self.shape {
            Shape::Line(points) => self.path(&frame.line(points)),
            Shape::Steps(points) => self.path(&frame.steps(points)),
            Shape::Areas(areas) => self.area(&frame.areas(areas)),
            Shape::Points { points, are_joined } => frame.points(points, *are_joined),
            Shape::Boxes(boxes) => html! {
                @for (along, of) in boxes { (frame.boxed(along, of)) }
            },
        }
    }

    /// What stands before its name in the legend.
    pub(super) fn sample(&self) -> Markup {
        const LINE: &str = "M0 0h34";
        match self.shape {
            Shape::Line(_) | Shape::Steps(_) => self.path(LINE),
            Shape::Areas(_) => self.area("M6 -6h22v12h-22z"),
            Shape::Points { .. } => html! { (self.path(LINE)) (self.mark(17.0, 0.0)) },
            Shape::Boxes(_) => self.rect([6.0, 28.0], [-6.0, 6.0]),
        }
    }

    fn path(&self, d: &str) -> Markup {
        let Style { colour, dash, width, .. } = self.style;
        let dash = Some(dash).filter(|dash| !dash.is_empty());
        html! {
            path class=(format!("line {}", self.class).trim_end()) d=(d) fill="none" stroke=(colour)
                stroke-width=(px(width)) stroke-dasharray=[dash] {
                @if !self.name.is_empty() { title { (self.name) } }
            }
        }
    }

    fn area(&self, d: &str) -> Markup {
        html! { path.area d=(d) fill=(self.style.colour) fill-opacity=(self.style.fill_opacity) {} }
    }

    fn mark(&self, x: f64, y: f64) -> Markup {
        html! { path.mark d=(format!("M{x:.1} {y:.1}{}", self.style.mark)) fill=(self.style.colour) {} }
    }

    fn rect(&self, [left, right]: [f64; 2], [top, bottom]: [f64; 2]) -> Markup {
        let Style { colour, fill_opacity, .. } = self.style;
        html! {
            rect.box x=(px(left)) y=(px(top)) width=(px(right - left)) height=(px(bottom - top)) fill=(colour)
                fill-opacity=(fill_opacity) stroke=(colour) {}
        }
    }
}

/// Where a series is drawn.
struct Frame<'a> {
    series: &'a Series,
    x: &'a Axis,
    y: &'a Axis,
    panel: &'a Panel,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        self.x.place(value, self.panel.size.width)
    }

    fn y(&self, value: f64) -> f64 {
        self.panel.size.height - self.y.place(value, self.panel.size.height)
    }

    fn has_y(&self, y: f64) -> bool {
        (-0.05..=self.panel.size.height + 0.05).contains(&y)
    }

    /// Points that leave the panel are left out. Of those that share a column of a pixel's width, the first, the lowest, the
    /// highest and the last are drawn.
    fn line(&self, points: &[[f64; 2]]) -> String {
        let drawn = points.iter().filter(|[x, y]| self.x.has_place(*x) && self.y.has_place(*y));
        let placed: Vec<_> = drawn.map(|[x, y]| (self.x(*x), self.y(*y))).collect();
        let mut path = String::new();
        let mut is_inside = false;
        for column in placed.chunk_by(|a, b| a.0 as i64 == b.0 as i64) {
            for (x, y) in extremes(column) {
                let was_inside = std::mem::replace(&mut is_inside, self.has_y(y));
                if is_inside {
                    path += &format!("{}{x:.1} {y:.1}", if was_inside { 'L' } else { 'M' });
                }
            }
        }
        path
    }

    /// What stays on its level is one stroke.
    fn steps(&self, points: &[[f64; 2]]) -> String {
        let mut path = String::new();
        let mut last = String::new();
        for [x, y] in points {
            let (x, level) = (self.x(*x), px(self.y(*y)));
            if path.is_empty() {
                path = format!("M{x:.1} {level}");
            } else if level != last {
                path += &format!("H{x:.1}V{level}");
            }
            last = level;
        }
        path + &points.last().map(|[x, _]| format!("H{:.1}", self.x(*x))).unwrap_or_default()
    }

    fn areas(&self, areas: &[[Range<f64>; 2]]) -> String {
        let rect = |[along, up]: &[Range<f64>; 2]| {
            let (left, right) = (self.x(along.start), self.x(along.end));
            let (top, bottom) = (self.y(up.end), self.y(up.start));
            format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}z")
        };
        areas.iter().map(rect).collect()
    }

    fn points(&self, points: &[MarkedPoint], are_joined: bool) -> Markup {
        let line: Vec<[f64; 2]> = points.iter().map(|point| [point.x, point.y]).collect();
        let drawn = || points.iter().filter(|point| self.y.has_place(point.y));
        let bars = drawn().filter_map(|point| Some((self.x(point.x), point.bar?)));
        html! {
            @if are_joined { (self.series.path(&self.line(&line))) }
            @for (x, ends) in bars {
                path.bar d=(self.bar(x, ends.map(|end| self.y(end)))) fill="none"
                    stroke=(self.series.style.colour) {}
            }
            @for point in drawn() {
                (self.series.mark(self.x(point.x), self.y(point.y)))
            }
        }
    }

    /// An upright line with an end each; an end beyond the panel is cut off.
    fn bar(&self, x: f64, ends: [f64; 2]) -> String {
        let left = x - 2.5;
        let [from, to] = ends.map(|y| y.clamp(0.0, self.panel.size.height));
        let mut path = format!("M{x:.1} {from:.1}V{to:.1}");
        for y in ends.into_iter().filter(|y| self.has_y(*y)) {
            path += &format!("M{left:.1} {y:.1}h5");
        }
        path
    }

    fn boxed(&self, along: &Range<f64>, of: &BoxSummary) -> Markup {
        let colour = self.series.style.colour;
        let (left, right) = (self.x(along.start), self.x(along.end));
        let (x, cap) = (f64::midpoint(left, right), (right - left) / 4.0);
        let (low, high) = (self.y(of.lower_quartile), self.y(of.upper_quartile));
        let whisker = |from: f64, to: f64| {
            format!("M{x:.1} {from:.1}V{to:.1}M{:.1} {to:.1}H{:.1}", x - cap, x + cap)
        };
        let whiskers =
            whisker(low, self.y(of.lower_whisker)) + &whisker(high, self.y(of.upper_whisker));
        let median = format!("M{left:.1} {:.1}H{right:.1}", self.y(of.median));
        html! {
            path.whisker d=(whiskers) fill="none" stroke=(colour) {}
            (self.series.rect([left, right], [high, low]))
            path.median d=(median) stroke=(colour) stroke-width="2.4" {}
            @for value in &of.outliers {
                circle.outlier cx=(px(x)) cy=(px(self.y(*value))) r="2.6" fill="none" stroke=(colour) {}
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{axis_unit::AxisUnit, chart::Size};

    #[test]
    fn steps_go_on_to_the_end_and_lines_stop_at_the_edge() {
        let count = AxisUnit::counts("count", 10.0);
        let drawn = |shape| {
            let size = Size { width: 10.0, height: 10.0 };
            let series = vec![Series::new("", Style::plain("red", 1.0), shape)];
            let (x, y) = (Axis::up_to(10.0, &count), Axis::up_to(10.0, &count));
            let panel = Panel::new(String::new(), size, x, y, series);
            panel.series[0].draw(&panel).into_string()
        };
        let steps = drawn(Shape::Steps(vec![[0.0, 1.0], [2.0, 1.0], [4.0, 3.0], [8.0, 3.0]]));
        assert!(steps.contains("\"M0.0 9.0H4.0V7.0H8.0\""), "{steps}");
        assert!(drawn(Shape::Steps(Vec::new())).contains("d=\"\""));
        let line = drawn(Shape::Line(vec![[0.0, 5.0], [3.0, 20.0], [6.0, 2.0], [9.0, 1.0]]));
        assert!(line.contains("\"M0.0 5.0M6.0 8.0L9.0 9.0\""), "{line}");
    }
}
