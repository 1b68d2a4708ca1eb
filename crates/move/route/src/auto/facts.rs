// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of paths before a transfer: round trips from this host, and what depots claim of themselves.
//!
//! Probes: one connection to each depot, with one short question, and one to the destination, all at once, for at most a second, and not
//! again within a minute. The round trip is the kernel's (`TCP_INFO`), so a depot cannot shorten it. Where a
//! part of the path is unknown, it is what others leave of the direct round trip.

use super::{AutoSettings, chain_key, key, locked};
use crate::{destination::Destination, dial::FirstHopDialer, standing::Standings};
use host::tcp_info;
use overlay::{Candidate, Claim, Hop, Memory};
use protocol::{DepotAddress, Scheme, announcement::Announcement, http::load::Load};
use relay::{
    dial::Refusal,
    tcp::{Stream, socket_options::HopOptions},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

/// How long probes may take before a transfer.
pub const PROBE_TIME: Duration = Duration::from_secs(1);
/// How long what they found counts.
const FRESH: Duration = Duration::from_secs(60);
/// The most destinations whose round trip is remembered.
const MOST_DESTINATIONS: usize = 1024;
/// Where nothing is known of a round trip, in seconds.
const ASSUMED_RTT_S: f64 = 0.05;
/// A part of a path takes at least this share of what is around it.
const LEAST_SHARE: f64 = 0.1;

/// What probes have found.
#[derive(Debug)]
pub(crate) struct Facts {
    dialer: FirstHopDialer,
    mark: Option<u32>,
    announcements: HashMap<DepotAddress, Announcement>,
    standings: Arc<Standings>,
    depots: Mutex<HashMap<DepotAddress, Found>>,
    destinations: Mutex<HashMap<String, Found>>,
    is_gathering: AtomicBool,
    probes: AtomicU64,
}

/// What one probe has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    at: Instant,
    /// The round trip in seconds; none if there was no connection.
    pub rtt_s: Option<f64>,
    /// What the depot claims, if it does.
    pub claim: Option<Claim>,
}

impl Found {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }
}

impl Facts {
    pub fn new(settings: AutoSettings, standings: Arc<Standings>) -> Self {
        let (depots, destinations, is_gathering, probes) = Default::default();
        let AutoSettings { ca, announcements, mark, .. } = settings;
        let by_address = |it: Announcement| (it.address.clone(), it);
        let announcements = announcements.into_iter().map(by_address).collect();
        let dialer = FirstHopDialer::new(ca);
        Self { dialer, mark, announcements, standings, depots, destinations, is_gathering, probes }
    }

    /// Whether a depot announces rules that do not admit a destination.
    pub fn refuses(&self, depot: &DepotAddress, to: &Destination) -> bool {
        self.announcements.get(depot).is_some_and(|it| !it.may_admit(&to.server()))
    }

