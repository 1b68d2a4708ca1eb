// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether events can happen.

use super::Jittered;
use crate::{
    diagnostics::Problems,
    fields::{Located, Name},
    network::EventSpec,
    run::{Action, Event, Flow},
};
use std::collections::BTreeSet;

/// The events, each of something that is there.
pub(super) fn events(
    specs: &[EventSpec],
    flows: &[Jittered<Flow>],
    problems: &Problems,
) -> Vec<Event> {
    let flows: Vec<&Flow> = flows.iter().map(|flow| &flow.thing).collect();
    let (mut all, mut started): (Vec<Event>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    for spec in specs {
        let name = &spec.name.0;
        let report = |what: &str| {
            problems.report(&spec.location, format!("event \"{name}\": {what}"));
        };
        if flows.iter().any(|flow| flow.name == *name) {
            report("a flow has that name");
        }
        check_after(spec.after.as_ref(), &flows, &all, &report);
        let Some(action) = action(spec) else {
            report("give it one of kill, restart, start");
            continue;
        };
        match &action {
            Action::Kill(node) | Action::Restart(node) => {
                if !flows.iter().any(|flow| flow.via.contains(node)) {
                    report(&format!("node \"{node}\" has no depot: no flow goes via it"));
                }
            }
            Action::Start(flow) => match flows.iter().find(|known| known.name == *flow) {
                None => report(&format!("there is no flow \"{flow}\"")),
                Some(flow) if flow.after.is_some() => {
                    report(&format!("flow \"{}\" waits for another flow already", flow.name));
                }
                Some(_) if !started.insert(flow.clone()) => {
                    report(&format!("another event starts flow \"{flow}\""));
                }
                Some(_) if spec.after.as_ref().is_some_and(|after| after.value.0 == *flow) => {
                    report("a flow cannot wait for its own end");
                }
                Some(_) => {}
            },
        }
        let after = spec.after.as_ref().map(|after| after.value.0.clone());
        all.push(Event { name: name.clone(), after, at: spec.at, action });
    }
    all
}

fn action(spec: &EventSpec) -> Option<Action> {
    let name = |it: &Option<Located<Name>>| it.as_ref().map(|it| it.value.0.clone());
    let mut given = [
        name(&spec.kill).map(Action::Kill),
        name(&spec.restart).map(Action::Restart),
        name(&spec.start).map(Action::Start),
    ]
    .into_iter()
    .flatten();
    given.next().filter(|_| given.next().is_none())
}

/// It waits for the end of a flow, or for an event before it in the file, so that none waits for itself.
fn check_after(
    after: Option<&Located<Name>>,
    flows: &[&Flow],
    before: &[Event],
    report: &impl Fn(&str),
) {
    let Some(after) = after.map(|after| &after.value.0) else { return };
    match flows.iter().find(|flow| flow.name == *after) {
        Some(flow) if flow.bytes.is_none() => {
            report(&format!("flow \"{after}\" has no bytes, and so no end"));
        }
        Some(_) => {}
        None if before.iter().any(|event| event.name == *after) => {}
        None => report(&format!("there is no flow \"{after}\", and no such event before it")),
    }
}
