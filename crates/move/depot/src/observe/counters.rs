// SPDX-License-Identifier: GPL-2.0-or-later
//! Statistics of one process that add up with those of others: depots before a takeover, and the one after it.
//!
//! Counters keep growing across a takeover. Values of the moment, such as rates, are those of all processes that run.
//! Limits: labels of the sum are bounded as those of one process are.

use super::{
    hops::{MOST, OTHER},
    status::{EndedSessions, Histogram, HopStatistics, Refusals, Sum, Times, Totals},
    sums,
};
use relay::Side;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of refusals and sessions that are told apart, and of names of other counters.
const MOST_KINDS: usize = 256;

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
        for refusals in &other.refusals {
            let same = |it: &Refusals| (it.status, &it.error) == (refusals.status, &refusals.error);
            match self.refusals.iter().position(same) {
                Some(at) => add(&mut self.refusals[at].requests, refusals.requests),
                None if self.refusals.len() < MOST_KINDS => self.refusals.push(refusals.clone()),
                None => {}
            }
        }
        for ended in &other.ended_sessions {
            let same =
                |it: &EndedSessions| (&it.target, &it.outcome) == (&ended.target, &ended.outcome);
            let own = &mut self.ended_sessions;
            match own.iter().position(same) {
                Some(at) => add(&mut own[at].sessions, ended.sessions),
                None if own.len() < MOST_KINDS => own.push(ended.clone()),
                None => {}
            }
        }
        for hop in &other.hops {
            self.add_hop(hop);
        }
        sums::add(&mut self.clients, &other.clients);
        sums::add(&mut self.ticket_transfers, &other.ticket_transfers);
        self.open_sessions = self.open_sessions.saturating_add(other.open_sessions);
        let Times { first_byte, duration, connect } = &mut self.times;
        first_byte.merge(&other.times.first_byte);
        duration.merge(&other.times.duration);
        connect.merge(&other.times.connect);
        merge(&mut self.connect_failures, &other.connect_failures);
        merge(&mut self.tls_failures, &other.tls_failures);
        merge(&mut self.tickets, &other.tickets);
        merge(&mut self.memory_refusals, &other.memory_refusals);
        add(&mut self.accept_failures, other.accept_failures);
        add(&mut self.panics, other.panics);
        add(&mut self.ticket_refusals, other.ticket_refusals);
        add(&mut self.dropped_lines, other.dropped_lines);
    }

    /// What remains once the process has ended: the counters.
    pub(crate) fn ended(self) -> Self {
        let hops = self.hops.into_iter().map(HopStatistics::ended).collect();
        let (clients, ticket_transfers, open_sessions) = (Vec::new(), Vec::new(), 0);
        Self { hops, clients, ticket_transfers, open_sessions, ..self }
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
            self.hops[at].add(hop);
            return;
        }
        let name = if is_new { hop.hop.clone() } else { OTHER.to_owned() };
        self.hops.push(HopStatistics { hop: name, ..hop.clone() });
        self.hops.sort_by(|a, b| (a.side, &a.hop).cmp(&(b.side, &b.hop)));
    }
}

fn add(to: &mut u64, n: u64) {
    *to = to.saturating_add(n);
}

/// Adds counters of the same names.
fn merge(to: &mut BTreeMap<String, u64>, other: &BTreeMap<String, u64>) {
    for (name, n) in other {
        let is_known = to.contains_key(name) || to.len() < MOST_KINDS;
        add(to.entry(if is_known { name.clone() } else { OTHER.to_owned() }).or_default(), *n);
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        merge(&mut self.requests, &other.requests);
        add(&mut self.up_bytes, other.up_bytes);
        add(&mut self.up_spliced_bytes, other.up_spliced_bytes);
        add(&mut self.down_bytes, other.down_bytes);
        add(&mut self.down_spliced_bytes, other.down_spliced_bytes);
    }
}

impl Histogram {
    /// Adds the durations of another histogram, if it has the same buckets.
    fn merge(&mut self, other: &Self) {
        if self.bounds_s != other.bounds_s || self.counts.len() != other.counts.len() {
            return;
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, n)| add(own, *n));
        self.sum_s += other.sum_s;
    }
}

impl HopStatistics {
    /// One with no transfers so far.
    pub(super) fn new(side: Side, hop: String) -> Self {
        Self {
            side,
            hop,
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            connections: BTreeMap::new(),
            streams: 0,
            up_bytes: 0,
            down_bytes: 0,
            up_bps: 0,
            down_bps: 0,
            retransmitted_segments: 0,
            stalls: 0,
            crept_us: 0,
            rtt_us: None,
            min_rtt_us: None,
            cwnd_bytes: 0,
            sndbuf_bytes: 0,
            rcvbuf_bytes: 0,
            delivery_rate_bps: None,
        }
    }

    fn add(&mut self, other: &Self) {
        let weight =
            |hop: &Self| hop.connections.values().fold(0, |sum: usize, n| sum.saturating_add(*n));
        self.rtt_us = mean((self.rtt_us, weight(self)), (other.rtt_us, weight(other)));
        self.min_rtt_us = self.min_rtt_us.into_iter().chain(other.min_rtt_us).min();
        for (name, n) in &other.connections {
            let own = self.connections.entry(name.clone()).or_default();
            *own = own.saturating_add(*n);
        }
        merge(&mut self.requests, &other.requests);
        merge(&mut self.answers, &other.answers);
        for (own, n) in [
            (&mut self.streams, other.streams),
            (&mut self.up_bytes, other.up_bytes),
            (&mut self.down_bytes, other.down_bytes),
            (&mut self.up_bps, other.up_bps),
            (&mut self.down_bps, other.down_bps),
            (&mut self.retransmitted_segments, other.retransmitted_segments),
            (&mut self.stalls, other.stalls),
            (&mut self.crept_us, other.crept_us),
            (&mut self.cwnd_bytes, other.cwnd_bytes),
            (&mut self.sndbuf_bytes, other.sndbuf_bytes),
            (&mut self.rcvbuf_bytes, other.rcvbuf_bytes),
        ] {
            add(own, n);
        }
        let both = [self.delivery_rate_bps, other.delivery_rate_bps];
        self.delivery_rate_bps = both.into_iter().flatten().reduce(u64::saturating_add);
    }

    /// Its counters alone.
    fn ended(self) -> Self {
        Self {
            requests: self.requests,
            answers: self.answers,
            up_bytes: self.up_bytes,
            down_bytes: self.down_bytes,
            retransmitted_segments: self.retransmitted_segments,
            stalls: self.stalls,
            crept_us: self.crept_us,
            ..Self::new(self.side, self.hop)
        }
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
        assert!(all.hops.len() <= MOST + 3 && all.refusals.len() <= MOST_KINDS);
        assert!(all.tickets.len() <= MOST_KINDS + 1);
        assert_eq!(all.tickets.values().sum::<u64>(), 3000);
        let odd = Histogram { bounds_s: vec![1.0], counts: Vec::new(), sum_s: f64::NAN };
        all.add(&Counters {
            times: Times { first_byte: odd, ..Times::default() },
            ..Counters::default()
        });
        assert_eq!(all.times.first_byte, Histogram::default());
    }
}
