// SPDX-License-Identifier: GPL-2.0-or-later
//! What a rule is: a name, a source, and a function from facts and target to a finding.

use crate::{
    Target,
    change::Change,
    facts::{Facts, KernelVersion},
    finding::{Direction, Finding, Gain, Remedy, Scope},
};

/// A finding without its rule's name, which [`Rule::find`] adds.
macro_rules! finding {
    ($($field:ident: $value:expr),* $(,)?) => {
        $crate::finding::Finding { id: "", $($field: $value),* }
    };
}
pub(crate) use finding;

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
    Setting(&'static SettingRule),
}

impl Rule {
    /// What it finds.
    pub fn find(&self, facts: &Facts, target: &Target) -> Option<Finding> {
        let found = match self.check {
            Check::Facts(check) => check(facts, target),
            Check::Setting(rule) => rule.find(facts),
        };
        found.map(|found| Finding { id: self.id, ..found })
    }
}

/// A rule about one setting.
#[derive(Debug)]
pub struct SettingRule {
    pub(crate) id: &'static str,
    pub(crate) key: &'static str,
    pub(crate) source: &'static str,
    /// Whether a value is wrong.
    pub(crate) is_wrong: fn(i64) -> bool,
    /// The right value.
    pub(crate) right: i64,
    pub(crate) cause: &'static str,
    pub(crate) direction: Direction,
    pub(crate) scope: Scope,
    pub(crate) gain: Gain,
    /// The kernels that it is for: from the first on, before the second.
    pub(crate) kernels: (KernelVersion, KernelVersion),
}

impl SettingRule {
    fn find(&self, facts: &Facts) -> Option<Finding> {
        let host = &facts.host;
        let value = host.number(self.key).filter(|value| (self.is_wrong)(*value))?;
        let (from, before) = self.kernels;
        if !host.kernel.is_none_or(|kernel| from <= kernel && kernel < before) {
            return None;
        }
        Some(finding! {
            cause: self.cause.to_owned(),
            evidence: format!("{} is {value}", self.key),
            scope: self.scope,
            direction: self.direction,
            remedy: Remedy::Changes(vec![Change::setting(self.key, self.right)]),
            gain: self.gain,
        })
    }
}
