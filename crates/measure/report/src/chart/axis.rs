// SPDX-License-Identifier: GPL-2.0-or-later
//! Axes: where a value stands, and which ticks there are, in steps of 1, 2 or 5 of a power of ten.

use super::{LINE_HEIGHT, RULE, SOFT, Size, px};
use crate::{axis_unit::AxisUnit, format};
use maud::{Markup, html};
use std::ops::Range;

/// A digit of a label below a panel, in fonts whose digits are wide, in CSS pixels.
const DIGIT: f64 = 7.6;
/// From a panel's edge to the labels of an upright axis, between these and its title, and beyond that, in CSS pixels.
const TO_LABELS: f64 = 8.0;
const TO_TITLE: f64 = 6.0;
const BEYOND_TITLE: f64 = 14.0;
/// Height of a title's letters, in CSS pixels.
const TITLE_HEIGHT: f64 = 10.0;
/// Room for labels of five digits, so that most panels are alike.
const LEAST_LABEL: f64 = 5.0 * DIGIT;
/// Part of an axis of swept values that is blank at both ends, in CSS pixels.
const INSET: f64 = 14.0;

/// One edge of a panel. Values are those of the data, whatever unit the ticks are written in.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit: "goodput, Mb/s".
    pub title: String,
    /// The values at its two ends.
    pub ends: [f64; 2],
    /// Where there are ticks, and what is written at them.
    pub ticks: Vec<(f64, String)>,
    is_logarithmic: bool,
    has_grid: bool,
    inset: f64,
}

impl Axis {
    /// From zero to the next tick above the largest value.
    pub fn up_to(largest: f64, unit: &AxisUnit) -> Self {
        let largest = largest / unit.divisor;
        let step = tick_step(largest);
        let top = step * (largest / step - 1e-9).ceil().max(1.0);
        Self::linear([0.0, top], step, unit)
    }

    /// From the tick below the smallest value to the one above the largest; from zero unless the smallest is more than
    /// twice the distance between the two.
    pub fn between(least: f64, largest: f64, unit: &AxisUnit) -> Self {
        if least < 2.0 * (largest - least) || least >= largest {
            return Self::up_to(largest, unit);
        }
        let (least, largest) = (least / unit.divisor, largest / unit.divisor);
        let step = tick_step(largest - least);
        let bottom = step * (least / step + 1e-9).floor();
        let top = step * (largest / step - 1e-9).ceil();
        Self::linear([bottom, top], step, unit)
    }

    fn linear([bottom, top]: [f64; 2], step: f64, unit: &AxisUnit) -> Self {
        // Far from zero, as many digits as tell a tick from the next.
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let text = |value: f64| {
            if bottom > 0.0 { format!("{value:.decimals$}") } else { format::digits(value) }
        };
        let ticks = (0..=((top - bottom) / step).round() as u32)
            .map(|n| bottom + f64::from(n) * step)
            .map(|value| (value * unit.divisor, text(value)));
        Self {
            title: unit.axis.clone(),
            ends: [bottom, top].map(|end| end * unit.divisor),
            ticks: ticks.collect(),
            is_logarithmic: false,
            has_grid: true,
            inset: 0.0,
        }
    }

    /// By logarithms, from a power of ten to the next 1, 2 or 5 of one; both values are above zero.
    pub fn logarithmic(least: f64, largest: f64, unit: &AxisUnit) -> Self {
        let (least, largest) = (least / unit.divisor, largest / unit.divisor);
        let bottom = 10_f64.powf((least.log10() + 1e-9).floor());
        let power = 10_f64.powf((largest.log10() + 1e-9).floor());
        let mut tops = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter();
        let top = tops.find(|top| *top >= largest * (1.0 - 1e-9)).unwrap_or(10.0 * power);
        let top = top.max(bottom * 10.0);
        let decades = (top / bottom).log10();
        let within: &[f64] = if decades > 2.0 + 1e-9 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (0..=decades.ceil() as i32).map(|n| bottom * 10_f64.powi(n));
        let ticks = powers.flat_map(|power| within.iter().map(move |n| n * power));
        let ticks = ticks.filter(|tick| *tick <= top * (1.0 + 1e-9));
        Self {
            title: format!("{} (logarithmic)", unit.axis),
            ends: [bottom, top].map(|end| end * unit.divisor),
            ticks: ticks.map(|tick| (tick * unit.divisor, format::digits(tick))).collect(),
            is_logarithmic: true,
            has_grid: true,
            inset: 0.0,
        }
    }

