// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure as an SVG document: its panels, what stands around them, and lines over a swept key. maud escapes
//! what comes from records. Coordinates have one decimal, so the same records give the same bytes.

use super::{Bars, FLOW, Figure, FigureForm, Overlay, Panel, Point, VARIANT};
use crate::{
    axis_unit::AxisUnit,
    distinct::distinct,
    legend::{Sample, least_width, legend},
    palette::{self, Style},
    svg::{
        LETTER_WIDTH, LINE_HEIGHT, Page, SOFT, Scale, height_of_more_lines, px, translate,
        vertical_text, wrapped,
    },
};
use maud::{Markup, html};

/// What stands around a panel, in CSS pixels.
const LEFT_MARGIN: f64 = 58.0;
const RIGHT: f64 = 14.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 56.0;
const HEAD: f64 = 58.0;
const MOST_ABREAST: usize = 3;
/// A digit of a value along the panel, in fonts whose digits are wide.
const DIGIT: f64 = 7.6;
/// Bars of few repeats can be huge: what is more than this above the largest value is cut off.
const MOST_ABOVE: f64 = 1.25;

/// A panel's size in CSS pixels.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub width: f64,
    pub height: f64,
}

impl Figure {
    /// The figure as an SVG document of its own.
    pub fn svg(&self) -> String {
        let size = self.panel_size();
        let abreast = self.panels.len().clamp(1, MOST_ABREAST);
        let rows = self.panels.len().div_ceil(abreast);
        let panel_width = LEFT_MARGIN + size.width + RIGHT;
        let panel_height = ABOVE + size.height + BELOW;
        // At least as wide as the title, in letters half as large again.
        let title = 32.0 + 1.5 * LETTER_WIDTH * self.title.chars().count() as f64;
        let width = (abreast as f64 * panel_width).max(title).max(least_width(&self.lines)).max(
            least_width(&self.functions().into_iter().map(|(name, _)| name).collect::<Vec<_>>()),
        );
        let about = wrapped(&self.about(), width - 32.0);
        let head = HEAD + height_of_more_lines(&about);
        let sample = match self.form {
            FigureForm::Lines => Sample::LineWithMark,
            FigureForm::Cdf => Sample::Line,
            FigureForm::Box => Sample::Box,
        };
        let functions = self.functions();
        let (legend, legend_height) =
            legend(&self.lines, &self.styles(), &functions, width, sample);
        let panels_end = head + rows as f64 * panel_height;
        let height = panels_end + legend_height + 8.0;
        let at = |n: usize| {
            let (row, column) = (n / abreast, n % abreast);
            translate(
                column as f64 * panel_width + LEFT_MARGIN,
                head + row as f64 * panel_height + ABOVE,
            )
        };
        let body = html! {
            @for (n, panel) in self.panels.iter().enumerate() {
                g.panel transform=(at(n)) {
                    text x=(px(size.width / 2.0)) y="-10" text-anchor="middle" font-weight="600" { (panel.fixed) }
                    @match self.form {
                        FigureForm::Lines => (self.line_panel(panel, size)),
                        FigureForm::Box => (self.box_panel(panel, size)),
                        FigureForm::Cdf => (self.cdf_panel(panel, size)),
                    }
                }
            }
            g.legend transform=(translate(0.0, panels_end)) { (legend) }
        };
        let over =
            if self.form == FigureForm::Cdf { String::new() } else { format!(" over {}", self.x) };
        let description = format!("{}: {}{over}", self.title, self.unit().axis);
        Page { description, heading: &self.title, about, width, height }.svg(&body)
    }

    /// The functions that are drawn in some panel, with their colours.
    fn functions(&self) -> Vec<(String, &'static str)> {
        let overlays = self.panels.iter().flat_map(|panel| &panel.overlays);
        let named = overlays
            .map(|overlay| (overlay.name.clone(), palette::algorithm_colour(&overlay.algorithm)));
        distinct(named.collect::<Vec<_>>().iter())
    }

