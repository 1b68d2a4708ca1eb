// SPDX-License-Identifier: GPL-2.0-or-later
//! Target rates and gap frames against the paper's equations in floating point, and on a link.

use longhaul_netmodel::{
    Discipline, Impairments, Link, LinkConfig, LossModel, QueueLimit,
    pacing::{Estimator, GapFrames, GapInjector, TcpSnapshot},
};
use rand_core::Rng;
use rand_pcg::Pcg64;
use std::num::NonZeroU64;
use units::{Bytes, Duration, Rate, Timestamp};

const GIGABIT: Rate = Rate::bits_per_second(1_000_000_000);
const PACKET: u32 = 1538;

fn seed() -> u128 {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or_else(|| u128::from(now().subsec_nanos()));
    eprintln!("SEED={seed}");
    seed
}

fn known() -> TcpSnapshot {
    TcpSnapshot {
        cwnd: 5000,
        ssthresh: 8000,
        mss: 1448,
        packet: PACKET,
        srtt_us: 250_000,
        min_rtt_us: 200_000,
        ..TcpSnapshot::default()
    }
}

#[test]
fn equation_1_with_the_papers_reading_and_ours() {
    let [paper, link] = [Estimator::PAPER, Estimator::LINK].map(|e| e.params());
    assert_eq!(paper.target(&known()), 5000 * 1448 * 4, "payload in the smoothed RTT");
    assert_eq!(
        link.target(&known()),
        5000 * 1538 * 5,
        "what it takes of the link, in the smallest"
    );
    let recovering = TcpSnapshot { recovering: 1, ..known() };
    assert_eq!(paper.target(&recovering), 5000 * 1448 * 4);
    assert_eq!(link.target(&recovering), 8000 * 1538 * 5, "the window it is on its way to");
    let fresh = TcpSnapshot { srtt_us: 0, min_rtt_us: 0, ..known() };
    assert_eq!((paper.target(&fresh), link.target(&fresh)), (0, 0), "before the first RTT");
    let max_rate = Some(Rate::bits_per_second(80_000_000));
    let cut = Estimator { max_rate, ..Estimator::LINK }.params();
    assert_eq!(cut.target(&known()), 10_000_000);
}

#[test]
fn target_matches_the_formula_over_the_whole_range() {
    let mut random = Pcg64::new(seed(), 1);
    let mut below = |most: u32| random.next_u32() % most + 1;
    for _ in 0..100_000 {
        let known = TcpSnapshot {
            cwnd: below(1 << 22),
            ssthresh: below(1 << 22),
            mss: below(9000),
            packet: below(9100),
            srtt_us: below(8_000_000),
            min_rtt_us: below(8_000_000),
            ..TcpSnapshot::default()
        };
        let expected =
            f64::from(known.cwnd) * f64::from(known.packet) * 1e6 / f64::from(known.min_rtt_us);
        let found = Estimator::LINK.params().target(&known) as f64;
        let expected = expected.clamp(1.0, (1u64 << 40) as f64);
        assert!((found - expected).abs() <= 1.0 + expected * 1e-12, "{known:?}: {found}");
    }
}

/// Sends packets of one flow, as many as fill a second at the target, and says at which rate they left.
fn achieved(frames: GapFrames, target: u64, packet: u32) -> f64 {
    let mut link = Link::new(LinkConfig {
        rate: Some(frames.line.into()),
        delay: Duration::ZERO,
        queue: QueueLimit::Unlimited,
        discipline: Discipline::TailDrop { mark: None },
        loss: LossModel::None,
        impairments: Impairments::default(),
        mtu: Bytes::new(9000),
        overhead: Bytes::new(38),
        monitor: Duration::from_millis(1),
        spacing: false,
        seed: 1,
    });
    let mut injector = GapInjector::new(frames);
    let packets = (target / u64::from(packet)).clamp(1000, 200_000);
    let mut last = Timestamp::ZERO;
    for _ in 0..packets {
        let fate = link.offer(Timestamp::ZERO, Bytes::new(u64::from(packet) - 38));
        let longhaul_netmodel::Fate::Arrives { starts, .. } = fate else { panic!("{fate:?}") };
        last = starts;
        let rtt = Duration::from_millis(100);
        let gaps = injector.packet(starts, NonZeroU64::MIN, target, rtt, Bytes::new(packet.into()));
        for gap in gaps {
            assert!(gap >= frames.min_frame && gap <= frames.max_frame, "{gap}");
            assert!(link.offer_gap(Timestamp::ZERO, gap));
        }
    }
    (packets - 1) as f64 * f64::from(packet) / last.as_secs_f64()
}

