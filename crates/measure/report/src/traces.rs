// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a run's series that goes into the page: bytes moved in each bin, for each hop.
//!
//! Sequence growth is the running sum of the bytes acknowledged. Throughput is a bin's bytes over
//! its width: of the bytes delivered where they were sampled, because acknowledgements leap when a
//! hole is filled, and a leap is not a rate. Bins are 0.1 s, or wider where a run
//! would need more than 400 of them, or fewer on a page of many lines.

use crate::chart::palette::{self, ColourBy, LineKey};
use record::{Curve, Entity, FlowSummary, LinkSummary, Quantity, Series, Summary};
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap};

const BIN_S: f64 = 0.1;
const MOST_BINS: usize = 400;
/// Minimum number of bins with which a line looks like a curve.
const LEAST_BINS: usize = 100;
/// Of all lines of a page together: some 4 MB.
const PAGE_BINS: usize = 150_000;
/// Of a run with more connections than this, links are shown in their place.
pub const MOST_HOPS: usize = 24;
/// So many, at most.
const MOST_LINKS: usize = 8;

/// How many bins a line may have on a page of these runs.
pub fn most_bins<'s>(runs: impl Iterator<Item = &'s Summary>) -> usize {
    let lines: usize = runs.map(|run| connections(run).min(MOST_HOPS)).sum();
    (PAGE_BINS / lines.max(1)).clamp(LEAST_BINS, MOST_BINS)
}

fn connections(run: &Summary) -> usize {
    run.flows.iter().map(|flow| flow.hops.len().max(1)).sum()
}

/// What moved in the course of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Traces {
    /// The bins' width in seconds; the first starts with the run.
    pub bin_s: f64,
    /// Each hop of each flow; where hops were not sampled each flow, or else the busiest links.
    pub strands: Vec<Trace>,
    /// Whether they are links, which carry more than one connection does.
    pub of_links: bool,
}

/// One line of a chart.
#[derive(Debug, Clone, Serialize)]
pub struct Trace {
    /// What moved: "server → depot2 (cubic)".
    pub label: String,
    /// The client of the flow it belongs to; null for a link.
    pub client: Option<String>,
    /// The flow or link that it is of.
    pub of: String,
    /// The congestion control of a hop.
    #[serde(skip)]
    algorithm: String,
    /// The place of that flow's or link's colour in the scheme of `chart/palette.rs`.
    pub colour: usize,
    /// When its flow started, in seconds of the run; 0 of a link.
    pub start_s: f64,
    /// Bytes in each bin: of a hop, acknowledged ones.
    pub bytes: Vec<u64>,
    /// Bytes delivered in each bin, where that is known.
    pub delivered: Option<Vec<u64>>,
    /// Of a hop, the congestion window at the end of each bin in segments, where that is known; null
    /// before and after the samples.
    pub cwnd: Option<Vec<Option<u64>>>,
}

impl Traces {
    /// Reads the traces of a run's record, with at most `most_bins` bins.
    pub fn new(summary: &Summary, series: &Series, most_bins: usize) -> Self {
        let end_s = summary.flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
        let bins = Bins::cover(end_s, most_bins);
        let flows = || summary.flows.iter();
        let mut strands = Vec::new();
        if connections(summary) <= MOST_HOPS {
            let several = summary.flows.len() > 1;
            strands.extend(flows().flat_map(|flow| hop_strands(flow, several, series, &bins)));
            if strands.is_empty() {
                strands.extend(flows().filter_map(|flow| flow_strand(flow, series, &bins)));
            }
        }
        let of_links = strands.is_empty();
        if of_links {
            let links = busy_links(summary).into_iter();
            strands.extend(links.filter_map(|link| link_strand(link, series, &bins)));
        }
        Self { bin_s: bins.width_s, strands, of_links }
    }
}

