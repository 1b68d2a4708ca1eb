// SPDX-License-Identifier: GPL-2.0-or-later
//! The one path of a scenario that a bridge is.

use crate::error::WanError;
use host::Device;
use scenario::{Direction, Heading, Run};
use std::collections::{BTreeMap, BTreeSet};

/// A path between two nodes of a run, and back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The two nodes.
    pub ends: [String; 2],
    /// The directed links from the first to the second, as indices into the run's directed links.
    pub there: Vec<usize>,
    /// Those back.
    pub back: Vec<usize>,
}

impl Path {
    /// The path between two nodes; where none are named, between the only two that a single link leads to.
    pub fn between(run: &Run, ends: Option<&[String; 2]>) -> Result<Self, WanError> {
        let [a, b] = match ends {
            Some(named) => named.clone(),
            None => only_ends(run)?,
        };
        for node in [&a, &b] {
            if run.node(node).is_none() {
                let known = run.nodes.iter().map(|node| node.name.clone()).collect();
                return Err(WanError::NoSuchNode { name: node.clone(), known });
            }
        }
        if a == b {
            return Err(usage(format!(
                "--between names the node {a} twice: name the two ends of a path"
            )));
        }
        let routes = run.routes();
        let way = |from: &str, to: &str| {
            let legs = routes.legs(from, to).ok_or_else(|| {
                usage(format!("no links of the scenario lead from {from} to {to}: add them, or name other ends"))
            })?;
            let number =
                |leg: &scenario::Leg| leg.link * 2 + usize::from(leg.heading == Heading::Backward);
            Ok::<Vec<usize>, WanError>(legs.iter().map(number).collect())
        };
        let (there, back) = (way(&a, &b)?, way(&b, &a)?);
        if let Some(&spare) = there.iter().find(|&&n| leads_without(run, &a, &b, n / 2)) {
            let link = &run.links[spare / 2].name;
            return Err(usage(format!(
                "the scenario has several paths from {a} to {b} (one of them without the link {link}), and a bridge is \
                 one path: leave the links of the others out, or name other ends with --between"
            )));
        }
        Ok(Self { ends: [a, b], there, back })
    }

    /// What a person may expect of the scenario and the cards that a bridge does not do.
    pub fn notices(&self, run: &Run, cards: [&Device; 2]) -> Vec<String> {
        let on_path: BTreeSet<usize> = self.there.iter().map(|n| n / 2).collect();
        let mut notices = Vec::new();
        let sends = run.flows.len() + run.traffic.len();
        if sends > 0 {
            notices.push(format!(
                "{sends} flows and traffic sources of the scenario are ignored: the hosts beyond the cards send"
            ));
        }
        let unused = (0..run.links.len()).filter(|link| !on_path.contains(link));
        let unused: Vec<&str> = unused.map(|link| run.links[link].name.as_str()).collect();
        if !unused.is_empty() {
            notices
                .push(format!("links that are not on the path are ignored: {}", unused.join(", ")));
        }
        let [a, b] = cards;
        for (way, from, to) in [(&self.there, a, b), (&self.back, b, a)] {
            notices.extend(too_long_for_links(run, way, from));
            notices.extend(too_long_for_card(from, to));
            notices.extend(too_fast_for(run, way, to));
        }
        notices
    }
}

fn directions<'r>(
    run: &'r Run,
    way: &'r [usize],
) -> impl Iterator<Item = (&'r str, &'r Direction)> {
    way.iter().map(|&number| {
        let link = &run.links[number / 2];
        let heading = if number % 2 == 0 { Heading::Forward } else { Heading::Backward };
        (link.name.as_str(), link.direction(heading))
    })
}

fn too_long_for_links(run: &Run, way: &[usize], from: &Device) -> Vec<String> {
    let shorter = directions(run, way).filter(|(_, direction)| direction.mtu < from.mtu);
    let notice = |(link, direction): (&str, &Direction)| {
        let (card, mtu, of_link) = (&from.name, from.mtu, direction.mtu);
        format!(
            "{card} takes packets of {mtu} bytes, the link {link} only of {of_link}: longer ones are dropped and counted"
        )
    };
    shorter.map(notice).collect()
}

fn too_long_for_card(from: &Device, to: &Device) -> Option<String> {
    (from.mtu > to.mtu).then(|| {
        format!(
            "{} takes packets of {} bytes, {} only of {}: longer ones are dropped and counted",
            from.name, from.mtu, to.name, to.mtu
        )
    })
}

/// Where the card is slower than the path, its own queue drops what the scenario would not.
fn too_fast_for(run: &Run, way: &[usize], to: &Device) -> Option<String> {
    let line = to.line_rate().ok().flatten()?;
    let slowest = directions(run, way).filter_map(|(_, direction)| direction.rate).min();
    slowest.is_none_or(|rate| rate > line).then(|| {
        format!(
            "{} has a line rate of {line}, less than the path's: its own queue drops what is too much",
            to.name
        )
    })
}

/// The two nodes that a single link leads to.
fn only_ends(run: &Run) -> Result<[String; 2], WanError> {
    let mut links: BTreeMap<&str, usize> = BTreeMap::new();
    for node in run.links.iter().flat_map(|link| [&link.a, &link.b]) {
        *links.entry(node).or_default() += 1;
    }
    let is_end = |name: &&String| links.get(name.as_str()) == Some(&1);
    let ends: Vec<String> =
        run.nodes.iter().map(|node| &node.name).filter(is_end).cloned().collect();
    <[String; 2]>::try_from(ends).map_err(|ends| {
        usage(format!(
            "the scenario has {} nodes that a single link leads to{}, and a bridge has two ends: name them with \
             --between NODE,NODE",
            ends.len(),
            if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(", ")) },
        ))
    })
}

/// Whether links lead from one node to another without one of them.
fn leads_without(run: &Run, from: &str, to: &str, without: usize) -> bool {
    let mut reached = BTreeSet::from([from]);
    loop {
        let before = reached.len();
        for (_, link) in run.links.iter().enumerate().filter(|(n, _)| *n != without) {
            if reached.contains(link.a.as_str()) || reached.contains(link.b.as_str()) {
                reached.extend([link.a.as_str(), link.b.as_str()]);
            }
        }
        if reached.len() == before {
            return reached.contains(to);
        }
    }
}

fn usage(text: String) -> WanError {
    WanError::Usage(text)
}
