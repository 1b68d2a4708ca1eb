// SPDX-License-Identifier: GPL-2.0-or-later
//! Several flows beside the kernel's TCP: each eleventh cell of `docs/validation/flows.jsonl`, simulated again, against
//! what the kernel did there. Goodput of all flows together: who is ahead differs from run to run.

mod common;

use common::outcome;
use scenario::Scenario;
use serde_json::Value;
use std::{fs, path::Path};

/// Every so many cells of the table one.
const STRIDE: usize = 11;
/// How far goodput may be off.
const TOLERANCE: f64 = 0.1;
/// With so short a queue it is further off: `docs/validation/flows.md` says by how much and why.
const TOO_SHORT: &str = "10p";

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// Keys and values, as `--set` takes them.
fn overrides(keys: &Value) -> impl Iterator<Item = String> {
    let keys = keys.as_object().unwrap();
    keys.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
}

#[test]
fn flows_together_get_what_they_get_from_the_kernel() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(house.join(path)).unwrap();
    let scenario = read("scenarios/validation-flows.toml");
    let (mut cells, mut off) = (0, Vec::new());
    for line in read("docs/validation/flows.jsonl").lines().step_by(STRIDE) {
        let cell: Value = serde_json::from_str(line).unwrap();
        let set: Vec<String> = overrides(&cell["set"])
            .chain(overrides(&cell["point"]))
            .chain(["repeat=2".to_owned()])
            .collect();
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let runs = Scenario::parse(&scenario, "validation-flows", &set).unwrap().runs;
        let simulated = median(
            runs.iter()
                .map(|run| {
                    outcome(run).summary.flows.iter().map(|flow| flow.goodput_bps / 1e6).sum()
                })
                .collect(),
        );
        let of_run = |run: &Value| -> f64 {
            run["flows"].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap()).sum()
        };
        let kernel = median(cell["kernel"].as_array().unwrap().iter().map(of_run).collect());
        let ratio = simulated / kernel;
        println!("{} {}: {kernel:.1}, simulated {simulated:.1}", cell["group"], cell["point"]);
        cells += 1;
        if (ratio - 1.0).abs() > TOLERANCE && cell["point"]["vars.queue"] != TOO_SHORT {
            off.push(format!("{} {}: {ratio:.2}", cell["group"], cell["point"]));
        }
    }
    assert!(cells >= 20, "{cells} cells");
    assert!(off.is_empty(), "{off:#?}");
}