/// Gives each flow or link of a page a colour of its own, the same in all its runs.
pub fn colour<'t>(page: impl Iterator<Item = &'t mut Traces>) {
    let strands: Vec<&mut Trace> = page.flat_map(|traces| &mut traces.strands).collect();
    let key = |trace: &Trace| LineKey {
        algorithm: trace.algorithm.clone(),
        flow: Some(trace.of.clone()),
        ..LineKey::default()
    };
    let places = palette::places(
        &strands.iter().map(|trace| key(trace)).collect::<Vec<_>>(),
        ColourBy::Flow,
    );
    for (trace, place) in strands.into_iter().zip(places) {
        trace.colour = place;
    }
}

struct Bins {
    width_s: f64,
    count: usize,
}

impl Bins {
    fn cover(end_s: f64, most: usize) -> Self {
        let width_s = BIN_S.max(end_s / most as f64);
        Self { width_s, count: (end_s / width_s).ceil() as usize }
    }

    fn cut(&self, total_bytes: &Curve) -> Vec<u64> {
        let growth = total_bytes.increments(0.0, self.width_s, self.count);
        growth.into_iter().map(|bytes| bytes.round().max(0.0) as u64).collect()
    }

    /// The newest sample at the end of each bin.
    fn newest(&self, sampled: &Curve) -> Vec<Option<u64>> {
        let last_s = sampled.span_s().map_or(0.0, |(_, last)| last);
        let at_end = |bin: usize| {
            let end_s = self.width_s * (bin + 1) as f64;
            let after = sampled.time_s.partition_point(|time_s| *time_s <= end_s);
            let over = end_s - self.width_s > last_s;
            if over { None } else { Some(sampled.value[after.checked_sub(1)?].round() as u64) }
        };
        (0..self.count).map(at_end).collect()
    }
}

fn hop_strands(flow: &FlowSummary, named: bool, series: &Series, bins: &Bins) -> Vec<Trace> {
    let name = if named { format!("{}: ", flow.name) } else { String::new() };
    let strand = |hop: &record::HopSummary| {
        let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
        let acked = series.curve(&entity, Quantity::AckedBytes)?;
        let end = hop.bytes.map(|bytes| (flow.end_s, bytes as f64));
        let control = hop.congestion_control.as_ref().map(|name| format!(" ({name})"));
        let control = control.unwrap_or_default();
        let stream = if hop.stream > 0 { format!(" #{}", hop.stream + 1) } else { String::new() };
        let delivered = series.curve(&entity, Quantity::DeliveredBytes);
        let delivered = delivered.and_then(|curve| whole(curve, flow.start_s, None));
        Some(Trace {
            label: format!("{name}{} → {}{control}{stream}", hop.from, hop.to),
            client: flow.client.clone(),
            of: flow.name.clone(),
            algorithm: palette::algorithms(hop.congestion_control.as_deref().into_iter()),
            colour: 0,
            start_s: flow.start_s,
            bytes: bins.cut(&whole(acked, flow.start_s, end)?),
            delivered: delivered.map(|curve| bins.cut(&curve)),
            cwnd: series.curve(&entity, Quantity::CwndSegments).map(|curve| bins.newest(curve)),
        })
    };
    flow.hops.iter().filter_map(strand).collect()
}

fn flow_strand(flow: &FlowSummary, series: &Series, bins: &Bins) -> Option<Trace> {
    let received = series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes)?;
    let end = Some((flow.end_s, flow.bytes as f64));
    Some(Trace {
        label: flow.name.clone(),
        client: flow.client.clone(),
        of: flow.name.clone(),
        algorithm: String::new(),
        colour: 0,
        start_s: flow.start_s,
        bytes: bins.cut(&whole(received, flow.start_s, end)?),
        delivered: None,
        cwnd: None,
    })
}

/// A running total from its zero to its end, of which sampling misses the first and last moments.
fn whole(sampled: &Curve, start_s: f64, end: Option<(f64, f64)>) -> Option<Curve> {
    let (first, last) = sampled.span_s()?;
    let interval = sampled.time_s.get(1).map_or(0.0, |second| second - first);
    let mut total = Curve::default();
    total.push((first - interval).max(start_s).min(first), 0.0);
    for (time_s, value) in sampled.time_s.iter().zip(&sampled.value) {
        total.push(*time_s, *value);
    }
    if let Some((end_s, bytes)) = end
        && end_s >= last
    {
        total.push(end_s, bytes.max(total.value.last().copied()?));
    }
    Some(total)
}

