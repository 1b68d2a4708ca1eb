// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates over bins of one width, so that figures that depend on it can be compared.

use crate::{Curve, Entity, FlowSummary, HopSummary, Quantity, Series};
use std::ops::Range;

/// The width of the bins over which a rate is averaged before its variation
/// is computed, in seconds.
pub const BIN_S: f64 = 1.0;
/// How far from a whole number of bins a difference of two times may be by rounding, in seconds.
pub const ROUNDING_S: f64 = 1e-9;

/// Whole bins side by side; a last part of a bin is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bins {
    from_s: f64,
    /// How many there are.
    pub count: usize,
}

impl Bins {
    /// The whole bins in a span of seconds since the run's start.
    pub fn within(span_s: &Range<f64>) -> Self {
        let seconds = span_s.end - span_s.start + ROUNDING_S;
        let count = (seconds / BIN_S).floor().max(0.0) as usize;
        Self { from_s: span_s.start, count }
    }

    /// The bin that a time is in.
    fn index(self, time_s: f64) -> Option<usize> {
        let index = ((time_s - self.from_s) / BIN_S).floor();
        (index >= 0.0 && index < self.count as f64).then_some(index as usize)
    }

    /// How fast a running total of bytes grew in each bin, in bits a second.
    fn growth_bps(self, total_bytes: &Curve) -> Vec<f64> {
        let growth = total_bytes.increments(self.from_s, BIN_S, self.count);
        growth.into_iter().map(|bytes| bytes * 8.0 / BIN_S).collect()
    }
}

/// The curve of one of a flow's hops.
pub fn hop_curve<'a>(
    series: &'a Series,
    flow: &FlowSummary,
    hop: &HopSummary,
    quantity: Quantity,
) -> Option<&'a Curve> {
    let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
    series.curve(&entity, quantity)
}

/// A flow's goodput in each bin; `None` when its client's progress was not sampled.
pub fn goodput_bps(flow: &FlowSummary, series: &Series, bins: Bins) -> Option<Vec<f64>> {
    let received = series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes)?;
    Some(bins.growth_bps(received))
}

/// The goodput of all flows together in each bin; `None` when one of them was not sampled.
pub fn total_goodput_bps(flows: &[FlowSummary], series: &Series, bins: Bins) -> Option<Vec<f64>> {
    total(flows.iter().map(|flow| goodput_bps(flow, series, bins)))
}

/// The rate of all senders together in each bin: what was acknowledged to the sources, over all
/// streams. `None` when one of them was not sampled.
pub fn total_sending_bps(flows: &[FlowSummary], series: &Series, bins: Bins) -> Option<Vec<f64>> {
    total(flows.iter().flat_map(|flow| {
        let first = first_hops(flow).into_iter();
        first.map(|hop| Some(bins.growth_bps(hop_curve(series, flow, hop, Quantity::AckedBytes)?)))
    }))
}

/// The hop of each stream that leaves the source.
fn first_hops(flow: &FlowSummary) -> Vec<&HopSummary> {
    let mut hops: Vec<&HopSummary> = flow.hops.iter().collect();
    hops.sort_by_key(|hop| (hop.stream, hop.index));
    hops.dedup_by_key(|hop| hop.stream);
    hops
}

/// The sum, bin by bin; `None` when there is nothing to sum or a part of it is missing.
fn total(parts: impl Iterator<Item = Option<Vec<f64>>>) -> Option<Vec<f64>> {
    let mut sum: Option<Vec<f64>> = None;
    for part in parts {
        let part = part?;
        match &mut sum {
            None => sum = Some(part),
            Some(sum) => sum.iter_mut().zip(part).for_each(|(sum, rate)| *sum += rate),
        }
    }
    sum
}

/// A link's throughput in each bin, from narrower (or other) bins of its monitor.
///
/// `monitored_bps` holds a rate for each bin of the monitor, which starts at the sample's time.
/// Where the monitor has no bin nothing was carried. `None` when its bins' width is not visible.
pub fn link_throughput_bps(monitored_bps: &Curve, bins: Bins) -> Option<Vec<f64>> {
    let gaps = monitored_bps.time_s.windows(2).map(|t| t[1] - t[0]).filter(|gap| *gap > 0.0);
    let width_s = gaps.reduce(f64::min)?;
    let mut rates = vec![0.0; bins.count];
    for (start_s, bps) in monitored_bps.time_s.iter().zip(&monitored_bps.value) {
        // In bins, counted from the first one's start.
        let from = ((start_s - bins.from_s) / BIN_S).clamp(0.0, bins.count as f64);
        let to = ((start_s + width_s - bins.from_s) / BIN_S).clamp(0.0, bins.count as f64);
        let (first, end) = (from.floor() as usize, to.ceil() as usize);
        for (rate, bin) in rates[first..end].iter_mut().zip(first..) {
            *rate += bps * (to.min((bin + 1) as f64) - from.max(bin as f64));
        }
    }
    Some(rates)
}

