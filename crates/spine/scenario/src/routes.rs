// SPDX-License-Identifier: GPL-2.0-or-later
//! Shortest paths between all nodes: by propagation delay, then by hops, then by name.
//!
//! Delays may differ by direction, so the way back may be another way. The result does not depend
//! on the order of nodes or links in the file. Dijkstra's algorithm from each destination, which a
//! thousand nodes take in a fraction of a second.

use crate::run::{Direction, Heading, Link, Queue};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};
use units::{Bytes, Duration, Rate};

/// Where each node sends packets for each other node.
#[derive(Debug, Clone)]
pub struct Routes {
    nodes: BTreeMap<String, usize>,
    /// `steps[to][from]`.
    steps: Vec<Vec<Option<Step>>>,
}

/// A link that a path takes, and in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// An index into the run's links.
    pub link: usize,
    /// Which way the link is crossed.
    pub heading: Heading,
}

/// The best way on from a node towards a destination.
#[derive(Debug, Clone, Copy)]
struct Step {
    // Half the size of usize: there is one step for each pair of nodes.
    link: u32,
    next: u32,
    heading: Heading,
    /// From here to the destination.
    delay: Duration,
}

/// What makes a path better than another, in this order.
type Cost = (Duration, usize);

/// A link as one of its ends sees it, towards the other end.
#[derive(Debug, Clone, Copy)]
struct Edge {
    link: usize,
    heading: Heading,
    from: usize,
    to: usize,
    delay: Duration,
}

impl Routes {
    /// Paths between `nodes` over those of `links` whose ends are among them; of a run,
    /// [`Run::routes`](crate::Run::routes) has them.
    pub fn new<'n>(nodes: impl Iterator<Item = &'n str>, links: &[Link]) -> Self {
        Self::without(nodes, links, |_| false)
    }

    /// The same without the links that are left out; the others keep their numbers.
    pub fn without<'n>(
        nodes: impl Iterator<Item = &'n str>,
        links: &[Link],
        is_left_out: impl Fn(&&Link) -> bool,
    ) -> Self {
        // In the order of their names, so that the smaller number is the smaller name.
        let mut nodes: BTreeMap<String, usize> = nodes.map(|n| (n.to_owned(), 0)).collect();
        nodes.values_mut().enumerate().for_each(|(i, number)| *number = i);

        let mut arcs = Vec::new();
        for (link, l) in links.iter().enumerate().filter(|(_, link)| !is_left_out(link)) {
            if let (Some(&a), Some(&b)) = (nodes.get(&l.a), nodes.get(&l.b)) {
                for (heading, from, to) in [(Heading::Forward, a, b), (Heading::Backward, b, a)] {
                    let delay = l.direction(heading).delay;
                    arcs.push(Edge { link, heading, from, to, delay });
                }
            }
        }
        arcs.sort_by_key(|arc| (arc.from, arc.to, arc.delay, &links[arc.link].name));
        let mut into: Vec<Vec<Edge>> = vec![Vec::new(); nodes.len()];
        for arc in &arcs {
            into[arc.to].push(*arc);
        }
        let steps = (0..nodes.len()).map(|to| steps_towards(to, &into, &arcs)).collect();
        Self { nodes, steps }
    }

    /// The link that `from` sends packets for `to` on, as an index into the run's links. None
    /// where there is no path, or nowhere to go.
    pub fn next_hop(&self, from: &str, to: &str) -> Option<usize> {
        self.step(*self.nodes.get(from)?, *self.nodes.get(to)?).map(|step| step.link as usize)
    }

    /// The links from `from` to `to` in order, as indices into the run's links; empty from a node
    /// to itself. None where there is no path.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<usize>> {
        Some(self.legs(from, to)?.iter().map(|leg| leg.link).collect())
    }

    /// The same path with the direction in which it crosses each link.
    pub fn legs(&self, from: &str, to: &str) -> Option<Vec<Leg>> {
        let (mut at, to) = (*self.nodes.get(from)?, *self.nodes.get(to)?);
        let mut legs = Vec::new();
        // Every step leaves fewer hops, so this ends.
        while at != to {
            let step = self.step(at, to)?;
            legs.push(Leg { link: step.link as usize, heading: step.heading });
            at = step.next as usize;
        }
        Some(legs)
    }

    /// Propagation there and back. None where there is no path.
    pub fn rtt(&self, from: &str, to: &str) -> Option<Duration> {
        self.round_trip(*self.nodes.get(from)?, *self.nodes.get(to)?)
    }

    /// For each link, the longest round trip between nodes whose path, there or back,
    /// crosses it.
    ///
    /// The steps towards a destination are a tree. A link of it is crossed from every node below,
    /// so one walk from the leaves to the root, with the longest so far, serves all of them.
    pub(crate) fn longest_round_trips(&self, links: usize) -> Vec<Duration> {
        let mut longest = vec![Duration::ZERO; links];
        for (to, tree) in self.steps.iter().enumerate() {
            let trip = |from| self.round_trip(from, to).unwrap_or_default();
            let mut below: Vec<Duration> = (0..tree.len()).map(trip).collect();
            for (node, step) in leaves_first(tree) {
                let (link, next) = (step.link as usize, step.next as usize);
                longest[link] = longest[link].max(below[node]);
                below[next] = below[next].max(below[node]);
            }
        }
        longest
    }

    /// For each node what the paths that it is on hold at most, its own and those that it only passes on. None of a node
    /// whose paths have no rates.
    pub(crate) fn largest_in_flight(&self, links: &[Link]) -> BTreeMap<&str, InFlight> {
        let mut largest = vec![InFlight::default(); self.nodes.len()];
        for (to, tree) in self.steps.iter().enumerate() {
            let order = leaves_first(tree);
            let mut slowest: Vec<Option<(Rate, &Direction)>> = vec![None; tree.len()];
            for (node, step) in order.iter().rev() {
                let direction = links[step.link as usize].direction(step.heading);
                let here = direction.rate.map(|rate| (rate, direction));
                let after = slowest[step.next as usize];
                slowest[*node] = here.into_iter().chain(after).min_by_key(|(rate, _)| *rate);
            }
            let in_flight = |from: usize| {
                let (rate, bottleneck) = slowest[from]?;
                Some(InFlight::of(rate.times(self.round_trip(from, to)?), bottleneck))
            };
            let mut below: Vec<InFlight> =
                (0..tree.len()).map(|from| in_flight(from).unwrap_or_default()).collect();
            for (node, step) in order {
                let next = step.next as usize;
                below[next] = below[next].or_more(below[node]);
            }
            for (largest, below) in largest.iter_mut().zip(below) {
                *largest = largest.or_more(below);
            }
        }
        let named = self.nodes.iter().map(|(name, node)| (name.as_str(), largest[*node]));
        named.filter(|(_, in_flight)| *in_flight != InFlight::default()).collect()
    }

    fn round_trip(&self, from: usize, to: usize) -> Option<Duration> {
        if from == to {
            return Some(Duration::ZERO);
        }
        Some(self.step(from, to)?.delay + self.step(to, from)?.delay)
    }

    fn step(&self, from: usize, to: usize) -> Option<Step> {
        self.steps[to][from]
    }
}