/// Of the links that carried most, the direction that carried more, in the scenario's order.
fn busy_links(summary: &Summary) -> Vec<&LinkSummary> {
    let mut most: BTreeMap<&str, &LinkSummary> = BTreeMap::new();
    for link in summary.links.iter().filter(|link| link.bytes > 0) {
        let known = most.entry(&link.name).or_insert(link);
        if link.bytes > known.bytes {
            *known = link;
        }
    }
    let chosen = |link: &&LinkSummary| most.get(link.name.as_str()).is_some_and(|m| m == link);
    let mut busiest: Vec<_> = summary.links.iter().filter(chosen).enumerate().collect();
    busiest.sort_by_key(|(_, link)| Reverse(link.bytes));
    busiest.truncate(MOST_LINKS);
    busiest.sort_by_key(|(place, _)| *place);
    busiest.into_iter().map(|(_, link)| link).collect()
}

fn link_strand(link: &LinkSummary, series: &Series, bins: &Bins) -> Option<Trace> {
    let entity = Entity::parse(&format!("link:{}/{}", link.name, link.direction))?;
    let rates = series.curve(&entity, Quantity::ThroughputBps)?;
    let width = rates.time_s.get(1)? - rates.time_s.first()?;
    let mut total = Curve::default();
    let mut bytes = 0.0;
    for (time_s, bps) in rates.time_s.iter().zip(&rates.value) {
        total.push(*time_s, bytes);
        bytes += bps * width / 8.0;
    }
    total.push(rates.time_s.last()? + width, bytes);
    Some(Trace {
        label: link.name.clone(),
        client: None,
        of: link.name.clone(),
        algorithm: String::new(),
        colour: 0,
        start_s: 0.0,
        bytes: bins.cut(&total),
        delivered: None,
        cwnd: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(hops: usize) -> FlowSummary {
        let hop = |index| record::HopSummary {
            index: index as u32,
            from: format!("n{index}"),
            to: format!("n{}", index + 1),
            bytes: Some(1000),
            ..Default::default()
        };
        FlowSummary {
            name: "f".into(),
            bytes: 1000,
            end_s: 1.0,
            hops: (0..hops).map(hop).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn every_byte_of_a_hop_is_in_some_bin() {
        let mut series = Series::default();
        let hop = Entity::Hop { flow: "f".into(), index: 0 };
        for (time_s, bytes) in [(0.25, 100.0), (0.5, 600.0), (0.75, 900.0)] {
            series.push(&hop, Quantity::AckedBytes, time_s, bytes);
        }
        let summary = Summary { flows: vec![flow(1)], ..Default::default() };
        let traces = Traces::new(&summary, &series, MOST_BINS);
        assert_eq!(traces.strands[0].label, "n0 → n1");
        assert_eq!(traces.strands[0].bytes.len(), 10);
        assert_eq!(traces.strands[0].bytes.iter().sum::<u64>(), 1000);
        // From 0.3 s to 0.4 s: 0.1 of 0.25 s at 500 bytes.
        assert_eq!(traces.strands[0].bytes[3], 200);
    }

    #[test]
    fn each_flow_has_a_colour_and_its_hops_share_it() {
        let mut series = Series::default();
        let mut flows = vec![flow(2), flow(1), flow(1)];
        for (flow, (name, control)) in
            flows.iter_mut().zip([("a", "cubic"), ("b", "cubic"), ("c", "lh_bbr")])
        {
            flow.name = name.into();
            for hop in &mut flow.hops {
                hop.congestion_control = Some(control.into());
                let entity = Entity::Hop { flow: name.into(), index: hop.index };
                series.push(&entity, Quantity::AckedBytes, 0.5, 100.0);
            }
        }
        let summary = Summary { flows, ..Default::default() };
        let mut runs = [Traces::new(&summary, &series, MOST_BINS)];
        colour(runs.iter_mut());
        let colours: Vec<usize> = runs[0].strands.iter().map(|strand| strand.colour).collect();
        let [cubic, bbr] = [0, 2];
        assert_eq!((colours[0], colours[1], colours[3]), (cubic, cubic, bbr));
        assert!(colours[2] != cubic && colours[2] != bbr, "{colours:?}");

        // In another run the same flows have other congestion controls, and their colours.
        let [mut first] = runs;
        let mut second = Traces::new(&summary, &series, MOST_BINS);
        for (strand, control) in second.strands.iter_mut().zip(["bbr", "bbr", "reno", "cubic"]) {
            control.clone_into(&mut strand.algorithm);
        }
        colour([&mut first, &mut second].into_iter());
        let again: Vec<usize> = second.strands.iter().map(|strand| strand.colour).collect();
        assert_eq!(again, colours);
    }

    #[test]
    fn a_long_run_has_wider_bins() {
        let bins = Bins::cover(4000.0, MOST_BINS);
        assert_eq!((bins.width_s, bins.count), (10.0, 400));
        let run = Summary { flows: vec![flow(3); 8], ..Default::default() };
        assert_eq!(most_bins([&run].into_iter()), 400);
        assert_eq!(most_bins(vec![&run; 50].into_iter()), 125, "of 1200 lines");
        assert_eq!(most_bins(vec![&run; 5000].into_iter()), 100);
        assert_eq!(Bins::cover(0.0, MOST_BINS).count, 0);
    }

    #[test]
    fn a_window_is_the_newest_sample_of_its_bin_and_none_outside() {
        let mut series = Series::default();
        let hop = Entity::Hop { flow: "f".into(), index: 0 };
        for (time_s, segments) in [(0.25, 10.0), (0.28, 12.0), (0.55, 20.0), (0.65, 7.0)] {
            series.push(&hop, Quantity::AckedBytes, time_s, 0.0);
            series.push(&hop, Quantity::CwndSegments, time_s, segments);
        }
        let summary = Summary { flows: vec![flow(1)], ..Default::default() };
        let traces = Traces::new(&summary, &series, MOST_BINS);
        let expected = [None, None, Some(12), Some(12), Some(12), Some(20), Some(7)];
        let cwnd = traces.strands[0].cwnd.as_ref().unwrap();
        assert_eq!(cwnd[..7], expected);
        assert_eq!(cwnd[7..], [None; 3]);
    }

    #[test]
    fn many_connections_are_shown_as_busiest_links() {
        let mut series = Series::default();
        let links: Vec<LinkSummary> = (0..20)
            .map(|n| {
                let name = format!("link{n}");
                let link = Entity::parse(&format!("link:{name}/forward")).unwrap();
                for bin in 0..4 {
                    series.push(&link, Quantity::ThroughputBps, f64::from(bin) * 0.25, 800.0);
                }
                let direction = "forward".into();
                LinkSummary { name, direction, bytes: 100 + n / 19, ..Default::default() }
            })
            .collect();
        let flows = vec![flow(1); MOST_HOPS + 1];
        let traces =
            Traces::new(&Summary { flows, links, ..Default::default() }, &series, MOST_BINS);
        let labels: Vec<&str> = traces.strands.iter().map(|s| s.label.as_str()).collect();
        let busiest = [0, 1, 2, 3, 4, 5, 6, 19].map(|n| format!("link{n}"));
        assert_eq!(labels, busiest, "the last carried most, the others the same");
    }

    #[test]
    fn links_stand_in_where_nothing_else_was_sampled() {
        let mut series = Series::default();
        let link = Entity::parse("link:haul/backward").unwrap();
        for bin in 0..4 {
            series.push(&link, Quantity::ThroughputBps, f64::from(bin) * 0.25, 800.0);
        }
        let links = [("forward", 3), ("backward", 100)].map(|(direction, bytes)| LinkSummary {
            name: "haul".into(),
            direction: direction.into(),
            bytes,
            ..Default::default()
        });
        let summary = Summary { flows: vec![flow(1)], links: links.into(), ..Default::default() };
        let traces = Traces::new(&summary, &series, MOST_BINS);
        assert_eq!(traces.strands.len(), 1);
        assert_eq!(traces.strands[0].bytes, [10; 10]);
    }
}
