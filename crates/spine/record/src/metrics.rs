// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of Guillier's two tables ("Méthodologies et outils pour l'évaluation des protocoles
//! de transport", 2009), computed from a run's flows, links and series.
//!
//! `docs/metrics.md` has each key's definition, source and limits. Values that the data of one run
//! cannot give are null; nothing is estimated instead. Metrics of a network provider (loss,
//! utilisation, queueing delay) are those of the link direction where they are worst; the others'
//! are in the summary's `links`.

mod bins;
mod convergence;
mod delay;
mod fairness;
mod reaction;
mod robustness;
mod slow_start;

pub use convergence::{convergence_rtts, delta_fair_convergence_bins};
pub use fairness::{alpha_fairness, jain_index, max_min_fairness, stream_rates_bps};
pub use reaction::{
    SampledSender, aggressiveness_bps, average_responsiveness_bins, responsiveness_rtts,
    smoothness_bps,
};
pub use robustness::{
    PathState, completion_distance, completion_times_s, kolmogorov_smirnov, performability,
};

use crate::{
    Curve, Direction, Entity, FlowSummary, HopSummary, LinkSummary, OfferedFiles, Quantity, Series,
    TrafficSummary, goodput_bps, stats,
};
use bins::{BIN_S, Bins, hop_curve};
use convergence::DeltaFairConvergence;
use delay::RoundTrips;
use robustness::PathBins;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Alpha of the alpha-fairness reported: minimum potential delay.
const ALPHA: f64 = 2.0;

/// The metrics of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Content delivered by all flows that are compared over the time in which any was active, in bits a second.
    pub goodput_bps: Option<f64>,
    /// Rate of the busiest link direction over the same time, including headers and retransmissions.
    pub throughput_bps: Option<f64>,
    /// Goodput over what the link carried of the flows that are compared.
    pub efficiency: Option<f64>,
    /// The used share of the most used link direction's rate.
    pub utilisation: Option<f64>,
    /// Coefficient of variation of all flows' goodput over bins of one second.
    pub goodput_cov: Option<f64>,
    /// Coefficient of variation of the busiest link direction's throughput over bins of one second.
    pub throughput_cov: Option<f64>,
    /// Mean duration of the flows that completed, in seconds.
    pub completion_mean_s: Option<f64>,
    /// Standard deviation of those durations, in seconds.
    pub completion_deviation_s: Option<f64>,
    /// Lost and refused segments over those offered, on the link direction where that is largest.
    pub loss_ratio: Option<f64>,
    /// Packets dropped at full queues, all links together.
    #[serde(default)]
    pub drops: Option<u64>,
    /// Of those, dropped after the slow start of every sender; null where one has no slow start whose end shows.
    #[serde(default)]
    pub drops_after_start: Option<u64>,
    /// Mean queueing delay of the link direction where it is largest, in microseconds.
    pub queueing_delay_us: Option<f64>,
    /// 99th percentile of the queueing delay over time, where it is largest, in microseconds.
    pub queueing_delay_p99_us: Option<f64>,
    /// Retransmission timeouts of all flows.
    pub timeouts: Option<u64>,
    /// Segments sent again by all flows.
    pub retransmits: Option<u64>,
    /// Jain's index of the flows' goodputs.
    pub jain_index: Option<f64>,
    /// Jain's index of the goodputs of all flows' parallel streams.
    pub jain_index_streams: Option<f64>,
    /// Smallest goodput over the mean.
    pub max_min_fairness: Option<f64>,
    /// Geometric over arithmetic mean of the goodputs.
    pub proportional_fairness: Option<f64>,
    /// Alpha-fairness of the goodputs, with alpha 2.
    pub alpha_fairness: Option<f64>,
    /// From a flow's joining others to fair shares within 10 %, seconds; the slowest of the joins.
    pub delta_fair_convergence_s: Option<f64>,
    /// Round trips of lasting congestion until a rate has halved; the slowest flow's.
    pub responsiveness_rtts: Option<f64>,
    /// After the last flow's start, until the senders' sum stays within 10 % of its mean, seconds.
    pub average_responsiveness_s: Option<f64>,
    /// Round trips to a window of 80 % of the bandwidth-delay product; the slowest flow's.
    pub convergence_rtts: Option<f64>,
    /// Share of the time in which goodput was at least 80 % of the capacity.
    pub performability: Option<f64>,
    /// Kolmogorov-Smirnov statistic between goodput when undisturbed and when disturbed.
    pub kolmogorov_smirnov: Option<f64>,
    /// Files that traffic offered; null without such traffic.
    #[serde(default)]
    pub files_offered: Option<u64>,
    /// Of those, the ones that arrived whole.
    #[serde(default)]
    pub files_completed: Option<u64>,
    /// Mean time from a client's start until it had traffic's file, over all that arrived whole.
    #[serde(default)]
    pub file_completion_mean_s: Option<f64>,
    /// The median of these times.
    #[serde(default)]
    pub file_completion_p50_s: Option<f64>,
    /// The time that 99 in a hundred of them do not exceed.
    #[serde(default)]
    pub file_completion_p99_s: Option<f64>,
    /// Goodput of all traffic in bit/s over the time in which any source could send; null without traffic.
    #[serde(default)]
    pub traffic_goodput_bps: Option<f64>,
    /// Processor time of the machine that emulated the run, in seconds for each gigabit of content of flows and
    /// traffic; null by other methods.
    #[serde(default)]
    pub cpu_per_gbit_s: Option<f64>,
    /// The states of the path from which these two are computed.
    #[serde(default)]
    pub path_states: Vec<PathState>,
    /// Those that belong to one flow.
    pub flows: Vec<FlowMetrics>,
}

