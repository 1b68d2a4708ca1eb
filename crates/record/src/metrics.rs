// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of Guillier's two tables ("Méthodologies et outils pour l'évaluation des protocoles
//! de transport", 2009), computed from a run's flows, links and series.
//!
//! Each key's definition, source and limits stand in `docs/metrics.md`. What the data of one run
//! cannot give is null; nothing is estimated in its place. Metrics of a network provider (loss,
//! utilisation, queueing delay) are those of the link direction where they are worst; the others'
//! are in the summary's `links`.

mod distribution;
mod fairness;
mod reaction;

pub use distribution::kolmogorov_smirnov;
pub use fairness::{alpha_fair, jain, max_min};
pub use reaction::{
    aggressiveness_bps, convergence_rtts, delta_fair_convergence_bins, responsiveness_rtts,
    smoothness_bps,
};

use crate::{Entity, FlowSummary, LinkSummary, Quantity, Series, stats};
use serde::{Deserialize, Serialize};

/// The width of the bins over which goodput is averaged before its variation is taken, in seconds.
const BIN_S: f64 = 1.0;
/// Alpha of the alpha-fairness reported: minimum potential delay.
const ALPHA: f64 = 2.0;
/// How far from even two flows may be when they count as fair.
const DELTA: f64 = 0.1;

/// The metrics of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Content delivered by all flows over the time in which any was active, in bits a second.
    pub goodput_bps: Option<f64>,
    /// What the busiest link direction carried over the same time, headers and repeats included.
    pub throughput_bps: Option<f64>,
    /// Goodput over throughput.
    pub efficiency: Option<f64>,
    /// The used share of the most used link direction's rate.
    pub utilisation: Option<f64>,
    /// Mean duration of the flows that completed, in seconds.
    pub completion_mean_s: Option<f64>,
    /// Standard deviation of those durations, in seconds.
    pub completion_deviation_s: Option<f64>,
    /// Lost and refused segments over those offered, on the link direction where that is largest.
    pub loss_ratio: Option<f64>,
    /// Mean queueing delay of the link direction where it is largest, in microseconds.
    pub queueing_delay_us: Option<f64>,
    /// Retransmission timeouts of all flows.
    pub timeouts: Option<u64>,
    /// Segments sent again by all flows.
    pub retransmits: Option<u64>,
    /// Jain's index of the flows' goodputs.
    pub jain_index: Option<f64>,
    /// Smallest goodput over the mean.
    pub max_min_fairness: Option<f64>,
    /// Geometric over arithmetic mean of the goodputs.
    pub proportional_fairness: Option<f64>,
    /// Alpha-fairness of the goodputs, with alpha 2.
    pub alpha_fairness: Option<f64>,
    /// Of a run with two flows: from the later one's start to a fair share within 10 %, seconds.
    pub delta_fair_convergence_s: Option<f64>,
    /// Not computed yet: needs the onset of congestion.
    pub responsiveness_rtts: Option<f64>,
    /// Not computed yet: needs the bandwidth-delay product of each hop.
    pub convergence_rtts: Option<f64>,
    /// Not computed yet: needs a model of the states a network may degrade to.
    pub performability: Option<f64>,
    /// Not computed for one run: it compares two.
    pub kolmogorov_smirnov: Option<f64>,
    /// Those that belong to one flow.
    pub flows: Vec<FlowMetrics>,
}

/// The metrics of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowMetrics {
    /// The flow's name.
    pub name: String,
    /// Standard deviation of the goodput over bins of one second, in bits a second.
    pub goodput_deviation_bps: Option<f64>,
    /// That deviation over the mean.
    pub goodput_cov: Option<f64>,
    /// The greatest rise of a hop's rate within one of its round trips, over the flow's hops.
    pub aggressiveness_bps: Option<f64>,
    /// The greatest fall of a hop's rate within one of its round trips, over the flow's hops.
    pub smoothness_bps: Option<f64>,
}

