// SPDX-License-Identifier: GPL-2.0-or-later
//! The charts of a sweep on the page: goodput against one swept key, or the time where transfers of several sizes are
//! compared: each size has a goodput of its own, since a short transfer ends before it has reached its rate.

use crate::{
    scenario_runs::{Cell, ScenarioRuns},
    swept_value::{following_keys, positions},
};
use record::Summary;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a sweep's charts show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    Goodput,
    Seconds,
}

impl Measure {
    /// The measure for a group's runs.
    pub fn of(group: &ScenarioRuns) -> Self {
        if group.cells.iter().any(Cell::is_endless) {
            return Self::Goodput;
        }
        Self::of_runs(group.runs.iter().map(|run| &run.summary))
    }

    /// The measure for these runs: time if all transfers end and their sizes differ.
    pub fn of_runs<'s>(runs: impl Iterator<Item = &'s Summary>) -> Self {
        let size = |run: &Summary| -> Option<u64> {
            run.flows.iter().map(|flow| flow.bytes_expected).sum()
        };
        let sizes: Option<BTreeSet<u64>> = runs.map(size).collect();
        if sizes.is_some_and(|sizes| sizes.len() > 1) { Self::Seconds } else { Self::Goodput }
    }
}

/// One chart: goodput or time against one key, all others being fixed.
#[derive(Debug, Serialize)]
pub struct SweepChart {
    /// What is shown.
    pub measure: Measure,
    /// The swept key.
    pub key: String,
    /// The values of the other keys: "loss 0.1%"; empty without others.
    pub fixed: String,
    /// The values of the swept key, as written in the scenario.
    pub labels: Vec<String>,
    /// Where each value stands on the axis.
    pub positions: Vec<f64>,
    /// Whether the positions are logarithms.
    pub logarithmic: bool,
    /// The group's point at each value.
    pub points: Vec<usize>,
}

/// The charts of a group's sweep: against its first key that takes several values, one chart for
/// each combination of the others that do not follow from it. Empty without a sweep.
pub fn panels(group: &ScenarioRuns) -> Vec<SweepChart> {
    let Some(key) = swept_key(group) else { return Vec::new() };
    let measure = Measure::of(group);
    let points: Vec<&[(String, String)]> = group.points.iter().map(Vec::as_slice).collect();
    let following = following_keys(&key, &points);
    let mut panels: Vec<SweepChart> = Vec::new();
    for (index, point) in group.points.iter().enumerate() {
        let others = point.iter().filter(|(k, _)| *k != key && !following.contains(k));
        let fixed = others.map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ");
        let Some((_, value)) = point.iter().find(|(k, _)| *k == key) else { continue };
        let at = panels.iter().position(|panel| panel.fixed == fixed).unwrap_or_else(|| {
            panels.push(SweepChart::empty(measure, &key, fixed));
            panels.len() - 1
        });
        panels[at].labels.push(value.clone());
        panels[at].points.push(index);
    }
    for panel in &mut panels {
        panel.place();
    }
    panels
}

fn swept_key(group: &ScenarioRuns) -> Option<String> {
    let first = group.points.first()?;
    let varies = |(key, value): &&(String, String)| {
        group.points.iter().any(|point| point.iter().any(|(k, v)| k == key && v != value))
    };
    first.iter().find(varies).map(|(key, _)| key.clone())
}

impl SweepChart {
    fn empty(measure: Measure, key: &str, fixed: String) -> Self {
        Self {
            measure,
            key: key.to_owned(),
            fixed,
            labels: Vec::new(),
            positions: Vec::new(),
            logarithmic: false,
            points: Vec::new(),
        }
    }

    /// Sets the positions.
    fn place(&mut self) {
        (self.positions, self.logarithmic) = positions(&self.labels, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(labels: &[&str]) -> SweepChart {
        let mut panel = SweepChart::empty(Measure::Goodput, "key", String::new());
        panel.labels = labels.iter().map(ToString::to_string).collect();
        panel.place();
        panel
    }

    #[test]
    fn numbers_with_units_stand_where_they_belong() {
        assert_eq!(placed(&["10ms", "0.05s", "90ms"]).positions, [0.01, 0.05, 0.09]);
        assert_eq!(placed(&["8", "16"]).positions, [8.0, 16.0]);
        assert_eq!(placed(&["170p", "250p"]).positions, [170.0, 250.0]);
        let loss = placed(&["0.001% over 3", "0.01% over 3", "0.1% over 3"]);
        assert!(loss.logarithmic);
        assert!((loss.positions[2] - loss.positions[0] - 2.0).abs() < 1e-9, "{loss:?}");
        // A zero has no logarithm, a name no number.
        assert_eq!(placed(&["0%", "0.001%", "1%"]).positions, [0.0, 1.0, 2.0]);
        assert_eq!(placed(&["cubic", "bbr"]).positions, [0.0, 1.0]);
    }
}
