// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole transfers over 100 Mb/s and a round trip of 40 ms, with packets that come late, twice or not at all.

use super::test_path::{MSS, TestPath, Treatment, at};
use crate::packet::{Packet, PacketKind};
use rand_core::Rng;
use rand_pcg::Pcg64;
use scenario::{Family, LossDetection, Profile, Tcp};
use units::{Duration, Rate, Timestamp};

/// Packets on 100 Mb/s in a second, each of a full segment.
const PACKETS_PER_SECOND: f64 = 1e8 / (8.0 * 1500.0);

/// A transfer with that algorithm over a path with that rule.
fn transfer(
    algorithm: &str,
    rule: impl FnMut(Timestamp, &Packet) -> Treatment + 'static,
) -> TestPath {
    let rate = Some(Rate::bits_per_second(100_000_000));
    TestPath::new(algorithm, rate, Duration::from_millis(20), rule)
}

/// Treats every `nth` data packet so, first transmission or not.
fn every(nth: u64, treatment: Treatment) -> impl FnMut(Timestamp, &Packet) -> Treatment {
    let mut count = 0;
    move |_, packet| {
        count += u64::from(packet.kind == PacketKind::Data);
        let is_due = packet.kind == PacketKind::Data && count % nth == 0;
        if is_due { treatment } else { Treatment::Deliver }
    }
}

/// The share of the capacity that a transfer uses between two times in seconds.
fn share(path: &mut TestPath, from_s: u64, to_s: u64) -> f64 {
    path.run_until(at(from_s * 1000));
    let before = path.arrived_in_order();
    path.run_until(at(to_s * 1000));
    (path.arrived_in_order() - before) as f64 / ((to_s - from_s) as f64 * PACKETS_PER_SECOND)
}

fn late(ms: u64) -> Treatment {
    Treatment::Delay(Duration::from_millis(ms))
}

/// 5 ms, of a smallest RTT of 40 ms. Before reordering is seen, three arrivals prove a loss; after that, none is.
#[test]
fn reordering_within_a_quarter_rtt_costs_little() {
    assert_eq!(MSS + 52, 1500);
    for algorithm in ["cubic", "reno", "htcp", "bbr"] {
        let mut path = transfer(algorithm, every(100, late(5)));
        let share = share(&mut path, 5, 25);
        let counts = path.counts();
        println!("{algorithm}: {share:.3} {counts:?} {:?}", path.sender().reordering());
        assert!(share > 0.95, "{algorithm}: {share:.3}");
        assert!((1..=5).contains(&counts.duplicates), "{algorithm}: {counts:?}");
        assert!(counts.undone >= 1 && counts.timeouts == 0, "{algorithm}: {counts:?}");
        // A hundredth of 25 s, less those that are late by less than the gap to the next one.
        assert!(path.sender().reordering().times_seen() > 1900, "{algorithm}");
    }
}

/// Steps of the reordering window, and reductions that are taken back, until nothing late is lost any more.
#[test]
fn reordering_beyond_a_quarter_rtt_is_learnt() {
    for ms in [15, 30] {
        let mut path = transfer("cubic", every(100, late(ms)));
        let share = share(&mut path, 5, 25);
        let counts = path.counts();
        println!("{ms} ms: {share:.3} {counts:?} {:?}", path.sender().reordering());
        assert!(share > 0.9, "{ms} ms: {share:.3}");
        assert!((1..=20).contains(&counts.duplicates), "{ms} ms: {counts:?}");
        assert!(counts.undone >= 1, "{ms} ms: {counts:?}");
    }
}

/// Later than the retransmission, a packet is as good as lost: RACK never sees it overtaken (RFC 8985 section 3.3.2).
#[test]
fn packets_later_than_their_repair_count_as_losses() {
    let mut late_path = transfer("cubic", every(100, late(100)));
    let mut lossy_path = transfer("cubic", every(100, Treatment::Lose));
    let (late, lossy) = (share(&mut late_path, 5, 25), share(&mut lossy_path, 5, 25));
    println!("{late:.3} {lossy:.3} {:?}", late_path.counts());
    assert_eq!(late_path.sender().reordering().times_seen(), 0);
    assert!(late < 0.2 && late > lossy, "{late:.3} {lossy:.3}");
    assert!(late_path.counts().undone > 0 && lossy_path.counts().undone == 0);
}

#[test]
fn repeated_packets_undo_nothing() {
    let mut path = transfer("cubic", every(100, Treatment::Repeat(Duration::from_millis(5))));
    let share = share(&mut path, 5, 25);
    let counts = path.counts();
    println!("{share:.3} {counts:?}");
    assert!(share > 0.99 && counts.undone == 0, "{share:.3} {counts:?}");
    assert!(counts.duplicates > 2000, "{counts:?}");
}

