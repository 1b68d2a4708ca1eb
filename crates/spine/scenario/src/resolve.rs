// SPDX-License-Identifier: GPL-2.0-or-later
//! From what the file gives to what a run needs: names checked, queues and buffers sized.
//!
//! The bandwidth-delay product of a direction of a link is its rate times the longest round trip
//! (propagation there and back) between any two nodes whose path, there or back, crosses the link:
//! a bottleneck's buffer of one such product fits every path that uses it. A node's is the largest
//! of the paths through it: the rate of the slowest link between two nodes times their round trip. Buffers that are to fit
//! by themselves (`"auto"`) hold that and the slowest link's queue.

use crate::{
    diagnostics::{Location, Problems},
    fields::{Located, Pattern},
    network::{DirectionSpec, FlowSpec, HopCc, LinkSpec, MOST_OTHERS, NetworkSpec, NodeSpec, Size},
    routes::{InFlight, Routes},
    run::{
        Bottleneck, Congestion, Direction, Discipline, Event, Family, Flow, FlowPacing, Link, Node,
        PacingSettings, Tcp, Traffic,
    },
};
use context::{NetworkContext, cc_of};
use event::Subjects;
use length::{LEAST_PACKETS, length};
use names::first_faults;
use units::{Bytes, Duration};

mod capture;
mod context;
mod discipline;
mod event;
mod jittered;
mod length;
mod names;
mod pacing;
mod reverse;
mod traffic;
mod variation;

pub(crate) use jittered::Jittered;
pub(crate) use names::unique;

/// IPv6 needs links that carry packets of this many bytes (RFC 8200 section 5).
const LEAST_IPV6_MTU: u32 = 1280;

/// Of a buffer the kernel takes half for its own overhead (`tcp_adv_win_scale` 1, and twice `cwnd` in a send buffer).
const KERNELS_SHARE: f64 = 2.0;
/// While a lost packet is sent again, what arrives behind it waits in the receive buffer for a round trip more. With less
/// room than that the window closes, and what was held up follows in one burst.
const ROOM_FOR_RECOVERY: f64 = 2.0;

/// The part that all runs of a variant share, without randomly drawn values.
pub(crate) struct Network {
    pub timeout: Duration,
    pub duration: Option<Duration>,
    pub sample: Duration,
    pub family: Family,
    /// The scenario's; each repeat derives its own.
    pub seed: u64,
    pub tcp: Tcp,
    pub congestion: Vec<Congestion>,
    pub pacing: PacingSettings,
    pub bottlenecks: Vec<Bottleneck>,
    pub nodes: Vec<Node>,
    pub links: Vec<Jittered<Link>>,
    pub flows: Vec<Jittered<Flow>>,
    pub traffic: Vec<Jittered<Traffic>>,
    pub events: Vec<Event>,
}

/// Resolves what was read. None where problems were reported.
pub(crate) fn resolve(spec: NetworkSpec, file: &Location, problems: &Problems) -> Option<Network> {
    names::check(&spec, file, problems);
    check_mtus(&spec, problems);
    capture::check(&spec, problems);
    first_faults(&spec.links, problems, |link| discipline::check(link, problems));
    if !problems.is_empty() {
        return None;
    }
    let mut links: Vec<Link> = spec.links.iter().map(link).collect();
    let routes = Routes::new(spec.nodes.iter().map(|n| n.name.as_str()), &links);
    let longest = routes.longest_round_trips(links.len());
    for ((link, spec), rtt) in links.iter_mut().zip(&spec.links).zip(&longest) {
        let Link { name, forward, backward, .. } = link;
        for (direction, spec) in [(forward, &spec.forward), (backward, &spec.backward)] {
            size_queues(direction, spec, *rtt);
            direction.discipline = discipline::of_direction(name, direction, spec, *rtt, problems);
        }
    }
    let family = spec.family;
    let mut nodes = Vec::new();
    let in_flight = routes.largest_in_flight(&links);
    first_faults(&spec.nodes, problems, |spec| {
        nodes.push(node(spec, family, in_flight.get(spec.name.as_str()).copied(), problems));
    });
    let context =
        NetworkContext { family, nodes: &nodes, links: &links, routes: &routes, problems };
    let mut flows = Vec::new();
    let pacing = if spec.tcp.pacing { FlowPacing::Tcp } else { FlowPacing::None };
    first_faults(&spec.flows, problems, |spec| {
        let flow = flow(spec, pacing, &context);
        let variation = context.round_trip(&flow.from, &flow.to);
        flows.push(Jittered { thing: flow, jitter: spec.jitter, variation });
    });
    check_after(&spec.flows, &flows, problems);
    reverse::mark(&spec.flows, &mut flows, &routes);
    let bottlenecks = pacing::bottlenecks(&spec.bottlenecks, &context);
    let traffic = all_traffic(&spec, file, &context);
    let subjects =
        Subjects { flows: &flows, traffic: &traffic, bottlenecks: &bottlenecks, context: &context };
    let events = event::events(&spec.events, &subjects);
    let hops = flows.iter().flat_map(|flow| flow.thing.hops()).map(|hop| (hop.from, hop.to));
    let others = traffic.iter().map(|t| (t.thing.from.as_str(), t.thing.to.as_str()));
    let senders: Vec<_> = hops.chain(others).collect();
    pacing::check_hosts(&spec.bottlenecks, &senders, &context);
    let variations = variation::of_links(&links, &longest);
    let links = links.into_iter().zip(&spec.links).zip(variations);
    problems.is_empty().then_some(Network {
        timeout: spec.timeout,
        duration: spec.duration,
        sample: spec.sample,
        family,
        seed: spec.seed,
        tcp: spec.tcp,
        congestion: spec.congestion.into_iter().map(|(_, c)| c).collect(),
        pacing: spec.pacing,
        bottlenecks,
        nodes,
        links: links
            .map(|((thing, spec), variation)| Jittered {
                thing,
                jitter: spec.delay_spread,
                variation,
            })
            .collect(),
        flows,
        traffic,
        events,
    })
}