    /// One panel has more room than several abreast.
    fn panel_size(&self) -> Size {
        match self.panels.len() {
            0 | 1 => Size { width: 460.0, height: 300.0 },
            _ => Size { width: 290.0, height: 230.0 },
        }
    }

    pub(super) fn unit(&self) -> AxisUnit {
        AxisUnit::of(&self.y, self.largest())
    }

    /// From zero, or by logarithms where that is asked for; as far as bars go.
    fn scale(&self) -> Scale {
        let unit = self.unit();
        let bars = self.points().filter_map(|point| point.bar(self.bars)).map(|(_, end)| end);
        let most = self.largest();
        let bars = bars.fold(most, f64::max).min(MOST_ABOVE * most);
        // A function may go farther than what was measured, but not make that flat.
        let functions = self.overlay_values().filter(|value| *value < 2.0 * most);
        let largest = functions.fold(bars, f64::max) / unit.divisor;
        if self.log_y {
            let values = self.points().flat_map(|point| [point.least, point.middle(self.bars)]);
            let values = values.chain(self.overlay_values());
            let least = values.filter(|value| *value > 0.0).reduce(f64::min).unwrap_or(most);
            return Scale::logarithmic(least / unit.divisor, largest, unit);
        }
        Scale::up_to(largest, unit)
    }

    fn overlay_values(&self) -> impl Iterator<Item = f64> {
        let overlays = self.panels.iter().flat_map(|panel| &panel.overlays);
        overlays.flat_map(|overlay| overlay.curve.iter().map(|(_, value)| *value))
    }

    fn line_panel(&self, panel: &Panel, size: Size) -> Markup {
        let scale = self.scale();
        let xs = panel.places(&self.x, self.log_x, size.width);
        let (_, is_logarithmic) = panel.positions(self.log_x);
        html! {
            (scale.draw(size.width, size.height))
            (vertical_text(&scale.title(), 14.0 - LEFT_MARGIN, size.height))
            (axis(&panel.labels, &xs, size))
            (self.x_title(is_logarithmic, size))
            @for (n, (points, style)) in panel.points.iter().zip(self.styles()).enumerate() {
                (self.line(style, points, &self.offset(n, &xs), &scale, size.height))
            }
            @for overlay in &panel.overlays {
                path.overlay d=(panel.overlay_path(overlay, self.log_x, &scale, size)) fill="none"
                    stroke=(palette::algorithm_colour(&overlay.algorithm)) stroke-width="0.9" {}
            }
        }
    }

    /// What stands along a panel.
    pub(super) fn x_title(&self, is_logarithmic: bool, size: Size) -> Markup {
        html! {
            text x=(px(size.width / 2.0)) y=(px(size.height + 4.0 + 3.0 * LINE_HEIGHT))
                text-anchor="middle" fill=(SOFT) {
                (self.x) @if is_logarithmic { " (logarithmic)" }
            }
        }
    }

    pub(super) fn y_title(scale: &Scale, size: Size) -> Markup {
        vertical_text(&scale.title(), 14.0 - LEFT_MARGIN, size.height)
    }

    fn line(
        &self,
        style: Style,
        points: &[Option<Point>],
        xs: &[f64],
        scale: &Scale,
        height: f64,
    ) -> Markup {
        let y = |value: f64| scale.y(value, height);
        // A logarithmic axis has no place for zero.
        let has_place = |point: &Point| !scale.is_logarithmic() || point.middle(self.bars) > 0.0;
        let known = xs.iter().zip(points).filter_map(|(x, point)| Some((*x, (*point)?)));
        let known: Vec<(f64, Point)> = known.filter(|(_, point)| has_place(point)).collect();
        let path = known.iter().enumerate().map(|(at, (x, point))| {
            let start = if at == 0 { 'M' } else { 'L' };
            format!("{start}{x:.1} {:.1}", y(point.middle(self.bars)))
        });
        html! {
            // Names of variants have no order that a line could follow.
            @if !is_name(&self.x) { (style.line(&path.collect::<String>(), 1.6)) }
            @for (x, point) in &known {
                @if let Some((from, to)) = point.bar(self.bars) {
                    path.bar d=(bar(*x, [y(from), y(to)], height)) fill="none" stroke=(style.colour) {}
                }
                (style.mark(*x, y(point.middle(self.bars))))
            }
        }
    }

