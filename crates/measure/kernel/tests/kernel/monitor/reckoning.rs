// SPDX-License-Identifier: GPL-2.0-or-later
//! Gaps, bursts and bins as the programs sum them up, against the same reckoned here in floating point
//! from the time of every packet.

use super::wire::{Sender, cable, data, pause};
use crate::common::in_own_network;
use longhaul_kernel::monitor::{Direction, DirectionStatistics, Entry, Monitor, Options};
use std::{
    thread,
    time::{Duration, SystemTime},
};
use testkit::alone;
use units::Timestamp;

/// Reads the trace until `work` is done, and all of it.
fn traced(monitor: &Monitor, work: impl FnOnce() + Send) -> Vec<Entry> {
    let mut entries = Vec::new();
    let trace = monitor.trace(|entry| entries.push(entry)).expect("attached with a trace");
    thread::scope(|scope| {
        let work = scope.spawn(work);
        while !work.is_finished() {
            trace.poll(units::Duration::from_millis(10)).expect("it tells");
        }
    });
    trace.poll(units::Duration::ZERO).expect("it tells");
    assert_eq!(trace.lost().expect("it tells"), 0);
    drop(trace);
    entries.sort_by_key(|entry| entry.number);
    for (n, entry) in entries.iter().enumerate() {
        assert_eq!((entry.number, entry.direction), (n as u64, Direction::Out));
    }
    assert!(entries.is_sorted_by_key(|entry| entry.time), "numbers are in the order of time");
    entries
}

/// Numbers by Lehmer's generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 % bound
    }
}

/// Sends packets, gap frames and pauses by chance, on two processors at once.
fn send_by_chance(seed: u64) {
    let send = |mut random: Random| {
        let sender = Sender::on("left");
        for _ in 0..5000 {
            let bytes = 60 + random.below(1400) as usize;
            match random.below(20) {
                0..=14 => sender.send(&data(bytes)),
                15..=18 => sender.send(&pause(bytes)),
                _ => thread::sleep(Duration::from_micros(random.below(2000))),
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| send(Random(seed)));
        scope.spawn(|| send(Random(seed + 1)));
    });
}

#[test]
fn gaps_bursts_and_bins_match_the_trace() {
    let _alone = alone();
    let seed = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64 % 1_000_000 + 1;
    println!("seed {seed}");
    in_own_network(|| {
        cable();
        let options = Options { trace: true, ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        // In a scope: the trace borrows the monitor.
        let entries = traced(&monitor, || send_by_chance(seed));
        let snapshot = monitor.stop().expect("it tells");
        let figures = snapshot.statistics(Direction::Out).expect("watched by default");
        gaps_are_those_of(&entries, figures);
        bursts_are_those_of(&entries, figures, options.burst_gap.as_nanos());
        let bins = monitor.bins(Direction::Out).expect("watched by default");
        for (got, is_gap) in [(bins.data(), false), (bins.gap_frames(), true)] {
            let mut expected = vec![0; got.bins().len()];
            for entry in entries.iter().filter(|entry| entry.is_gap == is_gap) {
                expected[(entry.time.as_nanos() / 500_000) as usize] += entry.bytes;
            }
            assert_eq!(got.bins(), expected, "gap frames: {is_gap}");
        }
    });
}

fn gaps_are_those_of(entries: &[Entry], figures: &DirectionStatistics) {
    let times: Vec<Timestamp> = entries.iter().filter(|e| !e.is_gap).map(|e| e.time).collect();
    let gaps: Vec<f64> =
        times.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos() as f64).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
    let close = |got: Option<f64>, expected: f64| {
        let got = got.expect("there are gaps");
        assert!((got / expected - 1.0).abs() < 1e-9, "{got}, and not {expected}");
    };
    assert_eq!(figures.gaps.count, gaps.len() as u64);
    close(figures.gaps.mean_ns(), mean);
    close(figures.gaps.deviation_ns(), deviation);
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let bound = |bound: Option<units::Duration>| bound.map(|bound| bound.as_nanos() as f64);
    assert_eq!(bound(figures.gaps.least), sorted.first().copied());
    assert_eq!(bound(figures.gaps.most), sorted.last().copied());
    for slot in figures.gaps.histogram.bins() {
        let inside = |gap: &&f64| (slot.from as f64..slot.to as f64).contains(*gap);
        assert_eq!(gaps.iter().filter(inside).count() as u64, slot.count, "{slot:?}");
    }
    for share in [0.01, 0.5, 0.99] {
        let exact = sorted[(share * count).ceil() as usize - 1];
        let slot = figures.gaps.histogram.quantile(share).expect("there are gaps");
        assert!((slot.from as f64..slot.to as f64).contains(&exact), "{exact} in {slot:?}");
    }
    let directly = entries.windows(2).filter(|pair| !pair[0].is_gap && !pair[1].is_gap);
    assert_eq!(figures.unspaced, directly.count() as u64);
}

fn bursts_are_those_of(entries: &[Entry], figures: &DirectionStatistics, burst_gap_ns: u64) {
    // Packets and bytes of each.
    let mut bursts: Vec<(u64, u64)> = Vec::new();
    let (mut last, mut spaced) = (None, true);
    for entry in entries {
        if entry.is_gap {
            spaced = true;
            continue;
        }
        let near = |last: Timestamp| entry.time.since(last).as_nanos() <= burst_gap_ns;
        if spaced || !last.is_some_and(near) {
            bursts.push((0, 0));
        }
        let burst = bursts.last_mut().expect("one goes on");
        burst.0 += 1;
        burst.1 += entry.bytes;
        (last, spaced) = (Some(entry.time), false);
    }
    assert_eq!(figures.bursts.count, bursts.len() as u64);
    assert_eq!(Some(figures.bursts.most_packets), bursts.iter().map(|burst| burst.0).max());
    assert_eq!(Some(figures.bursts.most_bytes), bursts.iter().map(|burst| burst.1).max());
    for slot in figures.bursts.histogram.bins() {
        let inside = bursts.iter().filter(|burst| (slot.from..slot.to).contains(&burst.0));
        assert_eq!(inside.count() as u64, slot.count, "{slot:?}");
    }
}

/// Squares of such gaps do not fit into 64 bits when they are summed up.
#[test]
fn long_pauses_are_summed_up_exactly() {
    let _alone = alone();
    in_own_network(|| {
        cable();
        let options = Options { trace: true, ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        let entries = traced(&monitor, || {
            let sender = Sender::on("left");
            sender.send(&data(60));
            // 4.4 s squared is 1.9e19 ns2, more than 2^64.
            thread::sleep(Duration::from_millis(4400));
            sender.send(&data(60));
            thread::sleep(Duration::from_millis(10));
            sender.send(&data(60));
        });
        let snapshot = monitor.stop().expect("it tells");
        let figures = snapshot.statistics(Direction::Out).expect("watched by default");
        let gap = |n: usize| u128::from(entries[n + 1].time.since(entries[n].time).as_nanos());
        assert_eq!(figures.gaps.squares_ns2, gap(0).pow(2) + gap(1).pow(2));
        gaps_are_those_of(&entries, figures);
    });
}
