// SPDX-License-Identifier: GPL-2.0-or-later
//! What went over a link as one SVG picture: its rate in bins of time, the gaps between packets, the
//! lengths of bursts.
//!
//! Both axes of gaps and bursts are logarithmic, so that rare and common values are both visible.

use crate::{
    axis_unit::AxisUnit,
    binned_rate::{LEFT_MARGIN, band, columns, steps, time_axis},
    format,
    svg::{
        BLUE, LETTER_WIDTH, LINE_HEIGHT, OCHRE, Page, RULE, SOFT, Scale, px, translate,
        vertical_text,
    },
};
use maud::{Markup, html};
use std::ops::Range;

const DATA: &str = BLUE;
const GAP_FRAMES: &str = OCHRE;

const WIDTH: f64 = 880.0;
const RATE_TOP: f64 = 84.0;
const RATE_HEIGHT: f64 = 240.0;
const LOWER_TOP: f64 = 414.0;
const LOWER_HEIGHT: f64 = 180.0;
const LOWER_WIDTH: f64 = 400.0;
const PAGE: (f64, f64) = (LEFT_MARGIN + WIDTH + 24.0, LOWER_TOP + LOWER_HEIGHT + 58.0);

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

/// Distribution over a scale of powers, by their shares.
struct Distribution {
    /// From where to where along the panel, as shares of its width, and their shares of all.
    bars: Vec<(Range<f64>, f64)>,
    ticks: Vec<(f64, String)>,
    all: u64,
}

impl MonitorPicture<'_> {
    /// The picture as an SVG document of its own.
    pub fn svg(&self) -> String {
        let lower = |column: f64, bars: &Distribution, heading: &str, axis: &str| {
            let left = LEFT_MARGIN + column * (WIDTH - LOWER_WIDTH);
            html! { g transform=(translate(left, LOWER_TOP)) { (bars.draw(heading, axis)) } }
        };
        let body = html! {
            g transform=(translate(LEFT_MARGIN, RATE_TOP)) { (self.rate()) }
            (lower(0.0, &gap_bars(&self.gaps_ns), "Gaps between packets", "gap, start to start"))
            (lower(1.0, &burst_bars(&self.burst_packets), "Bursts", "packets in a burst"))
        };
        let (width, height) = PAGE;
        let description = format!("{}: rate over time, gaps, bursts", self.title);
        Page { description, heading: self.title, about: vec![self.about.to_owned()], width, height }
            .svg(&body)
    }

    fn rate(&self) -> Markup {
        let rates = |bytes: &[u64]| {
            let bins: Vec<f64> = bytes.iter().map(|n| *n as f64 * 8.0 / self.bin_s).collect();
            columns(&bins, WIDTH)
        };
        let data = rates(self.data_bytes);
        let most = data.iter().map(|column| column.most).fold(0.0, f64::max);
        let gaps = rates(self.gap_frame_bytes);
        let most = gaps.iter().map(|column| column.mean).fold(most, f64::max);
        let unit = AxisUnit::of("rate_bps", most);
        let scale = Scale::up_to(most / unit.divisor, unit);
        let end_s = self.data_bytes.len() as f64 * self.bin_s;
        let y = |value: f64| scale.y(value, RATE_HEIGHT);
        html! {
            (self.legend(self.data_bytes.len() > data.len(), !gaps.is_empty()))
            (scale.draw(WIDTH, RATE_HEIGHT))
            (vertical_text(&scale.unit.axis, 16.0 - LEFT_MARGIN, RATE_HEIGHT))
            (time_axis(&(0.0..end_s), WIDTH, RATE_HEIGHT, "time, s"))
            path d=(band(&data, y)) fill=(DATA) fill-opacity="0.4" {}
            @if !gaps.is_empty() {
                path d=(steps(&gaps, y)) fill="none" stroke=(GAP_FRAMES) stroke-width="1.2" {}
            }
            path d=(steps(&data, y)) fill="none" stroke=(DATA) stroke-width="1.2" {}
        }
    }

    fn legend(&self, many: bool, gap_frames: bool) -> Markup {
        let bin = format::duration(self.bin_s);
        let band = format!("least to most of the bins of {bin} in a column");
        let line = if many { "mean of a column".to_owned() } else { format!("each bin of {bin}") };
        let mut entries = vec![(DATA, false, line)];
        if many {
            entries.insert(0, (DATA, true, band));
        }
        if gap_frames {
            entries.push((GAP_FRAMES, false, "gap frames, mean".to_owned()));
        }
        let mut x = 0.0;
        let placed: Vec<_> = entries
            .into_iter()
            .map(|(colour, is_band, text)| {
                let at = x;
                x += 32.0 + text.chars().count() as f64 * LETTER_WIDTH + 18.0;
                (at, colour, is_band, text)
            })
            .collect();
        html! {
            @for (x, colour, is_band, text) in placed {
                @if is_band {
                    rect x=(px(x)) y="-22" width="24" height="11" fill=(colour) fill-opacity="0.4" {}
                } @else {
                    path d=(format!("M{x:.1} -16.5h24")) stroke=(colour) stroke-width="1.6" {}
                }
                text x=(px(x + 30.0)) y="-12.5" { (text) }
            }
        }
    }
}

