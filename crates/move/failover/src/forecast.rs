// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes of networks by forecast, from the round trips between this site and the depots and from the depots' loads.
//!
//! Each network chooses separately, and keeps its route for [`STAY`] unless a depot of it is down. So a depot that becomes busy loses
//! only a part of the networks at a time.
//! Limits: the paths between clients and depots are unknown here and assumed to be equal.

use crate::config::{Clients, FailoverRoute};
use ipnet::IpNet;
use overlay::{Candidate, Claim, Hop, Memory, Request};
use protocol::{DepotAddress, http::load::Load};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Minimum time that a network keeps its route, while that is up.
const STAY: Duration = Duration::from_secs(30);
/// Size of the forecast transfer, in bytes.
const BYTES: u64 = 64 << 20;
/// Assumed round trip of an unknown part of a path, in seconds.
const ASSUMED_RTT_S: f64 = 0.05;
/// Cost of a failed attempt, in seconds.
const TIMEOUT_S: f64 = 15.0;

/// Probe results of depots, and chosen routes of networks.
#[derive(Debug)]
pub(super) struct Forecasts {
    begun: Instant,
    depots: HashMap<DepotAddress, Answered>,
    networks: HashMap<IpNet, Chosen>,
}

/// Latest probe result of a depot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Answered {
    /// Round trip in seconds.
    pub rtt_s: Option<f64>,
    /// Its load, if it responds to this host with it.
    pub load: Option<Load>,
}

#[derive(Debug, Default)]
struct Chosen {
    memory: Memory,
    /// Index of the route, and when it was chosen.
    route: Option<(usize, Instant)>,
}

impl Forecasts {
    /// Without probe results.
    pub fn new() -> Self {
        let (depots, networks) = Default::default();
        Self { begun: Instant::now(), depots, networks }
    }

    /// Records a probe result.
    pub fn answered(&mut self, depot: &DepotAddress, answered: Answered) {
        self.depots.insert(depot.clone(), answered);
    }

    /// The route for a network of these clients; none if no route is up.
    pub fn route<'c>(
        &mut self,
        clients: &'c Clients,
        network: &IpNet,
        is_up: impl Fn(&DepotAddress) -> bool,
    ) -> Option<&'c FailoverRoute> {
        self.route_at(clients, network, is_up, Instant::now())
    }

    fn route_at<'c>(
        &mut self,
        clients: &'c Clients,
        network: &IpNet,
        is_up: impl Fn(&DepotAddress) -> bool,
        now: Instant,
    ) -> Option<&'c FailoverRoute> {
        let up: Vec<usize> = (0..clients.routes.len())
            .filter(|at| clients.routes[*at].depots().iter().all(&is_up))
            .collect();
        let chosen = self.networks.entry(*network).or_default();
        if let Some((at, since)) = chosen.route
            && up.contains(&at)
            && now.duration_since(since) < STAY
        {
            return Some(&clients.routes[at]);
        }
        chosen.route = None;
        if up.is_empty() {
            return None;
        }
        let depots = &self.depots;
        let candidates: Vec<Candidate> =
            up.iter().map(|at| candidate(&clients.routes[*at], depots)).collect();
        let now_s = now.duration_since(self.begun).as_secs_f64();
        let request = Request { bytes: BYTES, now_s, timeout_s: TIMEOUT_S };
        // Without random bits the first of equals.
        let random = host::random().map_or(0, u64::from_ne_bytes);
        let decision = chosen.memory.choose("", &request, &candidates, random);
        let at = up[decision.order[0]];
        chosen.route = Some((at, now));
        Some(&clients.routes[at])
    }
}

