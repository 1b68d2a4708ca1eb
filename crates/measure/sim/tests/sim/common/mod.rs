// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests share: from a scenario's text to what came out, and where to look in it.
#![allow(dead_code, reason = "each test uses a part of it")]

use longhaul_sim::{Outcome, Simulation};
use record::{Curve, Direction, Entity, LinkSummary, Quantity};
use scenario::{Run, Scenario};

/// All runs of a scenario.
pub fn runs(text: &str) -> Vec<Run> {
    let none: [&str; 0] = [];
    Scenario::parse(text, "test.toml", &none).unwrap_or_else(|e| panic!("{e}\n{text}")).runs
}

/// One run to its end.
pub fn outcome(run: &Run) -> Outcome {
    let mut simulation = Simulation::new(run).unwrap_or_else(|e| panic!("{e}"));
    while simulation.advance(1_000_000) {}
    simulation.outcome()
}

/// A scenario that is one run, to its end.
pub fn only(text: &str) -> Outcome {
    let runs = runs(text);
    assert_eq!(runs.len(), 1, "one run");
    outcome(&runs[0])
}

/// A connection of the only flow, by its number.
pub fn hop(flow: &str, index: u32) -> Entity {
    Entity::Hop { flow: flow.to_owned(), index }
}

/// The direction of a link that carries the data.
pub fn forward(link: &str) -> Entity {
    Entity::Link { name: link.to_owned(), direction: Direction::Forward }
}

/// A curve that must be there.
pub fn curve<'o>(outcome: &'o Outcome, entity: &Entity, quantity: Quantity) -> &'o Curve {
    let found = outcome.series.curve(entity, quantity);
    found.unwrap_or_else(|| panic!("no {} of {entity}", quantity.name()))
}

/// The summary of a link's forward direction.
pub fn forward_link<'o>(outcome: &'o Outcome, link: &str) -> &'o LinkSummary {
    let found = outcome.summary.links.iter().find(|l| l.name == link && l.direction == "forward");
    found.unwrap_or_else(|| panic!("no link {link}"))
}

/// The mean of the samples from one time up to, but without, another.
pub fn mean_between(curve: &Curve, from_s: f64, to_s: f64) -> f64 {
    let from = curve.time_s.partition_point(|t| *t < from_s);
    let to = curve.time_s.partition_point(|t| *t < to_s);
    assert!(from < to, "samples between {from_s} s and {to_s} s");
    curve.value[from..to].iter().sum::<f64>() / (to - from) as f64
}

/// When something is counted that was not for `quiet_s` before.
pub fn onsets(curve: &Curve, quiet_s: f64) -> Vec<f64> {
    let mut last = f64::NEG_INFINITY;
    let mut onsets = Vec::new();
    for (at, _) in curve.time_s.iter().zip(&curve.value).filter(|(_, value)| **value > 0.0) {
        if at - last > quiet_s {
            onsets.push(*at);
        }
        last = *at;
    }
    onsets
}
