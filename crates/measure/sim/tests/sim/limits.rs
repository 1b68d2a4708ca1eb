// SPDX-License-Identifier: GPL-2.0-or-later
//! Planted limits: each scenario has one cause that a formula says is the limit, and the shares name it.

use crate::common::only;
use longhaul_sim::Outcome;
use record::{Limit, LimitShares};
use testkit::draft::Draft;

const MSS: f64 = 1448.0;

/// A path with one flow over it.
#[derive(Debug, Clone, Copy)]
struct Path {
    mbps: u32,
    rtt_ms: u32,
}

const PATHS: [Path; 5] = [
    Path { mbps: 10, rtt_ms: 20 },
    Path { mbps: 100, rtt_ms: 20 },
    Path { mbps: 100, rtt_ms: 80 },
    Path { mbps: 200, rtt_ms: 160 },
    Path { mbps: 1000, rtt_ms: 40 },
];

impl Path {
    fn bdp(self) -> f64 {
        f64::from(self.mbps) * 1e6 / 8.0 * f64::from(self.rtt_ms) / 1e3
    }

    /// One flow over a number of round trips and a second, with a queue of `queue` BDPs, and keys of `[tcp]` and the
    /// link.
    fn shares(self, flow: &str, tcp: &str, queue: f64, link: &str) -> LimitShares {
        let outcome = self.outcome(flow, tcp, queue, link);
        outcome.summary.flows[0].hops[0].limited.expect("it has sent")
    }

    fn outcome(self, flow: &str, tcp: &str, queue: f64, link: &str) -> Outcome {
        let Self { mbps, rtt_ms } = self;
        let seconds = f64::from(rtt_ms) / 1e3 * 200.0 + 1.0;
        let queue = (self.bdp() * queue).max(20.0 * MSS);
        let text = Draft::new("Planted", &format!("duration={seconds}s"))
            .line(&format!("[tcp]\n{tcp}"))
            .nodes(&["server", "client"])
            .link(
                "server",
                "client",
                &format!(
                    "name=path rate={mbps}mbit delay={}ms queue={queue:.0}B {link}",
                    rtt_ms / 2
                ),
            )
            .flow("server", "client", flow);
        only(&text.to_string())
    }
}

fn assert_largest(shares: LimitShares, planted: Limit, cell: &str) {
    let sum: f64 = Limit::ALL.iter().map(|limit| shares.of(*limit)).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{cell}: {shares:?}");
    assert_eq!(shares.largest(), planted, "{cell}: {shares:?}");
}

const ROOM: &str = "rcvbuf = \"1TB\"\nsndbuf = \"1TB\"";

#[test]
fn small_send_buffer_is_named() {
    for path in PATHS {
        for part in [0.2, 0.5] {
            // The buffer is what may be out: with tuning, the kernel's accounting lets large writes pass it.
            let tcp = format!(
                "rcvbuf = \"1TB\"\nautotuning = false\nsndbuf = \"{:.0}B\"",
                (path.bdp() * part).max(4.0 * MSS)
            );
            for cc in ["reno", "cubic"] {
                let shares = path.shares(&format!("cc={cc}"), &tcp, 1.0, "");
                assert_largest(shares, Limit::SendBuffer, &format!("{path:?} {part} {cc}"));
            }
        }
    }
}

/// A buffer of 64 KB on 40 ms: 13 Mb/s by what it holds, and a kernel has 30 to 38. A large write is let in as long as the window takes it.
#[test]
fn large_writes_pass_a_small_send_buffer() {
    let path = Path { mbps: 100, rtt_ms: 40 };
    let by_buffer = 64.0 * 1024.0 * 8.0 / 0.04;
    let of = |tcp: &str| {
        let tcp = format!("rcvbuf = \"1TB\"\nsndbuf = \"64KB\"\n{tcp}");
        path.outcome("cc=reno", &tcp, 1.0, "").summary.flows[0].clone()
    };
    let bounded = of("autotuning = false").goodput_bps.unwrap();
    assert!(bounded < by_buffer, "{bounded}");
    let counted = of("");
    assert!(counted.goodput_bps.unwrap() > 2.0 * by_buffer, "{}", counted.goodput_bps.unwrap());
    let limited = counted.hops[0].limited.unwrap();
    assert!(limited.send_buffer > 0.3 && limited.application < 0.05, "{limited:?}");
}

