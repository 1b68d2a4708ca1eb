// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether events can happen.

use super::{Jittered, context::NetworkContext};
use crate::{
    fields::{Located, Name},
    network::EventSpec,
    run::{
        Action, Bottleneck, Discipline, Event, Flow, FlowPacing, Heading, Link, LinkChange, Move,
        Traffic,
    },
};
use std::collections::BTreeSet;

/// The most moves of nodes: each gives an address.
const MOST_MOVES: usize = 100;

/// What is there for events to happen to.
pub(super) struct Subjects<'s> {
    pub flows: &'s [Jittered<Flow>],
    pub traffic: &'s [Jittered<Traffic>],
    pub bottlenecks: &'s [Bottleneck],
    pub context: &'s NetworkContext<'s>,
}

impl Subjects<'_> {
    fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.iter().map(|flow| &flow.thing).find(|flow| flow.name == name)
    }

    fn link(&self, name: &str) -> Option<&Link> {
        self.context.links.iter().find(|link| link.name == name)
    }

    /// Two other nodes of which the one's packets for the other pass through a node.
    fn through(&self, node: &str) -> Option<(&str, &str)> {
        let hops =
            self.flows.iter().flat_map(|flow| flow.thing.hops()).map(|hop| (hop.from, hop.to));
        let traffic = self.traffic.iter().map(|it| &it.thing);
        let mut pairs = hops.chain(traffic.map(|it| (it.from.as_str(), it.to.as_str())));
        let is_its = |link: &usize| {
            let Link { a, b, .. } = &self.context.links[*link];
            a == node || b == node
        };
        pairs.find(|(from, to)| {
            let path = self.context.routes.path(from, to).filter(|_| *from != node && *to != node);
            path.is_some_and(|path| path.iter().any(is_its))
        })
    }
}

