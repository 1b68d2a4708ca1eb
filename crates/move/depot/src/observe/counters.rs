// SPDX-License-Identifier: GPL-2.0-or-later
//! Statistics of one process that add up with those of others: depots before a takeover, and the one after it.
//!
//! Counters keep growing across a takeover. Values of the moment, such as rates, are those of all processes that run.
//! Limits: labels of the sum are bounded as those of one process are.

use super::{
    hops::{MOST, OTHER},
    statistics::Value,
    status::{EndedSessions, HopStatistics, Refusals, Sum, Times, Totals},
    sums,
};
use relay::Side;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a process has counted, and does now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub(crate) totals: Totals,
    pub(crate) refusals: Vec<Refusals>,
    pub(crate) hops: Vec<HopStatistics>,
    pub(crate) clients: Vec<Sum>,
    pub(crate) ticket_transfers: Vec<Sum>,
    pub(crate) open_sessions: usize,
    pub(crate) ended_sessions: Vec<EndedSessions>,
    pub(crate) times: Times,
    pub(crate) connect_failures: BTreeMap<String, u64>,
    pub(crate) tls_failures: BTreeMap<String, u64>,
    pub(crate) accept_failures: u64,
    pub(crate) panics: u64,
    pub(crate) memory_refusals: BTreeMap<String, u64>,
    pub(crate) tickets: BTreeMap<String, u64>,
    pub(crate) ticket_refusals: u64,
    pub(crate) dropped_lines: u64,
}

impl Counters {
    /// Adds those of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.refusals.add(&other.refusals);
        other.hops.iter().for_each(|hop| self.add_hop(hop));
        sums::add(&mut self.clients, &other.clients);
        sums::add(&mut self.ticket_transfers, &other.ticket_transfers);
        self.open_sessions.add(&other.open_sessions);
        self.ended_sessions.add(&other.ended_sessions);
        self.times.add(&other.times);
        self.connect_failures.add(&other.connect_failures);
        self.tls_failures.add(&other.tls_failures);
        self.accept_failures.add(&other.accept_failures);
        self.panics.add(&other.panics);
        self.memory_refusals.add(&other.memory_refusals);
        self.tickets.add(&other.tickets);
        self.ticket_refusals.add(&other.ticket_refusals);
        self.dropped_lines.add(&other.dropped_lines);
    }

    /// What remains once the process has ended: the counters.
    pub(crate) fn ended(mut self) -> Self {
        self.hops.end();
        let (clients, ticket_transfers, open_sessions) = (Vec::new(), Vec::new(), 0);
        Self { clients, ticket_transfers, open_sessions, ..self }
    }

    /// Adds a hop's statistics to those of the same hop, or of `other` if there are too many.
    fn add_hop(&mut self, hop: &HopStatistics) {
        let find = |hops: &[HopStatistics], name: &str| {
            hops.iter().position(|own| own.side == hop.side && own.hop == name)
        };
        let of_side = self.hops.iter().filter(|own| own.side == hop.side).count();
        let known = find(&self.hops, &hop.hop);
        // The two collective ones come on top.
        let is_new = known.is_none() && of_side < MOST + 2;
        let at = known.or_else(|| find(&self.hops, OTHER)).filter(|_| !is_new);
        if let Some(at) = at {
            self.hops[at].add_process(hop);
            return;
        }
        let name = if is_new { hop.hop.clone() } else { OTHER.to_owned() };
        self.hops.push(HopStatistics { hop: name, ..hop.clone() });
        self.hops.sort_by(|a, b| (a.side, &a.hop).cmp(&(b.side, &b.hop)));
    }
}

impl HopStatistics {
    /// One with no transfers so far.
    pub(super) fn new(side: Side, hop: String) -> Self {
        Self { side, hop, ..Self::default() }
    }

    /// Adds what another process has of the same hop.
    fn add_process(&mut self, other: &Self) {
        let weight =
            |hop: &Self| hop.connections.values().fold(0, |sum: usize, n| sum.saturating_add(*n));
        let rtt_us = mean((self.rtt_us, weight(self)), (other.rtt_us, weight(other)));
        let min_rtt_us = self.min_rtt_us.into_iter().chain(other.min_rtt_us).min();
        self.add(other);
        (self.rtt_us, self.min_rtt_us) = (rtt_us, min_rtt_us);
    }
}

/// The mean of two means over different numbers of connections.
fn mean(one: (Option<u32>, usize), other: (Option<u32>, usize)) -> Option<u32> {
    let known = [one, other].into_iter().filter_map(|(mean, n)| Some((mean?, n)));
    let (sum, n) = known.fold((0, 0), |(sum, all), (mean, n)| {
        (sum + u128::from(mean) * n as u128, all + n as u128)
    });
    sum.checked_div(n).and_then(|mean| mean.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{statistics::MOST_NAMES, status::Histogram};

    fn of_process(n: u64) -> Counters {
        let mut hop = HopStatistics::new(Side::Client, "192.0.2.0/24".to_owned());
        (hop.down_bytes, hop.down_bps, hop.rtt_us) = (n, 8, Some((n as u32).saturating_mul(1000)));
        hop.connections = [("cubic".to_owned(), n as usize)].into();
        let totals = Totals {
            requests: [("complete".to_owned(), n)].into(),
            down_bytes: n,
            ..Totals::default()
        };
        let refusals = vec![Refusals { status: 503, error: "e".to_owned(), requests: n }];
        Counters { totals, refusals, hops: vec![hop], open_sessions: 1, ..Counters::default() }
    }

    #[test]
    fn counters_of_processes_add_up_and_gauges_end_with_them() {
        let mut all = of_process(1);
        let told = serde_json::to_string(&of_process(3)).unwrap();
        all.add(&serde_json::from_str(&told).unwrap());
        assert_eq!((all.totals.down_bytes, all.totals.requests["complete"]), (4, 4));
        assert_eq!((all.refusals[0].requests, all.open_sessions), (4, 2));
        let hop = &all.hops[0];
        assert_eq!((hop.down_bytes, hop.down_bps, hop.connections["cubic"]), (4, 16, 4));
        assert_eq!(hop.rtt_us, Some(2500), "the mean over all connections");
        let ended = all.ended();
        assert_eq!((ended.totals.down_bytes, ended.hops[0].down_bytes), (4, 4));
        assert_eq!((ended.open_sessions, ended.hops[0].down_bps), (0, 0));
        assert_eq!((ended.hops[0].rtt_us, ended.hops[0].connections.len()), (None, 0));
    }

    #[test]
    fn counters_from_outside_are_bounded_and_do_not_wrap() {
        let mut all = of_process(u64::MAX / 2);
        (0..3).for_each(|_| all.add(&of_process(u64::MAX / 2)));
        assert_eq!(all.totals.down_bytes, u64::MAX);
        for n in 0..3000 {
            let mut of_one = of_process(1);
            of_one.hops[0].hop = format!("h{n}");
            of_one.refusals[0].error = n.to_string();
            of_one.tickets = [(n.to_string(), 1)].into();
            all.add(&of_one);
        }
        assert!(all.hops.len() <= MOST + 3 && all.refusals.len() <= MOST_NAMES);
        assert!(all.tickets.len() <= MOST_NAMES + 1);
        assert_eq!(all.tickets.values().sum::<u64>(), 3000);
        let odd = Histogram { bounds_s: vec![1.0], counts: Vec::new(), sum_s: f64::NAN };
        all.add(&Counters {
            times: Times { first_byte: odd, ..Times::default() },
            ..Counters::default()
        });
        assert_eq!(all.times.first_byte, Histogram::default());
    }
}
