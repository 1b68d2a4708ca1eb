// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines under the kernel's TCP and under the simulated one: the same link does alike to both.
//! Takes root.

use crate::common::{
    Measured, credible,
    emulated::{emulated, recorded},
    one_of_two,
};
use record::RunResults;
use scenario::Scenario;
use sim::Simulated;

/// Two downloads of 8 MB over 40 Mb/s and 30 ms, some three seconds, three times: each repeat begins its
/// flows at other moments.
fn scenario(kind: &str, ecn: bool) -> Scenario {
    let text = format!(
        r#"
        title = "Queues"
        repeat = 3
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
    /// Means and sums over the repeats: in a single one, the moment at which a window is cut moves the
    /// wait by half.
    fn of_all(recorded: &[RunResults]) -> Self {
        let each: Vec<Self> = recorded.iter().map(Self::of).collect();
        let mean = |of: fn(&Self) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
        let sum = |of: fn(&Self) -> u64| each.iter().map(of).sum();
        Self {
            goodput_bps: mean(|one| one.goodput_bps),
            wait_ms: mean(|one| one.wait_ms),
            early_drops: sum(|one| one.early_drops),
            marks: sum(|one| one.marks),
            full: sum(|one| one.full),
        }
    }

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
    let _turn = one_of_two();
    for (kind, ecn) in [("red", true), ("pie", false), ("codel", true), ("fq_codel", false)] {
        let runs = scenario(kind, ecn).runs;
        let simulated = Found::of_all(&recorded(&runs, &Simulated));
        credible(|| {
            let recorded = emulated(&runs);
            let found = Found::of_all(&recorded);
            println!("{kind}, ecn {ecn}: emulated {found:?}, simulated {simulated:?}");
            let mut wrong = Vec::new();
            let mut compare = |what: &str, emulated: f64, simulated: f64, most: f64| {
                let ratio = emulated / simulated;
                if !(1.0 / most..=most).contains(&ratio) {
                    wrong.push(format!("{kind}, {what}: {emulated} and {simulated}"));
                }
            };
            // Three runs of three seconds each: where a window is cut moves the goodput by some percent and
            // the wait by more.
            compare("goodput", found.goodput_bps, simulated.goodput_bps, 1.2);
            compare("wait", found.wait_ms, simulated.wait_ms, 1.6);
            let acts = |found: &Found| (found.early_drops + found.marks + 5) as f64;
            compare("drops and marks", acts(&found), acts(&simulated), 2.5);
            if (found.early_drops == 0) != ecn || (found.marks > 0) != ecn || found.full > 0 {
                wrong.push(format!("{kind}, ecn {ecn}: {found:?}"));
            }
            Measured { wrong, faults: invalid_reasons(&recorded) }
        });
    }
}

fn invalid_reasons(recorded: &[RunResults]) -> Vec<String> {
    recorded.iter().flat_map(|run| run.manifest.invalid_reasons.clone()).collect()
}
