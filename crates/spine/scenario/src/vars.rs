// SPDX-License-Identifier: GPL-2.0-or-later
//! `${name}`: text from `[vars]` put into strings.
//!
//! Variables may use each other. The substitution is of text, as in a shell: `"${rtt} / 2"` with
//! `rtt = "40ms + 2ms"` is `40ms + 2ms / 2`.

use crate::{
    diagnostics::{Location, Problems},
    document::{Data, Table, Value},
};
use std::collections::BTreeMap;
use units::suggest::hint;

/// A text with nothing left to fill in.
#[derive(Debug, Clone, Default)]
struct Filled {
    text: String,
    /// The `--set`s that took part: what is wrong with the text may be theirs.
    overrides: Vec<Location>,
}

/// A variable: what it stands for once its own references are filled in.
enum Var {
    /// Being resolved right now: meeting it again is a circle.
    Open,
    Filled(Filled),
    /// Already reported; nothing that uses it is reported again.
    Broken,
}

pub(crate) struct Vars<'t> {
    sources: BTreeMap<&'t str, &'t Value>,
    resolved: BTreeMap<&'t str, Var>,
    /// How many variables are open.
    depth: usize,
    problems: &'t Problems,
}

impl<'t> Vars<'t> {
    /// Variables that double each other could fill the memory; no sensible value is this long.
    const LONGEST: usize = 4096;
    /// A longer chain of variables could fill the stack.
    const DEEPEST: usize = 32;

    pub fn new(vars: Option<&'t Table>, problems: &'t Problems) -> Self {
        let entries = vars.into_iter().flat_map(Table::entries);
        let sources = entries.map(|e| (e.key.as_str(), &e.value)).collect();
        Self { sources, resolved: BTreeMap::new(), depth: 0, problems }
    }

    /// Fills in every string under `value`.
    pub fn fill(&mut self, value: &mut Value) {
        match &mut value.data {
            Data::Text(text) if text.contains("${") => match self.filled(text, &value.location) {
                Some(Filled { text: filled, overrides }) => {
                    let template = std::mem::replace(text, filled);
                    let overrides = overrides.iter().map(|location| format!(", {location}"));
                    value.template =
                        Some(format!("\"{template}\"{}", overrides.collect::<String>()));
                }
                None => value.data = Data::Broken,
            },
            Data::List(items) => items.iter_mut().for_each(|v| self.fill(v)),
            Data::Table(table) => table.values_mut().for_each(|v| self.fill(v)),
            Data::Text(_) | Data::Number(_) | Data::Other(_) | Data::Broken => {}
        }
    }

    fn filled(&mut self, text: &str, location: &Location) -> Option<Filled> {
        let mut filled = Filled::default();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else {
                self.problems.report(location, format!("\"{text}\": \"${{\" has no \"}}\""));
                return None;
            };
            let var = self.lookup(name, location)?;
            filled.text += before;
            filled.text += &var.text;
            for location in &var.overrides {
                if !filled.overrides.contains(location) {
                    filled.overrides.push(location.clone());
                }
            }
            rest = after;
        }
        filled.text += rest;
        if filled.text.len() > Self::LONGEST {
            let limit = Self::LONGEST;
            self.problems.report(location, format!("this grows beyond {limit} characters"));
            return None;
        }
        Some(filled)
    }

    fn lookup(&mut self, name: &str, location: &Location) -> Option<&Filled> {
        let Some((&name, &source)) = self.sources.get_key_value(name) else {
            let hint = hint(name, self.sources.keys().copied());
            self.problems.report(location, format!("\"${{{name}}}\" is not in [vars]{hint}"));
            return None;
        };
        if !self.resolved.contains_key(name) {
            self.resolved.insert(name, Var::Open);
            let resolved = self.resolve(source).map_or(Var::Broken, Var::Filled);
            self.resolved.insert(name, resolved);
        }
        match self.resolved.get(name) {
            Some(Var::Filled(filled)) => Some(filled),
            Some(Var::Open) => {
                self.problems.report(location, format!("\"${{{name}}}\" stands for itself"));
                None
            }
            _ => None,
        }
    }

    fn resolve(&mut self, source: &Value) -> Option<Filled> {
        if self.depth == Self::DEEPEST {
            let message = format!("more than {} variables use each other in turn", Self::DEEPEST);
            self.problems.report(&source.location, message);
            return None;
        }
        self.depth += 1;
        let filled = source.as_variable().and_then(|text| self.filled(text, &source.location));
        self.depth -= 1;
        let mut filled = filled?;
        if matches!(source.location, Location::Override(_)) {
            filled.overrides.push(source.location.clone());
        }
        Some(filled)
    }
}