/// The metrics of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowMetrics {
    /// The flow's name.
    pub name: String,
    /// Smallest round trip of the flow's hop with the longest mean one, in microseconds.
    pub rtt_min_us: Option<f64>,
    /// Mean smoothed round trip of that hop.
    pub rtt_mean_us: Option<f64>,
    /// Its median.
    pub rtt_median_us: Option<f64>,
    /// Its 99th percentile.
    pub rtt_p99_us: Option<f64>,
    /// Mean congestion window of that hop, in segments.
    pub cwnd_mean_segments: Option<f64>,
    /// Standard deviation of that window, in segments.
    pub cwnd_deviation_segments: Option<f64>,
    /// Standard deviation of the goodput over bins of one second, in bits a second.
    pub goodput_deviation_bps: Option<f64>,
    /// That deviation over the mean.
    pub goodput_cov: Option<f64>,
    /// The greatest rise of a hop's rate within one of its round trips, over the flow's hops.
    pub aggressiveness_bps: Option<f64>,
    /// The greatest fall of a hop's rate within one of its round trips, over the flow's hops.
    pub smoothness_bps: Option<f64>,
    /// Round trips of lasting congestion until the rate has halved; the slowest hop's.
    pub responsiveness_rtts: Option<f64>,
    /// Round trips to a window of 80 % of the bandwidth-delay product; the slowest hop's.
    pub convergence_rtts: Option<f64>,
    /// From the flow's joining others to fair shares within 10 %, in seconds.
    pub delta_fair_convergence_s: Option<f64>,
}

impl Metrics {
    /// Computes what the run's data can give, in time that grows with the samples and the flows. Reverse flows
    /// have metrics of their own and are in none of the run's but those of links.
    pub fn compute(all: &[FlowSummary], links: &[LinkSummary], series: &Series) -> Self {
        let flows: Vec<FlowSummary> = all.iter().filter(|flow| !flow.reverse).cloned().collect();
        let flows = flows.as_slice();
        let goodputs: Vec<f64> = flows.iter().filter_map(|flow| flow.goodput_bps).collect();
        let streams: Option<Vec<Vec<f64>>> = flows.iter().map(stream_rates_bps).collect();
        let durations = completion_times_s(flows);
        let delta_fair = DeltaFairConvergence::of(flows, series);
        let compared: Vec<FlowMetrics> = flows
            .iter()
            .zip(&delta_fair.flows_s)
            .map(|(flow, seconds)| FlowMetrics {
                delta_fair_convergence_s: *seconds,
                ..FlowMetrics::compute(flow, series)
            })
            .collect();
        Self {
            completion_mean_s: stats::mean(&durations),
            completion_deviation_s: stats::deviation(&durations),
            timeouts: total(flows, |flow| flow.timeouts),
            retransmits: total(flows, |flow| flow.retransmits),
            drops: slow_start::drops(series),
            drops_after_start: slow_start::drops_after_start(all, series),
            jain_index: jain_index(&goodputs),
            jain_index_streams: streams.and_then(|streams| jain_index(&streams.concat())),
            max_min_fairness: max_min_fairness(&goodputs),
            proportional_fairness: alpha_fairness(&goodputs, 1.0),
            alpha_fairness: alpha_fairness(&goodputs, ALPHA),
            delta_fair_convergence_s: delta_fair.slowest_s,
            responsiveness_rtts: largest(&compared, |flow| flow.responsiveness_rtts),
            average_responsiveness_s: average_responsiveness_s(flows, series),
            convergence_rtts: largest(&compared, |flow| flow.convergence_rtts),
            flows: in_order(all, compared, series),
            ..Self::default()
        }
        .of_links(links, series, active_s(flows))
        .over_time(flows, links, series, shared_link(all, links))
    }

