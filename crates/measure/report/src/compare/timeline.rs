// SPDX-License-Identifier: GPL-2.0-or-later
//! A run over time in bins: throughput, window, round trip, queue and fairness of all its flows together.

use record::{Curve, Entity, FlowSummary, Quantity, Series, Summary, metrics::jain_index};

use std::collections::BTreeMap;

/// The narrowest bin, in seconds, and the most bins.
const BIN_S: f64 = 0.1;
const MOST_BINS: f64 = 300.0;

/// Equal bins from the start of the runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bins {
    pub width_s: f64,
    pub count: usize,
}

impl Bins {
    /// For runs of which the longest ends then.
    pub fn until(end_s: f64) -> Self {
        let width_s = BIN_S.max(end_s / MOST_BINS);
        Self { width_s, count: (end_s / width_s).ceil().max(1.0) as usize }
    }

    /// The middle of a bin, in seconds.
    pub fn middle_s(self, bin: usize) -> f64 {
        (bin as f64 + 0.5) * self.width_s
    }

    fn start_s(self, bin: usize) -> f64 {
        bin as f64 * self.width_s
    }

    /// Whether a flow is there during the whole of a bin.
    fn has(self, bin: usize, flow: &FlowSummary) -> bool {
        flow.start_s <= self.start_s(bin) && flow.end_s >= self.start_s(bin + 1) - 1e-9
    }
}

/// A quantity over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    Throughput,
    Window,
    RoundTrip,
    Queue,
    Fairness,
}

/// A value for each bin; none where nothing is known or nothing was there.
pub type Values = Vec<Option<f64>>;

impl Course {
    /// In the order of the page.
    pub const ALL: [Self; 5] =
        [Self::Throughput, Self::Window, Self::RoundTrip, Self::Queue, Self::Fairness];

    /// Of one run.
    pub fn of(self, summary: &Summary, series: &Series, bins: Bins) -> Values {
        let flows: Vec<&FlowSummary> = summary.compared_flows().collect();
        match self {
            Self::Throughput => throughput(&flows, series, bins),
            Self::Window => mean_of_hops(&flows, series, Quantity::CwndSegments, bins),
            Self::RoundTrip => mean_of_hops(&flows, series, Quantity::SrttUs, bins),
            Self::Queue => queues(&flows, series, bins),
            Self::Fairness => fairness(&flows, series, bins),
        }
    }
}

/// What arrived of a flow in each bin, in bit/s: on the last hop of each stream, also what waits there for a segment that
/// was lost. What a client reads leaps when such a gap is filled, so it is used only where hops were not sampled.
fn rates_bps(flow: &FlowSummary, series: &Series, bins: Bins) -> Option<Vec<f64>> {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for hop in &flow.hops {
        let index = last.entry(hop.stream).or_insert(hop.index);
        *index = hop.index.max(*index);
    }
    let hop = |index| Entity::Hop { flow: flow.name.clone(), index };
    let delivered = last.values().map(|index| series.curve(&hop(*index), Quantity::DeliveredBytes));
    let delivered: Option<Vec<&Curve>> = delivered.collect();
    let received = || series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes);
    let totals = match delivered.filter(|curves| !curves.is_empty()) {
        Some(curves) => curves,
        None => vec![received()?],
    };
    let mut rates = vec![0.0; bins.count];
    for total in totals {
        let grown = from_zero(total, flow.start_s).increments(0.0, bins.width_s, bins.count);
        for (rate, bytes) in rates.iter_mut().zip(grown) {
            *rate += bytes * 8.0 / bins.width_s;
        }
    }
    Some(rates)
}

/// A running total with a zero at the start, if it has no sample before.
fn from_zero(total: &Curve, start_s: f64) -> Curve {
    let mut whole = Curve::default();
    if total.time_s.first().is_some_and(|first| start_s < *first) {
        whole.push(start_s, 0.0);
    }
    whole.time_s.extend(&total.time_s);
    whole.value.extend(&total.value);
    whole
}

/// All flows together, while one is there.
fn throughput(flows: &[&FlowSummary], series: &Series, bins: Bins) -> Values {
    let rates: Option<Vec<Vec<f64>>> =
        flows.iter().map(|flow| rates_bps(flow, series, bins)).collect();
    let Some(rates) = rates else { return vec![None; bins.count] };
    let sum = |bin: usize| rates.iter().map(|of_flow| of_flow[bin]).sum();
    let is_there = |bin: &usize| flows.iter().any(|flow| bins.has(*bin, flow));
    (0..bins.count).map(|bin| Some(bin).filter(is_there).map(sum)).collect()
}

/// Jain's index of the flows that are there, if there are two or more.
fn fairness(flows: &[&FlowSummary], series: &Series, bins: Bins) -> Values {
    let rates: Option<Vec<Vec<f64>>> =
        flows.iter().map(|flow| rates_bps(flow, series, bins)).collect();
    let Some(rates) = rates else { return vec![None; bins.count] };
    let index = |bin: usize| {
        let there = flows.iter().zip(&rates).filter(|(flow, _)| bins.has(bin, flow));
        let there: Vec<f64> = there.map(|(_, rates)| rates[bin]).collect();
        if there.len() > 1 { jain_index(&there) } else { None }
    };
    (0..bins.count).map(index).collect()
}

