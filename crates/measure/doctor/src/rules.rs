// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules: what each looks at, where it is from, and the function that finds it.
//!
//! A rule sees facts and the target, and nothing else. Whether a finding matters is decided by the model ([`crate::diagnosis`]):
//! a rule with a modelled gain need not ask.

mod buffers;
mod congestion;
mod device;
mod path;
mod program;
mod route;
mod settings;

use crate::{Target, facts::Facts, finding::Finding};

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, in `--json` and in the list of `docs/doctor.md`.
    pub id: &'static str,
    /// What it looks at.
    pub about: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// The function.
    pub check: Check,
}

/// How a rule decides.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// By facts and target.
    Facts(fn(&Facts, &Target) -> Option<Finding>),
    /// By one setting of one number.
    Setting(&'static settings::SettingRule),
}

impl Rule {
    /// What it finds.
    pub fn find(&self, facts: &Facts, target: &Target) -> Option<Finding> {
        let found = match self.check {
            Check::Facts(check) => check(facts, target),
            Check::Setting(rule) => rule.find(facts, target),
        };
        found.map(|found| Finding { id: self.id, ..found })
    }
}

/// All rules, in the order of the page.
pub fn all() -> impl Iterator<Item = Rule> {
    let tables = [
        buffers::RULES,
        congestion::RULES,
        device::RULES,
        route::RULES,
        program::RULES,
        path::RULES,
    ];
    settings::rules().chain(tables.into_iter().flatten().copied())
}

/// What all rules find, not ranked.
pub fn find(facts: &Facts, target: &Target) -> Vec<Finding> {
    all().filter_map(|rule| rule.find(facts, target)).collect()
}

/// A finding without its rule's name, which [`Rule::find`] adds.
macro_rules! finding {
    ($($field:ident: $value:expr),* $(,)?) => {
        $crate::finding::Finding { id: "", $($field: $value),* }
    };
}
use finding;

#[cfg(test)]
pub mod tests;