    /// Where a line's points stand: aside, so that the bars of several do not cover one another.
    fn offset(&self, n: usize, xs: &[f64]) -> Vec<f64> {
        const APART: f64 = 5.0;
        const MOST: f64 = 20.0;
        if self.bars == Bars::None || !self.points().any(|point| point.runs > 1) {
            return xs.to_vec();
        }
        let others = self.lines.len().saturating_sub(1) as f64;
        let aside = (n as f64 - others / 2.0) * APART.min(MOST / others.max(1.0));
        xs.iter().map(|x| x + aside).collect()
    }
}

impl Panel {
    /// Position of each value along the panel. Names are centred in equal parts of it.
    fn places(&self, x: &str, log_x: bool, width: f64) -> Vec<f64> {
        if is_name(x) {
            let part = width / self.labels.len().max(1) as f64;
            return (0..self.labels.len()).map(|n| (n as f64 + 0.5) * part).collect();
        }
        let (positions, _) = self.positions(log_x);
        let place = placing(&positions, width);
        positions.iter().map(|at| place(*at)).collect()
    }

    /// A function's curve; what leaves the panel is left out.
    fn overlay_path(&self, overlay: &Overlay, log_x: bool, scale: &Scale, size: Size) -> String {
        let (positions, _) = self.positions(log_x);
        let place = placing(&positions, size.width);
        let mut path = String::new();
        let mut is_inside = false;
        for (at, value) in &overlay.curve {
            let y = scale.y(*value, size.height);
            let was_inside = std::mem::replace(&mut is_inside, (0.0..=size.height).contains(&y));
            if is_inside {
                path += &format!("{}{:.1} {y:.1}", if was_inside { 'L' } else { 'M' }, place(*at));
            }
        }
        path
    }
}

/// Whether variants or flows are along the panels, which have no order.
fn is_name(x: &str) -> bool {
    x == VARIANT || x == FLOW
}

/// Where a position stands along a panel of that width that has these.
fn placing(positions: &[f64], width: f64) -> impl Fn(f64) -> f64 + use<> {
    const MARGIN: f64 = 14.0;
    let least = positions.iter().copied().fold(f64::INFINITY, f64::min);
    let span = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    move |at| {
        let share = if span > 0.0 { (at - least) / span } else { 0.5 };
        MARGIN + share * (width - 2.0 * MARGIN)
    }
}

/// The values below a panel, in two rows where they would run into each other.
pub(super) fn axis(labels: &[String], xs: &[f64], Size { width, height }: Size) -> Markup {
    let mut ends = [f64::NEG_INFINITY; 2];
    let placed = xs.iter().zip(labels).filter_map(|(x, label)| {
        let half = label.chars().count() as f64 * DIGIT / 2.0;
        let row = ends.iter().position(|end| x - half > end + 3.0)?;
        ends[row] = x + half;
        Some((*x, height + 18.0 + row as f64 * LINE_HEIGHT, label))
    });
    html! {
        path d=(format!("M0 {height:.1}H{width:.1}")) stroke=(SOFT) {}
        @for x in xs { path d=(format!("M{x:.1} {height:.1}v4")) stroke=(SOFT) {} }
        @for (x, y, label) in placed {
            text x=(px(x)) y=(px(y)) text-anchor="middle" { (label) }
        }
    }
}

/// An upright line with an end each; an end beyond the panel is cut off.
fn bar(x: f64, ends: [f64; 2], height: f64) -> String {
    let left = x - 2.5;
    let [from, to] = ends.map(|y| y.clamp(0.0, height));
    let mut path = format!("M{x:.1} {from:.1}V{to:.1}");
    for y in ends.into_iter().filter(|y| (0.0..=height).contains(y)) {
        path += &format!("M{left:.1} {y:.1}h5");
    }
    path
}