/// A route's connections from client to site. The round trip of the first one is unknown.
fn candidate(route: &FailoverRoute, depots: &HashMap<DepotAddress, Answered>) -> Candidate {
    let answered = |depot: &DepotAddress| depots.get(depot).copied().unwrap_or_default();
    let (mut hops, mut beyond_s) = (Vec::new(), 0.0);
    for depot in route.via().iter().rev() {
        let rtt_s = answered(depot).rtt_s.unwrap_or(beyond_s + ASSUMED_RTT_S);
        hops.push(Hop::of_round_trip((rtt_s - beyond_s).max(0.1 * rtt_s)));
        beyond_s = rtt_s;
    }
    hops.push(Hop::of_round_trip(ASSUMED_RTT_S));
    hops.reverse();
    let claim = |depot: &DepotAddress| {
        let load = answered(depot).load?;
        Claim::of_load(load.rate_bps, load.highest_rate_bps, load.transfers)
    };
    let claims = route.via().iter().filter_map(claim).collect();
    Candidate { key: route.to_string(), hops, claims }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const NEAR: &str = "http://near:1/lh1/fetch/-";
    const FAR: &str = "http://far:1/lh1/fetch/-";

    fn clients(networks: usize) -> Clients {
        let networks: Vec<String> = (0..networks).map(|n| format!("\"10.{n}.0.0/16\"")).collect();
        let text = format!(
            "routes_file = \"/x\"\n[[clients]]\nnetworks = [{}]\norder = \"forecast\"\nroutes = [\"{FAR}\", \"{NEAR}\"]",
            networks.join(", ")
        );
        Config::from_toml(&text, "x").unwrap().clients.remove(0)
    }

    fn answered(rtt_ms: f64, busy: bool) -> Answered {
        let (rate_bps, highest_rate_bps) = if busy { (95_000_000, 100_000_000) } else { (0, 0) };
        let (connections, connections_limit, leaving, transfers) = (1, 9, false, 20);
        let load =
            Load { connections, connections_limit, leaving, transfers, rate_bps, highest_rate_bps };
        Answered { rtt_s: Some(rtt_ms / 1e3), load: Some(load) }
    }

    fn depot(name: &str) -> DepotAddress {
        format!("{name}:1").parse().unwrap()
    }

    /// Number of networks that use the near depot.
    fn near(forecasts: &mut Forecasts, clients: &Clients, at: Instant, down: &str) -> usize {
        let is_up = |depot: &DepotAddress| depot.authority.host.to_string() != down;
        let is_near = |network: &&IpNet| {
            let route = forecasts.route_at(clients, network, is_up, at);
            route.is_some_and(|route| route.to_string() == NEAR)
        };
        clients.networks.iter().filter(is_near).count()
    }

    #[test]
    fn nearer_depot_is_taken_until_it_is_down() {
        let (mut forecasts, clients) = (Forecasts::new(), clients(20));
        forecasts.answered(&depot("near"), answered(20.0, false));
        forecasts.answered(&depot("far"), answered(300.0, false));
        let (begun, later) = (Instant::now(), Duration::from_secs(31));
        assert_eq!(near(&mut forecasts, &clients, begun, ""), 20);
        assert_eq!(near(&mut forecasts, &clients, begun, "near"), 0, "at once");
        assert_eq!(near(&mut forecasts, &clients, begun, ""), 0, "and not back at once");
        assert_eq!(near(&mut forecasts, &clients, begun + later, ""), 20);
        let is_up = |_: &DepotAddress| false;
        assert_eq!(forecasts.route_at(&clients, &clients.networks[0], is_up, begun), None);
    }

    #[test]
    fn busy_depot_loses_a_part_of_its_networks_at_a_time() {
        let (mut forecasts, clients) = (Forecasts::new(), clients(200));
        for name in ["near", "far"] {
            forecasts.answered(&depot(name), answered(50.0, false));
        }
        let begun = Instant::now();
        let first = near(&mut forecasts, &clients, begun, "");
        assert!((60..=140).contains(&first), "equal routes share the networks: {first}");
        forecasts.answered(&depot("near"), answered(50.0, true));
        assert_eq!(near(&mut forecasts, &clients, begun + STAY / 2, ""), first);
        let second = near(&mut forecasts, &clients, begun + STAY, "");
        assert!(second < first, "{second} of {first}");
    }
}
