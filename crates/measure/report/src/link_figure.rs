// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one figure over time, as figures 7 to 10 of Takano et al.: what went over a link in the bins
//! of its monitor, and over it a congestion window; a panel for each record. As SVG
//! ([`LinkFigure::svg`]) and as a table ([`LinkFigure::table`]).
//!
//! What tells a paced sender from one that is not is whether single bins rise above the bottleneck's rate, and
//! whether that is before its window holds what the path does. So the table parts the bins at the moment
//! at which the window first exceeds the bandwidth-delay product, to within a sample of the window.

mod chart;
mod table;

use crate::{
    Error,
    ordered_runs::{heading, ordered_runs, run_labels},
};
use record::{Curve, Entity, Manifest, Quantity, Record, Series, Summary};
use serde::Serialize;
use std::{ops::Range, path::PathBuf};

/// Bins above this multiple of the bottleneck's rate are counted. At the rate itself a bin has a packet more
/// or less than it should, which is 5 % of 500 Mb/s in 500 microseconds.
const ABOVE: f64 = 1.1;
/// Where fewer packets than these make a bin, one more is a tenth, and nothing is counted.
const LEAST_PACKETS: f64 = 10.0;
/// A packet where there is no hop that says how long its own are: a full one on Ethernet.
const FULL_PACKET: f64 = 1538.0;

/// What to look at.
#[derive(Debug, Clone)]
pub struct LinkFigureQuery {
    /// A direction of a link.
    pub link: Entity,
    /// A hop whose window is drawn, and whose bottleneck is what the link's rate is compared with.
    pub hop: Option<Entity>,
    /// From when to when, in seconds of the run; a run that ends before ends the panel.
    pub span_s: Range<f64>,
}

/// A link's rate in the course of some runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkFigure {
    /// The scenario's title.
    pub title: String,
    /// The paper and figure that it is from.
    pub source: Option<String>,
    /// The link's direction, as `NAME/forward`.
    pub link: String,
    /// The hop, as `FLOW/0`.
    pub hop: Option<String>,
    /// From when to when, in seconds of the runs.
    pub span_s: Range<f64>,
    /// One for each record.
    pub panels: Vec<LinkPanel>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkPanel {
    /// Its variant, and what else it differs in from the others.
    pub label: String,
    /// Whether the run counts.
    pub counts: bool,
    /// The slowest link under the hop, or without a hop the link itself: what the bins are compared with.
    pub bottleneck_bps: Option<f64>,
    /// The link's own rate.
    pub link_bps: Option<f64>,
    /// The hop's bandwidth-delay product in packets.
    pub bdp_packets: Option<f64>,
    /// A full packet of the hop as it goes over the bottleneck; without a hop one of Ethernet.
    pub packet_bytes: f64,
    /// The width of a bin in seconds.
    pub bin_s: f64,
    /// What the table says.
    pub numbers: LinkStatistics,
    /// The rate of each bin from the span's start to its end, or to the run's.
    #[serde(skip)]
    bins_bps: Vec<f64>,
    /// The window in packets over the same time.
    #[serde(skip)]
    cwnd: Curve,
}

/// One record in numbers: of the span, except for `filled_at_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LinkStatistics {
    /// The largest bin.
    pub peak_bps: f64,
    /// The mean of all bins.
    pub mean_bps: f64,
    /// The share of bins above 1.1 times the bottleneck's rate; null where a bin at that rate has less
    /// than ten packets.
    pub above_share: Option<f64>,
    /// When in the run the window was first seen above the bandwidth-delay product.
    pub filled_at_s: Option<f64>,
    /// The largest bin before; of all bins where the window never was.
    pub peak_before_bps: Option<f64>,
    /// The largest bin after that.
    pub peak_after_bps: Option<f64>,
    /// What the queues of all links refused.
    pub drops: u64,
}

