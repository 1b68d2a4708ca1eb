// SPDX-License-Identifier: GPL-2.0-or-later
//! What went over a link as one SVG picture: its rate in bins of time, the gaps between packets, the
//! lengths of bursts.
//!
//! Both axes of gaps and bursts are logarithmic, so that rare and common values are both visible.

use crate::{
    axis_unit::AxisUnit,
    binned_rate::{STYLE, binned_rate, mean_rate},
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style},
    format,
};
use std::ops::Range;

const GAP_FRAMES: Style = Style::plain("#b07a00", 1.2);
const RATE: Size = Size { width: 880.0, height: 240.0 };
const DISTRIBUTION: Size = Size { width: 400.0, height: 180.0 };

/// Columns of gaps to a power of ten.
const GAPS_IN_DECADE: f64 = 16.0;

/// Values that were counted together: how many from `values.start` up to below `values.end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramBar {
    /// Which.
    pub values: Range<u64>,
    /// How many.
    pub count: u64,
}

/// What is to be drawn.
#[derive(Debug, Clone)]
pub struct MonitorPicture<'a> {
    /// Which link.
    pub title: &'a str,
    /// How it was watched, in a line.
    pub about: &'a str,
    /// The width of a bin in seconds.
    pub bin_s: f64,
    /// Bytes of data in each bin.
    pub data_bytes: &'a [u64],
    /// Bytes of gap frames in each bin; empty without any.
    pub gap_frame_bytes: &'a [u64],
    /// Gaps between packets in nanoseconds.
    pub gaps_ns: Vec<HistogramBar>,
    /// Lengths of bursts in packets.
    pub burst_packets: Vec<HistogramBar>,
}

/// A distribution: the axis of its values, from where to where along it each bar goes with its share of all, and how many
/// values there are.
struct Distribution {
    along: Axis,
    bars: Vec<(Range<f64>, f64)>,
    all: u64,
}

impl MonitorPicture<'_> {
    /// The picture as an SVG document of its own.
    pub fn svg(&self) -> String {
        Chart {
            title: self.title.to_owned(),
            description: format!("{}: rate over time, gaps, bursts", self.title),
            about: self.about.to_owned(),
            panels: vec![
                self.rate(),
                gaps(&self.gaps_ns).panel("Gaps between packets"),
                bursts(&self.burst_packets).panel("Bursts"),
            ],
        }
        .svg()
    }

    fn rate(&self) -> Panel {
        let rates = |bytes: &[u64]| -> Vec<f64> {
            bytes.iter().map(|n| *n as f64 * 8.0 / self.bin_s).collect()
        };
        let data = rates(self.data_bytes);
        let gap_frames = mean_rate(&rates(self.gap_frame_bytes), self.bin_s, RATE.width);
        let drawn = data.iter().chain(gap_frames.iter().map(|[_, bps]| bps));
        let most = drawn.copied().fold(0.0, f64::max);
        let mut series = binned_rate(&data, 0.0, self.bin_s, RATE.width);
        if !gap_frames.is_empty() {
            let line = Shape::Steps(gap_frames);
            series.push(Series::new("gap frames, mean", GAP_FRAMES, line));
        }
        let time = Axis::time(&(0.0..data.len() as f64 * self.bin_s), "time, s");
        let rate = Axis::up_to(most, &AxisUnit::of("rate_bps", most));
        Panel::new(String::new(), RATE, time, rate, series)
    }
}

/// Gaps in columns of equal ratio.
fn gaps(gaps: &[HistogramBar]) -> Distribution {
    let all = gaps.iter().map(|gap| gap.count).sum();
    let title = "gap, start to start";
    let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
        return Distribution { along: Axis::names(title, &[]), bars: Vec::new(), all };
    };
    let power = |value: u64| (value.max(1) as f64).log10();
    let from = power(first.values.start).floor();
    let to = power(last.values.end).ceil().max(from + 1.0);
    let mut columns = vec![0.0; ((to - from) * GAPS_IN_DECADE) as usize];
    for gap in gaps {
        // A slot that is wider than a column is spread evenly over those that it reaches into.
        let place = |value: u64| (power(value) - from) * GAPS_IN_DECADE;
        let (start, end) = (place(gap.values.start), place(gap.values.end));
        for (n, column) in columns.iter_mut().enumerate() {
            let inside = (end.min(n as f64 + 1.0) - start.max(n as f64)).max(0.0);
            if end > start {
                *column += gap.count as f64 * inside / (end - start);
            }
        }
        if start >= end {
            // 0 and 1 ns have the same position.
            columns[start as usize] += gap.count as f64;
        }
    }
    let at = |n: usize| from + n as f64 / GAPS_IN_DECADE;
    let bars = columns.iter().enumerate().filter(|(_, count)| **count > 0.0);
    let bars = bars.map(|(n, count)| (at(n)..at(n + 1), count / all as f64)).collect();
    let decades: Vec<f64> = (0..=(to - from) as u32).map(|n| from + f64::from(n)).collect();
    let labels = decades.iter().map(|power| format::duration(10_f64.powf(*power) / 1e9));
    Distribution { along: Axis::swept(title, &decades, &labels.collect::<Vec<_>>()), bars, all }
}

