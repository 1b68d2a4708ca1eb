// SPDX-License-Identifier: GPL-2.0-or-later
//! A rate in bins of time, to be drawn: there may be a thousand bins to a pixel, so each column shows the least
//! and the largest of its bins as a band and their mean as a line, and no peak is hidden.

use crate::{
    chart::{Series, Shape, Style},
    format,
};
use std::ops::Range;

/// The look of what went over a link.
pub const STYLE: Style = Style::plain("#0072b2", 1.2);

/// The bins of one column of a picture, in bits a second.
struct Column {
    time_s: Range<f64>,
    least: f64,
    mean: f64,
    most: f64,
}

/// The band, where columns of a panel of that width have several bins, and the line.
pub fn binned_rate(bins_bps: &[f64], start_s: f64, bin_s: f64, width: f64) -> Vec<Series> {
    let columns = columns(bins_bps, start_s, bin_s, width);
    let bin = format::duration(bin_s);
    let line = Shape::Steps(mean(&columns));
    if columns.len() == bins_bps.len() {
        return vec![Series::new(&format!("each bin of {bin}"), STYLE, line)];
    }
    let several = columns.iter().filter(|column| column.most > column.least);
    let band = several.map(|column| [column.time_s.clone(), column.least..column.most]);
    let name = format!("minimum to maximum of the bins of {bin} in a column");
    vec![
        Series::new(&name, STYLE, Shape::Areas(band.collect())),
        Series::new("mean of a column", STYLE, line),
    ]
}

/// The line alone, for what is less than another rate.
pub fn mean_rate(bins_bps: &[f64], bin_s: f64, width: f64) -> Vec<[f64; 2]> {
    mean(&columns(bins_bps, 0.0, bin_s, width))
}

fn mean(columns: &[Column]) -> Vec<[f64; 2]> {
    let starts = columns.iter().map(|column| [column.time_s.start, column.mean]);
    let end = columns.last().map(|column| [column.time_s.end, column.mean]);
    starts.chain(end).collect()
}

/// A column for each pixel of a width, or each bin where there are fewer.
fn columns(bins_bps: &[f64], start_s: f64, bin_s: f64, width: f64) -> Vec<Column> {
    let all = bins_bps.len();
    let count = all.min(width as usize);
    let edge = |n: usize| n * all / count;
    let time_s = |bin: usize| start_s + bin_s * bin as f64;
    let column = |n: usize| {
        let bins = &bins_bps[edge(n)..edge(n + 1)];
        Column {
            time_s: time_s(edge(n))..time_s(edge(n + 1)),
            least: bins.iter().copied().fold(f64::INFINITY, f64::min),
            mean: bins.iter().sum::<f64>() / bins.len() as f64,
            most: bins.iter().copied().fold(0.0, f64::max),
        }
    };
    (0..count).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_peak_among_a_million_bins_stays_visible() {
        let mut bins = vec![16e6; 1 << 20];
        bins[777_777] = 1e9;
        let columns = columns(&bins, 0.0, 1.0, 880.0);
        assert_eq!(columns.len(), 880);
        let highest = columns.iter().map(|column| column.most).fold(0.0, f64::max);
        assert!((highest - 1e9).abs() < 1.0, "{highest}");
        let sum: f64 = columns.iter().map(|c| c.mean * (c.time_s.end - c.time_s.start)).sum();
        let mean = bins.iter().sum::<f64>();
        assert!((sum / mean - 1.0).abs() < 1e-9, "the area is that of the bins");
    }
}
