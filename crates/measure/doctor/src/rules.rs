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

use crate::{Target, facts::Facts, finding::Finding, rule::Rule};

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

#[cfg(test)]
pub mod tests;
