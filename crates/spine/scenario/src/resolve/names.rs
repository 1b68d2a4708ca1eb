// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether names are unique and name something.

use crate::{
    diagnostics::{Location, Problems},
    fields::{Located, Pattern},
    network::{HasLocation, NetworkSpec},
};
use std::collections::BTreeSet;
use units::suggest::hint;

pub(super) fn check(spec: &NetworkSpec, file: &Location, problems: &Problems) {
    if spec.nodes.is_empty() {
        problems.report(file, "there is no [[node]]");
    }
    unique("node", spec.nodes.iter().map(|n| (&n.location, n.name.as_str())), problems);
    unique("link", spec.links.iter().map(|l| (&l.location, l.name.as_str())), problems);
    unique("flow", spec.flows.iter().map(|f| (&f.location, f.name.as_str())), problems);
    unique("traffic", spec.traffic.iter().map(|t| (&t.location, t.name.as_str())), problems);
    let backgrounds = spec.backgrounds.iter();
    unique("background", backgrounds.map(|b| (&b.location, b.name.as_str())), problems);
    let congestion = spec.congestion.iter();
    unique("congestion", congestion.map(|(location, c)| (location, c.name.as_str())), problems);
    let bottlenecks = spec.bottlenecks.iter();
    unique("bottleneck", bottlenecks.map(|b| (&b.location, b.name.0.as_str())), problems);

    unique("event", spec.events.iter().map(|e| (&e.location, e.name.0.as_str())), problems);

    let nodes =
        KnownNames { kind: "node", names: spec.nodes.iter().map(|n| n.name.as_str()).collect() };
    let links =
        KnownNames { kind: "link", names: spec.links.iter().map(|l| l.name.as_str()).collect() };
    first_faults(&spec.links, problems, |link| {
        let what = format!("link \"{}\"", link.name.as_str());
        link.ends.iter().for_each(|end| nodes.check(&what, end, problems));
        if link.ends[0].value == link.ends[1].value {
            let message = format!("{what}: both ends are \"{}\"", link.ends[0].value.as_str());
            problems.report(&link.ends[0].location, message);
        }
    });
    first_faults(&spec.flows, problems, |flow| {
        let stops = [&flow.from].into_iter().chain(&flow.via).chain([&flow.to]);
        check_stops(&format!("flow \"{}\"", flow.name.as_str()), stops, &nodes, problems);
    });
    first_faults(&spec.traffic, problems, |traffic| {
        let stops = [&traffic.from, &traffic.to].into_iter();
        check_stops(&format!("traffic \"{}\"", traffic.name.as_str()), stops, &nodes, problems);
    });
    for background in &spec.backgrounds {
        let what = format!("background \"{}\"", background.name);
        links.check(&what, &background.link, problems);
        background.from.iter().chain(&background.to).for_each(|n| nodes.check(&what, n, problems));
    }
    for bottleneck in &spec.bottlenecks {
        let what = format!("bottleneck \"{}\"", bottleneck.name.0);
        [&bottleneck.from].into_iter().chain(&bottleneck.to).for_each(|node| {
            nodes.check(&what, node, problems);
        });
        for to in bottleneck.to.iter().filter(|to| to.value == bottleneck.from.value) {
            let message = format!("{what}: \"{}\" can't be behind itself", to.value.0);
            problems.report(&to.location, message);
        }
    }
}

fn check_stops<'s>(
    what: &str,
    stops: impl Iterator<Item = &'s Located<Pattern>>,
    nodes: &KnownNames<'_>,
    problems: &Problems,
) {
    let mut passed = BTreeSet::new();
    for node in stops {
        nodes.check(what, node, problems);
        let name = node.value.as_str();
        if !passed.insert(name) {
            problems.report(&node.location, format!("{what}: it comes to \"{name}\" twice"));
        }
    }
}

/// Names that may be used.
struct KnownNames<'s> {
    kind: &'static str,
    names: BTreeSet<&'s str>,
}

impl KnownNames<'_> {
    fn check(&self, what: &str, name: &Located<impl AsRef<str>>, problems: &Problems) {
        let (kind, word) = (self.kind, name.value.as_ref());
        if !self.names.contains(word) {
            let hint = hint(word, self.names.iter().copied());
            problems.report(&name.location, format!("{what}: there is no {kind} \"{word}\"{hint}"));
        }
    }
}

/// Checks one thing after the other. Among things that one table defines, an error of the
/// first is most likely an error of all, so it is reported once.
pub(super) fn first_faults<'t, T: HasLocation>(
    things: &'t [T],
    problems: &Problems,
    mut check: impl FnMut(&'t T),
) {
    let mut wrong = None;
    for thing in things {
        if wrong == Some(thing.location()) {
            continue;
        }
        let before = problems.reports();
        check(thing);
        if problems.reports() > before {
            wrong = Some(thing.location());
        }
    }
}

/// Reports names that are given twice; of those that one table stands for, the first.
pub(crate) fn unique<'n>(
    kind: &str,
    names: impl Iterator<Item = (&'n Location, &'n str)>,
    problems: &Problems,
) {
    let mut seen = BTreeSet::new();
    let mut wrong = None;
    for (location, name) in names {
        if !seen.insert(name) && wrong != Some(location) {
            problems.report(location, format!("there is already a {kind} \"{name}\""));
            wrong = Some(location);
        }
    }
}
