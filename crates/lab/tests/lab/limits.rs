// SPDX-License-Identifier: GPL-2.0-or-later
//! What limits a kernel's sender, and a simulated one in the same scenario. Takes root.

use crate::{
    common::{Measured, alone, credible, emulated::recorded},
    draft::Draft,
};
use longhaul_lab::Method;
use record::{Limit, LimitShares, RunResults, slowest_hop};
use scenario::Scenario;

/// The shares of kernel and simulator differ by no more.
const APART: f64 = 0.10;

/// A download over 100 Mb/s and 40 ms with these buffers.
fn scenario(cc: &str, bytes: &str, send: &str, receive: &str) -> Scenario {
    let draft = Draft::new("Limits", "timeout=30s")
        .node("source", &format!("tcp_wmem_max={send}"))
        .node("sink", &format!("tcp_rmem_max={receive}"))
        .link("source", "sink", "rate=100mbit delay=20ms queue=1bdp")
        .flow("source", "sink", &format!("cc={cc} bytes={bytes}"));
    Scenario::parse(&draft.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

fn shares(recorded: &[RunResults]) -> LimitShares {
    slowest_hop(&recorded[0].summary.flows[0].hops).expect("it has sent").1
}

/// Holds the machine, runs both, and compares.
fn assert_planted(planted: Limit, scenario: &Scenario, is_alike: bool) {
    let _alone = alone();
    let simulated = shares(&recorded(&scenario.runs, Method::Sim));
    assert_eq!(simulated.largest(), planted, "simulated: {simulated:?}");
    credible(|| {
        let recorded = recorded(&scenario.runs, Method::Emu);
        let emulated = shares(&recorded);
        let mut wrong = Vec::new();
        if emulated.largest() != planted {
            wrong.push(format!("{planted:?} is not the largest of {emulated:?}"));
        }
        for limit in Limit::ALL.into_iter().filter(|_| is_alike) {
            let (kernel, simulator) = (emulated.of(limit), simulated.of(limit));
            if (kernel - simulator).abs() > APART {
                wrong.push(format!(
                    "{limit:?}: {kernel:.3} by the kernel, {simulator:.3} simulated"
                ));
            }
        }
        Measured { wrong, faults: recorded[0].manifest.invalid_reasons.clone() }
    });
}

#[test]
fn small_receive_buffer() {
    let scenario = scenario("cubic", "12MB", "16MB", "200KB");
    assert_planted(Limit::ReceiveWindow, &scenario, true);
}

/// How much data a send buffer of so many bytes holds is not the same in both: the kernel counts what it allocates.
#[test]
fn small_send_buffer() {
    let scenario = scenario("cubic", "12MB", "150KB", "16MB");
    assert_planted(Limit::SendBuffer, &scenario, false);
}

#[test]
fn rate_of_the_program() {
    let scenario = scenario("cubic", "12MB app_rate=30mbit", "16MB", "16MB");
    assert_planted(Limit::Application, &scenario, true);
}

#[test]
fn window_of_reno() {
    assert_planted(Limit::Cwnd, &scenario("reno", "40MB", "16MB", "16MB"), true);
}

#[test]
fn rate_of_bbr() {
    assert_planted(Limit::Pacing, &scenario("bbr", "40MB", "16MB", "16MB"), true);
}