impl LinkFigure {
    /// Reads the records at and below the folders, in this order; in a folder by the point, and the
    /// baseline first.
    ///
    /// # Errors
    /// There is no record, one cannot be read or has no such link or window, or they are of several
    /// scenarios.
    pub fn read(dirs: &[PathBuf], course: &LinkFigureQuery) -> Result<Self, Error> {
        let found = ordered_runs(dirs)?;
        let manifests: Vec<&Manifest> =
            found.iter().map(|(_, results)| &results.manifest).collect();
        let first = manifests[0];
        let (title, source) = (first.title.clone(), first.source.clone());
        let labels = run_labels(&manifests);
        let panels = found.iter().zip(labels).map(|((dir, results), label)| {
            let counts = results.verdict().in_medians();
            let panel = LinkPanel::new(&results.summary, &Record::series(dir)?, course);
            panel.map(|panel| LinkPanel { label, counts, ..panel }).map_err(|text| {
                let run = &results.manifest.id;
                Error::Figure(format!("{run}: {text}"))
            })
        });
        let panels = panels.collect::<Result<Vec<_>, _>>()?;
        let end_s = panels.iter().map(LinkPanel::length_s).fold(0.0, f64::max);
        Ok(Self {
            title,
            source,
            link: bare(&course.link),
            hop: course.hop.as_ref().map(bare),
            span_s: course.span_s.start..course.span_s.start + end_s,
            panels,
        })
    }

    /// The largest bin of all panels.
    fn peak_bps(&self) -> f64 {
        self.panels.iter().map(|panel| panel.numbers.peak_bps).fold(0.0, f64::max)
    }

    /// Where it is from and what it shows.
    fn about(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("{source}; ")).unwrap_or_default();
        let hop = self.hop.as_ref().map(|hop| format!(", window of {hop}")).unwrap_or_default();
        format!("{source}link {}{hop}", self.link)
    }
}

impl LinkPanel {
    fn new(summary: &Summary, series: &Series, course: &LinkFigureQuery) -> Result<Self, String> {
        let rates = series.curve(&course.link, Quantity::ThroughputBps);
        let rates = rates.ok_or_else(|| lacks(&course.link, Quantity::ThroughputBps, series))?;
        let bin_s = match rates.time_s[..] {
            [first, second, ..] => second - first,
            _ => return Err(format!("too little went over {}", bare(&course.link))),
        };
        let run_end_s = summary.flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
        let run_end_s = run_end_s.max(rates.time_s.len() as f64 * bin_s);
        let span_s = course.span_s.start..course.span_s.end.min(run_end_s);
        if span_s.is_empty() {
            return Err(format!("it ends at {run_end_s:.3} s"));
        }
        let bins_bps = bins_between(&rates.value, bin_s, &span_s);
        let link_bps = link_rate(summary, &course.link);
        let mut panel = Self {
            label: String::new(),
            counts: true,
            bottleneck_bps: link_bps,
            link_bps,
            bdp_packets: None,
            packet_bytes: FULL_PACKET,
            bin_s,
            numbers: LinkStatistics { drops: drops(series, &span_s), ..LinkStatistics::default() },
            bins_bps,
            cwnd: Curve::default(),
        };
        let mut filled = None;
        if let Some(hop) = &course.hop {
            let cwnd = series.curve(hop, Quantity::CwndSegments);
            let cwnd = cwnd.ok_or_else(|| lacks(hop, Quantity::CwndSegments, series))?;
            let found = summary.flows.iter().find_map(|flow| {
                flow.hops
                    .iter()
                    .find(|one| *hop == Entity::Hop { flow: flow.name.clone(), index: one.index })
            });
            panel.bottleneck_bps = found.and_then(|hop| Some(hop.bottleneck_bps? as f64));
            panel.bdp_packets = found.and_then(record::HopSummary::bdp_segments);
            let packet = found.and_then(|hop| hop.segment_bytes);
            panel.packet_bytes = packet.map_or(FULL_PACKET, |bytes| bytes as f64);
            panel.cwnd = between(cwnd, &span_s);
            filled = panel.bdp_packets.and_then(|bdp| first_above(cwnd, bdp));
        }
        panel.count(filled.as_ref(), span_s.start);
        Ok(panel)
    }