/// What `[[traffic]]` names, then what `[[background]]` stands for.
fn all_traffic(
    spec: &NetworkSpec,
    file: &Location,
    context: &NetworkContext<'_>,
) -> Vec<Jittered<Traffic>> {
    let mut all = Vec::new();
    let mut places = Vec::new();
    first_faults(&spec.traffic, context.problems, |spec| {
        all.extend(traffic::traffic(spec, context));
        places.resize(all.len(), &spec.location);
    });
    for spec in &spec.backgrounds {
        all.extend(traffic::background(spec, context));
        places.resize(all.len(), &spec.location);
        if all.len() > MOST_OTHERS {
            context.problems.report(file, format!("more than {MOST_OTHERS} sources of traffic"));
            break;
        }
    }
    let names = all.iter().map(|t| t.thing.name.as_str());
    unique("traffic", places.into_iter().zip(names), context.problems);
    all
}

fn check_mtus(spec: &NetworkSpec, problems: &Problems) {
    if spec.family != Family::Ipv6 {
        return;
    }
    first_faults(&spec.links, problems, |link| {
        for Located { location, value } in [&link.forward.mtu, &link.backward.mtu] {
            if *value < LEAST_IPV6_MTU {
                let name = link.name.as_str();
                let message = format!("link \"{name}\", mtu: IPv6 needs at least {LEAST_IPV6_MTU}");
                problems.report(location, message);
            }
        }
    });
}

/// All but the queues, which need the paths over all links.
fn link(spec: &LinkSpec) -> Link {
    let direction = |spec: &DirectionSpec| Direction {
        rate: spec.rate,
        rate_over_time: spec.rate_over_time.clone(),
        delay: spec.delay,
        loss: spec.loss,
        impairments: spec.impairments.clone(),
        queue: None,
        discipline: Discipline::Taildrop,
        mark: None,
        mtu: spec.mtu.value,
        max_burst: spec.max_burst,
        monitor: spec.monitor,
        spacing: spec.spacing,
        overhead: spec.overhead,
    };
    let [a, b] = &spec.ends;
    Link {
        name: spec.name.as_str().to_owned(),
        a: a.value.as_str().to_owned(),
        b: b.value.as_str().to_owned(),
        forward: direction(&spec.forward),
        backward: direction(&spec.backward),
    }
}

fn size_queues(direction: &mut Direction, spec: &DirectionSpec, longest: Duration) {
    direction.queue = length(spec.queue, LEAST_PACKETS, spec, longest);
    direction.mark = spec.mark.as_ref().and_then(|mark| length(mark.value, 1, spec, longest));
}

fn node(spec: &NodeSpec, family: Family, paths: Option<InFlight>, problems: &Problems) -> Node {
    let bytes = |key: &str, size: Option<&Located<Size>>| {
        let size = size?;
        let sized = buffer(size.value, paths);
        if sized.is_none() {
            let message = format!(
                "node \"{}\", {key}: no path through it has a rate; give a size in bytes",
                spec.name.as_str()
            );
            problems.report(&size.location, message);
        }
        sized
    };
    Node {
        tcp_rmem_max: bytes("tcp_rmem_max", spec.tcp_rmem_max.as_ref()),
        tcp_wmem_max: bytes("tcp_wmem_max", spec.tcp_wmem_max.as_ref()),
        name: spec.name.as_str().to_owned(),
        cc: spec.cc.clone(),
        sysctl: spec.sysctl.clone(),
        capture: spec.capture.as_ref().map(|capture| capture::of_node(capture, family)),
    }
}

