// SPDX-License-Identifier: GPL-2.0-or-later
//! CoDel: the schedule of drops under constant overload by hand, and every packet compared with the pseudo-code of
//! RFC 8289, section 5.

use crate::queue::{Dice, PACKET, config, micros, next_offer, packet, seed};
use longhaul_netmodel::{Discipline, Fate, Link, QueueLimit, queue::codel::Params};
use std::collections::VecDeque;
use units::{Bytes, Duration, Rate, Timestamp};

fn params(ecn: bool) -> Params {
    Params { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn }
}

/// When packets were dropped or marked under 1.05 times what the link carries, in milliseconds.
fn acts(ecn: bool) -> Vec<f64> {
    let mut link = Link::new(config(Discipline::Codel(params(ecn)), QueueLimit::Unlimited, 1));
    let mut acts = Vec::new();
    let mut offer = micros(0);
    // To the second drop or mark of the count 8, far before the overload is answered.
    while acts.len() < 8 {
        while let Some(at) = link.decides_at().filter(|at| *at < offer) {
            while let Some((_, fate)) = link.decided(at) {
                if matches!(fate, Fate::EarlyDrop | Fate::Arrives { marked: true, .. }) {
                    acts.push(at.as_nanos() as f64 / 1e6);
                }
            }
        }
        link.offer(offer, packet(PACKET, ecn, 0));
        while link.decided(offer).is_some() {}
        offer = offer + Duration::from_micros(952);
    }
    acts
}

#[test]
fn codel_interval_shrinks_with_the_root_of_the_count() {
    for ecn in [false, true] {
        let acts = acts(ecn);
        // The queue grows by 48 us a packet: the wait passes 5 ms with packet 105, so at about 105 ms, and an
        // interval later the first is dropped. The next ones: 100 ms, 100/sqrt 2, 100/sqrt 3, ... later.
        assert!((acts[0] - 205.0).abs() < 2.0, "ecn {ecn}: {acts:?}");
        let mut expected = acts[0];
        for (n, act) in acts.iter().enumerate().skip(1) {
            expected += 100.0 / (n as f64).sqrt();
            // The wire takes a packet each millisecond.
            let late = act - expected;
            assert!((-1e-6..1.001).contains(&late), "ecn {ecn}, {n}: {act} ms, {expected} ms");
        }
    }
}

/// Times in nanoseconds; packets by number, time and bytes.
struct Reference {
    params: Params,
    queue: VecDeque<(usize, u64, u64, bool)>,
    bytes: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
}

type Item = (usize, u64, u64, bool);

impl Reference {
    fn dodequeue(&mut self, now: u64) -> (Option<Item>, bool) {
        let Some(item) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        self.bytes -= item.2;
        let sojourn = now - item.1;
        let mut ok_to_drop = false;
        if sojourn < self.params.target.as_nanos() || self.bytes <= 1500 {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.params.interval.as_nanos();
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(item), ok_to_drop)
    }

    fn control_law(&self, t: u64) -> u64 {
        t + (self.params.interval.as_nanos() as f64 / (self.count as f64).sqrt()).round() as u64
    }

    /// What leaves, whether it is marked, and what is dropped before.
    fn deque(&mut self, now: u64) -> (Option<(Item, bool)>, Vec<usize>) {
        let mut dropped = Vec::new();
        let (mut item, mut ok) = self.dodequeue(now);
        let ecn = self.params.ecn;
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                let head = item.expect("a packet that may be dropped is one");
                if ecn && head.3 {
                    self.drop_next = self.control_law(self.drop_next);
                    return (Some((head, true)), dropped);
                }
                dropped.push(head.0);
                (item, ok) = self.dodequeue(now);
                if ok {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            let head = item.expect("a packet that may be dropped is one");
            let marks = ecn && head.3;
            if !marks {
                dropped.push(head.0);
                (item, _) = self.dodequeue(now);
            }
            self.dropping = true;
            let delta = self.count.cast_signed() - self.lastcount.cast_signed();
            let since = now.cast_signed() - self.drop_next.cast_signed();
            self.count = 1;
            if delta > 1 && since < 16 * self.params.interval.as_nanos().cast_signed() {
                self.count = delta.cast_unsigned();
            }
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
            if marks {
                return (Some((head, true)), dropped);
            }
        }
        (item.map(|item| (item, false)), dropped)
    }
}

/// What became of each packet: dropped, or when it left and whether it was marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    Dropped,
    Left(u64, bool),
}