    /// Number of probes so far.
    pub fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }

    /// Records a probe that was made elsewhere.
    pub fn record_probe(&self, depot: &DepotAddress, rtt_s: Option<f64>, load: Option<&Load>) {
        let found = Found { at: Instant::now(), rtt_s, claim: load.and_then(claim_of) };
        locked(&self.depots).insert(depot.clone(), found);
    }

    async fn connect(&self, to: &DepotAddress) -> Result<Stream, Refusal> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        let options = HopOptions { mark: self.mark, ..HopOptions::default() };
        self.dialer.connect(to, &options, PROBE_TIME).await
    }

    /// What is known of a depot.
    pub fn of_depot(&self, depot: &DepotAddress) -> Option<Found> {
        locked(&self.depots).get(depot).copied().filter(Found::is_fresh)
    }

    fn of_destination(&self, to: &Destination) -> Option<Found> {
        locked(&self.destinations).get(&key(to)).copied().filter(Found::is_fresh)
    }

    /// Probes what is not known yet. What has not answered after a second stays unknown.
    pub async fn gather(self: &Arc<Self>, to: &Destination, chains: &[&[DepotAddress]]) {
        let mut probes = JoinSet::new();
        let all: HashSet<&DepotAddress> = chains.iter().copied().flatten().collect();
        for depot in all.into_iter().filter(|depot| self.of_depot(depot).is_none()) {
            let (facts, depot) = (Arc::clone(self), depot.clone());
            probes.spawn(async move { facts.probe(depot).await });
        }
        if self.of_destination(to).is_none() {
            let (facts, to) = (Arc::clone(self), to.clone());
            probes.spawn(async move { facts.probe_destination(&to).await });
        }
        let _ = timeout(PROBE_TIME, async { while probes.join_next().await.is_some() {} }).await;
    }

    /// The same without that anybody waits for it; one at a time.
    pub fn gather_in_background(self: &Arc<Self>, to: &Destination, chains: &[&[DepotAddress]]) {
        let is_known = self.of_destination(to).is_some()
            && chains.iter().copied().flatten().all(|depot| self.of_depot(depot).is_some());
        if is_known || self.is_gathering.swap(true, Ordering::AcqRel) {
            return;
        }
        let (facts, to) = (Arc::clone(self), to.clone());
        let chains: Vec<Vec<DepotAddress>> = chains.iter().map(|chain| chain.to_vec()).collect();
        tokio::spawn(async move {
            let chains: Vec<&[DepotAddress]> = chains.iter().map(Vec::as_slice).collect();
            facts.gather(&to, &chains).await;
            facts.is_gathering.store(false, Ordering::Release);
        });
    }

    async fn probe(&self, depot: DepotAddress) {
        let at = Instant::now();
        let found = match self.connect(&depot).await {
            Ok(mut stream) => {
                let rtt_s = rtt_s(stream.tcp());
                // Noted before the answer, which may not come.
                locked(&self.depots).insert(depot.clone(), Found { at, rtt_s, claim: None });
                let load = health::load(&mut stream, &depot).await;
                Found { at, rtt_s, claim: load.as_ref().and_then(claim_of) }
            }
            Err(refusal) => {
                tracing::debug!(%depot, %refusal, "a depot of the register is not reached");
                self.standings.failed(&depot, at);
                Found { at, rtt_s: None, claim: None }
            }
        };
        locked(&self.depots).insert(depot, found);
    }

    async fn probe_destination(&self, to: &Destination) {
        let at = Instant::now();
        let plain = DepotAddress { scheme: Scheme::Http, authority: to.server() };
        let connected = self.connect(&plain).await;
        let rtt_s = connected.ok().and_then(|stream| rtt_s(stream.tcp()));
        let mut destinations = locked(&self.destinations);
        if destinations.len() >= MOST_DESTINATIONS {
            destinations.clear();
        }
        destinations.insert(key(to), Found { at, rtt_s, claim: None });
    }

    /// The round trips that were measured in the last minute, by the names of what was reached.
    pub fn round_trips(&self) -> Vec<(String, f64)> {
        let depots = locked(&self.depots);
        let destinations = locked(&self.destinations);
        let of_depots = depots.iter().map(|(depot, found)| (depot.to_string(), found));
        let of_others = destinations.iter().map(|(name, found)| (name.clone(), found));
        let fresh = of_depots.chain(of_others).filter(|(_, found)| found.is_fresh());
        fresh.filter_map(|(name, found)| Some((name, found.rtt_s?))).collect()
    }

    /// The routes as forecasts take them; round trips that were not measured lately are those of `known`.
    pub fn candidates(
        &self,
        to: &Destination,
        chains: &[&[DepotAddress]],
        known: &Memory,
    ) -> Vec<Candidate> {
        let measured = |found: Option<Found>, name: &str| match found {
            Some(found) => found.rtt_s,
            None => known.round_trip(name),
        };
        let direct_s = measured(self.of_destination(to), &key(to));
        let of = |chain: &&[DepotAddress]| {
            let found: Vec<Option<Found>> =
                chain.iter().map(|depot| self.of_depot(depot)).collect();
            let rtts: Vec<Option<f64>> = chain
                .iter()
                .zip(&found)
                .map(|(depot, found)| measured(*found, &depot.to_string()))
                .collect();
            let claim = |(depot, found): (&DepotAddress, &Option<Found>)| {
                let announced = || claim_of(&self.announcements.get(depot)?.load);
                found.and_then(|it| it.claim).or_else(announced)
            };
            let claims = chain.iter().zip(&found).filter_map(claim).collect();
            let mut hops: Vec<Hop> =
                hops(direct_s, &rtts).into_iter().map(Hop::of_round_trip).collect();
            for (at, pair) in chain.windows(2).enumerate() {
                self.apply_announced(&mut hops[at + 1], pair);
            }
            Candidate { key: chain_key(chain), hops, claims }
        };
        chains.iter().map(of).collect()
    }

    /// Applies what the first of two depots announces about its connections to the second. It may lie, so the round trip and the loss
    /// only grow. Warm connections are accepted: they save one round trip.
    fn apply_announced(&self, hop: &mut Hop, pair: &[DepotAddress]) {
        let Some(announced) = self.announcements.get(&pair[0]) else { return };
        let Some(facts) = announced.hops.iter().find(|facts| facts.to == pair[1]) else { return };
        let rtt_s = facts.rtt_us.map_or(0.0, |rtt_us| f64::from(rtt_us) / 1e6);
        hop.rtt_s = hop.rtt_s.max(rtt_s);
        hop.loss = hop.loss.max(facts.loss.filter(|loss| (0.0..1.0).contains(loss)).unwrap_or(0.0));
        hop.is_warm = facts.warm > 0;
    }
}

/// The round trips of a chain's connections, by those from this host to its depots and to the destination.
fn hops(direct_s: Option<f64>, depots_s: &[Option<f64>]) -> Vec<f64> {
    let mut before_s = 0.0;
    let mut hops = Vec::new();
    for rtt_s in depots_s.iter().chain([&direct_s]) {
        let rtt_s = rtt_s.unwrap_or(before_s + ASSUMED_RTT_S);
        hops.push((rtt_s - before_s).max(LEAST_SHARE * rtt_s));
        before_s = rtt_s;
    }
    hops
}

fn rtt_s(stream: &TcpStream) -> Option<f64> {
    let info = tcp_info(stream).ok()?;
    let rtt_us = info.min_rtt_us.unwrap_or(info.rtt_us);
    (rtt_us > 0).then(|| f64::from(rtt_us) / 1e6)
}

/// What a depot claims to move; none of one that does not tell.
fn claim_of(load: &Load) -> Option<Claim> {
    Claim::of_load(load.rate_bps, load.highest_rate_bps, load.transfers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_are_what_others_leave() {
        let near = |found: Vec<f64>, expected: &[f64]| {
            let is_near = found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9);
            assert!(is_near && found.len() == expected.len(), "{found:?}, not {expected:?}");
        };
        near(hops(Some(0.09), &[]), &[0.09]);
        near(hops(Some(0.09), &[Some(0.04)]), &[0.04, 0.05]);
        near(hops(Some(0.09), &[Some(0.01), Some(0.07)]), &[0.01, 0.06, 0.02]);
        // A detour: the last part is small, and not nothing.
        near(hops(Some(0.09), &[Some(0.2)]), &[0.2, 0.009]);
        near(hops(None, &[Some(0.04)]), &[0.04, 0.05]);
        near(hops(Some(0.09), &[None]), &[0.05, 0.04]);
    }
}
