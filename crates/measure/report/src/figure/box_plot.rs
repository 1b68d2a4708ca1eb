// SPDX-License-Identifier: GPL-2.0-or-later
//! Box plots: at each value of the swept key a box for each line, side by side.

use super::{
    BoxSummary, Figure, Panel,
    chart::{Size, axis},
};
use crate::{
    palette::Style,
    svg::{Scale, px},
};
use maud::{Markup, html};

/// The widest box, in CSS pixels.
const WIDEST: f64 = 34.0;
/// The part of a value's room that its boxes take.
const FILLED: f64 = 0.76;

impl Figure {
    /// The boxes of a panel.
    pub(super) fn box_panel(&self, panel: &Panel, size: Size) -> Markup {
        let scale = self.distribution_scale(self.log_y);
        let room = size.width / panel.labels.len().max(1) as f64;
        let xs: Vec<f64> = (0..panel.labels.len()).map(|n| (n as f64 + 0.5) * room).collect();
        let step = (room * FILLED / self.lines.len().max(1) as f64).min(WIDEST);
        let first = -step * (self.lines.len() as f64 - 1.0) / 2.0;
        html! {
            (scale.draw(size.width, size.height))
            (Self::y_title(&scale, size))
            (axis(&panel.labels, &xs, size))
            (self.x_title(false, size))
            @for (n, (values, style)) in panel.values.iter().zip(self.styles()).enumerate() {
                @for (x, sample) in xs.iter().zip(values) {
                    @if let Some(of) = BoxSummary::of(&with_place(sample, self.log_y)) {
                        (draw(&of, style, x + first + n as f64 * step, step * 0.8, &scale, size.height))
                    }
                }
            }
        }
    }

    /// From near the least value to the largest, or by logarithms.
    pub(super) fn distribution_scale(&self, logarithmic: bool) -> Scale {
        let unit = self.unit();
        let (largest, divisor) = (self.largest() / unit.divisor, unit.divisor);
        let values = self.points().map(|point| point.least / divisor);
        if logarithmic {
            let above_zero =
                self.panels.iter().flat_map(|panel| panel.values.iter().flatten().flatten());
            let least = above_zero.copied().filter(|value| *value > 0.0).reduce(f64::min);
            return Scale::logarithmic(
                least.map_or(largest, |least| least / divisor),
                largest,
                unit,
            );
        }
        Scale::between(values.fold(f64::INFINITY, f64::min), largest, unit)
    }
}

/// The values that an axis has a place for.
pub(super) fn with_place(sample: &[f64], logarithmic: bool) -> Vec<f64> {
    sample.iter().copied().filter(|value| !logarithmic || *value > 0.0).collect()
}

fn draw(of: &BoxSummary, style: Style, x: f64, width: f64, scale: &Scale, height: f64) -> Markup {
    let y = |value: f64| scale.y(value, height);
    let (left, right) = (x - width / 2.0, x + width / 2.0);
    let (low, high) = (y(of.lower_quartile), y(of.upper_quartile));
    let cap = width / 4.0;
    let whisker = |from: f64, to: f64| {
        format!("M{x:.1} {from:.1}V{to:.1}M{:.1} {to:.1}H{:.1}", x - cap, x + cap)
    };
    html! {
        path.whisker d=(whisker(low, y(of.lower_whisker)) + &whisker(high, y(of.upper_whisker)))
            fill="none" stroke=(style.colour) {}
        rect.box x=(px(left)) y=(px(high)) width=(px(width)) height=(px(low - high)) fill=(style.colour)
            fill-opacity=(style.fill_opacity()) stroke=(style.colour) {}
        path.median d=(format!("M{left:.1} {:.1}H{right:.1}", y(of.median))) stroke=(style.colour)
            stroke-width="2.4" {}
        @for value in &of.outliers {
            circle.outlier cx=(px(x)) cy=(px(y(*value))) r="2.6" fill="none" stroke=(style.colour) {}
        }
    }
}