/// Gaps in columns of equal ratio.
fn gap_bars(gaps: &[HistogramBar]) -> Distribution {
    let all = gaps.iter().map(|gap| gap.count).sum();
    let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
        return Distribution { bars: Vec::new(), ticks: Vec::new(), all };
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
    let width = columns.len() as f64;
    let bars = columns.iter().enumerate().filter(|(_, count)| **count > 0.0);
    let bars = bars
        .map(|(n, count)| (n as f64 / width..(n as f64 + 1.0) / width, count / all as f64))
        .collect();
    let decades = (to - from) as u32;
    let ticks = (0..=decades).map(|n| {
        let at = f64::from(n) / f64::from(decades);
        (at, format::duration(10_f64.powf(from + f64::from(n)) / 1e9))
    });
    Distribution { bars, ticks: ticks.collect(), all }
}

/// Bursts of one packet, of two, of up to four, eight, and so on.
fn burst_bars(bursts: &[HistogramBar]) -> Distribution {
    let all: u64 = bursts.iter().map(|burst| burst.count).sum();
    // The place of 2^n holds what is above 2^(n-1).
    let place = |packets: u64| packets.max(1).next_power_of_two().ilog2() as usize;
    let mut counts = vec![0_u64; bursts.last().map_or(0, |last| place(last.values.end - 1) + 1)];
    for burst in bursts {
        counts[place(burst.values.end - 1)] += burst.count;
    }
    let slots = counts.len().max(6) as f64;
    let bar = |(n, count): (usize, &u64)| {
        let at = n as f64;
        ((at + 0.12) / slots..(at + 0.88) / slots, *count as f64 / all as f64)
    };
    let label = |n: usize| match n {
        0..=1 => format!("{}", n + 1),
        2 => "3–4".to_owned(),
        _ => format!("≤{}", 1_u64 << n),
    };
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect();
    let ticks = (0..slots as usize).map(|n| ((n as f64 + 0.5) / slots, label(n)));
    Distribution { bars, ticks: ticks.collect(), all }
}

impl Distribution {
    fn draw(&self, heading: &str, axis: &str) -> Markup {
        // From the whole down to one of all, in powers of ten.
        let decades = (self.all.max(10) as f64).log10().ceil();
        let y = |share: f64| LOWER_HEIGHT * (-share.log10() / decades).clamp(0.0, 1.0);
        // One of all stands a little above the ground where the powers would have it on the ground.
        let bar = |(x, share): &(Range<f64>, f64)| {
            let (left, right) = (x.start * LOWER_WIDTH, x.end * LOWER_WIDTH);
            let top = y(*share).min(LOWER_HEIGHT - 2.0);
            format!("M{left:.1} {LOWER_HEIGHT:.1}V{top:.1}H{right:.1}V{LOWER_HEIGHT:.1}z")
        };
        let (every, labels) = self.labels();
        html! {
            text x="0" y="-14" font-weight="600" { (heading) }
            text x=(px(LOWER_WIDTH)) y="-14" text-anchor="end" fill=(SOFT) {
                "share of all " (self.all)
            }
            @for n in 0..=decades as i32 {
                @let share = 10_f64.powi(-n);
                path d=(format!("M0 {:.1}H{LOWER_WIDTH:.1}", y(share))) stroke=(RULE) {}
                @if decades <= 7.0 || n % 2 == 0 {
                    text x="-8" y=(px(y(share) + 4.0)) text-anchor="end" { (percent(n)) }
                }
            }
            path d=(self.bars.iter().map(bar).collect::<String>()) fill=(DATA) {}
            path d=(format!("M0 {LOWER_HEIGHT:.1}H{LOWER_WIDTH:.1}")) stroke=(SOFT) {}
            @for (at, label) in labels.iter().step_by(every) {
                @let x = at * LOWER_WIDTH;
                path d=(format!("M{x:.1} {LOWER_HEIGHT:.1}v4")) stroke=(SOFT) {}
                text x=(px(x)) y=(px(LOWER_HEIGHT + 18.0)) text-anchor="middle" { (label) }
            }
            text x=(px(LOWER_WIDTH / 2.0)) y=(px(LOWER_HEIGHT + 20.0 + LINE_HEIGHT)) text-anchor="middle"
                fill=(SOFT) { (axis) }
        }
    }

    /// The labels, and of how many one is written so that they don't run into each other.
    fn labels(&self) -> (usize, &[(f64, String)]) {
        let widest = self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(1);
        let room = LOWER_WIDTH / self.ticks.len().max(1) as f64;
        let every = ((widest as f64 + 1.5) * LETTER_WIDTH / room).ceil().max(1.0);
        (every as usize, &self.ticks)
    }
}

/// A negative power of ten: 100 %, 10 %, 1 %, 0.1 %; where that gets long, 1e-4 %.
fn percent(power: i32) -> String {
    if power > 5 {
        return format!("1e-{} %", power - 2);
    }
    let decimals = usize::try_from(power - 2).unwrap_or(0);
    format!("{:.decimals$} %", 100.0 * 10_f64.powi(-power))
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
        let bars = gap_bars(&gaps);
        assert_eq!(bars.all, 10);
        assert!((bars.bars.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(bars.ticks.first().map(|tick| tick.1.as_str()), Some("1 ns"));
        assert_eq!(bars.ticks.last().map(|tick| tick.1.as_str()), Some("100 us"));
        let bars =
            burst_bars(&[spread(1..2, 5), spread(3..4, 2), spread(4..5, 1), spread(5..6, 2)]);
        let shares: Vec<f64> = bars.bars.iter().map(|(_, share)| *share).collect();
        assert_eq!(shares, [0.5, 0.3, 0.2]);
        assert_eq!(bars.ticks[3].1, "≤8");
    }
}
