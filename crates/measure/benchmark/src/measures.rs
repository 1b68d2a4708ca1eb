// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of one seed's runs, by cell. All are above zero, for geometric means: what may be zero has a least value, which is
//! said where it is.

use crate::{Task, outcomes::Cell, suite::COMMON};
use record::{FlowSummary, LinkSummary, OfferedFiles, metrics::jain_index, stats};
use std::collections::BTreeMap;

/// Below a millisecond, times do not differ for people.
const LEAST_S: f64 = 1e-3;
/// A bit a second.
const LEAST_BPS: f64 = 1.0;
/// One in a million.
const LEAST_SHARE: f64 = 1e-6;
/// How long a file of task `deadlines` may take.
const DEADLINE_S: f64 = 2.0;
/// For how long nothing passes in variant `outage`.
const OUTAGE_S: f64 = 2.0;
/// What the call sends.
const CALL_BPS: f64 = 1e6;

/// A candidate's runs under one seed.
pub(crate) struct Seen<'o> {
    pub task: &'static Task,
    /// All runs of the task's scenario.
    pub own: &'o [Cell],
    /// Those of the congestion control that is in common use.
    pub common: &'o [Cell],
}

type Values = BTreeMap<String, f64>;

impl Seen<'_> {
    /// A value of each of the task's cells, in which no other candidate is chosen.
    fn each(&self, value: impl Fn(&Cell) -> Option<f64>) -> Values {
        let own = self.own.iter().filter(|cell| self.task.is_about(cell.variant.as_deref()));
        own.filter_map(|cell| Some((cell.name(), value(cell)?))).collect()
    }
}

/// The only flow's time.
pub(crate) fn completion_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| cell.results.summary.flows.first()?.seconds)
}

pub(crate) fn completion_mean_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| stats::mean(&times_s(cell)))
}

pub(crate) fn deviation_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| stats::deviation(&times_s(cell)).map(|deviation| deviation.max(LEAST_S)))
}

/// Times of the flows that are compared; of one that was cut off, the time until then.
fn times_s(cell: &Cell) -> Vec<f64> {
    cell.results.summary.compared_flows().filter_map(|flow| flow.seconds).collect()
}

pub(crate) fn flows_spread(seen: &Seen<'_>) -> Values {
    seen.each(|cell| spread(&times_s(cell)))
}

fn spread(times: &[f64]) -> Option<f64> {
    Some(stats::quantile(times, 0.95)? / stats::quantile(times, 0.5)?)
}

pub(crate) fn fairness(seen: &Seen<'_>) -> Values {
    seen.each(|cell| cell.results.summary.metrics.jain_index)
}

pub(crate) fn smallest_part(seen: &Seen<'_>) -> Values {
    seen.each(|cell| cell.results.summary.metrics.max_min_fairness.map(|it| it.max(LEAST_S)))
}

/// Goodput over the bottleneck's rate, as in paper 004's benchmark.
pub(crate) fn bottleneck_share(seen: &Seen<'_>) -> Values {
    seen.each(|cell| {
        let rate = bottleneck(cell)?.rate_bps? as f64;
        Some(cell.results.summary.metrics.goodput_bps? / rate)
    })
}

pub(crate) fn bottleneck_use(seen: &Seen<'_>) -> Values {
    seen.each(|cell| bottleneck(cell)?.utilisation)
}

/// Of what traffic's sources have delivered.
pub(crate) fn sources_fairness(seen: &Seen<'_>) -> Values {
    let bytes = |cell: &Cell| -> Vec<f64> {
        cell.results.summary.traffic.iter().map(|source| source.bytes as f64).collect()
    };
    seen.each(|cell| jain_index(&bytes(cell)))
}

fn bottleneck(cell: &Cell) -> Option<&LinkSummary> {
    let is_it = |link: &&LinkSummary| link.name == "bottleneck" && link.direction == "forward";
    cell.results.summary.links.iter().find(is_it)
}

pub(crate) fn loss_ratio(seen: &Seen<'_>) -> Values {
    seen.each(|cell| cell.results.summary.metrics.loss_ratio.map(|it| it.max(LEAST_SHARE)))
}

pub(crate) fn queueing_p99_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| {
        let us = cell.results.summary.metrics.queueing_delay_p99_us?;
        Some((us / 1e6).max(LEAST_S))
    })
}

/// Times of files that arrived. Those that the end cut off are left out, for all candidates alike.
fn file_times_s(cell: &Cell) -> Vec<f64> {
    OfferedFiles::completion_times_s(&cell.files.rows)
}

