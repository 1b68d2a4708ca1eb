// SPDX-License-Identifier: GPL-2.0-or-later
//! Departure times over a real fq; where the kernel has none, that it is refused. Times themselves are compared
//! with a model in `src/pace/departures.rs`, on every kernel.

use super::{injector, mbit, options, streams::transfer, wire};
use crate::common::{in_own_network, ip};
use longhaul_kernel::pace::{self, Counts, DevicePacer, Frames, Method, Options, Refusal, Target};
use netmodel::pacing::Estimator;
use serde_json::Value;
use std::{
    net::UdpSocket,
    process::Command,
    time::{Duration, Instant},
};
use testkit::alone;
use testkit::until;
use wire::{DEVICE, Frame, RECEIVER_V4, RECEIVER_V6, Wire};

const OVERHEAD: u64 = 24;

fn by_times(target: Target, to_port: Option<u16>) -> Options {
    let options = options(OVERHEAD, target, to_port);
    let frames = Frames { max_gap: None, max_frame: None, ..options.frames };
    Options { frames, method: Some(Method::EDT), ..options }
}

/// Runs a test over a wire whose sender's device has fq, if the kernel has it. Otherwise checks that the
/// error says so and nothing is attached.
fn over_fq(test: impl Fn(&Wire) + Sync) {
    let _alone = alone();
    let has_fq = pace::lacking(Method::EDT, None).is_none();
    in_own_network(|| {
        let wire = Wire::new();
        let refusal = DevicePacer::attach(&by_times(Target::Rate(mbit(100)), None));
        let refusal = refusal.expect_err("the device has no fq");
        assert!(refusal.is_lack(), "{refusal}");
        let expected = if has_fq { "root fq" } else { "this kernel has no fq" };
        assert!(refusal.to_string().contains(expected), "{refusal}");
        assert_eq!(device()["gso_max_segs"], 65_535);
        let installed = pace::install_fq(DEVICE);
        assert_eq!(installed.is_ok(), has_fq, "{installed:?}");
        if has_fq {
            test(&wire);
        }
    });
}

fn device() -> Value {
    told("ip", &["-json", "-details", "link", "show", "dev", DEVICE])
}

fn told(program: &str, arguments: &[&str]) -> Value {
    let output = Command::new(program).args(arguments).output().expect("iproute2");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    told[0].clone()
}

/// All that fq counts of what it did not send as it was told.
fn assert_no_losses_of_fq() {
    let statistics = told("tc", &["-json", "-statistics", "qdisc", "show", "dev", DEVICE]);
    assert_eq!(statistics["kind"], "fq", "{statistics}");
    for count in ["drops", "flows_plimit", "horizon_drops", "horizon_caps"] {
        let none = statistics[count].as_u64().is_none_or(|count| count == 0);
        assert!(none, "{count}: {statistics}");
    }
}

fn number(frame: &Frame, headers: usize) -> u32 {
    u32::from_be_bytes(frame.0[headers..headers + 4].try_into().expect("four bytes"))
}

/// Datagrams leave in their order, all of them, none before its time: what left before it takes that long.
#[test]
fn no_datagram_leaves_before_its_time() {
    over_fq(|wire| {
        for (to, headers) in [(RECEIVER_V4, 42), (RECEIVER_V6, 62)] {
            let rate = mbit(40);
            let injector = injector(&by_times(Target::Rate(rate), Some(9000)));
            let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any).expect("a socket");
            let (mut bytes, mut expected) = (0, 0);
            let started = Instant::now();
            wire.carrying(
                |frame| {
                    assert!(!frame.is_gap());
                    let port = headers - 6..headers - 4;
                    if frame.0.len() < headers + 4 || frame.0[port] != 9000u16.to_be_bytes() {
                        return;
                    }
                    assert_eq!(number(&frame, headers), expected, "in its order");
                    expected += 1;
                    let least = bytes as f64 * 8.0 / rate.bps() as f64;
                    let after = started.elapsed().as_secs_f64();
                    assert!(after >= least, "{after} s, {least} s take those before");
                    bytes += frame.on_link(OVERHEAD);
                },
                || {
                    for n in 0..1500u32 {
                        let mut datagram = vec![0; [1400, 4, 700, 1399][n as usize % 4]];
                        datagram[..4].copy_from_slice(&n.to_be_bytes());
                        socket.send_to(&datagram, (to, 9000)).expect("it is sent");
                    }
                    std::thread::sleep(Duration::from_millis(100));
                },
            );
            assert_eq!(expected, 1500, "all of them");
            let counts = injector.counts().expect("it tells");
            assert_eq!(counts, Counts { packets: 1500, bytes, ..Counts::default() });
            let senders = injector.senders().expect("it tells");
            let achieved = senders[0].achieved().expect("several packets").bps() as f64;
            assert!(achieved <= rate.bps() as f64 * 1.01, "{achieved} by the times of departure");
            println!("{rate}: {:.3} Mb/s by the times of departure", achieved / 1e6);
            assert_no_losses_of_fq();
        }
    });
}

