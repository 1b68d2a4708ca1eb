// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits of recorded flows: which hop holds a flow up, and the strongest limit of several runs. The causes and the rules that
//! tell them apart are those of the crate `limits`.

use crate::{HopSummary, stats};
use limits::{Limit, LimitShares};
use serde::Serialize;

/// The connection of a flow that holds it up. The others wait for that one: those before it until its depot reads, those behind
/// it until its depot has something to send.
pub fn slowest_hop(hops: &[HopSummary]) -> Option<(&HopSummary, LimitShares)> {
    let waits = |shares: &LimitShares| {
        shares.receive_window + shares.window_in_recovery + shares.application
    };
    let known = hops.iter().filter_map(|hop| Some((hop, hop.limited?)));
    known.min_by(|(_, one), (_, other)| waits(one).total_cmp(&waits(other)))
}

/// The strongest limit of a flow, and its share of the flow's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimitedBy {
    /// The cause.
    pub cause: Limit,
    /// Its part of the time, 0 to 1.
    pub share: f64,
}

impl LimitedBy {
    /// Of several runs, by the mean of their shares.
    pub fn of_mean(runs: &[LimitShares]) -> Option<Self> {
        let causes = Limit::ALL.into_iter();
        let causes =
            causes.filter_map(|cause| Some(Self { cause, share: mean_share(runs, cause)? }));
        causes.max_by(|one, other| one.share.total_cmp(&other.share))
    }
}

/// How much of the time of several runs a cause held their flow back; none without runs.
pub fn mean_share(runs: &[LimitShares], cause: Limit) -> Option<f64> {
    let shares: Vec<f64> = runs.iter().map(|shares| shares.of(cause)).collect();
    stats::mean(&shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_that_wait_for_another_are_not_the_slowest() {
        let hop = |index, limited| HopSummary { index, limited, ..HopSummary::default() };
        let before = LimitShares { receive_window: 0.7, cwnd: 0.3, ..LimitShares::default() };
        let slow = LimitShares { cwnd: 0.9, application: 0.1, ..LimitShares::default() };
        let behind = LimitShares { application: 0.8, start_up: 0.2, ..LimitShares::default() };
        let hops = [hop(0, Some(before)), hop(1, None), hop(2, Some(slow)), hop(3, Some(behind))];
        assert_eq!(slowest_hop(&hops).map(|(hop, _)| hop.index), Some(2));
        assert_eq!(slowest_hop(&hops[1..2]), None);
        let mean = LimitedBy::of_mean(&[before, slow]).unwrap();
        assert_eq!((mean.cause, (mean.share * 1e6).round()), (Limit::Cwnd, 600_000.0));
        assert_eq!(LimitedBy::of_mean(&[]), None);
    }
}
