// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines under the kernel's TCP and under the simulated one: the same link does alike to both.
//! Takes root.

use crate::common::{Measured, alone, credible, emulated::recorded};
use longhaul_lab::Method;
use record::RunResults;
use scenario::Scenario;

/// Two downloads of 8 MB over 40 Mb/s and 30 ms: some three seconds.
fn scenario(kind: &str, ecn: bool) -> Scenario {
    let text = format!(
        r#"
        title = "Queues"
        timeout = "30s"
        [tcp]
        ecn = {ecn}
        [[node]]
        name = "source"
        cc = "cubic"
        [[node]]
        name = "sink"
        [[link]]
        between = ["source", "sink"]
        rate = "40mbit"
        delay = "15ms"
        forward = {{ queue = "400p", discipline = {{ kind = "{kind}", ecn = {ecn} }} }}
        [[flow]]
        count = 2
        from = "source"
        to = "sink"
        bytes = "8MB"
        "#
    );
    Scenario::parse(&text, "test", &[] as &[&str]).expect("a sound scenario")
}

#[derive(Debug)]
struct Found {
    goodput_bps: f64,
    wait_ms: f64,
    early_drops: u64,
    marks: u64,
    full: u64,
}

impl Found {
    fn of(recorded: &RunResults) -> Self {
        let (flows, link) = (&recorded.summary.flows, &recorded.summary.links[0]);
        let end_s = flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
        let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
        Self {
            goodput_bps: bytes as f64 * 8.0 / end_s,
            wait_ms: link.queue_mean_delay_us.unwrap_or_default() / 1e3,
            early_drops: link.early_drops,
            marks: link.marks,
            full: link.queue_drops - link.early_drops,
        }
    }
}

#[test]
fn emulator_and_simulator_agree_about_every_discipline() {
    let _alone = alone();
    for (kind, ecn) in [("red", true), ("pie", false), ("codel", true), ("fq_codel", false)] {
        let runs = scenario(kind, ecn).runs;
        let simulated = Found::of(&recorded(&runs, Method::Sim)[0]);
        credible(|| {
            let recorded = &recorded(&runs, Method::Emu)[0];
            let found = Found::of(recorded);
            println!("{kind}, ecn {ecn}: emulated {found:?}, simulated {simulated:?}");
            let mut wrong = Vec::new();
            let mut compare = |what: &str, emulated: f64, simulated: f64, most: f64| {
                let ratio = emulated / simulated;
                if !(1.0 / most..=most).contains(&ratio) {
                    wrong.push(format!("{kind}, {what}: {emulated} and {simulated}"));
                }
            };
            // One run of three seconds each: where a window is cut moves the goodput by some percent and the
            // wait by more.
            compare("goodput", found.goodput_bps, simulated.goodput_bps, 1.25);
            compare("wait", found.wait_ms, simulated.wait_ms, 1.8);
            let acts = |found: &Found| (found.early_drops + found.marks + 5) as f64;
            compare("drops and marks", acts(&found), acts(&simulated), 2.5);
            if (found.early_drops == 0) != ecn || (found.marks > 0) != ecn || found.full > 0 {
                wrong.push(format!("{kind}, ecn {ecn}: {found:?}"));
            }
            Measured { wrong, faults: recorded.manifest.invalid_reasons.clone() }
        });
    }
}
