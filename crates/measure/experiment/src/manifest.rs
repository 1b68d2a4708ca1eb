// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a manifest that does not depend on the method. Predictions are added when the run is over ([`crate::Options`]).

use crate::{machine, method::Method};
use record::{Manifest, SCHEMA, manifest};
use scenario::Run;
use std::time::SystemTime;

/// The manifest of a valid run, without the values that only its method knows.
pub fn of(run: &Run, method: &dyn Method, command: &[String], started: SystemTime) -> Manifest {
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
        method: method.name().to_owned(),
        command: command.to_vec(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        versions: machine::versions(std::iter::empty()),
        sources: Some(method.source_hash().to_owned()),
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
        simulator: None,
        captures: Vec::new(),
        scenario: serde_json::to_value(run).expect("a run is plain data"),
    }
}