    /// Adds what traffic did.
    #[must_use]
    pub fn with_traffic(self, traffic: &[TrafficSummary], files: &OfferedFiles) -> Self {
        let of_files = || traffic.iter().filter(|source| source.files_offered.is_some());
        let sum = |of: fn(&TrafficSummary) -> Option<u64>| of_files().map(of).sum::<Option<u64>>();
        let any = of_files().next().is_some();
        let files_completed = sum(|source| source.files_completed).filter(|_| any);
        let times_s: f64 = of_files()
            .filter_map(|source| Some(source.completion_mean_s? * source.files_completed? as f64))
            .sum();
        let completed = files_completed.filter(|files| *files > 0);
        let times = OfferedFiles::completion_times_s(&files.rows);
        let start_s = traffic.iter().map(|source| source.start_s).fold(f64::INFINITY, f64::min);
        let seconds = traffic.iter().map(|source| source.end_s).fold(0.0, f64::max) - start_s;
        let bytes = traffic.iter().map(|source| source.bytes).sum();
        Self {
            files_offered: sum(|source| source.files_offered).filter(|_| any),
            files_completed,
            file_completion_mean_s: completed.map(|files| times_s / files as f64),
            file_completion_p50_s: stats::quantile(&times, 0.5),
            file_completion_p99_s: stats::quantile(&times, 0.99),
            traffic_goodput_bps: (seconds > 0.0).then(|| goodput_bps(bytes, seconds)),
            ..self
        }
    }

    /// Adds what the run cost the machine that emulated it: `busy_s` of processors for that content.
    #[must_use]
    pub fn with_processor_time(self, busy_s: Option<f64>, content_bytes: u64) -> Self {
        let gigabits = content_bytes as f64 * 8.0 / 1e9;
        let cpu_per_gbit_s = busy_s.filter(|_| content_bytes > 0).map(|busy_s| busy_s / gigabits);
        Self { cpu_per_gbit_s, ..self }
    }

    /// Adds what belongs to the network.
    fn of_links(
        mut self,
        links: &[LinkSummary],
        series: &Series,
        active_s: Option<Range<f64>>,
    ) -> Self {
        self.utilisation = largest(links, |link| link.utilisation);
        self.loss_ratio = largest(links, LinkSummary::loss_ratio);
        self.queueing_delay_us = largest(links, |link| link.queue_mean_delay_us);
        self.queueing_delay_p99_us = active_s
            .and_then(|active| largest(links, |link| queueing_delay_p99_us(link, series, &active)));
        self
    }

