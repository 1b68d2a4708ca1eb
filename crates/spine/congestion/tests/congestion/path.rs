// SPDX-License-Identifier: GPL-2.0-or-later
//! The plain paths themselves, by hand computation.

use longhaul_congestion::{
    Algorithm,
    path::{Bottleneck, Flow, PeriodicLoss, Sample, average_window},
};
use units::{Bytes, Duration, Rate, Timestamp};

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

/// A packet takes 1 ms on the link.
fn link(buffer_packets: usize) -> Bottleneck {
    Bottleneck {
        rate: Rate::bits_per_second(12_000_000),
        buffer_packets,
        packet: Bytes::new(1500),
        payload: Bytes::new(1448),
    }
}

fn reno(start_ms: u64, end_ms: u64) -> Flow {
    let params = Algorithm::find("reno").unwrap().default_set().clone();
    let propagation = Duration::from_millis(99);
    Flow { params, start: at(start_ms), end: at(end_ms), propagation, known_rtt: None }
}

fn run(buffer_packets: usize, flows: &[Flow], end_ms: u64) -> Vec<Sample> {
    link(buffer_packets).run(flows, at(end_ms), Duration::from_millis(1))
}

/// Ten packets leave at once and take 1 ms each: the first is acknowledged after 100 ms, the tenth after
/// 109, and each acknowledgement lets two more go.
#[test]
fn a_window_passes_the_link_packet_by_packet() {
    let samples = run(1_000, &[reno(0, 10_000)], 200);
    let delivered = |ms: usize| samples[ms].flows[0].delivered;
    assert_eq!((delivered(99), delivered(101), delivered(109), delivered(199)), (0, 2, 10, 10));
    assert_eq!((samples[0].queue_packets, samples[5].queue_packets), (9, 4));
    assert_eq!(samples[110].flows[0].decision.cwnd, 20);
    assert_eq!(samples[110].flows[0].in_flight, 20);
    // By then 20 packets came in 9 ms, of which 9 or 10 have left.
    assert_eq!(samples[110].queue_packets, 9);
}

#[test]
fn the_queue_holds_its_limit_and_the_link_its_rate() {
    let samples = run(30, &[reno(0, 20_000), reno(3_000, 20_000)], 20_000);
    assert!(samples.iter().all(|sample| sample.queue_packets <= 30));
    assert!(samples.iter().any(|sample| sample.queue_packets == 30));
    let last = &samples[samples.len() - 1];
    assert!(last.dropped > 0);
    let delivered: u64 = last.flows.iter().map(|flow| flow.delivered).sum();
    assert!((15_000..=19_900).contains(&delivered), "{delivered} of 19 900 that the link carries");
}

/// With no room to wait, the first packet of one flow has the link and all ten of the other are lost,
/// so that only a timeout can show it: after a second it starts again with one.
#[test]
fn a_timeout_starts_over() {
    let samples = run(0, &[reno(0, 60_000), reno(0, 60_000)], 60_000);
    let other = |ms: usize| samples[ms].flows[1];
    assert_eq!(samples[50].dropped, 19);
    assert_eq!((other(999).decision.cwnd, other(999).in_flight), (10, 10));
    assert_eq!((other(1_010).decision.cwnd, other(1_010).decision.ssthresh), (1, 5));
    assert!(other(59_999).delivered > 100, "it never came back: {:?}", other(59_999));
}

#[test]
fn ended_flow_drains_its_segments() {
    let samples = run(1_000, &[reno(0, 1_000)], 3_000);
    let last = samples[samples.len() - 1].flows[0];
    assert_eq!(last.in_flight, 0);
    assert_eq!(last.delivered, samples[2_500].flows[0].delivered);
}

#[test]
fn the_same_again() {
    let flows = [reno(0, 9_000), reno(2_000, 9_000)];
    assert_eq!(run(50, &flows, 10_000), run(50, &flows, 10_000));
}

/// A saw from 50 to 100 holds 3750 segments in 50 round trips, and Reno's is that one.
#[test]
fn a_periodic_loss_makes_a_periodic_saw() {
    let path = PeriodicLoss {
        every: 3_750,
        rtt: Duration::from_millis(100),
        start: 100,
        delivery_rate: None,
    };
    let epochs = path.run(Algorithm::find("reno").unwrap().default_set(), 10);
    assert_eq!(epochs.len(), 10);
    for epoch in &epochs {
        assert_eq!((epoch.from, epoch.segments), (50, 3_750));
        assert!((99..=100).contains(&epoch.to), "{epoch:?}");
        assert!((epoch.round_trips - 50.0).abs() < 1.0, "{epoch:?}");
    }
    assert!((average_window(&epochs) - 75.0).abs() < 1.0);
}
