// SPDX-License-Identifier: GPL-2.0-or-later
//! Drops during and after the senders' slow start.

use super::bins::hop_curve;
use crate::{Entity, FlowSummary, Quantity, Series};

/// Round trips from the end of slow start until what was sent before it has passed every queue: one for
/// the packets on their way, and one for those that the sender's own queue may hold.
const ROUND_TRIPS: f64 = 2.0;

/// Packets dropped at full queues, all links together; null where the series does not say.
pub fn drops(series: &Series) -> Option<u64> {
    drops_from(series, 0.0)
}

/// Those after the slow start of every sender: two of its round trips after the first sample that has a
/// threshold. `None` where a sender never has one: it is in slow start to its end, or its congestion control
/// has no threshold, as BBR has none.
pub fn drops_after_start(flows: &[FlowSummary], series: &Series) -> Option<u64> {
    let hops = flows.iter().flat_map(|flow| flow.hops.iter().map(move |hop| (flow, hop)));
    let mut ends = Vec::new();
    for (flow, hop) in hops {
        let curve = |quantity| hop_curve(series, flow, hop, quantity);
        let first = *curve(Quantity::SsthreshSegments)?.time_s.first()?;
        let rtt = curve(Quantity::SrttUs)?;
        let at = rtt.time_s.partition_point(|time| *time < first).min(rtt.value.len() - 1);
        ends.push(first + ROUND_TRIPS * rtt.value[at] / 1e6);
    }
    drops_from(series, ends.into_iter().reduce(f64::max)?)
}

fn drops_from(series: &Series, from_s: f64) -> Option<u64> {
    let mut sum = None;
    for (entity, quantity, curve) in series.curves() {
        if quantity == Quantity::Drops && matches!(entity, Entity::Link { .. }) {
            let from = curve.time_s.partition_point(|time| *time < from_s);
            let more: f64 = curve.value[from..].iter().sum();
            sum = Some(sum.unwrap_or(0) + more as u64);
        }
    }
    sum
}
