// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a manifest that does not depend on the method. Predictions are added when the run is over ([`crate::Options`]).

use crate::{machine, method::Method};
use record::{Manifest, SCHEMA, manifest};
use scenario::Run;
use std::time::SystemTime;

/// By which method a record is, and by which sources ([`Method`]).
#[derive(Debug, Clone, Copy)]
pub struct MadeBy<'m> {
    /// The method's name.
    pub name: &'m str,
    /// The hash of the sources that decide its figures.
    pub sources: &'m str,
}

impl MadeBy<'static> {
    /// By a method of this program.
    pub fn method(method: &dyn Method) -> Self {
        Self { name: method.name(), sources: method.source_hash() }
    }
}

/// The manifest of a valid run, without the values that only its method knows.
pub fn of(run: &Run, by: MadeBy<'_>, command: &[String], started: SystemTime) -> Manifest {
    let references = run.references.iter();
    Manifest {
        schema: SCHEMA,
        id: run.id.clone(),
        title: run.title.clone(),
        source: run.source.clone(),
        variant: run.variant.as_ref().map(|variant| manifest::Variant {
            name: variant.name.clone(),
            label: variant.label.clone(),
        }),
        baseline: run.baseline.clone(),
        point: run.point.iter().map(|s| (s.key.clone(), s.value.clone())).collect(),
        repeat: run.repeat,
        seed: run.seed,
        method: by.name.to_owned(),
        command: command.to_vec(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        versions: machine::versions(std::iter::empty()),
        sources: Some(by.sources.to_owned()),
        machine: Some(machine::describe()),
        nodes: [].into(),
        congestion_controls: [].into(),
        sockets: Vec::new(),
        offloads: [].into(),
        references: references
            .map(|r| manifest::ReportedGain { gain: r.gain, note: r.note.clone() })
            .collect(),
        predicted: None,
        valid: true,
        invalid_reasons: Vec::new(),
        emulator: None,
        events: Vec::new(),
        hosts: [].into(),
        paths: Vec::new(),
        simulator: None,
        captures: Vec::new(),
        scenario: serde_json::to_value(run).expect("a run is plain data"),
    }
}
