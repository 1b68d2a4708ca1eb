// SPDX-License-Identifier: GPL-2.0-or-later
//! How soon a window reaches the path's capacity, and flows their fair share of it.

use super::bins::{BIN_S, Bins, ROUNDING_S, goodput_bps};
use crate::{Curve, FlowSummary, Series};
use std::ops::Range;

/// How far from even flows may be when they count as fair.
const DELTA: f64 = 0.1;

/// The round trips from the connection's first sample until the window is at 80 % of the
/// bandwidth-delay product, rounded up to whole ones: Guillier's convergence speed.
///
/// Guillier's table has `cwnd <= 0.8 BDP`, which a starting window meets at once; read as `>=`.
/// `None` when the window never gets there, or `rtt_s` is not above 0. The moment is known to one
/// sampling interval; the later end of it counts.
pub fn convergence_rtts(cwnd_segments: &Curve, bdp_segments: f64, rtt_s: f64) -> Option<f64> {
    let first = cwnd_segments.time_s.first()?;
    let reached = cwnd_segments.value.iter().position(|cwnd| *cwnd >= 0.8 * bdp_segments)?;
    let round_trips = (cwnd_segments.time_s[reached] - first) / rtt_s;
    // A quotient that rounding put just above a whole number is that number.
    (rtt_s > 0.0).then(|| (round_trips - 1e-9).ceil().max(0.0))
}

/// How long flows take to a nearly fair share, in bins: delta-fair convergence, RFC 5166,
/// section 2.3, there for two flows.
///
/// `rates` holds for each flow its rate in each bin since the last of them started. Found is the
/// first bin in which the smallest of the n shares is at least `(1 - delta) / n`.
pub fn delta_fair_convergence_bins(rates: &[Vec<f64>], delta: f64) -> Option<usize> {
    let bins = rates.iter().map(Vec::len).min()?;
    (0..bins).find(|bin| {
        let total: f64 = rates.iter().map(|flow| flow[*bin]).sum();
        let smallest = rates.iter().map(|flow| flow[*bin]).fold(f64::INFINITY, f64::min);
        total > 0.0 && smallest >= total * (1.0 - delta) / rates.len() as f64
    })
}

/// Flows that join others (or one another).
struct Join {
    /// Those that start, by their places among the flows.
    joined: Vec<usize>,
    /// Those that are under way when the last of them has started.
    active: Vec<usize>,
    /// From then to the next change of the load.
    span_s: Range<f64>,
}

/// Every join, in the order of time. Starts less than a bin apart are one.
fn joins(flows: &[FlowSummary]) -> Vec<Join> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by(|a, b| flows[*a].start_s.total_cmp(&flows[*b].start_s));
    let start = |flow: &usize| flows[*flow].start_s;
    let near = |before: &usize, after: &usize| start(after) - start(before) < BIN_S - ROUNDING_S;
    let groups: Vec<&[usize]> = order.chunk_by(near).collect();
    let mut active: Vec<usize> = Vec::new();
    let mut joins = Vec::with_capacity(groups.len());
    for (n, group) in groups.iter().enumerate() {
        let Some(at_s) = group.last().map(start) else { continue };
        active.extend(*group);
        active.retain(|flow| flows[*flow].end_s > at_s);
        let next = groups.get(n + 1).and_then(|group| group.first()).map(start);
        let ends = active.iter().map(|flow| flows[*flow].end_s);
        let until_s = ends.chain(next).fold(f64::INFINITY, f64::min);
        let joined = group.to_vec();
        joins.push(Join { joined, active: active.clone(), span_s: at_s..until_s });
    }
    joins
}

/// How long joining flows take to a fair share.
#[derive(Debug, Default, PartialEq)]
pub struct DeltaFairConvergence {
    /// The longest over all joins, in seconds; `None` when at one of them it never came to that,
    /// and when no flow joins another.
    pub slowest_s: Option<f64>,
    /// That of the join each flow took part in, in the flows' order.
    pub flows_s: Vec<Option<f64>>,
}

impl DeltaFairConvergence {
    pub fn of(flows: &[FlowSummary], series: &Series) -> Self {
        let mut found = Self { slowest_s: None, flows_s: vec![None; flows.len()] };
        let mut all: Vec<Option<f64>> = Vec::new();
        for join in joins(flows).into_iter().filter(|join| join.active.len() > 1) {
            let bins = Bins::within(&join.span_s);
            let rates: Option<Vec<Vec<f64>>> =
                join.active.iter().map(|n| goodput_bps(&flows[*n], series, bins)).collect();
            let seconds = rates
                .and_then(|rates| delta_fair_convergence_bins(&rates, DELTA))
                .map(|bins| bins as f64 * BIN_S);
            all.push(seconds);
            for flow in join.joined.iter().filter(|flow| flows[**flow].end_s > join.span_s.start) {
                found.flows_s[*flow] = seconds;
            }
        }
        let all: Option<Vec<f64>> = all.into_iter().collect();
        found.slowest_s = all.and_then(|all| all.into_iter().reduce(f64::max));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entity, Quantity};

