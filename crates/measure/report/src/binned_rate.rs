// SPDX-License-Identifier: GPL-2.0-or-later
//! A rate in bins of time, drawn: there may be a thousand bins to a pixel, so each column shows the least
//! and the largest of its bins as a band and their mean as a line, and no peak is hidden.

use crate::{
    format,
    svg::{LINE_HEIGHT, SOFT, px, tick_step},
};
use maud::{Markup, html};
use std::ops::Range;

/// Width of the scale of a rate, with its unit, at the left of a picture.
pub const LEFT_MARGIN: f64 = 66.0;

/// The bins of one column of a picture, in bits a second.
pub struct Column {
    pub x: Range<f64>,
    pub least: f64,
    pub mean: f64,
    pub most: f64,
}

/// A column for each pixel of a width, or each bin where there are fewer.
pub fn columns(bins_bps: &[f64], width: f64) -> Vec<Column> {
    let all = bins_bps.len();
    let count = all.min(width as usize);
    let edge = |n: usize| n * all / count;
    let place = |bin: usize| width * bin as f64 / all as f64;
    let column = |n: usize| {
        let bins = &bins_bps[edge(n)..edge(n + 1)];
        Column {
            x: place(edge(n))..place(edge(n + 1)),
            least: bins.iter().copied().fold(f64::INFINITY, f64::min),
            mean: bins.iter().sum::<f64>() / bins.len() as f64,
            most: bins.iter().copied().fold(0.0, f64::max),
        }
    };
    (0..count).map(column).collect()
}

/// From the least to the most of each column. A band that is thinner than a line shows as the line.
pub fn band(columns: &[Column], y: impl Fn(f64) -> f64) -> String {
    let rect = |column: &Column| {
        let (from, to) = (y(column.most), y(column.least));
        format!(
            "M{:.1} {from:.1}H{:.1}V{to:.1}H{:.1}z",
            column.x.start, column.x.end, column.x.start
        )
    };
    columns.iter().filter(|column| column.most > column.least).map(rect).collect()
}

/// The mean of each column; what stays on its level is one stroke.
pub fn steps(columns: &[Column], y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut last = String::new();
    for column in columns {
        let level = px(y(column.mean));
        if path.is_empty() {
            path = format!("M{:.1} {level}", column.x.start);
        } else if level != last {
            path += &format!("H{:.1}V{level}", column.x.start);
        }
        last = level;
    }
    let end = columns.last().map(|column| format!("H{:.1}", column.x.end));
    path + &end.unwrap_or_default()
}

/// A panel's ground, of that width and so far down, with the times in seconds that stand along it and
/// what they are.
pub fn time_axis(span_s: &Range<f64>, width: f64, height: f64, title: &str) -> Markup {
    let length_s = span_s.end - span_s.start;
    // Twice as many steps as on a vertical axis: the panel is wider than high.
    let every = tick_step(length_s / 2.0).max(f64::MIN_POSITIVE);
    let first = (span_s.start / every - 1e-9).ceil() as u64;
    let last = (span_s.end / every + 1e-9) as u64;
    html! {
        path d=(format!("M0 {height:.1}H{width:.1}")) stroke=(SOFT) {}
        @for n in first..=last {
            @let time_s = n as f64 * every;
            @let x = width * (time_s - span_s.start) / length_s.max(every);
            path d=(format!("M{x:.1} {height:.1}v4")) stroke=(SOFT) {}
            text x=(px(x)) y=(px(height + 18.0)) text-anchor="middle" { (format::digits(time_s)) }
        }
        text x=(px(width / 2.0)) y=(px(height + 20.0 + LINE_HEIGHT)) text-anchor="middle" fill=(SOFT) {
            (title)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_peak_among_a_million_bins_stays_visible() {
        let mut bins = vec![16e6; 1 << 20];
        bins[777_777] = 1e9;
        let columns = columns(&bins, 880.0);
        assert_eq!(columns.len(), 880);
        let highest = columns.iter().map(|column| column.most).fold(0.0, f64::max);
        assert!((highest - 1e9).abs() < 1.0, "{highest}");
        let sum: f64 = columns.iter().map(|c| c.mean * (c.x.end - c.x.start)).sum();
        let mean = bins.iter().sum::<f64>() / bins.len() as f64;
        assert!((sum / 880.0 / mean - 1.0).abs() < 1e-9, "the area is that of the bins");
    }

    #[test]
    fn the_mean_goes_in_steps_to_the_end() {
        let columns = columns(&[1.0, 1.0, 3.0, 3.0], 8.0);
        assert_eq!(steps(&columns, |bps| 10.0 - bps), "M0.0 9.0H4.0V7.0H8.0");
        assert_eq!(steps(&[], |bps| bps), "");
    }

    #[test]
    fn times_along_a_panel_begin_where_it_begins() {
        let axis = time_axis(&(60.0..62.0), 100.0, 50.0, "time, s").into_string();
        let mut times = axis.split("middle\">").skip(1).filter_map(|rest| rest.split('<').next());
        assert_eq!(times.next(), Some("60"), "{axis}");
        assert!(axis.contains("x=\"100.0\"") && axis.contains(">62<"), "{axis}");
    }
}
