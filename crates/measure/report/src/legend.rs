// SPDX-License-Identifier: GPL-2.0-or-later
//! The legend below a figure: the lines' names in as many rows as they take.

use crate::{
    palette::Style,
    svg::{LETTER_WIDTH, px, translate},
};
use maud::{Markup, html};

/// What an entry's sample takes, and a row of entries, in CSS pixels.
const SAMPLE: f64 = 42.0;
const ROW: f64 = 20.0;

/// The sample before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    Line,
    LineWithMark,
    Box,
}

/// The legend, and its height. `functions` are names and colours of thin lines without marks.
pub fn legend(
    names: &[String],
    styles: &[Style],
    functions: &[(String, &'static str)],
    width: f64,
    sample: Sample,
) -> (Markup, f64) {
    let samples = styles.iter().map(|style| match sample {
        Sample::Box => html! {
            rect x="6" y="-6" width="22" height="12" fill=(style.colour) fill-opacity=(style.fill_opacity())
                stroke=(style.colour) {}
        },
        Sample::Line => style.line("M0 0h34", 1.6),
        Sample::LineWithMark => html! { (style.line("M0 0h34", 1.6)) (style.mark(17.0, 0.0)) },
    });
    let lines = names.iter().zip(samples);
    let functions = functions.iter().map(|(name, colour)| {
        (name, html! { path.overlay d="M0 0h34" stroke=(colour) stroke-width="0.9" {} })
    });
    let (mut x, mut row) = (16.0, 0.0);
    let mut entries = Vec::new();
    for (name, sample) in lines.chain(functions) {
        let takes = entry_width(name);
        if x + takes > width && x > 16.0 {
            (x, row) = (16.0, row + 1.0);
        }
        entries.push((name, sample, x, row * ROW + 12.0));
        x += takes;
    }
    let markup = html! {
        @for (name, sample, x, y) in entries {
            g transform=(translate(x, y)) {
                (sample)
                text x=(px(SAMPLE)) y="4" { (name) }
            }
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