    /// Seconds along a panel that is wider than high, so with twice as many ticks.
    pub fn time(span_s: &Range<f64>, title: &str) -> Self {
        let length_s = span_s.end - span_s.start;
        let step = tick_step(length_s / 2.0).max(f64::MIN_POSITIVE);
        let first = (span_s.start / step - 1e-9).ceil() as u64;
        let last = (span_s.end / step + 1e-9) as u64;
        let ticks = (first..=last).map(|n| n as f64 * step);
        let ticks = ticks.map(|time_s| (time_s, format::digits(time_s))).collect();
        Self::labelled(title, [span_s.start, span_s.start + length_s.max(step)], ticks)
    }

    /// The values of a swept key at their positions.
    pub fn swept(title: &str, positions: &[f64], labels: &[String]) -> Self {
        let least = positions.iter().copied().fold(f64::INFINITY, f64::min);
        let most = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let ticks = positions.iter().copied().zip(labels.iter().cloned()).collect();
        Self { inset: INSET, ..Self::labelled(title, [least, most], ticks) }
    }

    /// Names in equal parts of the axis: that of the n-th from n to n + 1, the first being the 0th.
    pub fn names(title: &str, names: &[String]) -> Self {
        let middles = (0..names.len()).map(|n| n as f64 + 0.5);
        let ticks = middles.zip(names.iter().cloned()).collect();
        Self::labelled(title, [0.0, names.len().max(1) as f64], ticks)
    }

    fn labelled(title: &str, ends: [f64; 2], ticks: Vec<(f64, String)>) -> Self {
        let title = title.to_owned();
        Self { title, ends, ticks, is_logarithmic: false, has_grid: false, inset: 0.0 }
    }

    /// How far from its start on an axis of that length a value stands. What is below a logarithmic axis stands at its start.
    pub fn place(&self, value: f64, length: f64) -> f64 {
        let [start, end] = self.ends;
        let share = if self.is_logarithmic {
            (value.max(start) / start).log10() / (end / start).log10()
        } else if end > start {
            (value - start) / (end - start)
        } else {
            0.5
        };
        self.inset + share * (length - 2.0 * self.inset)
    }

    /// Whether a value can be drawn: a logarithmic axis has no place for zero.
    pub fn has_place(&self, value: f64) -> bool {
        !self.is_logarithmic || value > 0.0
    }

    /// Ticks as lines across the panel. Labels that would run into the one below are left out.
    pub(super) fn draw_left(&self, Size { width, height }: Size) -> Markup {
        let placed = || self.ticks.iter().map(|(value, text)| (self.place(*value, height), text));
        let mut last = f64::NEG_INFINITY;
        let labels = placed().filter(|(at, _)| {
            let fits = at - last >= 1.4 * LINE_HEIGHT;
            last = if fits { *at } else { last };
            fits
        });
        html! {
            @for (at, _) in placed() {
                path d=(format!("M0 {:.1}H{width:.1}", height - at)) stroke=(RULE) {}
            }
            @for (at, text) in labels {
                text x=(-TO_LABELS) y=(px(height - at + 4.0)) text-anchor="end" { (text) }
            }
            (self.vertical_title(BEYOND_TITLE - self.room_left(), height))
        }
    }

    /// Ticks outside the panel, since lines across would cross those of the left axis.
    pub(super) fn draw_right(&self, Size { width, height }: Size) -> Markup {
        html! {
            path d=(format!("M{width:.1} 0V{height:.1}")) stroke=(RULE) {}
            @for (value, text) in &self.ticks {
                @let y = height - self.place(*value, height);
                path d=(format!("M{width:.1} {y:.1}h4")) stroke=(SOFT) {}
                text x=(px(width + TO_LABELS)) y=(px(y + 4.0)) { (text) }
            }
            (self.vertical_title(width + self.room_right() - BEYOND_TITLE, height))
        }
    }

