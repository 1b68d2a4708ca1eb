// SPDX-License-Identifier: GPL-2.0-or-later
//! How hops are paced, and hosts' classes for bottlenecks.

use crate::{
    diagnostics::Problems,
    fields::Placed,
    network::{BottleneckSpec, HopPacing},
    routes::Routes,
    run::{Bottleneck, Link, Pacing},
};
use std::collections::BTreeSet;
use units::Rate;

/// What each of a flow's `hops` has.
pub(super) fn of_hops(
    flow: &str,
    hops: usize,
    spec: Option<&Placed<HopPacing>>,
    default: Pacing,
    problems: &Problems,
) -> Vec<Pacing> {
    match spec.map(|spec| (&spec.place, &spec.value)) {
        None => vec![default; hops],
        Some((_, HopPacing::EveryHop(pacing))) => vec![*pacing; hops],
        Some((place, HopPacing::EachHop(each))) => {
            if each.len() != hops {
                let given = each.len();
                let message = format!("flow \"{flow}\", pacing: {given} given for {hops} hops");
                problems.report(place, message);
            }
            each.clone()
        }
    }
}

/// The rate of the first link from one node to another; none where it has none.
fn wire(links: &[Link], routes: &Routes, from: &str, to: &str) -> Option<(usize, Option<Rate>)> {
    let first = *routes.legs(from, to)?.first()?;
    Some((first.link, links[first.link].direction(first.heading).rate))
}

/// The bottlenecks, each with a path to every node behind it.
pub(super) fn bottlenecks(
    specs: &[BottleneckSpec],
    links: &[Link],
    routes: &Routes,
    problems: &Problems,
) -> Vec<Bottleneck> {
    let mut behind = BTreeSet::new();
    let mut all = Vec::new();
    for spec in specs {
        let (name, from) = (&spec.name.0, &spec.from.value.0);
        let mut wires = BTreeSet::new();
        for to in &spec.to {
            let node = &to.value.0;
            let report =
                |what: String| problems.report(&to.place, format!("bottleneck \"{name}\": {what}"));
            if !behind.insert((from, node)) {
                report(format!("\"{node}\" is behind another one of \"{from}\" already"));
            }
            match wire(links, routes, from, node) {
                None => report(format!("no links lead from \"{from}\" to \"{node}\"")),
                Some((link, None)) => report(format!(
                    "link \"{}\", the first to \"{node}\", has no rate that could be shared",
                    links[link].name
                )),
                Some((link, Some(rate))) if rate < spec.rate => report(format!(
                    "{} is more than link \"{}\", the first to \"{node}\", carries ({rate})",
                    spec.rate, links[link].name
                )),
                Some((link, Some(_))) => {
                    wires.insert(link);
                }
            }
        }
        if wires.len() > 1 {
            let message =
                format!("bottleneck \"{name}\": its nodes are reached over different first links");
            problems.report(&spec.place, message);
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