/// Eight streams at once, from all processors, by a rate for all and by targets of their own.
#[test]
fn paced_streams_arrive_intact_within_the_rate() {
    over_fq(|wire| {
        let most = mbit(50);
        let estimator = Estimator { max_rate: Some(most), ..Estimator::LINK };
        for target in [Target::Rate(mbit(400)), Target::Auto(estimator)] {
            let injector = injector(&by_times(target, None));
            let (mut bytes, mut last) = (0, 0.0);
            let started = Instant::now();
            let look = |frame: Frame| {
                assert!(!frame.is_gap());
                if frame.payload() > 0 {
                    last = bytes as f64 * 8.0 / 400e6;
                    bytes += frame.on_link(OVERHEAD);
                    assert!(started.elapsed().as_secs_f64() >= last);
                }
            };
            wire.carrying(look, || transfer(wire, RECEIVER_V4));
            assert!(last > 0.0);
            let counts = injector.counts().expect("it tells");
            assert_eq!((counts.gap_frames, counts.super_packets), (0, 0), "{counts:?}");
            assert_eq!((counts.lock_failures, counts.beyond_horizon), (0, 0), "{counts:?}");
            assert_no_losses_of_fq();
        }
    });
}

/// The socket keeps what waits, and so waits with more.
#[test]
fn packets_waiting_for_departure_are_charged_to_the_socket() {
    over_fq(|wire| {
        let _injector = injector(&by_times(Target::Rate(mbit(1)), Some(9000)));
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        let mut sent = 0;
        wire.carrying(
            |_| (),
            || {
                while sent < 10_000 && socket.send_to(&[1; 1400], (RECEIVER_V4, 9000)).is_ok() {
                    sent += 1;
                }
            },
        );
        assert!((1..1000).contains(&sent), "{sent} were taken");
    });
}

#[test]
fn packet_due_after_two_seconds_is_dropped_and_counted() {
    over_fq(|wire| {
        let injector = injector(&by_times(Target::Rate(mbit(1)), Some(9000)));
        // A tenth of a second each.
        let sockets: Vec<_> = (0..4).map(|_| UdpSocket::bind("0.0.0.0:0").expect("one")).collect();
        let mut arrived = 0u64;
        wire.carrying(
            |frame| arrived += u64::from(frame.0.len() == 42 + 1400),
            || {
                for n in 0..400 {
                    // A drop is not told to who sends a datagram.
                    let _ = sockets[n % 4].send_to(&[1; 1400], (RECEIVER_V4, 9000));
                }
                until("all that is to leave has left", || {
                    let statistics = told("tc", &["-json", "-s", "qdisc", "show", "dev", DEVICE]);
                    statistics["backlog"] == 0
                });
            },
        );
        let counts = injector.counts().expect("it tells");
        assert_eq!(counts.packets + counts.beyond_horizon, 400, "{counts:?}");
        assert_eq!(counts.packets, arrived);
        // Two seconds at that rate hold 170.
        assert!(counts.beyond_horizon > 0 && counts.packets >= 170, "{counts:?}");
        assert_no_losses_of_fq();
    });
}

#[test]
fn super_packets_are_split_unless_allowed() {
    over_fq(|wire| {
        let of = |method| Options {
            method: Some(method),
            ..by_times(Target::Rate(mbit(400)), Some(9000))
        };
        let held = injector(&of(Method::Edt { super_packets: true }));
        assert_eq!(device()["gso_max_segs"], 65_535);
        // A TAP has them cut up before, so they are seen here and not on the wire.
        let mut bytes = 0;
        let look = |frame: Frame| bytes += u64::from(frame.is_tcp()) * frame.on_link(OVERHEAD);
        wire.carrying(look, || transfer(wire, RECEIVER_V4));
        let counts = held.counts().expect("it tells");
        println!("{counts:?}");
        assert_eq!(counts.bytes, bytes, "{counts:?}");
        drop(held);
        let _held = injector(&of(Method::EDT));
        assert_eq!(device()["gso_max_segs"], 1);
    });
}

#[test]
fn another_discipline_or_a_short_horizon_is_refused() {
    over_fq(|_| {
        let attach = || DevicePacer::attach(&by_times(Target::Rate(mbit(100)), None)).map(drop);
        let replace = |with: &[&str]| {
            let words = [&["qdisc", "replace", "dev", DEVICE, "root"][..], with].concat();
            assert!(Command::new("tc").args(words).status().expect("iproute2").success());
        };
        let refused = |expected: &str| {
            let error = attach().expect_err("it can't be");
            assert!(error.is_lack() && error.to_string().contains(expected), "{error}");
        };
        attach().expect("fq");
        replace(&["pfifo"]);
        refused("pace0 has the queueing discipline pfifo");
        replace(&["fq", "horizon", "1s"]);
        refused("takes times up to 1s ahead");
        replace(&["fq", "horizon", "2s"]);
        attach().expect("fq");
        let slow = DevicePacer::attach(&by_times(
            Target::Rate(units::Rate::bits_per_second(60_000)),
            None,
        ));
        let slow = slow.expect_err("ten packets take more than two seconds");
        assert!(slow.is_usage(), "{slow}");
        assert!(matches!(slow, longhaul_kernel::Error::Pacing(Refusal::BeyondHorizon { .. })));
        // Without a method said, by what the device has.
        let unsaid = |of: Options| DevicePacer::attach(&Options { method: None, ..of });
        ip(&["link", "set", DEVICE, "gso_max_segs", "65535"]);
        let held = unsaid(by_times(Target::Rate(mbit(100)), None)).expect("fq");
        drop(held);
        replace(&["pfifo"]);
        drop(unsaid(options(OVERHEAD, Target::Rate(mbit(100)), None)).expect("pfifo"));
    });
}