    /// What an axis left of its panel takes there.
    pub(super) fn room_left(&self) -> f64 {
        TO_LABELS + self.widest_label() + TO_TITLE + BEYOND_TITLE
    }

    /// What an axis right of its panel takes there: its title's letters lie on the side of the labels.
    pub(super) fn room_right(&self) -> f64 {
        self.room_left() + TITLE_HEIGHT
    }

    fn widest_label(&self) -> f64 {
        let widths = self.ticks.iter().map(|(_, text)| text.chars().count() as f64 * DIGIT);
        widths.fold(LEAST_LABEL, f64::max)
    }

    fn vertical_title(&self, x: f64, height: f64) -> Markup {
        let turned = format!("translate({x:.1} {:.1}) rotate(-90)", height / 2.0);
        html! { text transform=(turned) text-anchor="middle" fill=(SOFT) { (self.title) } }
    }

    /// Ticks below the panel; labels in two rows where they would run into each other.
    pub(super) fn draw_below(&self, Size { width, height }: Size) -> Markup {
        let mut ends = [f64::NEG_INFINITY; 2];
        let labels = self.ticks.iter().filter_map(|(value, text)| {
            let x = self.place(*value, width);
            let half = text.chars().count() as f64 * DIGIT / 2.0;
            let row = ends.iter().position(|end| x - half > end + 3.0)?;
            ends[row] = x + half;
            Some((x, row, text))
        });
        let labels: Vec<_> = labels.collect();
        let rows = labels.iter().map(|(_, row, _)| row + 1).max().unwrap_or(1) as f64;
        html! {
            @for (value, _) in &self.ticks {
                @let x = self.place(*value, width);
                @if self.has_grid { path d=(format!("M{x:.1} 0V{height:.1}")) stroke=(RULE) {} }
                @else { path d=(format!("M{x:.1} {height:.1}v4")) stroke=(SOFT) {} }
            }
            path d=(format!("M0 {height:.1}H{width:.1}")) stroke=(SOFT) {}
            @for (x, row, text) in labels {
                text x=(px(x)) y=(px(height + 18.0 + row as f64 * LINE_HEIGHT)) text-anchor="middle" { (text) }
            }
            text x=(px(width / 2.0)) y=(px(height + 20.0 + rows * LINE_HEIGHT)) text-anchor="middle"
                fill=(SOFT) { (self.title) }
        }
    }
}

/// About a fifth of the largest value: 1, 2 or 5 of a power of ten.
fn tick_step(largest: f64) -> f64 {
    let rough = if largest > 0.0 { largest / 5.0 } else { 0.2 };
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
    step.unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chart::{Chart, Panel},
        svg_reader::Drawing,
    };

    #[test]
    fn times_along_a_panel_begin_where_it_begins() {
        let axis = Axis::time(&(60.0..62.0), "time, s");
        assert_eq!(axis.ticks.first(), Some(&(60.0, "60".to_owned())), "{axis:?}");
        assert_eq!(axis.ticks.last(), Some(&(62.0, "62".to_owned())), "{axis:?}");
        assert!((axis.place(62.0, 100.0) - 100.0).abs() < 1e-9, "{axis:?}");
    }

    #[test]
    fn titles_stand_clear_of_wide_labels() {
        let size = Size { width: 100.0, height: 200.0 };
        for largest in [3.0, 4e-6, 2e9] {
            let axis = Axis::up_to(largest, &AxisUnit::counts("how many", 1.0));
            let right = Some(axis.clone());
            let panel = Panel::new(String::new(), size, axis.clone(), axis, Vec::new());
            let [title, description, about] = [String::new(), String::new(), String::new()];
            let panels = vec![Panel { right, ..panel }];
            let drawing = Drawing::parse(&Chart { title, description, about, panels }.svg());
            drawing.assert_titles_clear_of_labels();
            drawing.assert_texts_inside();
        }
    }
}
