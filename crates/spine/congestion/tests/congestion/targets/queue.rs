// SPDX-License-Identifier: GPL-2.0-or-later
//! What flows do to a queue that they share.

use longhaul_congestion::{
    Algorithm,
    path::{Bottleneck, Flow, Sample},
};
use units::{Bytes, Duration, Rate, Timestamp};

const RTT: Duration = Duration::from_millis(100);
const PAYLOAD: u64 = 1448;

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

fn link(mbit: u64, buffer_packets: usize) -> Bottleneck {
    Bottleneck {
        rate: Rate::bits_per_second(mbit * 1_000_000),
        buffer_packets,
        packet: Bytes::new(1500),
        payload: Bytes::new(PAYLOAD),
    }
}

fn flow(algorithm: &str, start: u64, end: u64, known_rtt: Option<Duration>) -> Flow {
    let params = Algorithm::find(algorithm).unwrap().default_set().clone();
    Flow { params, start: at(start), end: at(end), propagation: RTT, known_rtt }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// ns-2's FAST test, in paper 002's reference: 100 Mb/s, 50 ms one way, alpha 200. Flows keep 200
/// packets each in the queue and share alike, where they know their baseRTT.
#[test]
fn fast_keeps_alpha_in_the_queue() {
    let link = link(100, 2_500);
    let base = Some(RTT + link.transmission());
    let flows =
        [flow("fast", 0, 100, base), flow("fast", 20, 80, base), flow("fast", 40, 60, base)];
    let samples = link.run(&flows, at(100), Duration::from_millis(10));
    let segments_per_s = link.rate.bps() as f64 / 8.0 / 1500.0;
    for (from, to, active) in [(10, 20, 1), (30, 40, 2), (50, 60, 3), (70, 80, 2), (90, 100, 1)] {
        let during: Vec<&Sample> =
            samples.iter().filter(|sample| (at(from)..at(to)).contains(&sample.at)).collect();
        let queue = mean(during.iter().map(|sample| sample.queue_packets as f64));
        println!("{from} to {to} s: {active} flows, queue {queue:.1}");
        assert!((queue / (200.0 * active as f64) - 1.0).abs() < 0.02, "{from} to {to} s: {queue}");
        for n in 0..active {
            let delivered = |sample: &Sample| sample.flows[n].delivered as f64;
            let (first, last) = (during[0], during[during.len() - 1]);
            let rate = (delivered(last) - delivered(first)) / last.at.since(first.at).as_secs_f64();
            let share = rate / segments_per_s;
            println!("    flow {n}: share {share:.4}");
            assert!((share * active as f64 - 1.0).abs() < 0.02, "{from} to {to} s: {n}: {share}");
        }
    }
    assert_eq!(samples[samples.len() - 1].dropped, 0);
}

/// The limit that the papers name: a late flow takes the others' queue for path, and gets more.
#[test]
fn fast_without_its_base_rtt_takes_more() {
    let flows = [flow("fast", 0, 60, None), flow("fast", 20, 60, None)];
    let samples = link(100, 2_500).run(&flows, at(60), Duration::from_millis(100));
    let last = &samples[samples.len() - 10].flows;
    println!("windows {} and {}", last[0].decision.cwnd, last[1].decision.cwnd);
    assert!(last[1].decision.cwnd * 10 > last[0].decision.cwnd * 13);
}

fn bbr() -> (f64, Vec<Sample>) {
    let link = link(50, 1_000);
    let samples = link.run(&[flow("bbr", 0, 60, None)], at(60), Duration::from_millis(2));
    (link.rate.bps() as f64 / 8.0 * PAYLOAD as f64 / 1500.0, samples)
}

/// Startup paces at 2.89 of what is delivered, which doubles each round trip.
#[test]
fn bbr_starts_at_2_89() {
    let (_, samples) = bbr();
    let first = samples[0].flows[0].decision;
    let initial = 10.0 * PAYLOAD as f64 / 0.100_24; // cwnd over the RTT that the handshake saw
    let gain = first.pacing_rate as f64 / initial;
    println!("gain {gain:.3}");
    assert!((gain / 2.89 - 1.0).abs() < 0.02, "{gain}");
}

/// `ProbeBW`: 5/4, 3/4 and six times 1 of the link's bandwidth, each for about the round trip.
#[test]
fn bbr_cycles_through_its_gains() {
    let (bandwidth, samples) = bbr();
    let mut starts = Vec::new();
    let mut seen = [0_u32; 3];
    let mut before = 1.0;
    for sample in samples.iter().filter(|sample| (at(3)..at(10)).contains(&sample.at)) {
        let gain = sample.flows[0].decision.pacing_rate as f64 / bandwidth;
        let known = [1.25, 0.75, 1.0].iter().position(|known| (gain / known - 1.0).abs() < 0.02);
        seen[known.unwrap_or_else(|| panic!("{:?}: {gain}", sample.at))] += 1;
        if gain > 1.2 && before < 1.2 {
            starts.push(sample.at);
        }
        before = gain;
    }
    println!("samples at 5/4, 3/4, 1: {seen:?}; cycles from {starts:?}");
    assert!(starts.len() >= 6);
    for pair in starts.windows(2) {
        let round_trips = pair[1].since(pair[0]).as_secs_f64() / RTT.as_secs_f64();
        // The phase that yields may be shorter, the one that probes lasts until it has filled its share.
        assert!((7.0..9.5).contains(&round_trips), "{round_trips}");
    }
}

/// `ProbeRTT`: every 10 s, 4 packets for 200 ms.
#[test]
fn bbr_probes_the_rtt_every_10_s() {
    let (_, samples) = bbr();
    let small = |sample: &Sample| sample.flows[0].decision.cwnd <= 4;
    let mut probes: Vec<(f64, f64)> = Vec::new();
    for pair in samples.windows(2) {
        if small(&pair[1]) && !small(&pair[0]) {
            probes.push((pair[1].at.as_secs_f64(), 0.0));
        }
        if let Some(probe) = probes.last_mut().filter(|_| small(&pair[1])) {
            probe.1 = pair[1].at.as_secs_f64() - probe.0;
        }
    }
    println!("{probes:?}");
    assert!(probes.len() >= 4);
    for probe in &probes {
        // 200 ms from when the window is really down, which takes up to a round trip, and one at least.
        assert!((0.2..0.45).contains(&probe.1), "{probe:?}");
    }
    for pair in probes.windows(2) {
        // From when the smallest RTT was last seen: at the latest a cycle of 0.8 s after the probe,
        // which itself takes 0.3 s. This queue is empty, and the RTT the smallest, once in a cycle.
        let apart = pair[1].0 - pair[0].0;
        assert!((10.0..11.2).contains(&apart), "{apart}");
    }
}
