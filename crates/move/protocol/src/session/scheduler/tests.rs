// SPDX-License-Identifier: GPL-2.0-or-later
//! The bounds of several connections by a model of paths: a rate, a delay and a buffer each, in steps of 1 ms.

use super::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);
const MB: u64 = 1_000_000;
/// 100 Mbit/s.
const FULL: u64 = 12_500_000;

/// A path to the receiver.
struct Path {
    /// Bytes a second at this millisecond; 0: it is silent.
    rate: Box<dyn Fn(u64) -> u64>,
    /// One way, in milliseconds.
    delay: u64,
    /// Bytes that sockets and depots take before the connection has no more room.
    buffer: u64,
    /// From when to when the connection is reset, in milliseconds.
    resets: Option<Range<u64>>,
}

fn path(rate: u64, delay: u64) -> Path {
    Path { rate: Box::new(move |_| rate), delay, buffer: 4 * MB, resets: None }
}

/// A connection under way.
#[derive(Default)]
struct Wire {
    id: Option<LaneId>,
    queue: VecDeque<(Range<u64>, u64)>,
    queued: u64,
    /// Capacity of this millisecond and those before that were too short for a byte.
    credit: u64,
    air: VecDeque<(u64, Range<u64>)>,
    back: VecDeque<(u64, u64, u64)>,
    got: u64,
}

/// What a transfer came to.
#[derive(Debug)]
struct Outcome {
    ms: u64,
    /// Bytes sent, those sent again included.
    sent: u64,
}

#[derive(Default)]
struct Receiver {
    have: u64,
    /// Ends of what is there of later groups, by their beginnings.
    held: BTreeMap<u64, u64>,
}

impl Receiver {
    fn take(&mut self, range: &Range<u64>) {
        let group = group_start(range.start);
        if group <= self.have {
            assert!(range.start <= self.have, "bytes without those before them in their group");
            self.have = self.have.max(range.end);
        } else {
            let there = self.held.get(&group).copied().unwrap_or(group);
            assert!(range.start <= there, "bytes without those before them in their group");
            self.held.insert(group, there.max(range.end));
        }
        while let Some(end) = self.held.remove(&self.have) {
            self.have = end;
        }
    }
}

/// Sends `total` bytes, of which `available` says how many are there at a millisecond.
fn send(paths: &[Path], total: u64, available: impl Fn(u64) -> u64) -> Outcome {
    let mut scheduler = Scheduler::new(0);
    let mut wires: Vec<Wire> = paths.iter().map(|_| Wire::default()).collect();
    let mut receiver = Receiver::default();
    let (mut sent, mut all_sent, mut limit, mut ids) = (0, 0, 16 << 20, 0);
    for ms in 0.. {
        assert!(ms < 600_000, "it does not come to an end: {} of {total}", receiver.have);
        let now = MS * u32::try_from(ms).unwrap();
        for (wire, path) in wires.iter_mut().zip(paths) {
            let is_reset = path.resets.as_ref().is_some_and(|resets| resets.contains(&ms));
            if let Some(id) = wire.id.filter(|id| is_reset || scheduler.is_stuck(*id, now)) {
                scheduler.leave(id);
                *wire = Wire::default();
            }
            if wire.id.is_none() && !is_reset && (path.rate)(ms) > 0 {
                let id = LaneId(ids);
                ids += 1;
                scheduler.join(id, now);
                wire.id = Some(id);
            }
            wire.credit += (path.rate)(ms);
            serve(wire, path, ms);
            while wire.air.front().is_some_and(|(at, _)| *at <= ms) {
                let (_, range) = wire.air.pop_front().unwrap();
                receiver.take(&range);
                wire.got += range.end - range.start;
                wire.back.push_back((ms + path.delay, wire.got, receiver.have));
            }
            while wire.back.front().is_some_and(|(at, ..)| *at <= ms) {
                let (_, got, have) = wire.back.pop_front().unwrap();
                scheduler.got(wire.id.unwrap(), got, now).unwrap();
                scheduler.acknowledge(have);
                limit = limit.max(have + have.clamp(16 << 20, 64 << 20));
                if have == total {
                    return Outcome { ms, sent: all_sent };
                }
            }
        }
        for (wire, path) in wires.iter_mut().zip(paths) {
            let Some(id) = wire.id else { continue };
            while wire.queued < path.buffer {
                let to = limit.min(available(ms)).min(total);
                let Some(next) = scheduler.next(id, StreamEnd { sent, to }, now) else { break };
                let range = match next {
                    Assignment::New(range) => {
                        assert_eq!(range.start, sent);
                        sent = range.end;
                        range
                    }
                    Assignment::Again(range) => range,
                };
                assert!(range.start < range.end && range.end <= group_end(range.start));
                scheduler.sent(id, &range, now);
                let bytes = range.end - range.start;
                (wire.queued, all_sent) = (wire.queued + bytes, all_sent + bytes);
                wire.queue.push_back((range, bytes));
            }
        }
    }
    unreachable!("the loop has no end of its own")
}

