// SPDX-License-Identifier: GPL-2.0-or-later
//! Gap packets of the kernel's program on the emulated wire (figure 6 of Takano et al.): a host's link
//! serialises them and they end there, so that packets leave it at the rate of equation 2. Takes root.
//!
//! Rates are counted where packets go onto the emulated wire, in bins of 500 µs.
//!
//! And what a sender finds of its path, by the kernel's own figures of its socket.

use crate::common::{Measured, alone, credible, emulated::emulated, one_of_two};
use kernel::pace::{DevicePacer, Frames, Match, Method, Options, Rule, Target};
use record::RunResults;
use scenario::Scenario;
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    thread,
};
use testkit::draft::Draft;
use units::{Bytes, Rate};
use wan::{LinkState, Wan};

/// Bits a second of the link.
const LINE: u64 = 100_000_000;
/// What a full packet takes of it: the emulated link counts Ethernet's header and nothing else.
const PACKET: u64 = 1514;
/// What is allowed between the wire and the equation.
const TOLERANCE: f64 = 0.005;

fn network() -> Wan {
    let link = format!("rate={LINE}bit delay=5ms queue=60MB");
    let text = Draft::new("pacing", "").nodes(&["a", "b"]).link("a", "b", &link).to_string();
    let scenario = Scenario::parse(&text, "pacing", &[] as &[&str]).expect("a sound scenario");
    Wan::up(&scenario.runs[0]).unwrap_or_else(|error| panic!("{error}"))
}

/// Has all that leaves the sender for the receiver do so at that rate.
fn paced(wan: &Wan, rate: Rate) -> DevicePacer {
    let frames = Frames {
        line: Some(Rate::bits_per_second(LINE)),
        overhead: Some(Bytes::ZERO),
        max_gap: None,
        max_frame: Some(Bytes::new(4 << 10)),
    };
    // IPv6 looks for routers by itself, which no link carries.
    let destination = Some(wan.address("b").unwrap().into());
    let matches = Match { destination, ..Match::default() };
    let rules = vec![Rule { matches, target: Target::Rate(rate) }];
    let options = Options { device: "wan0".to_owned(), rules, frames, method: Some(Method::Gap) };
    let attach = || DevicePacer::attach(&options).map_err(io::Error::other);
    wan.node("a").unwrap().namespace.run(attach).unwrap_or_else(|error| panic!("{error}"))
}

/// Bits a second over the bins between two shares of the time in which there are bytes.
fn rate_between(lane: &LinkState, from: f64, to: f64) -> f64 {
    let first = lane.monitor.iter().position(|&bytes| bytes > 0).expect("something was sent");
    let last = lane.monitor.iter().rposition(|&bytes| bytes > 0).expect("something was sent");
    let at = |share: f64| first + ((last - first) as f64 * share).round() as usize;
    let bytes: u64 = lane.monitor[at(from)..at(to)].iter().sum();
    bytes as f64 * 8.0 / ((at(to) - at(from)) as f64 * lane.monitor_width.as_secs_f64())
}

fn compare(measured: f64, expected: f64, what: &str, wrong: &mut Vec<String>) {
    println!("{what}: {:.4} Mb/s, by equation 2 {:.4}", measured / 1e6, expected / 1e6);
    if (measured / expected - 1.0).abs() > TOLERANCE {
        wrong.push(format!("{what}: {measured} bit/s on the wire, {expected} by equation 2"));
    }
}

#[test]
fn datagrams_leave_at_the_rate_of_equation_2_whatever_the_gap() {
    let _turn = one_of_two();
    for gap in [30, 200, 757, 1514, 6000, 20_000, 60_000] {
        credible(|| datagrams(gap));
    }
}

/// Two seconds of the link's time.
fn datagrams(gap: u64) -> Measured {
    let expected = LINE as f64 * PACKET as f64 / (PACKET + gap) as f64;
    let wan = network();
    let injector = paced(&wan, Rate::bits_per_second(expected as u64));
    let to = wan.address("b").unwrap();
    let from = wan.address("a").unwrap();
    let socket = wan.node("a").unwrap().namespace.run(|| UdpSocket::bind((from, 0))).unwrap();
    let packets = 2 * LINE / 8 / (PACKET + gap);
    for _ in 0..packets {
        socket.send_to(&[7; 1472], (to, 9)).unwrap();
    }
    // The link has been given all when the last has been queued; it goes on with that by itself.
    let counts = injector.counts().unwrap();
    thread::sleep(std::time::Duration::from_millis(2300));
    let end = wan.down().unwrap();
    let lane = &end.directed_links[0];
    let mut wrong = Vec::new();
    compare(rate_between(lane, 0.0, 1.0), expected, &format!("gap {gap}"), &mut wrong);
    let c = &lane.counters;
    let on_wire = (c.offered, c.carried_bytes, c.gaps, c.gap_bytes, c.gap_drops + c.queue_drops);
    let left = (counts.packets, counts.bytes, counts.gap_frames, counts.gap_bytes, 0);
    if on_wire != left || counts.packets != packets {
        wrong.push(format!("{on_wire:?} on the wire, of {packets} packets {left:?} left"));
    }
    Measured { wrong, faults: end.health.faults() }
}

