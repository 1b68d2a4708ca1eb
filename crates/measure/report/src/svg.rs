// SPDX-License-Identifier: GPL-2.0-or-later
//! What pictures have in common: the page, its colours, and a scale of values. Coordinates have one
//! decimal, so the same data give the same bytes.

use crate::{axis_unit::AxisUnit, format};
use maud::{Markup, html};

/// The light colours of `assets/report.css`.
pub const INK: &str = "#1b1f24";
pub const SOFT: &str = "#4c5561";
pub const RULE: &str = "#dde1e6";

pub const BLUE: &str = "#0072b2";
pub const ORANGE: &str = "#d55e00";
pub const OCHRE: &str = "#b07a00";

/// A letter of a label, on average, and a line of them, in CSS pixels.
pub const LETTER_WIDTH: f64 = 6.3;
pub const LINE_HEIGHT: f64 = 14.0;

/// A line of text below a heading.
const ABOUT_LINE: f64 = 16.0;

/// What stands on a page.
pub struct Page<'a> {
    /// For those who can't see it.
    pub description: String,
    pub heading: &'a str,
    /// The lines below the heading.
    pub about: Vec<String>,
    pub width: f64,
    pub height: f64,
}

impl Page<'_> {
    /// An SVG document of its own.
    pub fn svg(&self, body: &Markup) -> String {
        let (width, height) = (self.width, self.height);
        let document = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width:.0} {height:.0}"))
                width=(px(width)) height=(px(height)) role="img"
                font-family="system-ui, sans-serif" font-size="12" fill=(INK) {
                title { (self.description) }
                rect width=(px(width)) height=(px(height)) fill="#fff" {}
                text x="16" y="24" font-size="16" font-weight="600" { (self.heading) }
                @for (n, line) in self.about.iter().enumerate() {
                    text x="16" y=(px(43.0 + n as f64 * ABOUT_LINE)) fill=(SOFT) { (line) }
                }
                (body)
            }
        };
        document.into_string() + "\n"
    }
}

/// A text in lines of that width, cut between words.
pub fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = (width / LETTER_WIDTH) as usize;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// How far lines below the first one move down what comes after them.
pub fn height_of_more_lines(lines: &[String]) -> f64 {
    lines.len().saturating_sub(1) as f64 * ABOUT_LINE
}

/// A scale of values.
pub struct Scale {
    axis: Axis,
    pub top: f64,
    pub unit: AxisUnit,
}

/// What is below its top.
#[derive(Clone, Copy)]
enum Axis {
    /// A tick's value, and the distance from one tick to the next.
    Linear { bottom: f64, step: f64 },
    /// The power of ten at or below the smallest value.
    Logarithmic { bottom: f64 },
}

impl Scale {
    /// From zero to the next step above the largest value; steps are 1, 2 or 5 of a power of ten.
    pub fn up_to(largest: f64, unit: AxisUnit) -> Self {
        let step = tick_step(largest);
        let top = step * (largest / step - 1e-9).ceil().max(1.0);
        Self { axis: Axis::Linear { bottom: 0.0, step }, top, unit }
    }

    /// From the step below the smallest value to the one above the largest; from zero unless the smallest is more than
    /// twice the distance between the two.
    pub fn between(least: f64, largest: f64, unit: AxisUnit) -> Self {
        if least < 2.0 * (largest - least) || least >= largest {
            return Self::up_to(largest, unit);
        }
        let step = tick_step(largest - least);
        let bottom = step * (least / step + 1e-9).floor();
        let top = step * (largest / step - 1e-9).ceil();
        Self { axis: Axis::Linear { bottom, step }, top, unit }
    }

    /// By logarithms, from a power of ten to the next 1, 2 or 5 of one; both values are above zero.
    pub fn logarithmic(least: f64, largest: f64, unit: AxisUnit) -> Self {
        let bottom = 10_f64.powf((least.log10() + 1e-9).floor());
        let power = 10_f64.powf((largest.log10() + 1e-9).floor());
        let mut tops = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter();
        let top = tops.find(|top| *top >= largest * (1.0 - 1e-9)).unwrap_or(10.0 * power);
        let top = top.max(bottom * 10.0);
        Self { axis: Axis::Logarithmic { bottom }, top, unit }
    }

    /// Whether it is by logarithms.
    pub fn is_logarithmic(&self) -> bool {
        matches!(self.axis, Axis::Logarithmic { .. })
    }

