// SPDX-License-Identifier: GPL-2.0-or-later
//! Predictions of whole scenarios.

mod domain;
mod forms;

use record::{FlowSummary, Summary};
use scenario::{Run, Scenario};

/// The only run of a scenario.
pub fn run(text: &str) -> Run {
    let none: [&str; 0] = [];
    let scenario = Scenario::parse(text, "test.toml", &none);
    scenario.unwrap_or_else(|e| panic!("{e}\n{text}")).runs.swap_remove(0)
}

/// What is predicted of it.
pub fn summary(text: &str) -> Summary {
    longhaul_model::summary(&run(text))
}

/// What is predicted of its only flow.
pub fn flow(text: &str) -> FlowSummary {
    summary(text).flows.swap_remove(0)
}

/// The two differ by less than this share.
pub fn assert_close(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found}, not {expected}");
}