/// A millisecond of the path.
fn serve(wire: &mut Wire, path: &Path, ms: u64) {
    let mut bytes = wire.credit / 1000;
    wire.credit %= 1000;
    while bytes > 0 {
        let Some((range, left)) = wire.queue.front_mut() else { return };
        let now = bytes.min(*left);
        (*left, bytes, wire.queued) = (*left - now, bytes - now, wire.queued - now);
        if *left == 0 {
            wire.air.push_back((ms + path.delay, range.clone()));
            wire.queue.pop_front();
        }
    }
}

fn all(total: u64) -> impl Fn(u64) -> u64 {
    move |_| total
}

/// At most 5 % slower than the fastest of the paths alone.
#[track_caller]
fn assert_not_slower(together: &Outcome, alone: &[Outcome]) {
    let best = alone.iter().map(|outcome| outcome.ms).min().unwrap();
    assert!(together.ms * 100 <= best * 105, "{together:?}, alone {alone:?}");
}

#[test]
fn round_trips_that_differ_tenfold_reach_90_percent_of_the_sum() {
    for (near, far) in [(5, 50), (1, 10), (20, 200)] {
        let total = 400 * MB;
        let outcome = send(&[path(FULL, near), path(FULL, far)], total, all(total));
        let sum_ms = total * 1000 / (2 * FULL);
        assert!(outcome.ms * 90 <= sum_ms * 100, "{near}, {far}: {outcome:?}, {sum_ms} ms");
        assert!(outcome.sent <= total + total / 50, "{outcome:?}");
    }
}

#[test]
fn route_at_a_tenth_of_the_rate_does_not_slow_the_other_down() {
    // A shorter one is over before much is known of the routes.
    for total in [10 * MB, 50 * MB, 300 * MB] {
        for delay in [5, 50] {
            for buffer in [MB / 4, 4 * MB, 16 * MB] {
                let slow = || Path { buffer, ..path(FULL / 10, delay) };
                let together = send(&[slow(), path(FULL, 5)], total, all(total));
                let alone = [send(&[path(FULL, 5)], total, all(total))];
                assert_not_slower(&together, &alone);
            }
        }
    }
}

#[test]
fn route_that_dies_is_given_up_and_its_bytes_go_elsewhere() {
    let total = 200 * MB;
    let alone = send(&[path(FULL, 5)], total, all(total));
    for at in [0, 10, 700, 3000, 7900] {
        let silent =
            Path { rate: Box::new(move |ms| if ms < at { FULL } else { 0 }), ..path(0, 5) };
        let together = send(&[silent, path(FULL, 5)], total, all(total));
        assert!(together.ms * 100 <= alone.ms * 105, "silent at {at}: {together:?}, {alone:?}");
        let reset = Path { resets: Some(at..u64::MAX), ..path(FULL, 50) };
        let together = send(&[reset, path(FULL, 5)], total, all(total));
        assert!(together.ms * 100 <= alone.ms * 105, "reset at {at}: {together:?}, {alone:?}");
    }
}

