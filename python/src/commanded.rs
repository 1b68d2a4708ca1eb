// SPDX-License-Identifier: GPL-2.0-or-later
//! Methods that the command `longhaul` carries out, on this machine or a worker: emulation needs root, and runs on hosts need ssh. The
//! engine here knows what such a command said of them.

use experiment::{ExperimentError, Method, Obstacles, RunContext};
use record::Record;
use scenario::Run;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub struct Commanded {
    name: &'static str,
    sources: &'static str,
    /// The runs as the command makes them, by name.
    prepared: BTreeMap<String, Run>,
}

impl Commanded {
    /// Of one of the methods; `sources` and `runs` (JSON) are what the command said. None for another method.
    pub fn new(method: &str, sources: String, runs: &str) -> Result<Option<Self>, String> {
        let Some(name) = ["emu", "field"].into_iter().find(|name| *name == method) else {
            return Ok(None);
        };
        let runs: Vec<Run> = serde_json::from_str(runs)
            .map_err(|error| format!("the command does not say what it would run: {error}"))?;
        let prepared = runs.into_iter().map(|run| (run.id.clone(), run)).collect();
        // One for each sweep of a process; records refer to it as long as that lives.
        Ok(Some(Self { name, sources: sources.leak(), prepared }))
    }
}

impl Method for Commanded {
    fn name(&self) -> &'static str {
        self.name
    }

    fn source_hash(&self) -> &'static str {
        self.sources
    }

    fn folder(&self, out: &Path) -> PathBuf {
        // As the command has it.
        if self.name == "emu" { out.to_owned() } else { out.join(self.name) }
    }

    fn has_events(&self) -> bool {
        true
    }

    /// The command has said already what is in the way.
    fn prepare(&self, run: &Run, _obstacles: &mut Obstacles) -> Run {
        self.prepared.get(&run.id).unwrap_or(run).clone()
    }

    fn run(&self, run: &Run, _context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        let text = format!("{}: method {} takes an executor", run.id, self.name);
        Err(ExperimentError::Unsupported(text))
    }
}
