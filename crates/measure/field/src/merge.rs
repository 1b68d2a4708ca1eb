// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of all hosts become the record of the run. Each host knows what it received, and how what it sent went.

use crate::{message::PathMeasured, method::Field, path::Path, survey::Surveyed};
use experiment::manifest::{self, MadeBy};
use record::{
    FlowSummary, HopSummary, Manifest, Metrics, OfferedFiles, Record, Series, Summary,
    TrafficSummary,
    manifest::{FieldHost, Machine},
};
use scenario::{Flow, Run};
use std::{collections::BTreeMap, time::SystemTime};
use units::text::printable;

/// What becomes one record.
pub struct Merged<'m> {
    /// The run as it took place.
    pub run: &'m Run,
    /// By which it was run.
    pub method: &'m Field,
    /// The records of hosts, by their nodes.
    pub parts: BTreeMap<String, Record>,
    /// What was measured of paths before.
    pub paths: &'m [(Path, PathMeasured)],
    /// By how much that may differ from the scenario.
    pub limit: f64,
    /// What hosts are.
    pub surveyed: &'m BTreeMap<String, Surveyed>,
    /// The command line.
    pub command: &'m [String],
    /// When it began.
    pub started: SystemTime,
}

/// Puts them together.
pub fn merge(merged: &Merged<'_>) -> Record {
    let Merged { run, parts, .. } = merged;
    let flows = run.flows.iter().filter(|flow| !flow.prepares);
    let flows: Vec<FlowSummary> = flows.filter_map(|flow| of_flow(flow, parts)).collect();
    let traffic: Vec<TrafficSummary> = run
        .traffic
        .iter()
        .filter_map(|source| {
            let all = &parts.get(&source.to)?.summary.traffic;
            all.iter().find(|it| it.name == source.name).cloned()
        })
        .collect();
    let mut files = OfferedFiles::default();
    let mut series = Series::default();
    for part in parts.values() {
        files.rows.extend(part.files.rows.iter().cloned());
        for (entity, quantity, curve) in part.series.curves() {
            let own = series.curve_mut(entity, quantity);
            for (time_s, value) in curve.time_s.iter().zip(&curve.value) {
                own.push(*time_s, *value);
            }
        }
    }
    files.rows.sort_by(|a, b| (&a.source, a.number).cmp(&(&b.source, b.number)));
    let manifest = manifest_of(merged, &flows);
    let metrics = Metrics::compute(&flows, &[], &series).with_traffic(&traffic, &files);
    let summary = Summary { flows, links: Vec::new(), traffic, metrics };
    Record { manifest, series, summary, files }
}

/// What its receiver knows, with the hops as their senders saw them.
fn of_flow(flow: &Flow, parts: &BTreeMap<String, Record>) -> Option<FlowSummary> {
    let at = |node: &str| {
        let flows = &parts.get(node)?.summary.flows;
        flows.iter().find(|it| it.name == flow.name)
    };
    let mut summary = at(&flow.to)?.clone();
    for hop in &mut summary.hops {
        let seen = at(&hop.from).and_then(|it| it.hops.iter().find(|it| it.index == hop.index));
        if let Some(seen) = seen {
            *hop = seen.clone();
        }
    }
    let total = |count: fn(&HopSummary) -> Option<u64>| summary.hops.iter().map(count).sum();
    summary.retransmits = total(|hop| hop.retransmits);
    summary.timeouts = total(|hop| hop.timeouts);
    // What a host's programs said may be anything.
    summary.outcome = printable(&summary.outcome, 400);
    Some(summary)
}

fn manifest_of(merged: &Merged<'_>, flows: &[FlowSummary]) -> Manifest {
    let Merged { run, method, parts, paths, surveyed, .. } = merged;
    let of = manifest::of(run, MadeBy::method(*method), merged.command, merged.started);
    let mut manifest = Manifest { paths: on_record(paths), ..of };
    let mut reasons = deviations(paths, merged.limit);
    for (node, part) in parts {
        let Manifest {
            versions, nodes, congestion_controls, sockets, events, invalid_reasons, ..
        } = part.manifest.clone();
        manifest.versions.extend(versions);
        manifest.nodes.extend(nodes);
        manifest.congestion_controls.extend(congestion_controls);
        manifest.sockets.extend(sockets);
        manifest.events.extend(events);
        reasons
            .extend(invalid_reasons.iter().map(|why| format!("{node}: {}", printable(why, 400))));
        manifest.hosts.extend(surveyed.get(node).map(|found| (node.clone(), host(found))));
    }
    for flow in flows {
        for hop in flow.hops.iter().filter(|hop| hop.congestion_control.is_none()) {
            // A flow that the run's end came before has no connections.
            if flow.end_s > flow.start_s {
                reasons.push(format!(
                    "hop {} of flow {} was not seen, so its congestion control is not known",
                    hop.index, flow.name
                ));
            }
        }
    }
    manifest.events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    reasons.dedup();
    manifest.valid = reasons.is_empty();
    manifest.invalid_reasons = reasons;
    manifest
}

fn on_record(paths: &[(Path, PathMeasured)]) -> Vec<record::manifest::MeasuredPath> {
    paths.iter().map(|(path, measured)| path.on_record(measured)).collect()
}

fn deviations(paths: &[(Path, PathMeasured)], limit: f64) -> Vec<String> {
    paths.iter().flat_map(|(path, measured)| path.deviations(measured, limit)).collect()
}

fn host(found: &Surveyed) -> FieldHost {
    let (facts, clock) = (&found.facts, found.clocks.realtime);
    let text = |text: &str| printable(text, 200);
    FieldHost {
        name: text(&facts.name),
        machine: Machine {
            kernel: text(&facts.kernel),
            cpu: text(&facts.cpu),
            cores: facts.cores,
            memory_bytes: facts.memory_bytes,
        },
        architecture: text(&facts.architecture),
        clock_ahead_ns: clock.ahead_ns,
        clock_error_ns: u64::try_from(clock.error.as_nanos()).unwrap_or(u64::MAX),
    }
}
