// SPDX-License-Identifier: GPL-2.0-or-later
//! The one place that draws: a [`Chart`] says which data stand in which panels on which axes, and becomes SVG.
//!
//! Panels stand side by side while they fit, then in a row below. The legend at the end has every name once. Coordinates
//! have one decimal, so the same data give the same bytes; maud escapes what comes from records.

mod axis;
pub mod palette;
pub mod radar;
mod series;

pub use axis::Axis;
pub use palette::Style;
pub use series::{MarkedPoint, Series, Shape};

use crate::distinct::distinct;
use maud::{Markup, html};

/// The light colours of `assets/report.css`.
const INK: &str = "#1b1f24";
const SOFT: &str = "#4c5561";
const RULE: &str = "#dde1e6";
const PAPER: &str = "#fff";

/// These colours and the background's, with the names of the style sheet's variables for them.
pub(crate) const COLOURS_OF_PAGE: [(&str, &str); 4] =
    [(INK, "ink"), (SOFT, "soft"), (RULE, "rule"), (PAPER, "paper")];

/// Average width of a letter and height of a line of labels, in CSS pixels.
pub(crate) const LETTER_WIDTH: f64 = 6.3;
const LINE_HEIGHT: f64 = 14.0;

/// What stands around a panel, in CSS pixels. Axes need more at their sides where their labels are wide.
const RIGHT: f64 = 14.0;
const RIGHT_OF_LEVELS: f64 = 110.0;
const ABOVE: f64 = 30.0;
const ABOVE_WITHOUT_HEADING: f64 = 10.0;
const BELOW: f64 = 56.0;
/// Title and first line about the chart, each further line, and the margin at their left.
const HEAD: f64 = 58.0;
const ABOUT_LINE: f64 = 16.0;
const MARGIN: f64 = 16.0;
/// Panels that are wider together than this stand below one another.
const WIDEST_ROW: f64 = 1110.0;
/// Sample of a legend entry, and height of a row of entries.
const SAMPLE: f64 = 42.0;
const LEGEND_ROW: f64 = 20.0;

/// A picture: its texts and panels.
#[derive(Debug, Clone)]
pub struct Chart {
    pub title: String,
    /// What it shows, for those who cannot see it.
    pub description: String,
    /// Source and conditions, below the title.
    pub about: String,
    pub panels: Vec<Panel>,
}

/// A plot: its axes and what is drawn between them.
#[derive(Debug, Clone)]
pub struct Panel {
    pub heading: String,
    pub size: Size,
    pub x: Axis,
    pub y: Axis,
    /// A second vertical axis, for [`Series::on_right`].
    pub right: Option<Axis>,
    /// Values of `y` with what they mean, which is written at their right ends.
    pub levels: Vec<(f64, &'static str)>,
    pub series: Vec<Series>,
}

/// In CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

impl Chart {
    /// The chart as an SVG document of its own.
    pub fn svg(&self) -> String {
        let (places, panels) = self.layout();
        let title = 2.0 * MARGIN + 1.5 * LETTER_WIDTH * self.title.chars().count() as f64;
        let named = self.panels.iter().flat_map(|panel| &panel.series);
        let named: Vec<&Series> = named.filter(|series| !series.name.is_empty()).collect();
        let entries = distinct(named.iter().map(|series| &series.name));
        let longest = entries.iter().map(|name| MARGIN + entry_width(name)).fold(0.0, f64::max);
        let width = panels.width.max(title).max(longest);
        let about = wrapped(&self.about, width - 2.0 * MARGIN);
        let head = HEAD + (about.len() - 1) as f64 * ABOUT_LINE;
        let entries = entries.iter().filter_map(|n| named.iter().find(|one| one.name == *n));
        let (legend, legend_height) = legend(entries, width);
        let height = head + panels.height + legend_height + 8.0;
        let document = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width:.0} {height:.0}"))
                width=(px(width)) height=(px(height)) role="img"
                font-family="system-ui, sans-serif" font-size="12" fill=(INK) {
                title { (self.description) }
                rect width=(px(width)) height=(px(height)) fill=(PAPER) {}
                text x=(px(MARGIN)) y="24" font-size="16" font-weight="600" { (self.title) }
                @for (n, line) in about.iter().enumerate() {
                    text x=(px(MARGIN)) y=(px(43.0 + n as f64 * ABOUT_LINE)) fill=(SOFT) { (line) }
                }
                @for (panel, (x, y)) in self.panels.iter().zip(places) {
                    g.panel transform=(translate(x + panel.left(), head + y + panel.above())) { (panel.draw()) }
                }
                g.legend transform=(translate(0.0, head + panels.height)) { (legend) }
            }
        };
        document.into_string() + "\n"
    }

    /// Where each panel's surroundings begin, and the size of all panels together.
    fn layout(&self) -> (Vec<(f64, f64)>, Size) {
        let (mut x, mut y, mut row_height) = (0.0, 0.0, 0.0_f64);
        let mut width = 0.0_f64;
        let place = |panel: &Panel| {
            let outer = panel.outer_size();
            if x > 0.0 && x + outer.width > WIDEST_ROW {
                (x, y, row_height) = (0.0, y + row_height, 0.0);
            }
            let place = (x, y);
            x += outer.width;
            (width, row_height) = (width.max(x), row_height.max(outer.height));
            place
        };
        let places = self.panels.iter().map(place).collect();
        (places, Size { width, height: y + row_height })
    }
}

