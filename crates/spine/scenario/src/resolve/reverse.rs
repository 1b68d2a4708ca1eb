// SPDX-License-Identifier: GPL-2.0-or-later
//! Which flows are reverse traffic. Unless the scenario says it, a flow whose data crosses links only against
//! the data of earlier flows, and none along with them.

use super::Jittered;
use crate::{
    network::FlowSpec,
    routes::{Leg, Routes},
    run::{Flow, Heading},
};
use std::collections::BTreeSet;

pub(super) fn mark(specs: &[FlowSpec], flows: &mut [Jittered<Flow>], routes: &Routes) {
    // What the data of the flows compared crosses, as `key` has it.
    let mut crossed = BTreeSet::new();
    for (spec, flow) in specs.iter().zip(flows) {
        let flow = &mut flow.thing;
        let legs = flow.hops().filter_map(|hop| routes.legs(hop.from, hop.to)).flatten();
        let legs: Vec<Leg> = legs.collect();
        let along = legs.iter().any(|leg| crossed.contains(&key(leg.link, leg.heading)));
        let against =
            legs.iter().any(|leg| crossed.contains(&key(leg.link, opposite(leg.heading))));
        flow.reverse = spec.reverse.unwrap_or(against && !along);
        if !flow.reverse {
            crossed.extend(legs.iter().map(|leg| key(leg.link, leg.heading)));
        }
    }
}

fn key(link: usize, heading: Heading) -> (usize, bool) {
    (link, heading == Heading::Forward)
}

fn opposite(heading: Heading) -> Heading {
    match heading {
        Heading::Forward => Heading::Backward,
        Heading::Backward => Heading::Forward,
    }
}