/// Bursts of one packet, of two, of up to four, eight, and so on.
fn bursts(bursts: &[HistogramBar]) -> Distribution {
    let all: u64 = bursts.iter().map(|burst| burst.count).sum();
    // The place of 2^n holds what is above 2^(n-1).
    let place = |packets: u64| packets.max(1).next_power_of_two().ilog2() as usize;
    let mut counts = vec![0_u64; bursts.last().map_or(0, |last| place(last.values.end - 1) + 1)];
    for burst in bursts {
        counts[place(burst.values.end - 1)] += burst.count;
    }
    let bar = |(n, count): (usize, &u64)| {
        let at = n as f64;
        (at + 0.12..at + 0.88, *count as f64 / all as f64)
    };
    let label = |n: usize| match n {
        0..=1 => format!("{}", n + 1),
        2 => "3–4".to_owned(),
        _ => format!("≤{}", 1_u64 << n),
    };
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect();
    let labels: Vec<String> = (0..counts.len().max(6)).map(label).collect();
    Distribution { along: Axis::names("packets in a burst", &labels), bars, all }
}

impl Distribution {
    fn panel(self, heading: &str) -> Panel {
        // From all down to less than one of them, so that the bar of one is still seen.
        let least = 0.99 / self.all.max(10) as f64;
        let shares = Axis::logarithmic(least, 1.0, &AxisUnit::of("share", 1.0));
        let bars = self.bars.into_iter().map(|(along, share)| [along, 0.0..share]).collect();
        let style = Style { fill_opacity: "1", ..STYLE };
        let series = Series::new("", style, Shape::Areas(bars));
        let heading = format!("{heading} ({})", self.all);
        Panel::new(heading, DISTRIBUTION, self.along, shares, vec![series])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(bins: &[u64]) -> MonitorPicture<'_> {
        MonitorPicture {
            title: "eth0 <out>",
            about: "",
            bin_s: 500e-6,
            data_bytes: bins,
            gap_frame_bytes: &[],
            gaps_ns: Vec::new(),
            burst_packets: Vec::new(),
        }
    }

    #[test]
    fn a_single_peak_among_a_million_bins_sets_the_scale() {
        let mut bins = vec![1000; 1 << 20];
        bins[777_777] = 62_500;
        let svg = picture(&bins).svg();
        assert!(svg.contains("eth0 &lt;out&gt;") && svg.contains("Gb/s"), "{svg}");
    }

    #[test]
    fn few_bins_and_none_are_drawn_too() {
        for bins in [&[][..], &[5], &[0, 0], &[1, 2, 3]] {
            let svg = picture(bins).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn gap_and_burst_shares_match_their_counts() {
        let spread = |values: Range<u64>, count| HistogramBar { values, count };
        let gaps = [spread(0..1, 1), spread(1..2, 2), spread(20..21, 3), spread(11_776..12_032, 4)];
        let bars = super::gaps(&gaps);
        assert_eq!(bars.all, 10);
        assert!((bars.bars.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(bars.along.ticks.first().map(|tick| tick.1.as_str()), Some("1 ns"));
        assert_eq!(bars.along.ticks.last().map(|tick| tick.1.as_str()), Some("100 us"));
        let bars = bursts(&[spread(1..2, 5), spread(3..4, 2), spread(4..5, 1), spread(5..6, 2)]);
        let shares: Vec<f64> = bars.bars.iter().map(|(_, share)| *share).collect();
        assert_eq!(shares, [0.5, 0.3, 0.2]);
        assert_eq!(bars.along.ticks[3].1, "≤8");
    }
}
