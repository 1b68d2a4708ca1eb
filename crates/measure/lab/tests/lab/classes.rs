// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes for several bottlenecks in an emulated run: the same transfers from one host, by a class for each
//! bottleneck and by one queue, over buffers of 40 packets. Takes root, nginx and curl.

use crate::common::{Measured, credible, emulated::emulated, one_of_two};
use experiment::prepare_all;
use longhaul_lab::Emulation;
use record::{LinkSummary, RunResults};
use scenario::{Run, Scenario};
use serde_json::Value;
use sim::Simulated;

/// Reno's slow start doubles the window until packets are lost: one queue can't but fill the buffers. Links
/// count as `overhead` does by default, so the gateway must count likewise.
const TEXT: &str = r#"
title = "classes"
timeout = "20s"
[[node]]
name = "host"
cc = "reno"
[[node]]
name = "switch"
[[node]]
name = "near"
[[node]]
name = "far"
[[link]]
name = "wire"
between = ["host", "switch"]
rate = "40mbit"
queue = "10000p"
[[link]]
name = "to-near"
between = ["switch", "near"]
rate = "4mbit"
delay = "5ms"
queue = "40p"
[[link]]
name = "to-far"
between = ["switch", "far"]
rate = "8mbit"
delay = "10ms"
queue = "40p"
[[flow]]
name = "near#"
count = 2
from = "host"
to = "near"
bytes = "500KB"
[[flow]]
name = "far#"
count = 2
from = "host"
to = "far"
bytes = "1MB"
[[bottleneck]]
name = "near"
from = "host"
to = "near"
rate = "4mbit"
[[bottleneck]]
name = "far"
from = "host"
to = "far"
rate = "8mbit"
[[variant]]
name = "classes"
[[variant]]
name = "queue"
set = { "pacing.classes" = false }
"#;

/// From here on a late delivery may itself be why a buffer overflows, in microseconds: some 40 packets of 8 Mb/s.
const LATE: f64 = 50e3;

fn runs(overrides: &[&str]) -> Vec<Run> {
    Scenario::parse(TEXT, "classes", overrides).expect("a sound scenario").runs
}

fn forward<'r>(recorded: &'r RunResults, name: &str) -> &'r LinkSummary {
    let found = |link: &&LinkSummary| link.name == name && link.direction == "forward";
    recorded.summary.links.iter().find(found).expect("the scenario's")
}

#[test]
fn classes_drop_nothing_and_a_single_queue_drops() {
    let _turn = one_of_two();
    credible(|| {
        let recorded = emulated(&runs(&[]));
        let [classes, queue] = &recorded[..] else { panic!("two runs") };
        let mut wrong = Vec::new();
        compare(classes, queue, &mut wrong);
        let mut faults = classes.manifest.invalid_reasons.clone();
        let late = classes.manifest.emulator.as_ref().unwrap().lateness_max_us;
        faults.extend((late > LATE).then(|| format!("a delivery was {late} us late")));
        Measured { wrong, faults }
    });
}

fn compare(classes: &RunResults, queue: &RunResults, wrong: &mut Vec<String>) {
    let mut must = |holds: bool, what: String| {
        println!("{what}");
        wrong.extend((!holds).then_some(what));
    };
    for (variant, recorded) in [("classes", classes), ("queue", queue)] {
        for flow in &recorded.summary.flows {
            must(
                flow.sha256_ok == Some(true),
                format!("{variant}, {}: {}", flow.name, flow.outcome),
            );
        }
    }
    let gateways = classes.manifest.emulator.as_ref().unwrap().more["gateways"].clone();
    let gateway = &gateways[0];
    must(gateway["node"] == "host" && gateway["device"] == "wan0", gateways.to_string());
    let of_class = |n: usize, key: &str| gateway["classes"][n][key].as_u64().unwrap();
    for (n, name, bytes) in [(0, "near", 1000 << 10), (1, "far", 2048 << 10)] {
        let link = format!("to-{name}");
        let [with, without] = [classes, queue].map(|recorded| forward(recorded, &link));
        let (drops, lost) = (with.queue_drops, without.queue_drops);
        must(drops == 0 && lost > 0, format!("{name}: {drops} drops, {lost} without classes"));
        let sent = of_class(n, "link_bytes");
        // What was sent at the very end may not have come so far.
        let carried = sent.abs_diff(with.bytes) < 1000 && with.bytes > bytes;
        must(carried, format!("{name}: {sent} bytes left by its class, {} came", with.bytes));
    }
    must(of_class(2, "packets") == 0, format!("{} packets of no class", of_class(2, "packets")));
    let [wire, plain] = [classes, queue].map(|recorded| forward(recorded, "wire").gap_frames);
    must(wire > 0 && plain == 0, format!("{wire} gap frames, {plain} without classes"));
    let none = queue.manifest.emulator.as_ref().unwrap().more["gateways"] == Value::Array(vec![]);
    must(none, "no gateway without classes".to_owned());
}

#[test]
fn unpaceable_gateway_flow_is_refused_by_name() {
    for (set, expected) in [
        ("flow.far#.pacing=gap", "flow far1, from host and 1 more: pacing in addition to classes"),
        (
            "flow.near#.pacing=1mbit",
            "flow near1, from host and 1 more: pacing in addition to classes",
        ),
        (
            "link.wire.overhead=0",
            "bottleneck near: classes take an overhead of 14 or more on link \"wire\"",
        ),
    ] {
        let run = &runs(&[set])[..1];
        let said = prepare_all(&Emulation::new("no depots"), run).expect_err(set).to_string();
        assert!(said.contains(expected), "{set}: {said}");
        prepare_all(&Simulated, run).unwrap_or_else(|error| panic!("{set}: {error}"));
    }
}