fn by_reference(params: Params, offers: &[(Timestamp, u64, bool)]) -> Vec<Option<Became>> {
    let mut became = vec![None; offers.len()];
    let mut reference = Reference {
        params,
        queue: VecDeque::new(),
        bytes: 0,
        first_above_time: 0,
        drop_next: 0,
        count: 0,
        lastcount: 0,
        dropping: false,
    };
    // 800 ns a byte at 10 Mb/s.
    let mut free_at = 0;
    let mut dequeue = |reference: &mut Reference, at: u64| {
        let (left, dropped) = reference.deque(at);
        for n in dropped {
            became[n] = Some(Became::Dropped);
        }
        let Some(((n, _, bytes, _), marked)) = left else { return at };
        became[n] = Some(Became::Left(at, marked));
        at + bytes * 800
    };
    for (n, (at, bytes, ect)) in offers.iter().enumerate() {
        let at = at.as_nanos();
        while free_at <= at && !reference.queue.is_empty() {
            free_at = dequeue(&mut reference, free_at);
        }
        reference.queue.push_back((n, at, *bytes, *ect));
        reference.bytes += bytes;
        if free_at <= at {
            free_at = dequeue(&mut reference, at);
        }
    }
    became
}

/// The same by the link, asked at once or only at the end.
fn by_link(
    params: Params,
    offers: &[(Timestamp, u64, bool)],
    at_once: bool,
) -> Vec<Option<Became>> {
    let mut link = Link::new(config(Discipline::Codel(params), QueueLimit::Unlimited, 1));
    assert_eq!(link.config().nominal_rate(), Some(Rate::bits_per_second(10_000_000)));
    let mut became = vec![None; offers.len()];
    let mut numbers = Vec::new();
    let mut told = |link: &mut Link, numbers: &[usize], now: Timestamp| {
        while let Some((ticket, fate)) = link.decided(now) {
            became[numbers[ticket as usize]] = Some(match fate {
                Fate::EarlyDrop => Became::Dropped,
                Fate::Arrives { starts, marked, .. } => Became::Left(starts.as_nanos(), marked),
                other => panic!("{other:?}"),
            });
        }
    };
    for (n, (at, bytes, ect)) in offers.iter().enumerate() {
        let Fate::Queued { ticket } = link.offer(*at, packet(*bytes, *ect, 0)) else { panic!() };
        numbers.resize(numbers.len().max(ticket as usize + 1), 0);
        numbers[ticket as usize] = n;
        if at_once {
            told(&mut link, &numbers, *at);
        }
    }
    let last = offers.last().expect("there are some").0;
    told(&mut link, &numbers, last);
    became
}

#[test]
fn every_packet_is_that_of_the_pseudo_code() {
    let seed = seed();
    for ecn in [false, true] {
        for load in [0.9, 1.05, 1.6] {
            let mut dice = Dice::new(seed);
            let mut now = Timestamp::ZERO;
            let offers: Vec<_> = (0..60_000)
                .map(|n| {
                    let load = load * if n / 10_000 % 2 == 0 { 1.0 } else { 0.7 };
                    let (at, bytes) = next_offer(&mut dice, now, load);
                    now = at;
                    (at, bytes, dice.below(2) == 0)
                })
                .collect();
            let params = params(ecn);
            let expected = by_reference(params, &offers);
            let found = by_link(params, &offers, true);
            for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found, expected, "packet {n}, ecn {ecn}, load {load}");
            }
            assert!(found == by_link(params, &offers, false), "when it is asked changes nothing");
            let dropped = expected.iter().filter(|b| **b == Some(Became::Dropped)).count();
            let marked =
                expected.iter().filter(|b| matches!(b, Some(Became::Left(_, true)))).count();
            println!("ecn {ecn}, load {load}: {dropped} dropped, {marked} marked");
            assert!(load < 1.0 || dropped + marked > 100);
            assert_eq!(marked > 0, ecn && dropped + marked > 0);
        }
    }
}

#[test]
fn the_limit_holds() {
    let limit = QueueLimit::Bytes(Bytes::new(20 * PACKET));
    let mut link = Link::new(config(Discipline::Codel(params(false)), limit, 1));
    let fates: Vec<_> = (0..30).map(|_| link.offer(micros(0), packet(PACKET, false, 0))).collect();
    let full = fates.iter().filter(|fate| **fate == Fate::QueueFull).count();
    assert_eq!((full, link.queue(micros(0)).packets), (9, 20), "and one is on the wire");
    assert_eq!((link.counters().queue_drops, link.counters().early_drops), (9, 0));
}