impl Panel {
    pub fn new(heading: String, size: Size, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { heading, size, x, y, right: None, levels: Vec::new(), series }
    }

    /// The panel alone, for a page whose styles replace its colours.
    pub fn inline_svg(&self, class: &str, label: &str) -> Markup {
        let Size { width, height } = self.outer_size();
        html! {
            svg class=(class) viewBox=(format!("0 0 {width:.0} {height:.0}")) role="img" aria-label=(label) {
                g transform=(translate(self.left(), self.above())) { (self.draw()) }
            }
        }
    }

    fn left(&self) -> f64 {
        self.y.room_left()
    }

    fn above(&self) -> f64 {
        if self.heading.is_empty() { ABOVE_WITHOUT_HEADING } else { ABOVE }
    }

    fn outer_size(&self) -> Size {
        let right = match &self.right {
            Some(axis) => axis.room_right(),
            None if self.levels.is_empty() => RIGHT,
            None => RIGHT_OF_LEVELS,
        };
        let below = if self.x.title.is_empty() { BELOW - 2.0 * LINE_HEIGHT } else { BELOW };
        Size {
            width: self.left() + self.size.width + right,
            height: self.above() + self.size.height + below,
        }
    }

    fn draw(&self) -> Markup {
        html! {
            @if !self.heading.is_empty() { text x="0" y="-10" font-weight="600" { (self.heading) } }
            (self.y.draw_left(self.size))
            (self.x.draw_below(self.size))
            @if let Some(right) = &self.right { (right.draw_right(self.size)) }
            @for (value, name) in &self.levels { (self.level(*value, name)) }
            @for series in &self.series { (series.draw(self)) }
        }
    }

    fn level(&self, value: f64, name: &str) -> Markup {
        let Size { width, height } = self.size;
        let y = height - self.y.place(value, height);
        html! {
            path d=(format!("M0 {y:.1}H{width:.1}")) stroke=(SOFT) stroke-dasharray="2 4" {}
            @for (n, line) in wrapped(name, RIGHT_OF_LEVELS - MARGIN).iter().enumerate() {
                text x=(px(width + 8.0)) y=(px(y - 1.0 + n as f64 * LINE_HEIGHT)) { (line) }
            }
        }
    }
}

/// The entries in as many rows as they take, and their height.
fn legend<'a>(entries: impl Iterator<Item = &'a &'a Series>, width: f64) -> (Markup, f64) {
    let (mut x, mut y) = (MARGIN, 12.0);
    let mut placed = Vec::new();
    for series in entries {
        let takes = entry_width(&series.name);
        if x + takes > width && x > MARGIN {
            (x, y) = (MARGIN, y + LEGEND_ROW);
        }
        placed.push((series, x, y));
        x += takes;
    }
    let markup = html! {
        @for (series, x, y) in placed {
            g transform=(translate(x, y)) {
                (series.sample())
                text x=(px(SAMPLE)) y="4" { (series.name) }
            }
        }
    };
    (markup, if x > MARGIN { y + LEGEND_ROW - 8.0 } else { 0.0 })
}

fn entry_width(name: &str) -> f64 {
    SAMPLE + name.chars().count() as f64 * LETTER_WIDTH + 18.0
}

/// A text in lines of that width, cut between words.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = (width / LETTER_WIDTH) as usize;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            *last += &format!(" {word}");
        }
    }
    lines
}

fn translate(x: f64, y: f64) -> String {
    format!("translate({x:.1} {y:.1})")
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}