    /// Adds what is taken over the time from the first flow's start to the last one's end.
    fn over_time(
        mut self,
        flows: &[FlowSummary],
        links: &[LinkSummary],
        series: &Series,
        shared: Option<&LinkSummary>,
    ) -> Self {
        let Some(active) = active_s(flows) else { return self };
        let over = |bytes: u64| goodput_bps(bytes, active.end - active.start);
        let busiest = links.iter().max_by_key(|link| link.bytes);
        self.goodput_bps = Some(over(flows.iter().map(|flow| flow.bytes).sum()));
        self.throughput_bps = busiest.map(|link| over(link.bytes));
        let of_flows = shared.map(|link| over(link.compared_bytes()));
        self.efficiency = efficiency(self.goodput_bps, of_flows);

        let bins = Bins::within(&active);
        self.throughput_cov = busiest
            .and_then(|link| link_curve(series, link, Quantity::ThroughputBps))
            .and_then(|curve| bins::link_throughput_bps(curve, bins))
            .and_then(|rates| cov(&rates));
        let goodput = bins::total_goodput_bps(flows, series, bins);
        self.goodput_cov = goodput.as_deref().and_then(cov);
        if let Some((goodput, disturbed)) = goodput.zip(bins::disturbed_bins(flows, series, bins)) {
            let bins = PathBins::new(&goodput, &disturbed);
            // As with the efficiency: flows beyond that link have nothing to do with its rate.
            let capacity = shared.and_then(|link| link.rate_bps).filter(|bps| *bps > 0);
            let capacity = capacity.filter(|_| self.efficiency.is_some());
            self.path_states = bins.states(capacity.map(|bps| bps as f64));
            self.performability = robustness::states_performability(&self.path_states);
            self.kolmogorov_smirnov = bins.distance();
        }
        self
    }
}

impl FlowMetrics {
    fn compute(flow: &FlowSummary, series: &Series) -> Self {
        let bins = Bins::within(&(flow.start_s..flow.start_s + flow.seconds.unwrap_or(0.0)));
        let rates = bins::goodput_bps(flow, series, bins).filter(|rates| rates.len() > 1);
        let longest = longest_hop(flow, series);
        let round_trips = longest.map(|(_, round_trips)| round_trips);
        let windows = longest
            .and_then(|(hop, _)| hop_curve(series, flow, hop, Quantity::CwndSegments))
            .map(|curve| curve.value.as_slice());
        Self {
            name: flow.name.clone(),
            rtt_min_us: longest.and_then(|(hop, _)| hop.min_rtt_us),
            rtt_mean_us: round_trips.map(|rtt| rtt.mean_us),
            rtt_median_us: round_trips.map(|rtt| rtt.median_us),
            rtt_p99_us: round_trips.map(|rtt| rtt.p99_us),
            cwnd_mean_segments: windows.and_then(stats::mean),
            cwnd_deviation_segments: windows.and_then(stats::deviation),
            goodput_deviation_bps: rates.as_deref().and_then(stats::deviation),
            goodput_cov: rates.as_deref().and_then(cov),
            aggressiveness_bps: over_hops(flow, series, aggressiveness_bps),
            smoothness_bps: over_hops(flow, series, smoothness_bps),
            responsiveness_rtts: largest(&flow.hops, |hop| responsiveness(flow, hop, series)),
            convergence_rtts: convergence(flow, series),
            delta_fair_convergence_s: None,
        }
    }
}

/// From the first flow's start to the last one's end.
fn active_s(flows: &[FlowSummary]) -> Option<Range<f64>> {
    let start = flows.iter().map(|flow| flow.start_s).reduce(f64::min)?;
    let end = flows.iter().map(|flow| flow.end_s).reduce(f64::max)?;
    (end > start).then_some(start..end)
}

/// The metrics of all flows: those of the ones that are compared, and between them those of reverse ones.
fn in_order(all: &[FlowSummary], compared: Vec<FlowMetrics>, series: &Series) -> Vec<FlowMetrics> {
    let mut compared = compared.into_iter();
    let of_flow = |flow: &FlowSummary| {
        if flow.reverse {
            FlowMetrics::compute(flow, series)
        } else {
            compared.next().expect("one for each that is not reverse")
        }
    };
    all.iter().map(of_flow).collect()
}

/// The link direction that carried most of the flows that are compared; `None` where reverse flows are not
/// counted apart from them.
fn shared_link<'l>(all: &[FlowSummary], links: &'l [LinkSummary]) -> Option<&'l LinkSummary> {
    let is_apart = links.iter().all(|link| link.background_bytes.is_some());
    let busiest = links.iter().max_by_key(|link| link.compared_bytes());
    busiest.filter(|_| is_apart || !all.iter().any(|flow| flow.reverse))
}

/// A goodput above what a link carried of the flows means that the flows do not share that link, and
/// then the two have nothing to do with one another.
fn efficiency(goodput: Option<f64>, carried: Option<f64>) -> Option<f64> {
    let (goodput, carried) = goodput.zip(carried)?;
    (carried > 0.0 && goodput <= carried).then(|| goodput / carried)
}