#[test]
fn routes_that_alternate_are_not_slower_than_one_of_them() {
    let total = 300 * MB;
    for period in [500, 2000, 5000] {
        for low in [FULL / 10, 0] {
            let alternating = |turn: u64| {
                let rate = move |ms: u64| if (ms / period) % 2 == turn { FULL } else { low };
                Path { rate: Box::new(rate), ..path(0, 10) }
            };
            let alone = [0, 1].map(|turn| send(&[alternating(turn)], total, all(total)));
            let together = send(&[alternating(0), alternating(1)], total, all(total));
            assert_not_slower(&together, &alone);
        }
    }
}

#[test]
fn bytes_that_come_slowly_take_the_fast_route() {
    let total = 10 * MB;
    let slowly = |ms: u64| (ms * 1000).min(total);
    let together = send(&[path(FULL, 100), path(FULL, 5)], total, slowly);
    let alone = [send(&[path(FULL, 5)], total, slowly)];
    assert_not_slower(&together, &alone);
    assert!(together.sent <= total + total / 5, "{together:?}");
}

#[test]
fn random_paths_deliver_everything_once_in_order() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("LONGHAUL_SEED={seed}");
    for round in 0..60 {
        let mut dice = Pcg64Mcg::seed_from_u64(seed << 32 | round);
        let mut below = |most: u64| dice.next_u64() % most;
        let count = 1 + below(4);
        let mut paths: Vec<Path> = Vec::new();
        for _ in 0..count {
            let (rate, dead, until) = (100_000 + below(FULL), below(8000), below(4000));
            let mut path = Path { buffer: 100_000 + below(8 * MB), ..path(rate, 1 + below(150)) };
            match below(3) {
                0 => path.resets = Some(dead..dead + until),
                1 => {
                    let silent = dead..dead + until;
                    path.rate = Box::new(move |ms| if silent.contains(&ms) { 0 } else { rate });
                }
                _ => {}
            }
            paths.push(path);
        }
        let total = 1 + below(40 * MB);
        let step = 100 + below(100_000);
        let outcome = send(&paths, total, |ms| (ms * step).min(total));
        assert!(outcome.sent >= total, "round {round}");
    }
}

#[test]
fn got_of_bytes_that_were_not_sent_is_refused() {
    let mut scheduler = Scheduler::new(0);
    let id = LaneId(0);
    scheduler.join(id, Duration::ZERO);
    let stream = StreamEnd { sent: 0, to: 1000 };
    assert_eq!(scheduler.next(id, stream, Duration::ZERO), Some(Assignment::New(0..1000)));
    scheduler.sent(id, &(0..1000), Duration::ZERO);
    assert!(scheduler.got(id, 1001, MS).is_err());
    assert_eq!(scheduler.got(id, 1000, MS), Ok(()));
    assert_eq!(scheduler.got(LaneId(7), 5, MS), Ok(()), "a connection that is gone");
    assert_eq!(scheduler.carried(id), 1000);
}

#[test]
fn unfinished_group_stays_on_its_connection_until_that_is_gone() {
    let mut scheduler = Scheduler::new(GROUP + 10);
    let (one, two) = (LaneId(0), LaneId(1));
    scheduler.join(one, MS);
    scheduler.join(two, MS);
    let at = |scheduler: &mut Scheduler, id, sent, to| {
        scheduler.next(id, StreamEnd { sent: GROUP + sent, to: GROUP + to }, MS)
    };
    let range = |from, to| GROUP + from..GROUP + to;
    assert_eq!(at(&mut scheduler, one, 10, 20), Some(Assignment::New(range(10, 20))));
    scheduler.sent(one, &range(10, 20), MS);
    assert_eq!(at(&mut scheduler, two, 20, 30), None, "the receiver could not verify it");
    assert_eq!(at(&mut scheduler, one, 20, 30), Some(Assignment::New(range(20, 30))));
    scheduler.sent(one, &range(20, 30), MS);
    scheduler.leave(one);
    assert_eq!(at(&mut scheduler, two, 30, 40), Some(Assignment::Again(range(0, 30))));
    scheduler.sent(two, &range(0, 30), MS);
    assert_eq!(at(&mut scheduler, two, 30, 40), Some(Assignment::New(range(30, 40))));
}