    /// Counts the bins. `filled` is between which two samples the window rose above the path's: the bins
    /// until the first of them are surely of before.
    fn count(&mut self, filled: Option<&Range<f64>>, from_s: f64) {
        let peak = |bins: &[f64]| bins.iter().copied().reduce(f64::max);
        let bins = &self.bins_bps;
        self.numbers.peak_bps = peak(bins).unwrap_or(0.0);
        self.numbers.mean_bps = bins.iter().sum::<f64>() / bins.len().max(1) as f64;
        let least_bps = LEAST_PACKETS * self.packet_bytes * 8.0 / self.bin_s;
        let fine = self.bottleneck_bps.filter(|rate| *rate >= least_bps);
        self.numbers.above_share = fine.map(|rate| {
            let above = bins.iter().filter(|bin| **bin > ABOVE * rate).count();
            above as f64 / bins.len().max(1) as f64
        });
        self.numbers.filled_at_s = filled.map(|moment| moment.end);
        if self.bdp_packets.is_some() {
            let before_s = filled.map_or(f64::INFINITY, |moment| moment.start - from_s);
            let before = (before_s / self.bin_s + 1e-9).clamp(0.0, bins.len() as f64) as usize;
            self.numbers.peak_before_bps = peak(&bins[..before]);
            self.numbers.peak_after_bps = peak(&bins[before..]);
        }
    }

    fn heading(&self) -> String {
        heading(&self.label, self.counts)
    }

    fn length_s(&self) -> f64 {
        self.bins_bps.len() as f64 * self.bin_s
    }
}

/// The bins that begin in the span; a monitor's last bin is the last with a byte, so more are empty.
fn bins_between(all: &[f64], bin_s: f64, span_s: &Range<f64>) -> Vec<f64> {
    let place = |time_s: f64| (time_s / bin_s - 1e-6).ceil() as usize;
    let bin = |n: usize| all.get(n).copied().unwrap_or(0.0);
    (place(span_s.start)..place(span_s.end)).map(bin).collect()
}

pub(crate) fn between(curve: &Curve, span_s: &Range<f64>) -> Curve {
    let place = |time_s: f64| curve.time_s.partition_point(|at| *at < time_s);
    let samples = place(span_s.start)..place(span_s.end);
    Curve { time_s: curve.time_s[samples.clone()].into(), value: curve.value[samples].into() }
}

/// The sample before the first one above a limit, and that one.
fn first_above(curve: &Curve, limit: f64) -> Option<Range<f64>> {
    let first = curve.value.iter().position(|value| *value > limit)?;
    let before = first.checked_sub(1).map_or(0.0, |n| curve.time_s[n]);
    Some(before..curve.time_s[first])
}

fn drops(series: &Series, span_s: &Range<f64>) -> u64 {
    let drops = series.curves().filter(|(_, quantity, _)| *quantity == Quantity::Drops);
    drops.flat_map(|(_, _, curve)| between(curve, span_s).value).sum::<f64>().round() as u64
}

fn link_rate(summary: &Summary, link: &Entity) -> Option<f64> {
    let link = summary.links.iter().find(|one| {
        Entity::parse(&format!("link:{}/{}", one.name, one.direction)).as_ref() == Some(link)
    });
    Some(link?.rate_bps? as f64)
}

/// As in a series, without the kind in front.
pub(crate) fn bare(entity: &Entity) -> String {
    let text = entity.to_string();
    text.split_once(':').map_or(text.clone(), |(_, bare)| bare.to_owned())
}

pub(crate) fn lacks(asked: &Entity, quantity: Quantity, series: &Series) -> String {
    let known = series.curves().filter(|(_, found, _)| *found == quantity);
    let known: Vec<String> = known.map(|(entity, ..)| bare(entity)).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("there is no {} of \"{}\"; there is of {known}", quantity.name(), bare(asked))
}

#[cfg(test)]
mod tests;
