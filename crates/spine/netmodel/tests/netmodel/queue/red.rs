// SPDX-License-Identifier: GPL-2.0-or-later
//! RED: decision by decision compared with the formulas of the paper, and the distribution of drops at averages that
//! are held.

use crate::queue::{Dice, Draws, PACKET, Said, Seen, config, micros, next_offer, packet, seed};
use longhaul_netmodel::{
    Discipline, Fate, Link, QueueLimit,
    queue::red::{Params, Thresholds},
};
use units::{Bytes, Duration, Timestamp};

fn params() -> Params {
    Params {
        thresholds: Thresholds::Packets { min: 5, max: 15 },
        probability: 0.1,
        weight: 0.002,
        avpkt: Bytes::new(1000),
        gentle: true,
        ecn: false,
    }
}

/// Figure 2 of the paper, with `gentle`; `count` by the paper's section on the uniform distribution.
struct Reference {
    params: Params,
    draws: Draws,
    average: f64,
    since_drop: i64,
}

impl Reference {
    fn packet(&mut self, idle_s: f64, queue: f64, ect: bool) -> Said {
        let w = self.params.weight;
        if idle_s > 0.0 {
            // A small packet takes 0.8 us a byte at 10 Mb/s.
            let m = (idle_s / (self.params.avpkt.get() as f64 * 0.8e-6)).floor();
            self.average *= (1.0 - w).powf(m);
        } else {
            self.average = (1.0 - w) * self.average + w * queue;
        }
        let (min, max) = match self.params.thresholds {
            Thresholds::Packets { min, max } => (min as f64, max as f64),
            Thresholds::Bytes { min, max } => (min.get() as f64, max.get() as f64),
        };
        let end = if self.params.gentle { 2.0 * max } else { max };
        if self.average < min {
            self.since_drop = 0;
            return Said::Passed;
        }
        if self.average >= end {
            self.since_drop = 0;
            return Said::Early;
        }
        let p = self.params.probability;
        let p_b = if self.average < max {
            p * (self.average - min) / (max - min)
        } else {
            p + (1.0 - p) * (self.average - max) / max
        };
        if p_b <= 0.0 {
            self.since_drop = 0;
            return Said::Passed;
        }
        let left = 1.0 - self.since_drop as f64 * p_b;
        let p_a = if left <= p_b { 1.0 } else { p_b / left };
        if p_a < 1.0 && self.draws.next() >= p_a {
            self.since_drop += 1;
            return Said::Passed;
        }
        self.since_drop = 0;
        if ect && self.params.ecn { Said::Marked } else { Said::Early }
    }
}

fn beside_the_reference(params: Params, load: f64, seed: u64) -> [u64; 4] {
    let mut link = Link::new(config(Discipline::Red(params), QueueLimit::Packets(60), seed));
    let (draws, average, since_drop) = (Draws::new(seed), 0.0, 0);
    let mut reference = Reference { params, draws, average, since_drop };
    let (mut dice, mut seen) = (Dice::new(seed), Seen::default());
    let (mut now, mut counts) = (Timestamp::ZERO, [0; 4]);
    for n in 0..200_000 {
        let (at, bytes) = next_offer(&mut dice, now, load);
        now = at;
        let ect = dice.below(2) == 0;
        let (packets, queued) = seen.at(now);
        let idle = now.since(seen.free_at).as_secs_f64();
        let queue = match params.thresholds {
            Thresholds::Packets { .. } => packets,
            Thresholds::Bytes { .. } => queued,
        };
        let mut expected = reference.packet(idle, queue as f64, ect);
        if expected != Said::Early && packets >= 60 {
            expected = Said::Full;
        }
        let fate = link.offer(now, packet(bytes, ect, 0));
        assert_eq!(Said::of(fate), expected, "packet {n}, average {}", reference.average);
        counts[expected as usize] += 1;
        seen.add(fate, bytes);
    }
    let counters = link.counters();
    assert_eq!([counters.marks, counters.early_drops], [counts[1], counts[2]]);
    assert_eq!(counters.queue_drops, counts[2] + counts[3]);
    counts
}