impl Metrics {
    /// Computes what the run's data can give.
    pub fn compute(flows: &[FlowSummary], links: &[LinkSummary], series: &Series) -> Self {
        let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_bps).collect();
        let durations: Vec<f64> =
            flows.iter().filter(|flow| complete(flow)).map(|flow| flow.seconds).collect();
        let seconds = active_s(flows);
        let over_time = |bytes: u64| seconds.map(|seconds| bytes as f64 * 8.0 / seconds);
        let goodput_bps = over_time(flows.iter().map(|flow| flow.bytes).sum());
        let throughput_bps = links.iter().map(|link| link.bytes).max().and_then(over_time);
        Self {
            goodput_bps,
            throughput_bps,
            efficiency: efficiency(goodput_bps, throughput_bps),
            utilisation: largest(links, |link| link.utilisation),
            completion_mean_s: stats::mean(&durations),
            completion_deviation_s: stats::deviation(&durations),
            loss_ratio: largest(links, LinkSummary::loss_ratio),
            queueing_delay_us: largest(links, |link| link.queue_mean_delay_us),
            timeouts: total(flows, |flow| flow.timeouts),
            retransmits: total(flows, |flow| flow.retransmits),
            jain_index: jain(&goodputs),
            max_min_fairness: max_min(&goodputs),
            proportional_fairness: alpha_fair(&goodputs, 1.0),
            alpha_fairness: alpha_fair(&goodputs, ALPHA),
            delta_fair_convergence_s: delta_fair_convergence_s(flows, series),
            flows: flows.iter().map(|flow| FlowMetrics::compute(flow, series)).collect(),
            ..Self::default()
        }
    }
}

impl FlowMetrics {
    fn compute(flow: &FlowSummary, series: &Series) -> Self {
        let bins = (flow.seconds / BIN_S).floor() as usize;
        let rates = rates_bps(flow, series, flow.start_s, bins).filter(|rates| rates.len() > 1);
        let deviation = rates.as_deref().and_then(stats::deviation);
        let mean = rates.as_deref().and_then(stats::mean).filter(|mean| *mean > 0.0);
        Self {
            name: flow.name.clone(),
            goodput_deviation_bps: deviation,
            goodput_cov: deviation.zip(mean).map(|(deviation, mean)| deviation / mean),
            aggressiveness_bps: over_hops(flow, series, aggressiveness_bps),
            smoothness_bps: over_hops(flow, series, smoothness_bps),
        }
    }
}

/// Whether the flow moved all that it should, rightly.
fn complete(flow: &FlowSummary) -> bool {
    let whole = flow.bytes_expected.is_some_and(|expected| expected == flow.bytes);
    whole && !flow.timed_out && flow.sha256_ok != Some(false)
}

/// From the first flow's start to the last one's end, in seconds.
fn active_s(flows: &[FlowSummary]) -> Option<f64> {
    let start = flows.iter().map(|flow| flow.start_s).reduce(f64::min)?;
    let end = flows.iter().map(|flow| flow.end_s).reduce(f64::max)?;
    (end > start).then_some(end - start)
}

/// A goodput above the busiest link's throughput means that the flows do not share that link, and
/// then the two have nothing to do with one another.
fn efficiency(goodput: Option<f64>, throughput: Option<f64>) -> Option<f64> {
    let (goodput, throughput) = goodput.zip(throughput)?;
    (throughput > 0.0 && goodput <= throughput).then(|| goodput / throughput)
}

fn largest(links: &[LinkSummary], of: impl Fn(&LinkSummary) -> Option<f64>) -> Option<f64> {
    links.iter().filter_map(of).reduce(f64::max)
}

/// The sum over flows; null when one of them is not known.
fn total(flows: &[FlowSummary], of: impl Fn(&FlowSummary) -> Option<u64>) -> Option<u64> {
    flows.iter().map(of).sum()
}

/// A flow's goodput in bins of [`BIN_S`]; `None` when its client's progress was not sampled.
fn rates_bps(flow: &FlowSummary, series: &Series, from_s: f64, bins: usize) -> Option<Vec<f64>> {
    let received = series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes)?;
    let growth = received.increments(from_s, BIN_S, bins);
    Some(growth.into_iter().map(|bytes| bytes * 8.0 / BIN_S).collect())
}

/// The largest figure over the hops of a flow.
fn over_hops(
    flow: &FlowSummary,
    series: &Series,
    of: impl Fn(&crate::Curve, f64) -> Option<f64>,
) -> Option<f64> {
    let each = flow.hops.iter().filter_map(|hop| {
        let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
        of(series.curve(&entity, Quantity::AckedBytes)?, hop.min_rtt_us? / 1e6)
    });
    each.reduce(f64::max)
}