/// Everything of one kind is held for a second: data, or acknowledgements.
#[test]
fn delay_spike_costs_no_window() {
    for kind in [PacketKind::Data, PacketKind::Ack] {
        let rule = move |now: Timestamp, packet: &Packet| {
            let is_held = (at(10_000)..at(11_000)).contains(&now) && packet.kind == kind;
            if is_held { Treatment::Delay(at(11_000).since(now)) } else { Treatment::Deliver }
        };
        let mut path = transfer("cubic", rule);
        path.run_until(at(9_999));
        let (before, retransmits) = (path.decision(), path.counts().retransmits);
        path.run_until(at(11_100));
        let (after, counts) = (path.decision(), path.counts());
        println!("{kind:?}: {before:?} {after:?} {counts:?}");
        assert!(counts.timeouts >= 1 && counts.undone == 1, "{kind:?}: {counts:?}");
        assert!(after.cwnd >= before.cwnd && after.ssthresh >= before.ssthresh, "{kind:?}");
        assert!(counts.retransmits - retransmits <= 3, "{kind:?}: probe and timeouts: {counts:?}");
        assert!(share(&mut path, 12, 15) > 0.99, "{kind:?}");
    }
}

/// All data is lost for a second: timeouts were needed.
#[test]
fn outage_is_not_undone() {
    let rule = |now: Timestamp, packet: &Packet| {
        let is_lost = packet.kind == PacketKind::Data && (at(10_000)..at(11_000)).contains(&now);
        if is_lost { Treatment::Lose } else { Treatment::Deliver }
    };
    let mut path = transfer("cubic", rule);
    let before = share(&mut path, 5, 10);
    let after = share(&mut path, 14, 18);
    println!("{before:.3} {after:.3} {:?}", path.counts());
    assert_eq!(path.counts().undone, 0);
    assert!(path.counts().timeouts >= 1 && after > 0.9, "{after:.3} {:?}", path.counts());
}

#[test]
fn losses_on_a_reordering_path_are_repaired() {
    let (mut reorder, mut lose) = (every(100, late(5)), every(2999, Treatment::Lose));
    let rule = move |now: Timestamp, packet: &Packet| match lose(now, packet) {
        Treatment::Lose => Treatment::Lose,
        _ => reorder(now, packet),
    };
    let mut path = transfer("cubic", rule);
    let mut plain = transfer("cubic", every(2999, Treatment::Lose));
    let (uneven, even) = (share(&mut path, 5, 25), share(&mut plain, 5, 25));
    let counts = path.counts();
    println!("{uneven:.3} {even:.3} {counts:?}");
    assert!(uneven > 0.9 * even, "{uneven:.3} {even:.3}");
    assert!(counts.timeouts == 0 && counts.retransmits - counts.duplicates >= 10, "{counts:?}");
}

/// Packets of both directions are lost, late or repeated at random, for longer or shorter than a timeout.
#[test]
fn random_treatments_lose_no_data() {
    const SEGMENTS: u64 = 400;
    let seed = crate::testing::seed();
    let mut totals = (0, 0, 0);
    for n in 0..300 {
        let mut random = Pcg64::new(seed, n);
        let longest_ms = [2, 15, 100, 1500][(random.next_u64() % 4) as usize];
        let every = [3, 10, 50][(random.next_u64() % 3) as usize];
        let algorithm = ["cubic", "bbr", "reno", "libra"][(n % 4) as usize];
        let loss_detection =
            [LossDetection::Rack, LossDetection::Dupack][(random.next_u64() % 4 / 3) as usize];
        let profile = if n % 10 == 9 { Profile::Ns2 } else { Profile::Linux };
        let ecn = n % 7 == 0;
        let rule = move |_, packet: &Packet| {
            let delay = Duration::from_millis(random.next_u64() % longest_ms);
            let kind = random.next_u64() % (3 * every);
            match kind {
                0 => Treatment::Lose,
                1 => Treatment::Delay(delay),
                2 if packet.kind == PacketKind::Data => Treatment::Repeat(delay),
                _ => Treatment::Deliver,
            }
        };
        let (rate, one_way) = (Some(Rate::bits_per_second(20_000_000)), Duration::from_millis(10));
        let tcp = Tcp { handshake: false, loss_detection, ecn, ..Tcp::of(profile, Family::Ipv4) };
        let mut path = TestPath::with_tcp(tcp, algorithm, rate, one_way, rule);
        path.offer(SEGMENTS);
        for ms in (0..600_000).step_by(50) {
            path.run_until(at(ms));
            path.sender().assert_counts();
            if path.acknowledged() >= SEGMENTS {
                break;
            }
        }
        let counts = path.counts();
        assert_eq!(path.acknowledged(), SEGMENTS, "transfer {n}: {counts:?}");
        totals.0 += counts.undone;
        totals.1 += counts.timeouts;
        totals.2 += counts.duplicates;
    }
    println!("{totals:?} reductions undone, timeouts, duplicates");
    assert!(totals.0 > 100 && totals.1 > 100 && totals.2 > 1000, "{totals:?}");
}