#[test]
fn small_receive_window_is_named() {
    for path in PATHS {
        for part in [0.2, 0.5] {
            // Of the buffer half is the window.
            let tcp = format!(
                "sndbuf = \"1TB\"\nrcvbuf = \"{:.0}B\"",
                (path.bdp() * part).max(8.0 * MSS)
            );
            let shares = path.shares("cc=cubic", &tcp, 1.0, "");
            assert_largest(shares, Limit::ReceiveWindow, &format!("{path:?} {part}"));
        }
    }
}

/// Half of the buffer is window, and cwnd grows to twice the BDP before the queue of one is full: of 4 BDPs nothing is left
/// for what arrives beyond the hole.
#[test]
fn recovery_without_receive_window_is_named() {
    let path = Path { mbps: 100, rtt_ms: 80 };
    let of = |bdps: f64| {
        let tcp = format!("sndbuf = \"1TB\"\nrcvbuf = \"{:.0}B\"", path.bdp() * bdps);
        path.shares("cc=cubic", &tcp, 1.0, "")
    };
    let (small, large) = (of(4.0), of(16.0));
    assert!(small.window_in_recovery > 0.005, "{small:?}");
    assert!(large.window_in_recovery <= 0.0, "{large:?}");
}

#[test]
fn full_queue_or_loss_means_the_window() {
    for path in PATHS {
        for (queue, link) in [(0.5, ""), (1.0, ""), (1.0, "loss=0.1%")] {
            let shares = path.shares("cc=reno", ROOM, queue, link);
            assert_largest(shares, Limit::Cwnd, &format!("{path:?} queue {queue} {link}"));
        }
    }
}

#[test]
fn rate_of_bbr_is_named() {
    for path in PATHS {
        let shares = path.shares("cc=bbr", ROOM, 1.0, "");
        assert_largest(shares, Limit::Pacing, &format!("{path:?}"));
    }
}

#[test]
fn slow_program_is_named_and_decides_the_goodput() {
    for path in PATHS {
        for part in [0.1, 0.6] {
            let rate = f64::from(path.mbps) * 1e6 * part;
            let outcome = path.outcome(&format!("cc=cubic app_rate={rate:.0}bit"), ROOM, 1.0, "");
            let flow = &outcome.summary.flows[0];
            assert_largest(
                flow.hops[0].limited.unwrap(),
                Limit::Application,
                &format!("{path:?} {part}"),
            );
            // What is under way at the end is missing: a round trip of some 200, the handshake and the request.
            let off = flow.goodput_bps.unwrap() / rate;
            assert!((0.96..=1.0).contains(&off), "{path:?} {part}: {off} of the rate");
        }
    }
}

/// 1 MB at 8 Mb/s are 1.048576 s from the first write, a millisecond early, and the way of request and data.
#[test]
fn file_takes_as_long_as_its_program() {
    let path = Path { mbps: 100, rtt_ms: 20 };
    for flow in ["bytes=1MB app_rate=8mbit", "bytes=1MB app_rate=8mbit streams=4"] {
        let outcome = path.outcome(flow, ROOM, 1.0, "");
        let seconds = outcome.summary.flows[0].seconds.unwrap();
        assert!((seconds - 1.048_576 - 0.04).abs() < 0.003, "{flow}: {seconds} s");
    }
}

#[test]
fn short_transfer_is_limited_by_its_start() {
    let path = Path { mbps: 1000, rtt_ms: 80 };
    let shares = path.shares("cc=cubic bytes=1MB", ROOM, 1.0, "");
    assert_largest(shares, Limit::StartUp, "1 MB");
    assert!(shares.start_up > 0.7, "{shares:?}");
}

#[test]
fn hop_behind_a_slow_one_waits_for_its_application() {
    let text = Draft::new("Chain", "duration=20s")
        .line(&format!("[tcp]\n{ROOM}"))
        .nodes(&["server", "depot", "client"])
        .link("server", "depot", "name=slow rate=20mbit delay=20ms queue=200KB")
        .link("depot", "client", "name=fast rate=1gbit delay=5ms queue=2MB")
        .flow("server", "client", "cc=cubic via=[\"depot\"]");
    let outcome = only(&text.to_string());
    let limited = |hop: usize| outcome.summary.flows[0].hops[hop].limited.unwrap();
    assert_largest(limited(0), Limit::Cwnd, "the slow one");
    assert_largest(limited(1), Limit::Application, "the fast one");
}