pub(crate) fn file_mean_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| stats::mean(&file_times_s(cell)))
}

pub(crate) fn files_spread(seen: &Seen<'_>) -> Values {
    seen.each(|cell| spread(&file_times_s(cell)))
}

pub(crate) fn files_p50_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| stats::quantile(&file_times_s(cell), 0.5))
}

pub(crate) fn files_p99_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| stats::quantile(&file_times_s(cell), 0.99))
}

/// Of the files that could have been in time, how many were.
pub(crate) fn in_time(seen: &Seen<'_>) -> Values {
    seen.each(|cell| {
        let end_s = cell.results.summary.traffic.first()?.end_s;
        let due = cell.files.rows.iter().filter(|file| file.start_s + DEADLINE_S <= end_s);
        let met = due.clone().filter(|file| file.completion_s.is_some_and(|it| it <= DEADLINE_S));
        let (met, due) = (met.count(), due.count());
        (due > 0).then(|| (met as f64 / due as f64).max(LEAST_S))
    })
}

pub(crate) fn bulk_goodput_bps(seen: &Seen<'_>) -> Values {
    // A transfer that gets nothing is bad, not missing.
    seen.each(|cell| cell.results.summary.flows.first()?.goodput_bps.map(|it| it.max(LEAST_BPS)))
}

/// Of the call's packets, how many arrive.
pub(crate) fn call_arrived(seen: &Seen<'_>) -> Values {
    seen.each(|cell| {
        let call = cell.results.summary.traffic.first()?;
        let sent = CALL_BPS / 8.0 * (call.end_s - call.start_s);
        (sent > 0.0).then(|| (call.bytes as f64 / sent).clamp(LEAST_S, 1.0))
    })
}

/// How much longer the file takes than without the outage, less the outage itself.
pub(crate) fn lost_beyond_outage_s(seen: &Seen<'_>) -> Values {
    let seconds = |cell: &Cell| cell.results.summary.flows.first()?.seconds;
    let plain = |cell: &&Cell| cell.variant.as_deref() == seen.task.beside;
    let without = seen.own.iter().find(plain).and_then(seconds);
    seen.each(|cell| Some((seconds(cell)? - without? - OUTAGE_S).max(LEAST_S)))
}

/// Emulated runs only.
pub(crate) fn cpu_per_gbit_s(seen: &Seen<'_>) -> Values {
    seen.each(|cell| cell.results.summary.metrics.cpu_per_gbit_s)
}

fn flow<'c>(cell: &'c Cell, name: &str) -> Option<&'c FlowSummary> {
    cell.results.summary.flows.iter().find(|flow| flow.name == name)
}

/// What the other one keeps of what it has alone, where that is a certain candidate: 1 less its harm (Ware et al. 2019).
pub(crate) fn kept(cells: &[Cell], other: &str) -> Values {
    let of_other = || cells.iter().filter(|cell| cell.other.as_deref() == Some(other));
    let both = of_other().filter(|cell| cell.variant.as_deref() == Some("two"));
    let share = |cell: &Cell| {
        let is_it = |it: &&Cell| it.variant.as_deref() == Some("alone") && it.point == cell.point;
        let goodput = |cell: &Cell| flow(cell, "other")?.goodput_bps;
        Some((goodput(cell)? / goodput(of_other().find(is_it)?)?).max(LEAST_S))
    };
    both.filter_map(|cell| Some((cell.name(), share(cell)?))).collect()
}

pub(crate) fn cubic_keeps(seen: &Seen<'_>) -> Values {
    kept(seen.own, COMMON)
}

/// Above 1: it harms CUBIC less than CUBIC does.
pub(crate) fn cubic_keeps_of_own(seen: &Seen<'_>) -> Values {
    let usual = kept(seen.common, COMMON);
    let own = cubic_keeps(seen).into_iter();
    own.filter_map(|(cell, kept)| Some((cell.clone(), kept / usual.get(&cell)?))).collect()
}

/// What it gets beside CUBIC, of both together.
pub(crate) fn own_part(seen: &Seen<'_>) -> Values {
    let beside_common = seen.own.iter().filter(|cell| cell.other.as_deref() == Some(COMMON));
    let both = beside_common.filter(|cell| seen.task.is_about(cell.variant.as_deref()));
    let part = |cell: &Cell| {
        let (own, other) = (flow(cell, "own1")?.goodput_bps?, flow(cell, "other")?.goodput_bps?);
        Some((own / (own + other)).max(LEAST_S))
    };
    both.filter_map(|cell| Some((cell.name(), part(cell)?))).collect()
}