#[test]
fn gap_frames_match_equation_2_over_the_whole_range() {
    for gap in [1, 10, 83, 84, 100, 500, 1538, 4096, 4100, 8191, 20_000, 65_535] {
        let target = 125e6 * f64::from(PACKET) / f64::from(PACKET + gap);
        let found = achieved(GapFrames::of(GIGABIT), target as u64, PACKET);
        // The target in whole bytes a second, and a frame's least size at the end.
        assert!((found / target - 1.0).abs() < 1e-4, "gap {gap}: {found} {target}");
    }
    let mut random = Pcg64::new(seed(), 2);
    for _ in 0..200 {
        let line = 1_000_000 + random.next_u64() % 99_999_000_000;
        let frames = GapFrames::of(Rate::bits_per_second(line));
        let packet = 102 + random.next_u32() % 8900;
        let least = line / 8 * u64::from(packet) / (u64::from(packet) + 65_000);
        let target = least + 1 + random.next_u64() % (line / 8 - least - 1);
        let found = achieved(frames, target, packet);
        let share = found / target as f64 - 1.0;
        assert!(share.abs() < 2e-3, "{line} b/s, {packet} bytes: {found} for {target}");
    }
}

#[test]
fn the_longest_gap_is_a_floor_under_the_rate() {
    let frames = GapFrames::of(GIGABIT);
    let floor = 125e6 * f64::from(PACKET) / f64::from(PACKET + 65_536);
    assert!((achieved(frames, 1000, PACKET) / floor - 1.0).abs() < 1e-6);
}

#[test]
fn without_a_target_or_above_the_line_there_are_no_gaps() {
    let mut injector = GapInjector::new(GapFrames::of(GIGABIT));
    for target in [0, 125_000_000, u64::MAX >> 16] {
        let packet = Bytes::new(PACKET.into());
        let gaps =
            injector.packet(Timestamp::ZERO, NonZeroU64::MIN, target, Duration::ZERO, packet);
        assert_eq!(gaps.count(), 0, "{target}");
    }
}

/// Flows in one queue: the gap follows from the sum of their rates, whichever flow sends. Flows that stop leave the
/// sum.
#[test]
fn the_sum_is_that_of_the_flows_that_send() {
    let mut random = Pcg64::new(seed(), 3);
    let mut injector = GapInjector::new(GapFrames::of(GIGABIT));
    let packet = Bytes::new(PACKET.into());
    let rtt = Duration::from_millis(50);
    let mut gap_of = |at: u64, flow: u64, target: u64| -> u64 {
        let (now, flow) = (Timestamp::from_nanos(at), NonZeroU64::new(flow).unwrap());
        injector.packet(now, flow, target, rtt, packet).map(Bytes::get).sum()
    };
    let flows: Vec<u64> = (0..100).map(|_| random.next_u64() | 1).collect();
    let (mut at, mut gaps) = (0, 0);
    for n in 0..100_000 {
        at += 1000;
        let gap = gap_of(at, flows[n % 100], 500_000);
        gaps += if n >= 50_000 { gap } else { 0 };
    }
    let expected = f64::from(PACKET) * (125e6 / 50e6 - 1.0);
    assert!((gaps as f64 / 50_000.0 / expected - 1.0).abs() < 1e-3, "100 flows of 0.5 MB/s");
    let (mut gaps, begun) = (0, at);
    for n in 0..100_000 {
        at += 2000;
        let gap = gap_of(at, flows[n % 10], 500_000);
        // The others' two round trips are over, and their places have been looked at.
        gaps += if n >= 90_000 { gap } else { 0 };
    }
    assert!(at - begun > 150_000_000);
    // 5 MB/s: a gap of 36.9 KB.
    let expected = f64::from(PACKET) * (125e6 / 5e6 - 1.0);
    assert!((gaps as f64 / 10_000.0 / expected - 1.0).abs() < 1e-3, "10 flows of 0.5 MB/s");
}

/// More flows than there are places for: none is paced below its own target, and the places' sum holds.
#[test]
fn too_many_flows_are_still_paced() {
    let mut injector = GapInjector::new(GapFrames::of(GIGABIT));
    let mut random = Pcg64::new(seed(), 4);
    for n in 0..20_000u64 {
        let flow = NonZeroU64::new(random.next_u64() | 1).unwrap();
        let packet = Bytes::new(PACKET.into());
        let now = Timestamp::from_nanos(n * 100);
        injector.packet(now, flow, 1000, Duration::from_millis(50), packet).for_each(drop);
    }
    assert!(injector.flows() <= 512, "{}", injector.flows());
    assert!(injector.flows() > 450, "places are used: {}", injector.flows());
}
