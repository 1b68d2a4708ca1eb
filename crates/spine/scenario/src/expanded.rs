// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs that come expanded: of an archive, of `lab check --json`, or from a client whose worker this is.
//!
//! Threats: a stranger may have made them, and some methods run them as root. Identifiers become names of files, and settings
//! become files below `/proc/sys`, so both must be plain; every name must lead to something that is there.

use crate::{
    fields::Name,
    network::{CC_NAME, MOST_NODES, MOST_OTHERS, is_cc_name, is_sysctl},
    run::{Action, Congestion, Event, Flow, Move, Run},
};
use std::collections::BTreeSet;

/// The longest identifier: a name of a file may have 255 bytes, and some begin with a word before it.
const LONGEST_ID: usize = 200;

/// Refuses runs that a scenario's file cannot expand to.
pub(crate) fn check_all(runs: &[Run]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    for run in runs {
        check(run).map_err(|why| format!("run {:?}: {why}", run.id))?;
        if !ids.insert(&run.id) {
            return Err(format!("run {:?} is there twice", run.id));
        }
    }
    Ok(())
}

fn check(run: &Run) -> Result<(), String> {
    let is_plain =
        !run.id.starts_with('.') && !run.id.contains(|c: char| c == '/' || c.is_control());
    if !(1..=LONGEST_ID).contains(&run.id.len()) || !is_plain {
        return Err("its name cannot be that of a file".to_owned());
    }
    let lengths = [run.links.len(), run.flows.len(), run.traffic.len(), run.events.len()];
    if run.nodes.len() > MOST_NODES || lengths.iter().any(|length| *length > MOST_OTHERS) {
        return Err("it has more than a scenario can have".to_owned());
    }
    let nodes = names("node", run.nodes.iter().map(|it| &it.name))?;
    let links = names("link", run.links.iter().map(|it| &it.name))?;
    let flows = names("flow", run.flows.iter().map(|it| &it.name))?;
    names("traffic", run.traffic.iter().map(|it| &it.name))?;
    names("bottleneck", run.bottlenecks.iter().map(|it| &it.name))?;
    names("event", run.events.iter().map(|it| &it.name))?;
    let node = |name: &String| known("node", name, &nodes);
    for it in &run.nodes {
        control(&it.cc)?;
        for (key, value) in &it.sysctl {
            if !is_sysctl(key) || value.contains(|c: char| c.is_control() && c != '\t') {
                return Err(format!("{key:?} is not a kernel setting under net."));
            }
        }
    }
    for it in &run.links {
        node(&it.a).and_then(|()| node(&it.b))?;
    }
    for it in &run.flows {
        flow(it, &nodes, &flows)?;
    }
    for it in &run.traffic {
        node(&it.from).and_then(|()| node(&it.to))?;
        control(&it.cc)?;
    }
    for it in &run.bottlenecks {
        node(&it.from)?;
        it.to.iter().try_for_each(node)?;
    }
    for Congestion { name, .. } in &run.congestion {
        control(name)?;
    }
    for Event { action, after, .. } in &run.events {
        after.iter().try_for_each(|name| known("flow", name, &flows))?;
        match action {
            Action::Kill(name) | Action::Restart(name) => node(name)?,
            Action::Move(Move { node: name, link }) => {
                node(name).and_then(|()| known("link", link, &links))?;
            }
            Action::Start(name) => known("flow", name, &flows)?,
            Action::Change(change) => known("link", &change.link, &links)?,
        }
    }
    Ok(())
}

fn flow(flow: &Flow, nodes: &BTreeSet<&String>, flows: &BTreeSet<&String>) -> Result<(), String> {
    let ends = [&flow.from, &flow.to].into_iter().chain(&flow.via);
    ends.into_iter().try_for_each(|name| known("node", name, nodes))?;
    flow.cc.iter().try_for_each(|name| control(name))?;
    flow.after.iter().try_for_each(|name| known("flow", name, flows))?;
    let hops = flow.via.len() + 1;
    if flow.cc.len() != hops || ![0, hops].contains(&flow.pacing.len()) {
        return Err(format!("flow {} has {hops} hops, and settings of others", flow.name));
    }
    Ok(())
}

/// Names as the file's, each once.
fn names<'r>(
    kind: &str,
    all: impl Iterator<Item = &'r String>,
) -> Result<BTreeSet<&'r String>, String> {
    let mut names = BTreeSet::new();
    for name in all {
        if !Name::is_one(name) || !names.insert(name) {
            return Err(format!("{kind} {name:?}: not a name, or there twice"));
        }
    }
    Ok(names)
}

fn known(kind: &str, name: &String, all: &BTreeSet<&String>) -> Result<(), String> {
    if all.contains(name) { Ok(()) } else { Err(format!("there is no {kind} {name:?}")) }
}

fn control(name: &str) -> Result<(), String> {
    if is_cc_name(name) { Ok(()) } else { Err(format!("{name:?} is not {CC_NAME}")) }
}
