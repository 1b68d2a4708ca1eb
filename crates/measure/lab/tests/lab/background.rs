// SPDX-License-Identifier: GPL-2.0-or-later
//! Datagrams at constant rates next to a flow, by emulation and by simulation. Takes root.

use crate::common::{
    Measured, credible,
    emulated::{emulated, recorded},
    one_of_two,
};
use record::RunResults;
use scenario::Scenario;
use sim::Simulated;
use testkit::draft::Draft;

/// Of the rate of a source, on a link that drops none.
const RATE_APART: f64 = 0.01;
/// Of the goodput of a flow that shares the link with them.
const GOODPUT_APART: f64 = 0.2;

fn scenario(family: &str) -> Scenario {
    let text = Draft::new("Background", &format!("duration=3s family={family}"))
        .node("source", "tcp_wmem_max=16MB")
        .node("router", "")
        .node("sink", "tcp_rmem_max=16MB")
        .link("source", "router", "rate=200mbit queue=1bdp")
        .link("router", "sink", "rate=60mbit queue=1bdp delay=10ms")
        .flow("source", "sink", "cc=cubic")
        .line("[[background]]\nlink = \"router-sink\"\nfrom = \"source\"\nto = \"sink\"\nshare = \"30%\"")
        .line("mix = { cbr = \"100%\" }\nsources = 2")
        // Packets without payload, and some that are late in the run.
        .line("[[traffic]]\nname = \"small\"\nfrom = \"sink\"\nto = \"source\"\nkind = \"cbr\"\nrate = \"1mbit\"")
        .line(if family == "ipv4" { "packet = 28\nstart = \"1s\"" } else { "packet = 48\nstart = \"1s\"" });
    Scenario::parse(&text.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

fn compare(emulated: &RunResults, simulated: &RunResults) -> Vec<String> {
    let mut wrong = Vec::new();
    let (emulated, simulated) = (&emulated.summary, &simulated.summary);
    let mut compare = |what: &str, emulated: f64, simulated: f64, most: f64| {
        println!("{what}: {:.2} and {:.2} Mb/s", emulated / 1e6, simulated / 1e6);
        if (emulated / simulated - 1.0).abs() > most {
            wrong.push(format!("{what}: {emulated} emulated, {simulated} simulated"));
        }
    };
    assert_eq!(emulated.traffic.len(), 5);
    for (emulated, simulated) in emulated.traffic.iter().zip(&simulated.traffic) {
        assert_eq!((&emulated.name, &emulated.kind), (&simulated.name, &simulated.kind));
        // A flow's queue may drop some.
        let most = if emulated.from == "sink" { RATE_APART } else { 0.1 };
        compare(&emulated.name, emulated.goodput_bps, simulated.goodput_bps, most);
    }
    let (emulated, simulated) = (&emulated.flows[0], &simulated.flows[0]);
    let [emulated, simulated] = [emulated, simulated].map(|flow| flow.goodput_bps.unwrap());
    compare("flow", emulated, simulated, GOODPUT_APART);
    wrong
}

#[test]
fn datagrams_take_their_rate_and_leave_the_rest() {
    let _turn = one_of_two();
    for family in ["ipv4", "ipv6"] {
        let scenario = scenario(family);
        let simulated = recorded(&scenario.runs, &Simulated);
        credible(|| {
            let emulated = emulated(&scenario.runs);
            let wrong = compare(&emulated[0], &simulated[0]);
            let manifest = &emulated[0].manifest;
            let health = manifest.emulator.as_ref().expect("an emulator");
            println!("{}", health.more["generator"]);
            Measured { wrong, faults: manifest.invalid_reasons.clone() }
        });
    }
}