/// The size of a buffer: none where it depends on paths without a rate.
fn buffer(size: Size, paths: Option<InFlight>) -> Option<Bytes> {
    let least = |paths: InFlight| Bytes::new(LEAST_PACKETS * paths.packet.get());
    match size {
        Size::Bytes(bytes) => Some(bytes),
        Size::Bdp(factor) => paths.map(|paths| paths.product.scale(factor).max(least(paths))),
        Size::Auto => paths.map(|paths| paths.with_queue.scale(KERNELS_SHARE * ROOM_FOR_RECOVERY)),
    }
}

/// A flow takes over the connections of another only where both go the same way.
fn check_after(specs: &[FlowSpec], flows: &[Jittered<Flow>], problems: &Problems) {
    for (n, spec) in specs.iter().enumerate() {
        let for_whom = |other: &FlowSpec| {
            other.after.as_ref().is_some_and(|after| after.value.as_str() == spec.name.as_str())
        };
        if spec.prepares && !specs[n + 1..].iter().any(for_whom) {
            let name = spec.name.as_str();
            let message =
                format!("flow \"{name}\" prepares connections, and no flow comes after it");
            problems.report(&spec.location, message);
        }
        let Some(after) = &spec.after else { continue };
        let Some(flow) = flows.get(n).map(|flow| &flow.thing) else { continue };
        let before = &flows[..n];
        let earlier = before.iter().find(|earlier| earlier.thing.name == after.value.as_str());
        let same = |earlier: &Flow| {
            let way = |flow: &Flow| {
                // With another congestion control than its connections have, a run does not count.
                let Flow { from, to, via, warm, site, .. } = flow.clone();
                (from, to, via, warm, site)
            };
            way(earlier) == way(flow)
        };
        let taken = specs[..n].iter().filter_map(|spec| spec.after.as_ref());
        let is_taken = taken.clone().any(|other| other.value.as_str() == after.value.as_str());
        let wrong = match earlier {
            Some(_) if is_taken => "another flow comes after that one",
            Some(earlier) if earlier.thing.bytes.is_none() => {
                "that flow has no bytes, and so no end"
            }
            None => "there is no such flow before it",
            Some(earlier) if !same(&earlier.thing) => {
                "its from, to, via, warm and site must be those of that flow"
            }
            Some(_) => continue,
        };
        let (name, after_name) = (&flow.name, after.value.as_str());
        let message = format!("flow \"{name}\", after = \"{after_name}\": {wrong}");
        problems.report(&after.location, message);
    }
}

/// A flow, with the pacing of hops of which it says nothing.
fn flow(spec: &FlowSpec, pacing: FlowPacing, context: &NetworkContext<'_>) -> Flow {
    let NetworkContext { nodes, routes, problems, .. } = *context;
    let name = spec.name.as_str();
    let stops: Vec<&Located<Pattern>> =
        std::iter::once(&spec.from).chain(&spec.via).chain([&spec.to]).collect();
    for hop in stops.windows(2) {
        let [from, to] = [hop[0], hop[1]].map(|node| node.value.as_str());
        if routes.path(from, to).is_none() {
            let message = format!("flow \"{name}\": no links lead from \"{from}\" to \"{to}\"");
            problems.report(&hop[1].location, message);
        }
    }
    let senders = &stops[..stops.len() - 1];
    let cc = match spec.cc.as_ref().map(|c| (&c.location, &c.value)) {
        None => senders.iter().map(|n| cc_of(n.value.as_str(), nodes)).collect(),
        Some((_, HopCc::EveryHop(cc))) => vec![cc.clone(); senders.len()],
        Some((location, HopCc::EachHop(cc))) => {
            if cc.len() != senders.len() {
                let message = format!(
                    "flow \"{name}\", cc: {} given for {} hops ({})",
                    cc.len(),
                    senders.len(),
                    stops.iter().map(|s| s.value.as_str()).collect::<Vec<_>>().join(" -> "),
                );
                problems.report(location, message);
            }
            cc.clone()
        }
    };
    Flow {
        name: name.to_owned(),
        from: spec.from.value.as_str().to_owned(),
        to: spec.to.value.as_str().to_owned(),
        via: spec.via.iter().map(|n| n.value.as_str().to_owned()).collect(),
        cc,
        pacing: pacing::of_hops(spec, &stops, pacing, context),
        bytes: spec.bytes,
        app_rate: spec.app_rate,
        streams: spec.streams,
        start: spec.start,
        client: spec.client,
        signalling: spec.signalling,
        after: spec.after.as_ref().map(|flow| flow.value.as_str().to_owned()),
        prepares: spec.prepares,
        reverse: false,
        warm: spec.warm,
        site: spec.site,
        sndbuf: spec.sndbuf,
        rcvbuf: spec.rcvbuf,
    }
}