    #[test]
    fn a_window_is_followed_to_its_path() {
        let cwnd = Curve { time_s: vec![2.0, 2.1, 2.2, 2.3], value: vec![10.0, 70.0, 80.0, 90.0] };
        // 80 of 100 segments after 0.2 s: 4 round trips of 50 ms, 3 of 70 ms (2.86), 1 of 0.4 s.
        for (rtt_s, round_trips) in [(0.05, 4.0), (0.07, 3.0), (0.4, 1.0)] {
            assert_eq!(convergence_rtts(&cwnd, 100.0, rtt_s), Some(round_trips), "{rtt_s}");
        }
        assert_eq!(convergence_rtts(&cwnd, 12.0, 0.05), Some(0.0));
        assert_eq!(convergence_rtts(&cwnd, 200.0, 0.05), None);
        assert_eq!(convergence_rtts(&cwnd, 100.0, 0.0), None);
        assert_eq!(convergence_rtts(&Curve::default(), 100.0, 0.05), None);
    }

    #[test]
    fn shares_within_delta_are_fair() {
        // Smaller shares: 1/101, 0.4, 0.45, 0.5; a delta of 0.1 asks for 0.45.
        let rates = [vec![100.0, 60.0, 45.0, 50.0], vec![1.0, 40.0, 55.0, 50.0]];
        assert_eq!(delta_fair_convergence_bins(&rates, 0.1), Some(2));
        let early = rates.clone().map(|rates| rates[..2].to_vec());
        assert_eq!(delta_fair_convergence_bins(&early, 0.1), None);
        assert_eq!(delta_fair_convergence_bins(&[vec![0.0], vec![0.0]], 0.1), None);
        // Of three: 0.3 of the total is what it asks for.
        let three = [vec![50.0, 40.0], vec![30.0, 30.0], vec![20.0, 30.0]];
        assert_eq!(delta_fair_convergence_bins(&three, 0.1), Some(1));
        assert_eq!(delta_fair_convergence_bins(&[], 0.1), None);
    }

    fn flow(name: &str, start_s: f64, end_s: f64) -> FlowSummary {
        FlowSummary { name: name.into(), start_s, end_s, ..FlowSummary::default() }
    }

    #[test]
    fn every_join_is_judged_among_those_under_way() {
        let flows = [
            flow("c", 6.0, 12.0), // joins a and b
            flow("a", 0.0, 12.0),
            flow("b", 2.0, 10.0), // joins a
            flow("z", 0.0, 1.0),  // over before b joins
        ];
        let mut series = Series::default();
        // Bytes a second of each flow, second by second.
        for (name, rates) in [
            ("a", [1, 9, 8, 6, 5, 5, 5, 4, 3, 3, 5, 5]),
            ("b", [0, 0, 2, 4, 5, 5, 4, 4, 3, 3, 0, 0]),
            ("c", [0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 5, 5]),
            ("z", [9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut sum = 0;
            series.push(&Entity::Flow(name.into()), Quantity::ReceivedBytes, 0.0, 0.0);
            for (second, bytes) in (1..).zip(rates) {
                sum += bytes;
                let entity = Entity::Flow(name.into());
                series.push(&entity, Quantity::ReceivedBytes, f64::from(second), f64::from(sum));
            }
        }
        let found = DeltaFairConvergence::of(&flows, &series);
        // a and z start together and have 1 and 9 until z ends: never fair.
        assert_eq!(found.flows_s, [Some(2.0), None, Some(2.0), None]);
        assert_eq!(found.slowest_s, None);
        let without_z = DeltaFairConvergence::of(&flows[..3], &series);
        assert_eq!(
            without_z,
            DeltaFairConvergence {
                slowest_s: Some(2.0),
                flows_s: vec![Some(2.0), None, Some(2.0)]
            }
        );
        assert_eq!(DeltaFairConvergence::of(&flows[..1], &series).slowest_s, None);
        assert_eq!(DeltaFairConvergence::of(&flows[..3], &Series::default()).slowest_s, None);
    }

    #[test]
    fn starts_less_than_a_bin_apart_are_one() {
        let flows = [flow("a", 0.0, 9.0), flow("b", 0.9, 9.0), flow("c", 1.9, 3.5)];
        let joins = joins(&flows);
        let seen: Vec<_> =
            joins.iter().map(|j| (j.joined.clone(), j.active.len(), j.span_s.clone())).collect();
        assert_eq!(seen, [(vec![0, 1], 2, 0.9..1.9), (vec![2], 3, 1.9..3.5)]);
    }
}
