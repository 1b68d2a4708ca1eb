// SPDX-License-Identifier: GPL-2.0-or-later
//! Several flows compared with the kernel's TCP: each eleventh cell of `docs/validation/flows.jsonl`, simulated again.
//! Compares the goodput of all flows together, because the fastest flow differs from run to run.

use crate::common::outcome;
use scenario::Scenario;
use serde_json::Value;
use std::{fs, path::Path};

/// One in this many cells of the table is simulated.
const STRIDE: usize = 11;
/// How far goodput may be off.
const TOLERANCE: f64 = 0.1;
/// How far a flow's share of all goodput may be off: the kernel's runs of one cell are as far apart.
const SHARE_TOLERANCE: f64 = 0.03;
/// With so short a queue it is further off: `docs/validation/README.md` says by how much and why.
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

/// A cell of the table.
struct Cell(Value);

impl Cell {
    fn all() -> Vec<Self> {
        let lines = read("docs/validation/flows.jsonl");
        lines.lines().map(|line| Self(serde_json::from_str(line).unwrap())).collect()
    }

    /// What the kernel did with its flows, in Mb/s, run by run.
    fn kernel(&self) -> Vec<Vec<f64>> {
        let flows = |run: &Value| {
            run["flows"].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap()).collect()
        };
        self.0["kernel"].as_array().unwrap().iter().map(flows).collect()
    }

    /// The same, simulated `repeat` times.
    fn simulate(&self, repeat: u32) -> Vec<Vec<f64>> {
        let set: Vec<String> = overrides(&self.0["set"])
            .chain(overrides(&self.0["point"]))
            .chain([format!("repeat={repeat}")])
            .collect();
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let scenario = read("scenarios/validation-flows.toml");
        let runs = Scenario::parse(&scenario, "validation-flows", &set).unwrap().runs;
        let flows = |run| {
            outcome(run).summary.flows.iter().map(|flow| flow.goodput_bps.unwrap() / 1e6).collect()
        };
        runs.iter().map(flows).collect()
    }

    fn name(&self) -> String {
        format!("{} {}", self.0["group"], self.0["point"])
    }
}

fn read(path: &str) -> String {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    fs::read_to_string(house.join(path)).unwrap()
}

#[test]
fn flows_together_get_what_they_get_from_the_kernel() {
    let (mut cells, mut off) = (0, Vec::new());
    for cell in Cell::all().iter().step_by(STRIDE) {
        let together =
            |runs: Vec<Vec<f64>>| median(runs.iter().map(|run| run.iter().sum()).collect());
        let (kernel, simulated) = (together(cell.kernel()), together(cell.simulate(2)));
        let ratio = simulated / kernel;
        println!("{}: {kernel:.1}, simulated {simulated:.1}", cell.name());
        cells += 1;
        if (ratio - 1.0).abs() > TOLERANCE && cell.0["point"]["vars.queue"] != TOO_SHORT {
            off.push(format!("{}: {ratio:.2}", cell.name()));
        }
    }
    assert!(cells >= 20, "{cells} cells");
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn bbr_share_next_to_cubic_matches_the_kernel() {
    let (mut cells, mut off) = (0, Vec::new());
    for cell in Cell::all().iter().filter(|cell| cell.0["group"] == "bbr-cubic") {
        let share = |runs: Vec<Vec<f64>>| {
            median(runs.iter().map(|run| run[0] / run.iter().sum::<f64>()).collect())
        };
        let (kernel, simulated) = (share(cell.kernel()), share(cell.simulate(5)));
        println!("{}: {kernel:.3}, simulated {simulated:.3}", cell.name());
        cells += 1;
        if (simulated - kernel).abs() > SHARE_TOLERANCE {
            off.push(format!("{}: {kernel:.3}, simulated {simulated:.3}", cell.name()));
        }
    }
    assert!(cells >= 5, "{cells} cells");
    assert!(off.is_empty(), "{off:#?}");
}
