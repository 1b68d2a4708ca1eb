// SPDX-License-Identifier: GPL-2.0-or-later
//! From what the file gives to what a run needs: names checked, queues and buffers sized.
//!
//! The bandwidth-delay product of a direction of a link is its rate times the longest round trip
//! (propagation there and back) between any two nodes whose path, there or back, crosses the link:
//! a bottleneck's buffer of one such product fits every path that uses it. A node's is the largest
//! of its links, both directions.

use crate::{
    diagnostics::{Place, Problems},
    fields::{Name, Placed},
    network::{
        Congestion, DirectionSpec, FlowSpec, LinkSpec, NetworkSpec, NodeSpec, QueueSize, Size,
    },
    routes::Routes,
    run::{Direction, Family, Flow, Link, Node, Queue},
    suggest::hint,
};
use std::collections::BTreeSet;
use units::{Bytes, Duration};

/// A queue sized from rate and delay holds at least so many full packets: a short path's product
/// is less than one burst of a sender.
const LEAST_PACKETS: u64 = 100;

/// Paths between all nodes are computed for every variant; a scenario has tens of nodes.
const MOST_NODES: usize = 250;
/// A full mesh of 40 nodes and more.
const MOST_LINKS: usize = 1000;

/// IPv6 needs links that carry packets of this many bytes (RFC 8200 section 5).
const LEAST_IPV6_MTU: u32 = 1280;

/// What a variant's runs have in common, as they have it.
pub(crate) struct Network {
    pub timeout: Duration,
    pub family: Family,
    /// The scenario's; each repeat derives its own.
    pub seed: u64,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
}

/// Resolves what was read. None where problems were reported.
pub(crate) fn resolve(spec: NetworkSpec, file: &Place, problems: &Problems) -> Option<Network> {
    check_names(&spec, file, problems);
    check_mtus(&spec, problems);
    if !problems.is_empty() {
        return None;
    }
    let mut links: Vec<Link> = spec.links.iter().map(link).collect();
    let routes = Routes::new(spec.nodes.iter().map(|n| n.name.as_str()), &links);
    let longest = longest_round_trips(&spec.nodes, links.len(), &routes);
    for ((link, spec), rtt) in links.iter_mut().zip(&spec.links).zip(&longest) {
        link.forward.queue = queue(&spec.forward, *rtt);
        link.backward.queue = queue(&spec.backward, *rtt);
    }
    let nodes: Vec<Node> = spec
        .nodes
        .into_iter()
        .map(|spec| {
            let bdp = node_bdp(&spec.name, &links, &longest);
            node(spec, bdp, problems)
        })
        .collect();
    let flows: Vec<Flow> = spec.flows.iter().map(|f| flow(f, &nodes, &routes, problems)).collect();
    let NetworkSpec { timeout, family, seed, .. } = spec;
    problems.is_empty().then_some(Network { timeout, family, seed, nodes, links, flows })
}

fn check_names(spec: &NetworkSpec, file: &Place, problems: &Problems) {
    if spec.nodes.is_empty() {
        problems.report(file, "there is no [[node]]");
    }
    if spec.nodes.len() > MOST_NODES || spec.links.len() > MOST_LINKS {
        let message = format!("more than {MOST_NODES} nodes or {MOST_LINKS} links");
        problems.report(file, message);
    }
    unique("node", spec.nodes.iter().map(|n| (&n.place, n.name.as_str())), problems);
    unique("link", spec.links.iter().map(|l| (&l.place, l.name.as_str())), problems);
    unique("flow", spec.flows.iter().map(|f| (&f.place, f.name.as_str())), problems);

    let nodes: Vec<&str> = spec.nodes.iter().map(|n| n.name.as_str()).collect();
    let known = |what: &str, name: &Placed<Name>| {
        let Placed { place, value: Name(name) } = name;
        if !nodes.contains(&name.as_str()) {
            let hint = hint(name, nodes.iter().copied());
            problems.report(place, format!("{what}: there is no node \"{name}\"{hint}"));
        }
    };
    for link in &spec.links {
        let what = format!("link \"{}\"", link.name);
        link.ends.iter().for_each(|end| known(&what, end));
        if link.ends[0].value == link.ends[1].value {
            let message = format!("{what}: both ends are \"{}\"", link.ends[0].value.0);
            problems.report(&link.ends[0].place, message);
        }
    }
    for flow in &spec.flows {
        let what = format!("flow \"{}\"", flow.name);
        let mut passed = BTreeSet::new();
        for node in std::iter::once(&flow.from).chain(&flow.via).chain([&flow.to]) {
            known(&what, node);
            if !passed.insert(&node.value.0) {
                let message = format!("{what}: it comes to \"{}\" twice", node.value.0);
                problems.report(&node.place, message);
            }
        }
    }
}

/// Reports names that are given twice.
pub(crate) fn unique<'n>(
    kind: &str,
    names: impl Iterator<Item = (&'n Place, &'n str)>,
    problems: &Problems,
) {
    let mut seen = BTreeSet::new();
    for (place, name) in names {
        if !seen.insert(name) {
            problems.report(place, format!("there is already a {kind} \"{name}\""));
        }
    }
}