    /// How far below a panel's upper edge a value stands, in its own unit.
    pub fn y(&self, value: f64, height: f64) -> f64 {
        self.place(value / self.unit.divisor, height)
    }

    /// How far from a panel's left edge a value stands, in its own unit, where the scale is along it.
    pub fn x(&self, value: f64, width: f64) -> f64 {
        width * self.share(value / self.unit.divisor)
    }

    /// The same as `y` of a value in the unit of the axis.
    fn place(&self, value: f64, height: f64) -> f64 {
        height * (1.0 - self.share(value))
    }

    /// Where a value in the unit of the axis is, from 0 at its bottom to 1 at its top. Values below a logarithmic axis
    /// are drawn at its bottom.
    fn share(&self, value: f64) -> f64 {
        match self.axis {
            Axis::Linear { bottom, .. } => (value - bottom) / (self.top - bottom),
            Axis::Logarithmic { bottom } => {
                (value.max(bottom) / bottom).log10() / (self.top / bottom).log10()
            }
        }
    }

    /// The values at which there is a tick.
    fn ticks(&self) -> Vec<f64> {
        match self.axis {
            Axis::Linear { bottom, step } => {
                let steps = ((self.top - bottom) / step).round() as u32;
                (0..=steps).map(|n| bottom + f64::from(n) * step).collect()
            }
            Axis::Logarithmic { bottom } => {
                let decades = (self.top / bottom).log10();
                let within: &[f64] = if decades > 2.0 + 1e-9 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let powers = (0..=decades.ceil() as i32).map(|n| bottom * 10_f64.powi(n));
                let ticks = powers.flat_map(|power| within.iter().map(move |n| n * power));
                ticks.filter(|tick| *tick <= self.top * (1.0 + 1e-9)).collect()
            }
        }
    }

    /// The steps as lines across a panel of that width and height, with their values at the left.
    pub fn draw(&self, width: f64, height: f64) -> Markup {
        html! {
            @for value in self.ticks() {
                @let y = self.place(value, height);
                path d=(format!("M0 {y:.1}H{width:.1}")) stroke=(RULE) {}
                text x="-8" y=(px(y + 4.0)) text-anchor="end" { (self.written(value)) }
            }
        }
    }

    /// The steps as lines up a panel of that width and height, and their values and what they are below it.
    pub fn draw_below(&self, width: f64, height: f64) -> Markup {
        html! {
            @for value in self.ticks() {
                @let x = width * self.share(value);
                path d=(format!("M{x:.1} 0V{height:.1}")) stroke=(RULE) {}
                text x=(px(x)) y=(px(height + 18.0)) text-anchor="middle" { (self.written(value)) }
            }
        }
    }

    /// A tick's value: far from zero with as many digits as tell it from the next.
    fn written(&self, value: f64) -> String {
        match self.axis {
            Axis::Linear { bottom, step } if bottom > 0.0 => {
                format!("{value:.*}", (-step.log10().floor()).max(0.0) as usize)
            }
            _ => format::digits(value),
        }
    }

    /// What the axis shows: "goodput, Mb/s".
    pub fn title(&self) -> String {
        let how = if self.is_logarithmic() { " (logarithmic)" } else { "" };
        format!("{}{how}", self.unit.axis)
    }

    /// The steps as ticks on the right of such a panel: a second scale, whose lines would cross the first's.
    pub fn draw_right(&self, width: f64, height: f64) -> Markup {
        html! {
            path d=(format!("M{width:.1} 0V{height:.1}")) stroke=(RULE) {}
            @for value in self.ticks() {
                @let y = self.place(value, height);
                path d=(format!("M{width:.1} {y:.1}h4")) stroke=(SOFT) {}
                text x=(px(width + 8.0)) y=(px(y + 4.0)) { (self.written(value)) }
            }
        }
    }
}

/// About a fifth of the largest value: 1, 2 or 5 of a power of ten.
pub fn tick_step(largest: f64) -> f64 {
    let rough = if largest > 0.0 { largest / 5.0 } else { 0.2 };
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
    step.unwrap_or(rough)
}

/// The vertical title of an axis of that height, at that distance to its left.
pub fn vertical_text(text: &str, left: f64, height: f64) -> Markup {
    let turned = format!("translate({left:.1} {:.1}) rotate(-90)", height / 2.0);
    html! { text transform=(turned) text-anchor="middle" fill=(SOFT) { (text) } }
}

pub fn translate(x: f64, y: f64) -> String {
    format!("translate({x:.1} {y:.1})")
}

pub fn px(value: f64) -> String {
    format!("{value:.1}")
}