/// The largest of the figures that are known.
fn largest<T>(all: &[T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    all.iter().filter_map(of).reduce(f64::max)
}

/// The sum over flows; null when one of them is not known.
fn total(flows: &[FlowSummary], of: impl Fn(&FlowSummary) -> Option<u64>) -> Option<u64> {
    flows.iter().map(of).sum()
}

/// Coefficient of variation; null below two bins, or when nothing moved.
fn cov(rates: &[f64]) -> Option<f64> {
    let mean = stats::mean(rates).filter(|mean| *mean > 0.0 && rates.len() > 1)?;
    Some(stats::deviation(rates)? / mean)
}

fn link_curve<'a>(series: &'a Series, link: &LinkSummary, quantity: Quantity) -> Option<&'a Curve> {
    let direction = match link.direction.as_str() {
        "forward" => Direction::Forward,
        "backward" => Direction::Backward,
        _ => return None,
    };
    series.curve(&Entity::Link { name: link.name.clone(), direction }, quantity)
}

fn queueing_delay_p99_us(
    link: &LinkSummary,
    series: &Series,
    active_s: &Range<f64>,
) -> Option<f64> {
    let queue = link_curve(series, link, Quantity::QueueBytes)?;
    let from = queue.time_s.partition_point(|t| *t < active_s.start);
    let to = queue.time_s.partition_point(|t| *t <= active_s.end);
    delay::queueing_delay_p99_us(&queue.value[from..to], link.rate_bps?)
}

/// The largest figure over the hops of a flow.
fn over_hops(
    flow: &FlowSummary,
    series: &Series,
    of: impl Fn(&Curve, f64) -> Option<f64>,
) -> Option<f64> {
    largest(&flow.hops, |hop| {
        of(hop_curve(series, flow, hop, Quantity::AckedBytes)?, hop.min_rtt_us? / 1e6)
    })
}

/// The hop with the longest mean round trip: what the flow waits for.
fn longest_hop<'a>(flow: &'a FlowSummary, series: &Series) -> Option<(&'a HopSummary, RoundTrips)> {
    let hops = flow.hops.iter().filter_map(|hop| {
        Some((hop, RoundTrips::of(hop_curve(series, flow, hop, Quantity::SrttUs)?)?))
    });
    hops.max_by(|(_, a), (_, b)| a.mean_us.total_cmp(&b.mean_us))
}

fn responsiveness(flow: &FlowSummary, hop: &HopSummary, series: &Series) -> Option<f64> {
    let curve = |quantity| hop_curve(series, flow, hop, quantity);
    responsiveness_rtts(SampledSender {
        // The acknowledged bytes do not grow at a hole, which is not a reaction of the sender.
        delivered_bytes: curve(Quantity::DeliveredBytes).or_else(|| curve(Quantity::AckedBytes))?,
        retransmits: curve(Quantity::Retransmits)?,
        rtt_s: hop.min_rtt_us? / 1e6,
        end_s: flow.end_s,
    })
}

/// The slowest hop's; null when one whose bandwidth-delay product is known never gets there.
fn convergence(flow: &FlowSummary, series: &Series) -> Option<f64> {
    let each: Option<Vec<f64>> = flow
        .hops
        .iter()
        .filter_map(|hop| Some((hop, hop.bdp_segments()?, hop.base_rtt_us? / 1e6)))
        .map(|(hop, bdp_segments, rtt_s)| {
            let cwnd = hop_curve(series, flow, hop, Quantity::CwndSegments)?;
            convergence_rtts(cwnd, bdp_segments, rtt_s)
        })
        .collect();
    each?.into_iter().reduce(f64::max)
}

/// The last change of the load that adds to it is the last start; from there to the next end the
/// load stays as it is.
fn average_responsiveness_s(flows: &[FlowSummary], series: &Series) -> Option<f64> {
    let start = flows.iter().map(|flow| flow.start_s).reduce(f64::max)?;
    let ends = flows.iter().map(|flow| flow.end_s).filter(|end| *end > start);
    let bins = Bins::within(&(start..ends.reduce(f64::min)?));
    let rates = bins::total_sending_bps(flows, series, bins)?;
    average_responsiveness_bins(&rates).map(|bins| bins as f64 * BIN_S)
}