/// The events, each of something that is there.
pub(super) fn events(specs: &[EventSpec], subjects: &Subjects<'_>) -> Vec<Event> {
    let (mut all, mut started): (Vec<Event>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    for spec in specs {
        let name = &spec.name.0;
        let report = |what: &str| {
            subjects.context.problems.report(&spec.location, format!("event \"{name}\": {what}"));
        };
        if subjects.flow(name).is_some() {
            report("a flow has that name");
        }
        check_after(spec.after.as_ref(), subjects, &all, &report);
        let Some(action) = action(spec, &report) else { continue };
        if let Err(what) = check(&action, spec, subjects) {
            report(&what);
        }
        if let Action::Start(flow) = &action
            && !started.insert(flow.clone())
        {
            report(&format!("another event starts flow \"{flow}\""));
        }
        let after = spec.after.as_ref().map(|after| after.value.0.clone());
        all.push(Event { name: name.clone(), after, at: spec.at, action });
    }
    let is_move = |event: &&Event| matches!(event.action, Action::Move(_));
    if all.iter().filter(is_move).count() > MOST_MOVES {
        let message = format!("more than {MOST_MOVES} events move a node");
        subjects.context.problems.report(&specs[0].location, message);
    }
    all
}

/// What it does, by the one key that says so and those that belong to it.
fn action(spec: &EventSpec, report: &impl Fn(&str)) -> Option<Action> {
    let name = |it: &Option<Located<Name>>| it.as_ref().map(|it| it.value.0.clone());
    let of_link = &spec.of_link;
    let change = |link| {
        let direction = of_link.headings.filter(|headings| headings.len() == 1);
        Action::Change(LinkChange {
            link,
            direction: direction.map(|headings| headings[0]),
            rate: of_link.rate,
            delay: of_link.delay,
            loss: of_link.loss,
            cut: of_link.cut,
        })
    };
    let moves = |node| Action::Move(Move { node, link: name(&spec.to).unwrap_or_default() });
    let mut given = [
        name(&spec.kill).map(Action::Kill),
        name(&spec.restart).map(Action::Restart),
        name(&spec.start).map(Action::Start),
        name(&spec.change).map(change),
        name(&spec.moves).map(moves),
    ]
    .into_iter()
    .flatten();
    let Some(action) = given.next().filter(|_| given.next().is_none()) else {
        report("give it one of kill, restart, start, change, move");
        return None;
    };
    if !matches!(action, Action::Change(_)) && (of_link.has_any() || of_link.headings.is_some()) {
        report(
            "direction, rate, delay, loss and cut are of a link that changes: give it \"change\"",
        );
    }
    if !matches!(action, Action::Move(_)) && spec.to.is_some() {
        report("\"to\" is the link that a node moves to: give it \"move\"");
    }
    Some(action)
}

fn check(action: &Action, spec: &EventSpec, subjects: &Subjects<'_>) -> Result<(), String> {
    match action {
        Action::Kill(node) | Action::Restart(node) => {
            let mut flows = subjects.flows.iter();
            if !flows.any(|flow| flow.thing.via.contains(node)) {
                return Err(format!("node \"{node}\" has no depot: no flow goes via it"));
            }
        }
        Action::Start(flow) => {
            let Some(known) = subjects.flow(flow) else {
                return Err(format!("there is no flow \"{flow}\""));
            };
            if known.after.is_some() {
                return Err(format!("flow \"{flow}\" waits for another flow already"));
            }
            if spec.after.as_ref().is_some_and(|after| after.value.0 == *flow) {
                return Err("a flow cannot wait for its own end".to_owned());
            }
        }
        Action::Change(change) => check_change(change, spec, subjects)?,
        Action::Move(moves) => check_move(moves, subjects)?,
    }
    Ok(())
}

/// A rate can change where packets that wait are not given their times when they come, or would be by taildrop.
fn check_change(
    change: &LinkChange,
    spec: &EventSpec,
    subjects: &Subjects<'_>,
) -> Result<(), String> {
    let name = &change.link;
    let link = subjects.link(name).ok_or_else(|| format!("there is no link \"{name}\""))?;
    if !spec.of_link.has_any() {
        return Err("give at least one of rate, delay, loss, cut".to_owned());
    }
    if change.rate.is_none() {
        return Ok(());
    }
    for heading in
        [Heading::Forward, Heading::Backward].into_iter().filter(|it| change.changes(*it))
    {
        let direction = link.direction(heading);
        if direction.rate.is_none() {
            return Err(format!("link \"{name}\" has no rate that could change"));
        }
        if direction.rate_over_time.is_some() {
            return Err(format!("the rate of link \"{name}\" changes over time already"));
        }
        let is_fit = match direction.discipline {
            Discipline::Taildrop => direction.mark.is_none(),
            Discipline::Codel { .. } | Discipline::FqCodel { .. } => true,
            Discipline::Red { .. } | Discipline::Pie { .. } => false,
        };
        if !is_fit {
            return Err(format!(
                "link \"{name}\": the rate can change under the disciplines taildrop (without mark), codel and fq_codel"
            ));
        }
    }
    let index = subjects.context.links.iter().position(|link| link.name == *name);
    let first = |from: &str, to: &str| subjects.context.routes.next_hop(from, to);
    let mut paced = subjects.flows.iter().flat_map(|flow| flow.thing.hops());
    let has_gaps = paced.any(|hop| {
        matches!(hop.pacing, FlowPacing::Gap | FlowPacing::Rate(_))
            && first(hop.from, hop.to) == index
    }) || subjects
        .bottlenecks
        .iter()
        .any(|it| it.to.iter().any(|to| first(&it.from, to) == index));
    if has_gaps {
        return Err(format!("link \"{name}\" takes gap frames, and so can't change its rate"));
    }
    Ok(())
}

/// Only a node that receives can move: others would look for it at its first address.
fn check_move(moves: &Move, subjects: &Subjects<'_>) -> Result<(), String> {
    let Move { node, link: to } = moves;
    let Subjects { flows, traffic, bottlenecks, context } = subjects;
    if !context.nodes.iter().any(|it| it.name == *node) {
        return Err(format!("there is no node \"{node}\""));
    }
    let link = subjects.link(to);
    if to.is_empty() || !link.is_some_and(|link| [&link.a, &link.b].contains(&node)) {
        return Err(format!("\"to\" is not one of the links of node \"{node}\""));
    }
    let sender = flows
        .iter()
        .map(|flow| &flow.thing)
        .find(|flow| flow.from == *node || flow.via.contains(node));
    if let Some(flow) = sender {
        return Err(format!(
            "node \"{node}\" can't move: flow \"{}\" starts at it or goes via it, and a server must stay where it is",
            flow.name
        ));
    }
    let mut others = traffic.iter().map(|it| &it.thing);
    if let Some(traffic) = others.find(|it| [&it.from, &it.to].contains(&node)) {
        return Err(format!(
            "node \"{node}\" can't move: it is an end of traffic \"{}\"",
            traffic.name
        ));
    }
    if let Some((from, to)) = subjects.through(node) {
        return Err(format!(
            "node \"{node}\" can't move: what \"{from}\" sends to \"{to}\" passes through it"
        ));
    }
    let paced = flows
        .iter()
        .flat_map(|flow| flow.thing.hops())
        .find(|hop| hop.to == *node && !matches!(hop.pacing, FlowPacing::None | FlowPacing::Tcp));
    if paced.is_some() || bottlenecks.iter().any(|it| it.to.contains(node)) {
        return Err(format!(
            "node \"{node}\" can't move: what is sent to it is paced, or is of a bottleneck, by its address"
        ));
    }
    Ok(())
}

/// It waits for the end of a flow, or for an event before it in the file, so that none waits for itself.
fn check_after(
    after: Option<&Located<Name>>,
    subjects: &Subjects<'_>,
    before: &[Event],
    report: &impl Fn(&str),
) {
    let Some(after) = after.map(|after| &after.value.0) else { return };
    match subjects.flow(after) {
        Some(flow) if flow.bytes.is_none() => {
            report(&format!("flow \"{after}\" has no bytes, and so no end"));
        }
        Some(_) => {}
        None if before.iter().any(|event| event.name == *after) => {}
        None => report(&format!("there is no flow \"{after}\", and no such event before it")),
    }
}
