// SPDX-License-Identifier: GPL-2.0-or-later
//! Shows the latest second on a terminal while the monitor runs. Without a terminal it shows nothing.

use super::text::scaled_count;
use crate::progress::line;
use ::kernel::monitor::{Bins, Direction, DirectionStatistics, Monitor, Options, Snapshot};
use ::report::format;
use indicatif::{MultiProgress, ProgressBar};
use std::collections::BTreeMap;
use units::Duration;

/// Width of the rate's sparkline, in characters.
const COLUMNS: usize = 64;

pub struct LiveDisplay {
    device: String,
    terminal: MultiProgress,
    lines: Vec<ProgressBar>,
    before: Option<Snapshot>,
    /// The largest bin of each direction since the last update, in bytes.
    peaks: BTreeMap<Direction, u64>,
}

impl LiveDisplay {
    pub fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            // Standard error. It shows nothing if that is not a terminal.
            terminal: MultiProgress::new(),
            lines: Vec::new(),
            before: None,
            peaks: BTreeMap::new(),
        }
    }

    /// Records the largest bins that were read between two updates.
    pub fn note_peaks(&mut self, snapshot: &Snapshot) {
        for direction in [Direction::Out, Direction::In] {
            let peak = snapshot.statistics(direction).and_then(|figures| figures.recent_peak);
            let most = self.peaks.entry(direction).or_default();
            *most = (*most).max(peak.map_or(0, |peak| peak.bytes));
        }
    }

    /// Shows what happened since the last update.
    pub fn show(&mut self, monitor: &Monitor, options: &Options, snapshot: Snapshot) {
        self.note_peaks(&snapshot);
        let mut texts = Vec::new();
        for &direction in &options.directions {
            let (Some(figures), Some(bins)) =
                (snapshot.statistics(direction), monitor.bins(direction))
            else {
                continue;
            };
            let before = self.before.as_ref();
            let past = before.map_or(Duration::ZERO, |before| before.elapsed);
            let interval = Interval {
                seconds: snapshot.elapsed.saturating_sub(past).as_secs_f64(),
                before: before.and_then(|before| before.statistics(direction)),
                figures,
            };
            let peak = self.peaks.get(&direction).copied().unwrap_or(0);
            let peak = format::rate(peak as f64 * 8.0 / options.bin.as_secs_f64());
            texts.push(format!(
                "{} {} {:>7}  {}, peak bin {peak}",
                self.device,
                direction.name(),
                format!("{:.0} s", snapshot.elapsed.as_secs_f64()),
                interval.rates(),
            ));
            texts.push(format!("  {}", sparkline(bins, interval.seconds)));
            texts.push(format!("  {}", interval.gaps()));
        }
        self.peaks.clear();
        self.before = Some(snapshot);
        while self.lines.len() < texts.len() {
            self.lines.push(self.terminal.add(line()));
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(text);
        }
    }
}

impl Drop for LiveDisplay {
    fn drop(&mut self) {
        for line in &self.lines {
            line.finish_and_clear();
        }
        // An error means that the terminal is gone.
        let _ = self.terminal.clear();
    }
}

/// The statistics of one direction, and those at the last update.
struct Interval<'a> {
    seconds: f64,
    before: Option<&'a DirectionStatistics>,
    figures: &'a DirectionStatistics,
}

impl Interval<'_> {
    fn grown(&self, of: fn(&DirectionStatistics) -> u64) -> f64 {
        (of(self.figures) - self.before.map_or(0, of)) as f64
    }

    fn rates(&self) -> String {
        let per_second = |of| self.grown(of) / self.seconds;
        let mut text = format!(
            "{} now, {} packets/s",
            format::rate(per_second(|figures| figures.bytes) * 8.0),
            scaled_count(per_second(|figures| figures.packets)),
        );
        if self.figures.gap_frames > 0 {
            let gap_frames = per_second(|figures| figures.gap_bytes) * 8.0;
            text += &format!(", gap frames {}", format::rate(gap_frames));
        }
        text
    }

    fn gaps(&self) -> String {
        let of_second = |of: fn(&DirectionStatistics) -> &::kernel::monitor::Histogram| {
            let now = of(self.figures);
            self.before.map_or_else(|| now.clone(), |before| now.since(of(before)))
        };
        let gaps = of_second(|figures| &figures.gaps.histogram);
        let bursts = of_second(|figures| &figures.bursts.histogram);
        let Some(longest) = bursts.quantile(1.0).filter(|_| gaps.count() > 0) else {
            return "no gaps".to_owned();
        };
        let gap = |share| {
            let slot = gaps.quantile(share).map_or(0.0, |slot| slot.middle());
            format::duration(slot / 1e9)
        };
        let packets = self.grown(|figures| figures.packets);
        format!(
            "gaps: median {}, 99 % {}; bursts: {}, {} packets each, longest {}",
            gap(0.5),
            gap(0.99),
            scaled_count(bursts.count() as f64),
            format::digits(packets / bursts.count() as f64),
            longest.to - 1,
        )
    }
}

/// The latest second as a sparkline: each character shows the largest bin of its part.
fn sparkline(bins: &Bins, seconds: f64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (all, width) = (bins.data().bins(), bins.data().width().as_secs_f64());
    let shown = ((seconds / width).ceil() as usize).clamp(1, all.len().max(1));
    let last = &all[all.len() - shown.min(all.len())..];
    let most = last.iter().copied().max().unwrap_or(0).max(1);
    let parts = last.len().min(COLUMNS);
    let part = |n: usize| {
        let part = &last[n * last.len() / parts..(n + 1) * last.len() / parts];
        let largest = part.iter().copied().max().unwrap_or(0);
        match largest {
            0 => ' ',
            _ => LEVELS[((largest * 8).div_ceil(most) as usize).clamp(1, 8) - 1],
        }
    };
    (0..parts).map(part).collect()
}