fn check_mtus(spec: &NetworkSpec, problems: &Problems) {
    if spec.family != Family::Ipv6 {
        return;
    }
    for link in &spec.links {
        for Placed { place, value } in [&link.forward.mtu, &link.backward.mtu] {
            if *value < LEAST_IPV6_MTU {
                let name = &link.name;
                let message = format!("link \"{name}\", mtu: IPv6 needs at least {LEAST_IPV6_MTU}");
                problems.report(place, message);
            }
        }
    }
}

/// For each link the longest round trip between nodes whose path crosses it.
fn longest_round_trips(nodes: &[NodeSpec], links: usize, routes: &Routes) -> Vec<Duration> {
    let mut longest = vec![Duration::ZERO; links];
    for from in nodes {
        for to in nodes {
            // Each ordered pair: the way back counts as the way there of the other pair.
            let path = routes.path(&from.name, &to.name).unwrap_or_default();
            let rtt = routes.rtt(&from.name, &to.name).unwrap_or_default();
            for link in path {
                longest[link] = longest[link].max(rtt);
            }
        }
    }
    longest
}

/// All but the queues, which need the paths over all links.
fn link(spec: &LinkSpec) -> Link {
    let direction = |spec: &DirectionSpec| Direction {
        rate: spec.rate,
        delay: spec.delay,
        loss: spec.loss,
        queue: None,
        mtu: spec.mtu.value,
        max_burst: spec.max_burst,
        monitor: spec.monitor,
        overhead: spec.overhead,
    };
    let [a, b] = &spec.ends;
    Link {
        name: spec.name.clone(),
        a: a.value.0.clone(),
        b: b.value.0.clone(),
        forward: direction(&spec.forward),
        backward: direction(&spec.backward),
    }
}

fn queue(spec: &DirectionSpec, longest: Duration) -> Option<Queue> {
    match spec.queue {
        QueueSize::Given(queue) => Some(queue),
        QueueSize::Bdp(factor) => {
            // Without a rate nothing ever waits.
            let bdp = spec.rate?.times(longest).scale(factor);
            let packet = u64::from(spec.mtu.value) + u64::from(spec.overhead);
            Some(Queue::Bytes(bdp.max(Bytes::new(LEAST_PACKETS * packet))))
        }
    }
}

fn node_bdp(name: &str, links: &[Link], longest: &[Duration]) -> Option<Bytes> {
    let at_node = links.iter().zip(longest).filter(|(l, _)| l.a == name || l.b == name);
    at_node
        .flat_map(|(l, rtt)| [&l.forward, &l.backward].map(|d| Some(d.rate?.times(*rtt))))
        .flatten()
        .max()
}

fn node(spec: NodeSpec, bdp: Option<Bytes>, problems: &Problems) -> Node {
    let bytes = |key: &str, size: Option<Placed<Size>>| match size? {
        Placed { value: Size::Bytes(bytes), .. } => Some(bytes),
        Placed { place, value: Size::Bdp(factor) } => {
            let sized = bdp.map(|b| b.scale(factor)).filter(|b| *b > Bytes::ZERO);
            if sized.is_none() {
                let message = format!(
                    "node \"{}\", {key}: the bandwidth-delay product of its links is zero or \
                     unlimited; give a size in bytes",
                    spec.name
                );
                problems.report(&place, message);
            }
            sized
        }
    };
    Node {
        tcp_rmem_max: bytes("tcp_rmem_max", spec.tcp_rmem_max),
        tcp_wmem_max: bytes("tcp_wmem_max", spec.tcp_wmem_max),
        name: spec.name,
        cc: spec.cc,
        sysctl: spec.sysctl,
    }
}

fn flow(spec: &FlowSpec, nodes: &[Node], routes: &Routes, problems: &Problems) -> Flow {
    let stops: Vec<&Placed<Name>> =
        std::iter::once(&spec.from).chain(&spec.via).chain([&spec.to]).collect();
    for hop in stops.windows(2) {
        let [from, to] = [&hop[0].value.0, &hop[1].value.0];
        if routes.path(from, to).is_none() {
            let message =
                format!("flow \"{}\": no links lead from \"{from}\" to \"{to}\"", spec.name);
            problems.report(&hop[1].place, message);
        }
    }
    let senders = &stops[..stops.len() - 1];
    let default_of = |node: &Placed<Name>| {
        let node = nodes.iter().find(|n| n.name == node.value.0);
        node.map_or_else(String::new, |n| n.cc.clone())
    };
    let cc = match spec.cc.as_ref().map(|c| (&c.place, &c.value)) {
        None => senders.iter().map(|node| default_of(node)).collect(),
        Some((_, Congestion::EveryHop(cc))) => vec![cc.clone(); senders.len()],
        Some((place, Congestion::EachHop(cc))) => {
            if cc.len() != senders.len() {
                let message = format!(
                    "flow \"{}\", cc: {} given for {} hops ({})",
                    spec.name,
                    cc.len(),
                    senders.len(),
                    stops.iter().map(|s| s.value.0.as_str()).collect::<Vec<_>>().join(" -> "),
                );
                problems.report(place, message);
            }
            cc.clone()
        }
    };
    Flow {
        name: spec.name.clone(),
        from: spec.from.value.0.clone(),
        to: spec.to.value.0.clone(),
        via: spec.via.iter().map(|n| n.value.0.clone()).collect(),
        cc,
        bytes: spec.bytes,
        start: spec.start,
        client: spec.client,
        signalling: spec.signalling,
        sndbuf: spec.sndbuf,
        rcvbuf: spec.rcvbuf,
    }
}
