// SPDX-License-Identifier: GPL-2.0-or-later
//! The legend below a figure: the lines' names in as many rows as they take.

use crate::{
    palette::Style,
    svg::{LETTER_WIDTH, px},
};
use maud::{Markup, html};

/// What an entry's sample takes, and a row of entries, in CSS pixels.
const SAMPLE: f64 = 42.0;
const ROW: f64 = 20.0;

/// What stands before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    Line,
    LineWithMark,
    Box,
}

/// The legend, and its height.
pub fn legend(names: &[String], styles: &[Style], width: f64, sample: Sample) -> (Markup, f64) {
    let (mut x, mut row) = (16.0, 0.0);
    let mut entries = Vec::new();
    for (name, style) in names.iter().zip(styles) {
        let takes = entry_width(name);
        if x + takes > width && x > 16.0 {
            (x, row) = (16.0, row + 1.0);
        }
        entries.push((style, name, x, row * ROW + 12.0));
        x += takes;
    }
    let markup = html! {
        @for (style, name, x, y) in entries {
            @match sample {
                Sample::Box => rect x=(px(x + 6.0)) y=(px(y - 6.0)) width="22" height="12" fill=(style.colour)
                    fill-opacity="0.35" stroke=(style.colour) {},
                Sample::Line | Sample::LineWithMark => (style.line(&format!("M{x:.1} {y:.1}h34"), 1.6)),
            }
            @if sample == Sample::LineWithMark { (style.mark(x + 17.0, y)) }
            text x=(px(x + SAMPLE)) y=(px(y + 4.0)) { (name) }
        }
    };
    (markup, (row + 1.0) * ROW + 4.0)
}

/// The width that the longest of these names needs.
pub fn least_width(names: &[String]) -> f64 {
    names.iter().map(|name| 16.0 + entry_width(name)).fold(0.0, f64::max)
}

fn entry_width(name: &str) -> f64 {
    SAMPLE + name.chars().count() as f64 * LETTER_WIDTH + 18.0
}
