// SPDX-License-Identifier: GPL-2.0-or-later
//! What the paths of a run's flows can carry together: the largest sum of the flows' rates with no
//! link direction above its own rate.
//!
//! A flow crosses the links under all its hops, in the direction of the data, with one rate. The
//! largest sum is a linear program ([`largest_sum`]). Where all flows cross one link that is slower than
//! the rest together, it is that link's rate; of twelve senders at 1 Gb/s behind 10 Gb/s it is
//! 10 Gb/s, and of three of them 3 Gb/s. Rates are those of the links: headers, repeats and
//! background take their part of them.

mod simplex;

use record::Manifest;
use scenario::{Heading, Routes};
use serde::Deserialize;
use simplex::largest_sum;
use std::collections::{BTreeMap, BTreeSet};
use units::Rate;

/// A metric that records do not contain: `goodput_bps` over what the flows' paths can carry together.
pub const GOODPUT_SHARE: &str = "goodput_share";

/// What some flows can have together, at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// The largest sum of their rates, in bits a second.
    pub bps: f64,
    /// Whether it is the rate of one link that they all cross, once.
    pub of_one_link: bool,
}

/// The links that each flow of a run crosses.
#[derive(Debug, Default)]
pub struct Paths {
    flows: BTreeMap<String, Crossings>,
    rates: BTreeMap<LinkDirection, Rate>,
}

/// One direction of a link.
type LinkDirection = (usize, Heading);

/// The lanes with a rate that a flow crosses, and how often: a chain of depots may come back.
type Crossings = BTreeMap<LinkDirection, u32>;

/// Of a scenario as run, what tells the paths. All versions of longhaul put this much on record.
#[derive(Deserialize)]
struct Network {
    nodes: Vec<Node>,
    links: Vec<scenario::Link>,
    flows: Vec<Flow>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    from: String,
    to: String,
    via: Vec<String>,
}

impl Paths {
    /// From the scenario that is on record; no flows where it is not one of longhaul's.
    pub fn of(manifest: &Manifest) -> Self {
        let Ok(network) = Network::deserialize(&manifest.scenario) else { return Self::default() };
        let nodes = network.nodes.iter().map(|node| node.name.as_str());
        let routes = Routes::new(nodes, &network.links);
        let mut paths = Self::default();
        for flow in &network.flows {
            if let Some(crossings) = paths.crossings(flow, &routes, &network.links) {
                paths.flows.insert(flow.name.clone(), crossings);
            }
        }
        paths
    }

    fn crossings(
        &mut self,
        flow: &Flow,
        routes: &Routes,
        links: &[scenario::Link],
    ) -> Option<Crossings> {
        let mut crossings = Crossings::new();
        let mut at = &flow.from;
        for next in flow.via.iter().chain([&flow.to]) {
            for leg in routes.legs(at, next)? {
                let lane = (leg.link, leg.heading);
                if let Some(rate) = links[leg.link].direction(leg.heading).rate {
                    *crossings.entry(lane).or_default() += 1;
                    self.rates.insert(lane, rate);
                }
            }
            at = next;
        }
        Some(crossings)
    }

    /// What these flows can have together; none where a path is not known, or has no rate.
    pub fn capacity<'f>(&self, flows: impl IntoIterator<Item = &'f str>) -> Option<Capacity> {
        let crossings: Vec<&Crossings> =
            flows.into_iter().map(|name| self.flows.get(name)).collect::<Option<_>>()?;
        // Flows of the same path are as one: only their sum counts.
        let distinct: BTreeSet<&Crossings> = crossings.into_iter().collect();
        let lanes: BTreeSet<&LinkDirection> =
            distinct.iter().flat_map(|path| path.keys()).collect();
        let times = |path: &Crossings, lane: &LinkDirection| path.get(lane).copied().unwrap_or(0);
        let limits = lanes.iter().map(|lane| simplex::Limit {
            weights: distinct.iter().map(|path| f64::from(times(path, lane))).collect(),
            bound: self.rates[*lane].bps() as f64,
        });
        let bps = largest_sum(&limits.collect::<Vec<_>>())?;
        let is_it = |lane: &&&LinkDirection| {
            let rate = self.rates[**lane].bps() as f64;
            (rate - bps).abs() < 1e-6 * rate && distinct.iter().all(|path| times(path, lane) == 1)
        };
        Some(Capacity { bps, of_one_link: lanes.iter().any(|lane| is_it(&lane)) })
    }
}

#[cfg(test)]
mod tests;