fn delta_fair_convergence_s(flows: &[FlowSummary], series: &Series) -> Option<f64> {
    let [a, b] = flows else { return None };
    let start = a.start_s.max(b.start_s);
    let bins = ((a.end_s.min(b.end_s) - start) / BIN_S).floor().max(0.0) as usize;
    let (a, b) = (rates_bps(a, series, start, bins)?, rates_bps(b, series, start, bins)?);
    let rates: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
    delta_fair_convergence_bins(&rates, DELTA).map(|bins| bins as f64 * BIN_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, start_s: f64, seconds: f64, bytes: u64) -> FlowSummary {
        FlowSummary {
            name: name.to_owned(),
            bytes,
            bytes_expected: Some(bytes),
            start_s,
            end_s: start_s + seconds,
            seconds,
            goodput_bps: bytes as f64 * 8.0 / seconds,
            retransmits: Some(3),
            ..FlowSummary::default()
        }
    }

    fn received(series: &mut Series, name: &str, totals: &[f64]) {
        for (second, bytes) in totals.iter().enumerate() {
            series.push(&Entity::Flow(name.into()), Quantity::ReceivedBytes, second as f64, *bytes);
        }
    }

    #[test]
    fn a_run_of_two_flows_by_hand() {
        let flows = [flow("a", 0.0, 4.0, 400), flow("b", 1.0, 3.0, 100)];
        let link = LinkSummary {
            bytes: 550,
            segments: 98,
            queue_drops: 2,
            losses: 3,
            utilisation: Some(0.9),
            queue_mean_delay_us: Some(40.0),
            ..LinkSummary::default()
        };
        let idle = LinkSummary { utilisation: Some(0.1), ..LinkSummary::default() };
        let mut series = Series::default();
        received(&mut series, "a", &[0.0, 160.0, 280.0, 340.0, 400.0]);
        received(&mut series, "b", &[0.0, 0.0, 10.0, 64.0, 100.0]);
        let metrics = Metrics::compute(&flows, &[idle, link], &series);

        assert_eq!(metrics.goodput_bps, Some(1000.0));
        assert_eq!(metrics.throughput_bps, Some(1100.0));
        assert_eq!(metrics.efficiency, Some(1000.0 / 1100.0));
        assert_eq!(metrics.utilisation, Some(0.9));
        assert_eq!(metrics.loss_ratio, Some(0.05));
        assert_eq!(metrics.queueing_delay_us, Some(40.0));
        assert_eq!(metrics.completion_mean_s, Some(3.5));
        assert_eq!(metrics.completion_deviation_s, Some(0.5));
        assert_eq!((metrics.retransmits, metrics.timeouts), (Some(6), None));
        // Goodputs 800 and 800/3: (4/3)^2 / (2 * (1 + 1/9)) = 0.8.
        assert!((metrics.jain_index.unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(metrics.max_min_fairness, Some(0.5));
        // b has 10 of 130 bytes in its first second and 54 of 114 in its second.
        assert_eq!(metrics.delta_fair_convergence_s, Some(1.0));
        // a: 1280, 960, 480, 480 bit/s, mean 800, squared distances 480^2 160^2 320^2 320^2.
        let deviation = (460_800.0_f64 / 4.0).sqrt();
        assert_eq!(metrics.flows[0].goodput_deviation_bps, Some(deviation));
        assert_eq!(metrics.flows[0].goodput_cov, Some(deviation / 800.0));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let cut = FlowSummary { timed_out: true, retransmits: None, ..flow("a", 0.0, 5.0, 10) };
        let metrics = Metrics::compute(&[cut], &[], &Series::default());
        assert_eq!(metrics.completion_mean_s, None);
        assert_eq!(metrics.retransmits, None);
        assert_eq!(metrics.throughput_bps, None);
        assert_eq!(metrics.flows[0].goodput_cov, None);
        let nothing = Metrics::compute(&[], &[], &Series::default());
        assert_eq!(
            nothing,
            Metrics { timeouts: Some(0), retransmits: Some(0), ..Metrics::default() }
        );
    }

    #[test]
    fn flows_beyond_the_busiest_link_have_no_efficiency() {
        let link = LinkSummary { bytes: 100, ..LinkSummary::default() };
        let flows = [flow("a", 0.0, 1.0, 90), flow("b", 0.0, 1.0, 90)];
        assert_eq!(Metrics::compute(&flows, &[link], &Series::default()).efficiency, None);
    }
}
