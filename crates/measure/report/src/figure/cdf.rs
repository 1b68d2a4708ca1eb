// SPDX-License-Identifier: GPL-2.0-or-later
//! Empirical distributions: of each line the share of its values up to each one, as steps.

use super::{Figure, Panel, box_plot::with_place, chart::Size, distribution::sorted};
use crate::{
    axis_unit::AxisUnit,
    svg::{LINE_HEIGHT, SOFT, Scale, px},
};
use maud::{Markup, html};

impl Figure {
    /// The steps of a panel.
    pub(super) fn cdf_panel(&self, panel: &Panel, size: Size) -> Markup {
        let along = self.distribution_scale(self.log_x);
        let share = Scale::up_to(1.0, AxisUnit::share_of(self.share_title()));
        html! {
            (share.draw(size.width, size.height))
            (along.draw_below(size.width, size.height))
            (Self::y_title(&share, size))
            path d=(format!("M0 {:.1}H{:.1}", size.height, size.width)) stroke=(SOFT) {}
            text x=(px(size.width / 2.0)) y=(px(size.height + 4.0 + 2.4 * LINE_HEIGHT))
                text-anchor="middle" fill=(SOFT) { (along.title()) }
            @for (values, style) in panel.values.iter().zip(self.styles()) {
                @let sample = with_place(&values[0], self.log_x);
                @if !sample.is_empty() { (style.line(&steps(&sample, &along, size), 1.8)) }
            }
        }
    }

    fn share_title(&self) -> String {
        format!("share of {}", if self.by_flow { "flows" } else { "runs" })
    }
}

/// Up by one over the number of values at each of them, from the left edge to the right one.
fn steps(sample: &[f64], along: &Scale, Size { width, height }: Size) -> String {
    let mut path = format!("M0.0 {height:.1}");
    for (n, value) in sorted(sample).into_iter().enumerate() {
        let share = (n + 1) as f64 / sample.len() as f64;
        path += &format!("H{:.1}V{:.1}", along.x(value, width), height * (1.0 - share));
    }
    path + &format!("H{width:.1}")
}
