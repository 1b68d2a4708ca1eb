// SPDX-License-Identifier: GPL-2.0-or-later
//! How hops are paced, and hosts' classes for bottlenecks.

use super::context::NetworkContext;
use crate::{
    fields::{Located, Pattern},
    network::{BottleneckSpec, FlowSpec, HopPacing},
    run::{Bottleneck, FlowPacing},
};
use std::collections::BTreeSet;
use units::Rate;

/// What each of a flow's hops from stop to stop has, and whether it can be.
pub(super) fn of_hops(
    spec: &FlowSpec,
    stops: &[&Located<Pattern>],
    default: FlowPacing,
    context: &NetworkContext<'_>,
) -> Vec<FlowPacing> {
    let hops = stops.len() - 1;
    let Some(Located { location, value }) = &spec.pacing else { return vec![default; hops] };
    let report = |what: String| {
        context
            .problems
            .report(location, format!("flow \"{}\", pacing: {what}", spec.name.as_str()));
    };
    let each = match value {
        HopPacing::EveryHop(pacing) => vec![*pacing; hops],
        HopPacing::EachHop(each) => each.clone(),
    };
    if each.len() != hops {
        report(format!("{} given for {hops} hops", each.len()));
    }
    for (hop, pacing) in stops.windows(2).zip(&each) {
        let [from, to] = [hop[0], hop[1]].map(|node| node.value.as_str());
        // What no links lead to is reported with the flow.
        let Some((link, line)) = wire(context, from, to) else { continue };
        match (pacing, line) {
            (FlowPacing::Gap | FlowPacing::Edt | FlowPacing::Rate(_), None) => {
                report(format!("link \"{link}\", the first from \"{from}\", has no rate"));
            }
            (FlowPacing::Rate(rate), Some(line)) if *rate > line => report(format!(
                "{rate} is more than link \"{link}\", the first from \"{from}\", carries ({line})"
            )),
            _ => {}
        }
        if let (FlowPacing::Gap | FlowPacing::Rate(_), Some(no_gaps)) =
            (pacing, no_gaps(context, from, to))
        {
            report(no_gaps);
        }
    }
    each
}

/// The first link from one node to another, and its rate if it has one.
fn wire<'g>(context: &NetworkContext<'g>, from: &str, to: &str) -> Option<(&'g str, Option<Rate>)> {
    let first = *context.routes.legs(from, to)?.first()?;
    let link = &context.links[first.link];
    Some((&link.name, link.direction(first.heading).rate))
}

/// Why the first link from one node to another is none for gap frames, where it is not: they hold packets
/// apart only in a queue that keeps the order of what comes, and drops none of it at departure.
fn no_gaps(context: &NetworkContext<'_>, from: &str, to: &str) -> Option<String> {
    let first = *context.routes.legs(from, to)?.first()?;
    let link = &context.links[first.link];
    let discipline = link.direction(first.heading).discipline;
    (!discipline.keeps_gaps()).then(|| {
        format!(
            "link \"{}\", the first from \"{from}\", has the discipline {}, which takes no gap frames",
            link.name,
            discipline.name()
        )
    })
}

/// The bottlenecks, each with a path to every node behind it.
pub(super) fn bottlenecks(
    specs: &[BottleneckSpec],
    context: &NetworkContext<'_>,
) -> Vec<Bottleneck> {
    let problems = context.problems;
    let mut behind = BTreeSet::new();
    let mut all = Vec::new();
    for spec in specs {
        let (name, from) = (&spec.name.0, &spec.from.value.0);
        let mut wires = BTreeSet::new();
        for to in &spec.to {
            let node = &to.value.0;
            let report = |what: String| {
                problems.report(&to.location, format!("bottleneck \"{name}\": {what}"));
            };
            if !behind.insert((from, node)) {
                report(format!("\"{node}\" is behind another one of \"{from}\" already"));
            }
            match wire(context, from, node) {
                None => report(format!("no links lead from \"{from}\" to \"{node}\"")),
                Some((link, None)) => report(format!(
                    "link \"{link}\", the first to \"{node}\", has no rate that could be shared"
                )),
                Some((link, Some(rate))) if rate < spec.rate => report(format!(
                    "{} is more than link \"{link}\", the first to \"{node}\", carries ({rate})",
                    spec.rate
                )),
                Some((link, Some(_))) => {
                    wires.insert(link);
                }
            }
            // An emulated host's classes fill their pauses with gap frames.
            if let Some(no_gaps) = no_gaps(context, from, node) {
                report(no_gaps);
            }
        }
        if wires.len() > 1 {
            let message =
                format!("bottleneck \"{name}\": its nodes are reached over different first links");
            problems.report(&spec.location, message);
        }
        all.push(Bottleneck {
            name: name.clone(),
            from: from.clone(),
            to: spec.to.iter().map(|to| to.value.0.clone()).collect(),
            rate: spec.rate,
        });
    }
    all
}

/// A host has classes for what it sends itself, and all that it sends is in one of them: so packets of
/// others, from and to these nodes or back, must not cross it.
pub(super) fn check_hosts(
    specs: &[BottleneckSpec],
    senders: &[(&str, &str)],
    context: &NetworkContext<'_>,
) {
    let NetworkContext { links, routes, problems, .. } = context;
    for spec in specs {
        let (name, host) = (&spec.name.0, &spec.from.value.0);
        let pairs = senders.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]);
        let other = pairs.filter(|(from, to)| from != host && to != host).find(|(from, to)| {
            let path = routes.path(from, to).unwrap_or_default();
            path.iter().any(|link| links[*link].a == *host || links[*link].b == *host)
        });
        if let Some((from, to)) = other {
            problems.report(
                &spec.from.location,
                format!(
                    "bottleneck \"{name}\": what \"{from}\" sends to \"{to}\" crosses \"{host}\", which has \
                     classes only for what it sends itself"
                ),
            );
        }
    }
}
