// SPDX-License-Identifier: GPL-2.0-or-later
//! A scenario as a whole.

use crate::{
    diagnostics::{Diagnostics, Location, Problems},
    document, expand, expanded, keys, outline,
    run::{Reference, Run, Variant},
    sweep::AxisSpec,
};
use std::path::Path;

/// A scenario: what its file says about all runs, and the runs it expands to.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Title of the scenario.
    pub title: String,
    /// The paper and figure it is from.
    pub source: Option<String>,
    /// The variant that others are compared with.
    pub baseline: Option<String>,
    /// How often each variant is run at each point.
    pub repeat: u32,
    /// Whether repeats after the first vary: starts within a round trip, hosts' links by microseconds.
    pub vary: bool,
    /// In the order of the file; empty where the scenario has no variants.
    pub variants: Vec<Variant>,
    /// The swept keys, in the order of the file.
    pub axes: Vec<Axis>,
    /// Measurements of papers; each run has those that apply to it.
    pub references: Vec<Reference>,
    /// In the order in which they should run: repeats outermost, variants innermost.
    pub runs: Vec<Run>,
}

/// A swept key and its values, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// As in `vars.rtt`.
    pub key: String,
    /// At least one.
    pub values: Vec<String>,
}

impl Scenario {
    /// Leaves only these variants and their runs; all of them where none is named.
    ///
    /// # Errors
    /// One does not exist: the text names those that do.
    pub fn keep_variants(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let exists = |name: &&String| self.variants.iter().any(|it| it.name == **name);
        if let Some(unknown) = names.iter().find(|name| !exists(name)) {
            return Err(self.unknown_variant(unknown));
        }
        self.variants.retain(|it| names.contains(&it.name));
        self.runs.retain(|run| run.variant.as_ref().is_some_and(|it| names.contains(&it.name)));
        Ok(())
    }

    /// Says that a variant does not exist, and names those that do.
    pub fn unknown_variant(&self, unknown: &str) -> String {
        let names: Vec<&str> = self.variants.iter().map(|it| it.name.as_str()).collect();
        let known = match &*names.join(", ") {
            "" => "it has no variants".to_owned(),
            names => format!("it has: {names}"),
        };
        format!("the scenario has no variant \"{unknown}\": {known}")
    }

    /// The scenario of runs that were expanded before, in another file. What expands them is not known any more.
    ///
    /// # Errors
    /// No scenario expands to such runs: the text says why.
    pub fn of_runs(mut runs: Vec<Run>) -> Result<Self, String> {
        expanded::check_all(&runs)?;
        runs.sort_by_key(|run| run.repeat);
        let mut variants: Vec<Variant> = Vec::new();
        for variant in runs.iter().filter_map(|run| run.variant.as_ref()) {
            if !variants.contains(variant) {
                variants.push(variant.clone());
            }
        }
        let first = runs.first();
        Ok(Self {
            title: first.map_or_else(String::new, |run| run.title.clone()),
            source: first.and_then(|run| run.source.clone()),
            baseline: first.and_then(|run| run.baseline.clone()),
            repeat: runs.iter().map(|run| run.repeat).max().unwrap_or(1),
            vary: false,
            variants,
            axes: Vec::new(),
            references: Vec::new(),
            runs,
        })
    }

    /// Reads a scenario from its text. `file_name` is for messages; each of `overrides` is a
    /// `key=value` from the command line.
    ///
    /// # Errors
    /// Everything that is wrong, by line, as far as one pass can tell. It is the scenario's fault,
    /// or that of an override.
    pub fn parse(
        text: &str,
        file_name: &str,
        overrides: &[impl AsRef<str>],
    ) -> Result<Self, Diagnostics> {
        let file = Location::File(file_name.into());
        let problems = Problems::default();
        let mut root = document::parse(text, file_name)?;
        keys::name_all(&mut root);
        let read = outline::read(&mut root, overrides, &file, &problems);
        let expanded = read.map(|(outline, overrides)| {
            let runs = expand::expand(&root, &outline, &overrides, &file, &problems);
            let axis = |a: AxisSpec| Axis {
                key: a.key,
                values: a.values.iter().map(document::Value::plain).collect(),
            };
            Self {
                title: outline.title,
                source: outline.source,
                baseline: outline.baseline,
                repeat: outline.repeat,
                vary: outline.vary,
                variants: outline.variants.into_iter().map(|w| w.variant).collect(),
                axes: outline.axes.into_iter().map(axis).collect(),
                references: outline.references,
                runs,
            }
        });
        problems.into_result()?;
        Ok(expanded.expect("an outline that can't be read was reported"))
    }
}

/// Reads a scenario from a file.
///
/// # Errors
/// The file can't be read, or [`Scenario::parse`] refuses it.
pub fn load(path: &Path, overrides: &[impl AsRef<str>]) -> Result<Scenario, Diagnostics> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Diagnostics::one(Location::File(name.as_str().into()), format!("it can't be read: {e}"))
    })?;
    Scenario::parse(&text, &name, overrides)
}

/// Reads a list of runs from a JSON file.
///
/// # Errors
/// The file can't be read, has no runs, or [`Scenario::of_runs`] refuses them.
pub fn load_runs(path: &Path) -> Result<Scenario, Diagnostics> {
    let refused = |why: String| {
        let name = path.display().to_string();
        Diagnostics::one(Location::File(name.as_str().into()), why)
    };
    let text =
        std::fs::read_to_string(path).map_err(|e| refused(format!("it can't be read: {e}")))?;
    let runs: Vec<Run> = serde_json::from_str(&text).map_err(|error| {
        refused(format!("expected a list of runs, as lab check --json prints it: {error}"))
    })?;
    Scenario::of_runs(runs).map_err(refused)
}
