// SPDX-License-Identifier: GPL-2.0-or-later
//! What limits a kernel's sender, and a simulated one in the same scenario. Takes root.

use crate::common::{
    Measured, credible,
    emulated::{emulated, recorded},
    one_of_two,
};
use record::{Limit, LimitShares, RunResults, slowest_hop};
use scenario::Scenario;
use sim::Simulated;
use testkit::draft::Draft;

/// The shares of kernel and simulator differ by no more.
const APART: f64 = 0.10;
/// And their goodput by no more than this part.
const GOODPUT_APART: f64 = 0.25;

/// A download over 100 Mb/s with these keys of the flow, buffers and keys of the link.
fn scenario(flow: &str, send: &str, receive: &str, link: &str) -> Scenario {
    let draft = Draft::new("Limits", "timeout=30s")
        .node("source", &format!("tcp_wmem_max={send}"))
        .node("sink", &format!("tcp_rmem_max={receive}"))
        .link("source", "sink", &format!("rate=100mbit queue=1bdp {link}"))
        .flow("source", "sink", flow);
    Scenario::parse(&draft.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

fn shares(recorded: &[RunResults]) -> LimitShares {
    slowest_hop(&recorded[0].summary.flows[0].hops).expect("it has sent").1
}

fn goodput(recorded: &[RunResults]) -> f64 {
    recorded[0].summary.flows[0].goodput_bps.unwrap() / 1e6
}

/// What is compared besides the largest share.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Compared {
    Shares,
    /// Shares of the kernel differ from run to run by more than they may from the simulator's.
    Goodput,
}

/// Holds the machine, runs both, and compares.
fn assert_planted(planted: Limit, scenario: &Scenario, compared: Compared) {
    let _turn = one_of_two();
    let simulated_run = recorded(&scenario.runs, &Simulated);
    let simulated = shares(&simulated_run);
    assert_eq!(simulated.largest(), planted, "simulated: {simulated:?}");
    assert_eq!(simulated_run[0].summary.metrics.cpu_per_gbit_s, None);
    credible(|| {
        let recorded = emulated(&scenario.runs);
        let emulated = shares(&recorded);
        let cost = recorded[0].summary.metrics.cpu_per_gbit_s;
        assert!(cost > Some(0.0), "processors worked for it: {cost:?}");
        let mut wrong = Vec::new();
        if emulated.largest() != planted {
            wrong.push(format!("{planted:?} is not the largest of {emulated:?}"));
        }
        for limit in Limit::ALL.into_iter().filter(|_| compared == Compared::Shares) {
            let (kernel, simulator) = (emulated.of(limit), simulated.of(limit));
            if (kernel - simulator).abs() > APART {
                wrong.push(format!(
                    "{limit:?}: {kernel:.3} by the kernel, {simulator:.3} simulated"
                ));
            }
        }
        let (kernel, simulator) = (goodput(&recorded), goodput(&simulated_run));
        println!("{planted:?}: {kernel:.1} Mb/s by the kernel, {simulator:.1} simulated");
        println!("  kernel    {emulated:.2?}\n  simulated {simulated:.2?}");
        if (kernel / simulator - 1.0).abs() > GOODPUT_APART {
            wrong.push(format!("{kernel:.1} Mb/s by the kernel, {simulator:.1} simulated"));
        }
        let mut faults = recorded[0].manifest.invalid_reasons.clone();
        let idle = emulated.of(Limit::Application) - simulated.of(Limit::Application);
        if planted != Limit::Application && idle > APART {
            // The program sends from memory as fast as it can.
            faults.push(format!("the sender had no processor for {idle:.2} of the time"));
        }
        Measured { wrong, faults }
    });
}

const LINK: &str = "delay=20ms";

#[test]
fn small_receive_buffer() {
    for (cc, buffer) in [("cubic", "200KB"), ("reno", "300KB")] {
        let scenario = scenario(&format!("cc={cc} bytes=12MB"), "16MB", buffer, LINK);
        assert_planted(Limit::ReceiveWindow, &scenario, Compared::Shares);
    }
}

/// A large write gets more into a full buffer than it holds, by as much as the window lets out. With smaller buffers than these the
/// kernel's runs differ too much: the bursts meet the queue, and window and buffer hold it back in equal parts.
#[test]
fn small_send_buffer() {
    for (cc, buffer) in [("reno", "300KB"), ("cubic", "300KB")] {
        let scenario = scenario(&format!("cc={cc} bytes=12MB"), buffer, "16MB", LINK);
        assert_planted(Limit::SendBuffer, &scenario, Compared::Goodput);
    }
}

#[test]
fn rate_of_the_program() {
    for rate in ["30mbit", "60mbit"] {
        let flow = format!("cc=cubic bytes=16MB app_rate={rate}");
        let scenario = scenario(&flow, "16MB", "16MB", LINK);
        assert_planted(Limit::Application, &scenario, Compared::Shares);
    }
}

#[test]
fn window_of_reno() {
    for (bytes, link) in [("40MB", LINK), ("20MB", "delay=5ms loss=0.1%")] {
        let scenario = scenario(&format!("cc=reno bytes={bytes}"), "16MB", "16MB", link);
        assert_planted(Limit::Cwnd, &scenario, Compared::Shares);
    }
}

#[test]
fn rate_of_bbr() {
    for link in [LINK, "delay=10ms"] {
        let scenario = scenario("cc=bbr bytes=40MB", "16MB", "16MB", link);
        assert_planted(Limit::Pacing, &scenario, Compared::Shares);
    }
}

/// A receive buffer of four BDPs, half of which is window, over a queue of one: what follows a hole fills the window.
#[test]
fn recovery_without_receive_window() {
    const LEAST: f64 = 0.005;
    let _turn = one_of_two();
    let scenario = scenario("cc=cubic bytes=60MB", "16MB", "4MB", "delay=40ms");
    let simulated = shares(&recorded(&scenario.runs, &Simulated));
    assert!(simulated.window_in_recovery > LEAST, "simulated: {simulated:?}");
    credible(|| {
        let recorded = emulated(&scenario.runs);
        let emulated = shares(&recorded);
        println!("  kernel    {emulated:.3?}\n  simulated {simulated:.3?}");
        let wrong = (emulated.window_in_recovery <= LEAST).then(|| format!("{emulated:?}"));
        let faults = recorded[0].manifest.invalid_reasons.clone();
        Measured { wrong: wrong.into_iter().collect(), faults }
    });
}
