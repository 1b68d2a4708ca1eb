// SPDX-License-Identifier: GPL-2.0-or-later
//! The runs of all candidates, by scenario and seed.

use record::{OfferedFiles, RunResults};
use std::collections::BTreeMap;

/// A run of a candidate, as far as measures look at it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The scenario's variant.
    pub variant: Option<String>,
    /// The point of the sweep, in words; with the variant it names what is compared.
    pub point: String,
    /// The candidate beside it, in the scenario where two meet.
    pub other: Option<String>,
    /// What is on record.
    pub results: RunResults,
    /// Files that its traffic offered.
    pub files: OfferedFiles,
}

impl Cell {
    /// Of a record; its files where it has any.
    pub fn new(other: Option<&str>, results: RunResults, files: OfferedFiles) -> Self {
        let manifest = &results.manifest;
        let variant = manifest.variant.as_ref().map(|variant| variant.name.clone());
        let settings = manifest.point.iter().map(|(key, value)| format!("{key}={value}"));
        let point = settings.collect::<Vec<_>>().join(",");
        Self { variant, point, other: other.map(str::to_owned), results, files }
    }

    /// What is compared: variant and point.
    pub fn name(&self) -> String {
        let variant = self.variant.iter().map(String::as_str);
        variant
            .chain([self.point.as_str()])
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// The runs of a scenario for one candidate and one seed.
pub type SeedRuns = Vec<Cell>;

/// All runs.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// By candidate, scenario and number of the seed.
    runs: BTreeMap<(String, &'static str, u32), SeedRuns>,
}

impl Outcomes {
    /// Adds a run of a candidate in a scenario.
    pub fn add(&mut self, candidate: &str, scenario: &'static str, cell: Cell) {
        let seed = cell.results.manifest.repeat;
        self.runs.entry((candidate.to_owned(), scenario, seed)).or_default().push(cell);
    }

    /// Those of a candidate in a scenario under a seed.
    pub fn of(&self, candidate: &str, scenario: &'static str, seed: u32) -> &[Cell] {
        let key = (candidate.to_owned(), scenario, seed);
        self.runs.get(&key).map_or(&[], Vec::as_slice)
    }
}
