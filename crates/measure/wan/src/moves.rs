// SPDX-License-Identifier: GPL-2.0-or-later
//! Nodes that move to another link, as a laptop does that leaves its network for another one.

use crate::{
    error::WanError,
    node::{End, NodeNetwork, alone, families, families_of, mac, node_named, route},
};
use scenario::{
    Family, Move, Node, Routes, Run,
    addresses::{after_move, device},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a node has after it has moved to a link: the same each time that it moves there.
#[derive(Debug, Clone)]
pub struct MovedAddress {
    link: String,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
}

impl MovedAddress {
    /// Those of a node in a run.
    pub fn all(run: &Run, node: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (n, Move { link, .. }) in (0..).zip(run.moves()).filter(|(_, it)| it.node == node) {
            if all.iter().all(|known| known.link != *link) {
                let (ipv4, ipv6) = after_move(n);
                all.push(Self { link: link.clone(), ipv4, ipv6 });
            }
        }
        all
    }

    /// The address of one family.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => self.ipv4.into(),
            Family::Ipv6 => self.ipv6.into(),
        }
    }
}

/// Moves a node of a run, of which these are all nodes.
pub fn move_node(run: &Run, moves: &Move, nodes: &[NodeNetwork]) -> Result<(), WanError> {
    let link = run.links.iter().position(|link| link.name == moves.link);
    let (Some(link), Some(node)) = (link, nodes.iter().find(|it| it.name == moves.node)) else {
        return Ok(());
    };
    let moved = node.moved.iter().find(|it| it.link == moves.link);
    let moved = moved.expect("a node has an address for each of its moves");
    let arrival = Arrival { run, routes: run.routes_after(moves), nodes, node, link, moved };
    // First the way to it, so that nothing is refused on the way when it calls.
    for (other, spec) in nodes.iter().zip(&run.nodes) {
        // A node that moves receives only, so another one of them has nothing to say to it.
        if other.name != node.name && other.moved.is_empty() {
            other.ip(&arrival.at_other(other, spec))?;
        }
    }
    let spec = run.node(&node.name).expect("the network was made of this run");
    node.ip(&arrival.at_node(spec))
}

/// A node's arrival at another link.
struct Arrival<'a> {
    run: &'a Run,
    /// As they are afterwards.
    routes: Routes,
    nodes: &'a [NodeNetwork],
    node: &'a NodeNetwork,
    link: usize,
    moved: &'a MovedAddress,
}

impl Arrival<'_> {
    fn families(&self) -> &'static [Family] {
        families_of(&self.run.links[self.link], families())
    }

    /// Commands for another node, which sends to the new address over the new link.
    fn at_other(&self, other: &NodeNetwork, spec: &Node) -> String {
        let mut batch = String::new();
        let Some(l) = self.routes.next_hop(&other.name, &self.node.name) else { return batch };
        let end = End::of(&self.run.links[l], &other.name).expect("the next hop is a link of its");
        for family in families_of(&self.run.links[l], self.families()) {
            let (to, device) = (self.moved.address(*family), device(l));
            let via = if end.peer == self.node.name {
                let lladdr = mac(l, 1 - end.number);
                batch +=
                    &format!("neigh replace {to} lladdr {lladdr} dev {device} nud permanent\n");
                to
            } else {
                node_named(self.nodes, end.peer).address(*family)
            };
            let by = format!("via {via} dev {device} onlink");
            batch += &route(to, &by, other.address(*family), &spec.cc);
        }
        batch
    }

    /// Commands for the node itself.
    fn at_node(&self, spec: &Node) -> String {
        // Of the loopback device's addresses, only those that the node was given have this scope.
        let mut batch = String::from("addr flush dev lo scope global\n");
        let end =
            End::of(&self.run.links[self.link], &self.node.name).expect("it is one of its links");
        let (peer, device) = (node_named(self.nodes, end.peer), device(self.link));
        for family in self.families() {
            let own = self.moved.address(*family);
            let nodad = if *family == Family::Ipv6 { " nodad" } else { "" };
            batch += &format!("addr add {} dev lo{nodad}\n", alone(own));
            let (gateway, cc) = (peer.address(*family), &spec.cc);
            // First, as the kernel takes no gateway that it has a route to by another device.
            batch += &route(gateway, &format!("dev {device}"), own, cc);
            let by = format!("via {gateway} dev {device} onlink");
            let is_reached = |other: &&NodeNetwork| {
                other.name != peer.name
                    && self.routes.next_hop(&self.node.name, &other.name).is_some()
            };
            for other in self.nodes.iter().filter(is_reached) {
                batch += &route(other.address(*family), &by, own, cc);
            }
            // What is on its way to the addresses before: nothing answers there.
            let before = self.node.moved.iter().map(|it| it.address(*family));
            for gone in before.chain([self.node.address(*family)]).filter(|it| *it != own) {
                batch += &format!("route replace blackhole {}\n", alone(gone));
            }
        }
        batch
    }
}