/// In which bins any of the flows' senders sent a segment again, on whichever hop; `None` when one
/// of the hops was not sampled, or there is none.
pub fn disturbed_bins(flows: &[FlowSummary], series: &Series, bins: Bins) -> Option<Vec<bool>> {
    let mut disturbed = vec![false; bins.count];
    let mut hops = 0;
    for flow in flows {
        for hop in &flow.hops {
            hops += 1;
            let retransmits = hop_curve(series, flow, hop, Quantity::Retransmits)?;
            for rise in increases(retransmits) {
                if let Some(bin) = bins.index(retransmits.time_s[rise]) {
                    disturbed[bin] = true;
                }
            }
        }
    }
    (hops > 0).then_some(disturbed)
}

/// The samples at which a running total is higher than at the sample before (or than 0).
pub fn increases(total: &Curve) -> impl Iterator<Item = usize> {
    let before = std::iter::once(&0.0).chain(&total.value);
    before.zip(&total.value).enumerate().filter(|(_, (a, b))| b > a).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_bin_are_left_out() {
        assert_eq!(Bins::within(&(0.5..3.4)).count, 2);
        assert_eq!(Bins::within(&(0.1..0.1 + 3.0)).count, 3);
        assert_eq!(Bins::within(&(2.0..1.0)).count, 0);
        let bins = Bins::within(&(0.5..3.4));
        let at = [0.4, 0.5, 1.49, 1.5, 2.6].map(|t| bins.index(t));
        assert_eq!(at, [None, Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn a_monitors_bins_are_shared_out() {
        // 8, 4, 2 bit/s for 0.4 s each from 0.8 s on; nothing after 2 s.
        let monitor = Curve { time_s: vec![0.8, 1.2, 1.6], value: vec![8.0, 4.0, 2.0] };
        let rates = link_throughput_bps(&monitor, Bins::within(&(0.0..3.0))).unwrap();
        let by_hand = [8.0 * 0.2, 8.0 * 0.2 + 4.0 * 0.4 + 2.0 * 0.4, 0.0];
        for (rate, by_hand) in rates.iter().zip(by_hand) {
            assert!((rate - by_hand).abs() < 1e-12, "{rates:?}");
        }
        let single = Curve { time_s: vec![0.8], value: vec![8.0] };
        assert_eq!(link_throughput_bps(&single, Bins::within(&(0.0..3.0))), None);
    }

    #[test]
    fn a_total_rises_also_at_its_first_sample() {
        let total = |value: &[f64]| Curve {
            time_s: (0..value.len()).map(|t| t as f64).collect(),
            value: value.to_vec(),
        };
        assert_eq!(increases(&total(&[0.0, 0.0, 3.0, 3.0, 4.0])).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(increases(&total(&[2.0, 2.0])).collect::<Vec<_>>(), [0]);
        assert_eq!(increases(&total(&[])).count(), 0);
    }

    #[test]
    fn only_what_leaves_the_source_is_a_sending_rate() {
        let hop = |index, stream| HopSummary { index, stream, ..HopSummary::default() };
        let flow = FlowSummary {
            name: "f".into(),
            hops: vec![hop(0, 0), hop(1, 0), hop(2, 1), hop(3, 1)],
            ..FlowSummary::default()
        };
        let mut series = Series::default();
        for (index, bytes) in [(0, 10.0), (1, 100.0), (2, 1000.0)] {
            let entity = Entity::Hop { flow: "f".into(), index };
            series.push(&entity, Quantity::AckedBytes, 0.0, 0.0);
            series.push(&entity, Quantity::AckedBytes, 1.0, bytes);
        }
        let flows = [flow];
        let rates = total_sending_bps(&flows, &series, Bins::within(&(0.0..1.0)));
        assert_eq!(rates, Some(vec![8080.0]));
        assert_eq!(total_sending_bps(&flows, &Series::default(), Bins::within(&(0.0..1.0))), None);
    }
}
