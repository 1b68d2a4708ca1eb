// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and on-off connections next to a flow, by emulation and by simulation. Takes root.

use crate::common::{Measured, credible, one_of_two};
use experiment::{Method, Options, run_all};
use longhaul_lab::Emulation;
use record::Record;
use scenario::Scenario;
use sim::Simulated;
use testkit::draft::Draft;

/// Of bytes and completion times.
const APART: f64 = 0.25;
/// Of sources that are on some ten times: when one is on moves its bytes.
const BURSTS_APART: f64 = 0.5;

fn scenario() -> Scenario {
    let traffic = |name: &str, keys: &str| {
        format!("[[traffic]]\nname = \"{name}\"\nfrom = \"source\"\nto = \"sink\"\n{keys}")
    };
    let text = Draft::new("Traffic", "duration=4s seed=5")
        .node("source", "tcp_wmem_max=16MB")
        .node("sink", "tcp_rmem_max=16MB")
        .link("source", "sink", "rate=100mbit queue=1bdp delay=5ms")
        .flow("source", "sink", "cc=cubic app_rate=20mbit")
        .line(&traffic("web", "kind = \"web\"\nload = \"20mbit\"\nmost = \"1MB\"\ncc = \"reno\""))
        .line(&traffic("time", "kind = \"on-off\"\non = \"50ms\"\noff = \"200ms\""))
        .line(&traffic(
            "bytes",
            "kind = \"on-off\"\non = \"100KB\"\noff = \"100ms\"\nstart = \"1s\"",
        ));
    Scenario::parse(&text.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

fn recorded(scenario: &Scenario, method: &dyn Method) -> Record {
    let folder = tempfile::tempdir().expect("a writable folder");
    let options = Options::new(folder.path());
    let run = &scenario.runs[0];
    run_all(&scenario.runs, method, &options, |_| ()).unwrap_or_else(|error| panic!("{error}"));
    Record::open(&method.folder(&options.out).join(&run.id)).expect("a record")
}

fn compare(emulated: &Record, simulated: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |what: &str, emulated: f64, simulated: f64| {
        println!("{what}: {emulated:.4} and {simulated:.4}");
        let most = if ["time", "bytes"].contains(&what) { BURSTS_APART } else { APART };
        if (emulated / simulated - 1.0).abs() > most {
            wrong.push(format!("{what}: {emulated} emulated, {simulated} simulated"));
        }
    };
    for (emulated, simulated) in emulated.summary.traffic.iter().zip(&simulated.summary.traffic) {
        assert_eq!((&emulated.name, &emulated.kind), (&simulated.name, &simulated.kind));
        compare(&emulated.name, emulated.goodput_bps / 1e6, simulated.goodput_bps / 1e6);
        if let (Some(emulated), Some(simulated)) =
            (emulated.completion_mean_s, simulated.completion_mean_s)
        {
            compare("mean completion", emulated, simulated);
        }
    }
    let flow = |record: &Record| record.summary.flows[0].goodput_bps.unwrap() / 1e6;
    compare("flow", flow(emulated), flow(simulated));
    // The same files at the same times: a client may start some milliseconds late.
    let files = emulated.files.rows.iter().zip(&simulated.files.rows);
    let shift = emulated.summary.traffic[0].start_s - simulated.summary.traffic[0].start_s;
    for (emulated, simulated) in files.clone() {
        let late_s = emulated.start_s - shift - simulated.start_s;
        let is_same = emulated.number == simulated.number
            && (emulated.size_bytes == simulated.size_bytes || emulated.completion_s.is_none())
            && (-0.001..0.1).contains(&late_s);
        if !is_same {
            wrong.push(format!("{emulated:?} and {simulated:?}"));
        }
    }
    let completed = |record: &Record| record.summary.traffic[0].files_completed;
    println!("{:?} and {:?} files", completed(emulated), completed(simulated));
    assert!(files.len() > 100, "{} files", files.len());
    wrong
}

#[test]
fn emulated_files_and_bursts_are_those_of_sim() {
    let _turn = one_of_two();
    let scenario = scenario();
    let simulated = recorded(&scenario, &Simulated);
    credible(|| {
        let emulated = recorded(&scenario, &Emulation::new("no depots"));
        let wrong = compare(&emulated, &simulated);
        Measured { wrong, faults: emulated.manifest.invalid_reasons }
    });
}
