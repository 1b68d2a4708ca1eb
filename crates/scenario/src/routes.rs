// SPDX-License-Identifier: GPL-2.0-or-later
//! Shortest paths between all nodes: by propagation delay, then by hops, then by name.
//!
//! Delays may differ by direction, so the way back may be another way. The result does not depend
//! on the order of nodes or links in the file. Dijkstra's algorithm from each destination: fine
//! for the tens of nodes of a scenario.

use crate::run::Link;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};
use units::Duration;

/// Where each node sends packets for each other node.
#[derive(Debug, Clone)]
pub struct Routes {
    nodes: BTreeMap<String, usize>,
    /// `steps[to][from]`.
    steps: Vec<Vec<Option<Step>>>,
}

/// The best way on from a node towards a destination.
#[derive(Debug, Clone, Copy)]
struct Step {
    link: usize,
    next: usize,
    /// From here to the destination.
    delay: Duration,
}

/// What makes a path better than another, in this order.
type Cost = (Duration, usize);

/// A link as one of its ends sees it, towards the other end.
struct Arc {
    link: usize,
    from: usize,
    to: usize,
    delay: Duration,
}

impl Routes {
    /// Paths between `nodes` over those of `links` whose ends are among them.
    pub(crate) fn new<'n>(nodes: impl Iterator<Item = &'n str>, links: &[Link]) -> Self {
        // In the order of their names, so that the smaller number is the smaller name.
        let mut nodes: BTreeMap<String, usize> = nodes.map(|n| (n.to_owned(), 0)).collect();
        nodes.values_mut().enumerate().for_each(|(i, number)| *number = i);

        let mut arcs = Vec::new();
        for (link, l) in links.iter().enumerate() {
            if let (Some(&a), Some(&b)) = (nodes.get(&l.a), nodes.get(&l.b)) {
                arcs.push(Arc { link, from: a, to: b, delay: l.forward.delay });
                arcs.push(Arc { link, from: b, to: a, delay: l.backward.delay });
            }
        }
        arcs.sort_by_key(|arc| (arc.from, arc.to, arc.delay, &links[arc.link].name));
        let steps = (0..nodes.len()).map(|to| steps_towards(to, nodes.len(), &arcs)).collect();
        Self { nodes, steps }
    }

    /// The link that `from` sends packets for `to` on, as an index into the run's links. None
    /// where there is no path, or nowhere to go.
    pub fn next_hop(&self, from: &str, to: &str) -> Option<usize> {
        self.step(*self.nodes.get(from)?, *self.nodes.get(to)?).map(|step| step.link)
    }

    /// The links from `from` to `to` in order, as indices into the run's links; empty from a node
    /// to itself. None where there is no path.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<usize>> {
        let (mut at, to) = (*self.nodes.get(from)?, *self.nodes.get(to)?);
        let mut links = Vec::new();
        // Every step leaves fewer hops, so this ends.
        while at != to {
            let step = self.step(at, to)?;
            links.push(step.link);
            at = step.next;
        }
        Some(links)
    }

    /// Propagation there and back. None where there is no path.
    pub fn rtt(&self, from: &str, to: &str) -> Option<Duration> {
        let (from, to) = (*self.nodes.get(from)?, *self.nodes.get(to)?);
        if from == to {
            return Some(Duration::ZERO);
        }
        Some(self.step(from, to)?.delay + self.step(to, from)?.delay)
    }

    fn step(&self, from: usize, to: usize) -> Option<Step> {
        self.steps[to][from]
    }
}

fn steps_towards(to: usize, nodes: usize, arcs: &[Arc]) -> Vec<Option<Step>> {
    let costs = costs_to(to, nodes, arcs);
    let mut steps: Vec<Option<Step>> = vec![None; nodes];
    for arc in arcs {
        let (Some(here), Some((delay, hops))) = (costs[arc.from], costs[arc.to]) else { continue };
        // The arcs are sorted by name, so the first that lies on a shortest path is the one.
        let on_shortest_path = here == (arc.delay + delay, hops + 1);
        if arc.from != to && on_shortest_path && steps[arc.from].is_none() {
            steps[arc.from] = Some(Step { link: arc.link, next: arc.to, delay: here.0 });
        }
    }
    steps
}

/// The cost of the best path from each node to `to`.
fn costs_to(to: usize, nodes: usize, arcs: &[Arc]) -> Vec<Option<Cost>> {
    let mut into: Vec<Vec<&Arc>> = vec![Vec::new(); nodes];
    for arc in arcs {
        into[arc.to].push(arc);
    }
    let mut costs = vec![None; nodes];
    let mut open = BinaryHeap::from([Reverse(((Duration::ZERO, 0), to))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        if costs[node].is_some() {
            continue;
        }
        costs[node] = Some(cost);
        for arc in &into[node] {
            open.push(Reverse(((cost.0 + arc.delay, cost.1 + 1), arc.from)));
        }
    }
    costs
}