/// What paths hold at most, each number of the path where it is largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// The bandwidth-delay product: the rate of a path's slowest link times the round trip between its ends.
    pub product: Bytes,
    /// That and the queue of the slowest link.
    pub with_queue: Bytes,
    /// A full packet on the slowest link.
    pub packet: Bytes,
}

impl InFlight {
    fn of(product: Bytes, bottleneck: &Direction) -> Self {
        let packet = Bytes::new(u64::from(bottleneck.mtu) + u64::from(bottleneck.overhead));
        let queue = match bottleneck.queue {
            None => Bytes::ZERO,
            Some(Queue::Bytes(bytes)) => bytes,
            Some(Queue::Packets(packets)) => Bytes::new(packets.saturating_mul(packet.get())),
        };
        Self { product, with_queue: product + queue, packet }
    }

    fn or_more(self, other: Self) -> Self {
        Self {
            product: self.product.max(other.product),
            with_queue: self.with_queue.max(other.with_queue),
            packet: self.packet.max(other.packet),
        }
    }
}

/// The nodes from which a tree of steps leads on, each after all those whose paths lead over it.
fn leaves_first(tree: &[Option<Step>]) -> Vec<(usize, Step)> {
    let mut children = vec![0_u32; tree.len()];
    for step in tree.iter().flatten() {
        children[step.next as usize] += 1;
    }
    let mut ready: Vec<usize> = (0..tree.len()).filter(|n| children[*n] == 0).collect();
    let mut order = Vec::with_capacity(tree.len());
    while let Some(node) = ready.pop() {
        let Some(step) = tree[node] else { continue };
        order.push((node, step));
        let next = step.next as usize;
        children[next] -= 1;
        if children[next] == 0 {
            ready.push(next);
        }
    }
    order
}

fn steps_towards(to: usize, into: &[Vec<Edge>], arcs: &[Edge]) -> Vec<Option<Step>> {
    let costs = costs_to(to, into);
    let mut steps: Vec<Option<Step>> = vec![None; into.len()];
    for arc in arcs {
        let (Some(here), Some((delay, hops))) = (costs[arc.from], costs[arc.to]) else { continue };
        // The arcs are sorted by name, so the first that lies on a shortest path is the one.
        let on_shortest_path = here == (arc.delay + delay, hops + 1);
        if arc.from != to && on_shortest_path && steps[arc.from].is_none() {
            steps[arc.from] = Some(Step {
                link: arc.link as u32,
                next: arc.to as u32,
                heading: arc.heading,
                delay: here.0,
            });
        }
    }
    steps
}

/// The cost of the best path from each node to `to`, given the arcs into each node.
fn costs_to(to: usize, into: &[Vec<Edge>]) -> Vec<Option<Cost>> {
    let mut costs = vec![None; into.len()];
    let mut open = BinaryHeap::from([Reverse(((Duration::ZERO, 0), to))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        if costs[node].is_some() {
            continue;
        }
        costs[node] = Some(cost);
        for arc in into[node].iter().filter(|arc| costs[arc.from].is_none()) {
            open.push(Reverse(((cost.0 + arc.delay, cost.1 + 1), arc.from)));
        }
    }
    costs
}