#[test]
fn every_decision_is_that_of_the_formulas() {
    let seed = seed();
    let bytes = Thresholds::Bytes { min: Bytes::new(5000), max: Bytes::new(15_000) };
    for (n, params) in [
        params(),
        Params { ecn: true, weight: 0.05, ..params() },
        Params { gentle: false, weight: 0.02, ..params() },
        Params { thresholds: bytes, weight: 0.02, probability: 0.5, ..params() },
    ]
    .into_iter()
    .enumerate()
    {
        for load in [0.7, 1.0, 1.5] {
            let [passed, marked, early, full] = beside_the_reference(params, load, seed + n as u64);
            println!(
                "{n}, load {load}: {passed} passed, {marked} marked, {early} early, {full} full"
            );
            assert!(load < 1.5 || early > 1000, "there was something to decide");
        }
    }
}

/// Drops at a queue that is held, where the average is the queue (a weight of 1): after how many packets each
/// came.
fn gaps_at(queue: u64, params: Params, drops: usize, seed: u64) -> Vec<usize> {
    let params = Params { weight: 1.0, ..params };
    let mut link = Link::new(config(Discipline::Red(params), QueueLimit::Unlimited, seed));
    let mut now = micros(0);
    let mut gaps = Vec::new();
    let mut since = 1;
    while gaps.len() < drops {
        let waits = link.queue(now).packets;
        if waits > queue {
            now = now + Duration::from_millis(1);
            continue;
        }
        let fate = link.offer(now, packet(PACKET, false, 0));
        if waits < queue {
            // On the way to it. A drop here would begin the first gap.
            since = if fate == Fate::EarlyDrop { 1 } else { since };
        } else if fate == Fate::EarlyDrop {
            gaps.push(since);
            since = 1;
        } else {
            since += 1;
        }
    }
    // The first one began at other averages.
    gaps.split_off(1)
}

#[test]
fn between_min_and_max_the_gaps_between_drops_are_uniform() {
    let seed = seed();
    // From 5 to 15 the probability rises to 0.1; the longest gap is its inverse.
    for (queue, longest) in [(7, 50), (10, 20), (15, 10)] {
        let drops = 20_000;
        let gaps = gaps_at(queue, params(), drops + 1, seed);
        let expected = drops as f64 / longest as f64;
        let mut counts = vec![0.0; longest + 1];
        for gap in gaps {
            counts[gap] += 1.0;
        }
        let chi_square: f64 =
            counts[1..].iter().map(|count: &f64| (count - expected).powi(2) / expected).sum();
        // Mean and variance of chi-square are its degrees of freedom and twice that: 5 deviations.
        let freedom = longest as f64 - 1.0;
        let most = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(chi_square < most, "queue {queue}: chi-square {chi_square}, at most {most}");
    }
}

#[test]
fn gentle_goes_on_to_twice_max() {
    let seed = seed();
    // 0.1 + 0.9 (20 - 15)/15 = 0.4: shares of the first packet, of the next, and the rest.
    let gaps = gaps_at(20, params(), 30_001, seed);
    for (gap, share) in [(1, 0.4), (2, 0.4), (3, 0.2)] {
        let found = gaps.iter().filter(|g| **g == gap).count() as f64;
        let variance: f64 = 30_000.0 * share * (1.0 - share);
        let margin = 5.0 * variance.sqrt();
        assert!((found - 30_000.0 * share).abs() < margin, "{gap}: {found}");
    }
    // At 30 nothing passes, and without `gentle` at 15.
    let full = Params { weight: 1.0, ..params() };
    for (params, most) in [(full, 30), (Params { gentle: false, ..full }, 15)] {
        let mut link = Link::new(config(Discipline::Red(params), QueueLimit::Unlimited, seed));
        for _ in 0..1000 {
            link.offer(micros(0), packet(PACKET, false, 0));
        }
        assert!(link.queue(micros(0)).packets <= most);
    }
}

#[test]
fn ecn_packets_are_marked_up_to_the_drop_threshold() {
    let params = Params { weight: 1.0, ecn: true, ..params() };
    let mut link = Link::new(config(Discipline::Red(params), QueueLimit::Unlimited, seed()));
    let fates: Vec<_> = (0..100).map(|_| link.offer(micros(0), packet(PACKET, true, 0))).collect();
    // One on the wire and 30 that wait; then every packet is dropped.
    let said: Vec<_> = fates.into_iter().map(Said::of).collect();
    assert!(said[..31].iter().all(|said| matches!(said, Said::Passed | Said::Marked)), "{said:?}");
    assert!(said[..31].contains(&Said::Marked));
    assert!(said[31..].iter().all(|said| *said == Said::Early), "{said:?}");
}