/// The mean over the connections of the flows that are there.
fn mean_of_hops(flows: &[&FlowSummary], series: &Series, what: Quantity, bins: Bins) -> Values {
    let mut sums = vec![(0.0, 0_u32); bins.count];
    for flow in flows {
        for hop in &flow.hops {
            let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
            let Some(curve) = series.curve(&entity, what) else { continue };
            for (bin, value) in means(curve, bins).into_iter().enumerate() {
                if let Some(value) = value.filter(|_| bins.has(bin, flow)) {
                    sums[bin] = (sums[bin].0 + value, sums[bin].1 + 1);
                }
            }
        }
    }
    sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
}

/// The bytes in all queues of links together, while a flow is there.
fn queues(flows: &[&FlowSummary], series: &Series, bins: Bins) -> Values {
    let mut sums: Values = vec![None; bins.count];
    for (_, _, curve) in series.curves().filter(|(_, what, _)| *what == Quantity::QueueBytes) {
        for (bin, value) in means(curve, bins).into_iter().enumerate() {
            if let Some(bytes) = value.filter(|_| flows.iter().any(|flow| bins.has(bin, flow))) {
                *sums[bin].get_or_insert(0.0) += bytes;
            }
        }
    }
    sums
}

/// The mean of the samples in each bin; without samples the last one before it.
fn means(curve: &Curve, bins: Bins) -> Values {
    let (mut next, mut last) = (0, None);
    let mean = |bin: usize| {
        let from = next;
        next += curve.time_s[from..].partition_point(|time_s| *time_s < bins.start_s(bin + 1));
        if next > from {
            let samples = &curve.value[from..next];
            last = samples.last().copied();
            return Some(samples.iter().sum::<f64>() / samples.len() as f64);
        }
        last
    };
    (0..bins.count).map(mean).collect()
}

/// Several runs in one bin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub time_s: f64,
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

/// Mean, minimum and maximum over the runs, where half of them or more have a value: the last runs to end do not speak
/// for all.
pub fn spread(runs: &[Values], bins: Bins) -> Vec<Spread> {
    let of_bin = |bin: usize| {
        let known: Vec<f64> = runs.iter().filter_map(|values| values[bin]).collect();
        let mean = record::stats::mean(&known).filter(|_| 2 * known.len() >= runs.len())?;
        let least = known.iter().copied().fold(f64::INFINITY, f64::min);
        let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Spread { time_s: bins.middle_s(bin), mean, least, most })
    };
    (0..bins.count).filter_map(of_bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, start_s: f64, end_s: f64) -> FlowSummary {
        FlowSummary { name: name.into(), start_s, end_s, ..FlowSummary::default() }
    }

    /// Two flows of 1 and 3 Mb/s, of which the second is there from 1 to 2 s.
    #[test]
    fn flows_are_added_while_they_are_there() {
        let mut series = Series::default();
        for (name, start_s, end_s, bps) in [("a", 0.0, 4.0, 1e6), ("b", 1.0, 2.0, 3e6)] {
            let entity = Entity::Flow(name.into());
            for tenth in 1..=40 {
                let time_s = f64::from(tenth) / 10.0;
                if time_s > start_s && time_s <= end_s + 1e-9 {
                    let bytes = (time_s - start_s) * bps / 8.0;
                    series.push(&entity, Quantity::ReceivedBytes, time_s, bytes);
                }
            }
        }
        let flows = vec![flow("a", 0.0, 4.0), flow("b", 1.0, 2.0)];
        let summary = Summary { flows, ..Summary::default() };
        let bins = Bins { width_s: 1.0, count: 5 };
        let found = Course::Throughput.of(&summary, &series, bins);
        let expected = [Some(1e6), Some(4e6), Some(1e6), Some(1e6), None];
        for (found, expected) in found.iter().zip(expected) {
            let near = found.zip(expected).map(|(one, other)| (one - other).abs() < 1.0);
            assert!(near.unwrap_or(*found == expected), "{found:?}, {expected:?}");
        }
        let jain = Course::Fairness.of(&summary, &series, bins);
        assert!((jain[1].unwrap() - 0.8).abs() < 1e-6, "16 / (2 * 10): {jain:?}");
        assert_eq!((jain[0], jain[2]), (None, None), "one flow is not fair to itself");
    }

    #[test]
    fn bins_without_samples_have_the_last_one() {
        let curve = Curve { time_s: vec![0.1, 0.2, 2.5], value: vec![2.0, 4.0, 8.0] };
        let bins = Bins { width_s: 1.0, count: 4 };
        assert_eq!(means(&curve, bins), [Some(3.0), Some(4.0), Some(8.0), Some(8.0)]);
        assert_eq!(means(&Curve::default(), bins), [None; 4]);
    }

    #[test]
    fn half_of_the_runs_make_a_mean() {
        let bins = Bins { width_s: 2.0, count: 2 };
        let runs = [vec![Some(1.0), Some(5.0)], vec![Some(3.0), None], vec![Some(5.0), None]];
        let all = Spread { time_s: 1.0, mean: 3.0, least: 1.0, most: 5.0 };
        assert_eq!(spread(&runs, bins), [all]);
        assert_eq!(Bins::until(3.0), Bins { width_s: 0.1, count: 30 });
    }
}