#[test]
fn a_tcp_stream_leaves_at_its_rate_and_arrives_as_it_was() {
    let _turn = one_of_two();
    credible(|| stream(Rate::bits_per_second(30_000_000)));
}

fn stream(rate: Rate) -> Measured {
    let wan = network();
    let injector = paced(&wan, rate);
    let bytes: Vec<u8> =
        (0..6_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let address = wan.address("b").unwrap();
    let listener =
        wan.node("b").unwrap().namespace.run(|| TcpListener::bind((address, 0))).unwrap();
    let target = listener.local_addr().unwrap();
    let arrived = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut arrived = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut arrived).unwrap();
            arrived
        });
        let mut socket =
            wan.node("a").unwrap().namespace.run(|| TcpStream::connect(target)).unwrap();
        socket.write_all(&bytes).unwrap();
        drop(socket);
        receiver.join().unwrap()
    });
    assert!(arrived == bytes, "other bytes arrived");
    let counts = injector.counts().unwrap();
    let end = wan.down().unwrap();
    let mut wrong = Vec::new();
    // Without slow start.
    let measured = rate_between(&end.directed_links[0], 0.4, 0.95);
    compare(measured, rate.bps() as f64, "a TCP stream", &mut wrong);
    if counts.lock_failures + counts.lost_gap_bytes + counts.super_packets > 0 {
        wrong.push(format!("{counts:?}"));
    }
    Measured { wrong, faults: end.health.faults() }
}

/// Scalable TCP, whose window grows by more than the buffer would hold of it before losses tell.
const GROWING: &str = r#"
title = "a cap that is found"
timeout = "10s"
[[node]]
name = "sender"
cc = "lh_scalable"
tcp_wmem_max = "16MB"
[[node]]
name = "switch"
[[node]]
name = "receiver"
tcp_rmem_max = "16MB"
[[link]]
name = "host"
between = ["sender", "switch"]
rate = "80mbit"
queue = "20000p"
overhead = 38
max_burst = "0"
[[link]]
name = "bottleneck"
between = ["switch", "receiver"]
rate = "40mbit"
delay = "50ms"
queue = "64KB"
overhead = 38
[[flow]]
from = "sender"
to = "receiver"
bytes = "1GB"
pacing = "gap"
[[variant]]
name = "free"
[[variant]]
name = "found"
set = { "pacing.find_cap" = true }
"#;

#[test]
fn a_cap_is_found_and_what_it_cuts_is_not_lost() {
    // Next to a busy test, most of its runs are invalid and made again: that takes ten times as long.
    let _alone = alone();
    credible(|| {
        let runs = Scenario::parse(GROWING, "cap", &[] as &[&str]).expect("a sound scenario").runs;
        let recorded = emulated(&runs);
        let [free, found] = &recorded[..] else { panic!("two runs") };
        let [lost_free, lost] = [free, found].map(lost_after_start);
        let [bytes_free, bytes] = [free, found].map(|run| run.summary.flows[0].bytes);
        println!("free: {lost_free} lost, {bytes_free} bytes; found: {lost}, {bytes}");
        let mut wrong = Vec::new();
        // A late emulator looks like a queue that comes and goes, so a few may be lost.
        if lost_free < 200 || lost > lost_free / 10 {
            wrong.push(format!("{lost} lost after slow start, and {lost_free} without a cap"));
        }
        if bytes * 100 < bytes_free * 95 {
            wrong.push(format!("{bytes} bytes have come, and {bytes_free} without a cap"));
        }
        let reasons = |run: &RunResults| run.manifest.invalid_reasons.clone();
        Measured { wrong, faults: [reasons(free), reasons(found)].concat() }
    });
}

fn lost_after_start(run: &RunResults) -> u64 {
    run.summary.metrics.drops_after_start.expect("windows are on record")
}
