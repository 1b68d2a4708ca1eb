// SPDX-License-Identifier: GPL-2.0-or-later
//! Random arrivals against an ideal fluid model: each class has a server of its own that works at
//! exactly the class's rate, and a packet is due when its server begins with it.
//!
//! **The bound.** The rates r of the paced classes are together not above the wire's C, L is the
//! largest packet of a class. A packet p of class f whose fluid service begins at S begins on the wire
//! at S + (sum of L over the other classes) / C at the latest.
//!
//! Proof. From S on, until p leaves, something due waits (p, or one of its class before it), so the
//! wire is busy. Let t be the latest time up to S at which the wire idled, or began with a packet
//! that was not paced. After t and before p, only packets leave that are due by S: since S, p's class has
//! one waiting that is due by then, and later due times come after it. At t nothing was
//! due, so these are due in [t, S]. In a class their due times are spaced by their own length over r:
//! all but the last are together at most r (S - t), and the last is at most L. Of class f, those before
//! p are all of them spaced by what lies before S: at most r (S - t), with nothing to add. What the
//! wire has to carry from t on before p is so at most (sum of r) (S - t) + sum of L over the other
//! classes <= C (S - t) + sum of L: it is done at S + (sum of L) / C. The packet that was not paced,
//! begun at t, is one more L of its own class. ∎
//!
//! The scheduler's times are whole nanoseconds, cut off: each class can add one, and so can the start.

use crate::scheduler::world::{Arrival, Sent, World};
use longhaul_netmodel::pacing::Class;
use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Bytes, Duration, Rate, Timestamp};

/// A rate at which no packet ends with a whole nanosecond.
const WIRE: Rate = Rate::bits_per_second(930_000_007);
/// Bits times 10^9 of a byte: times in nanoseconds times rates count in these.
const BYTE: u128 = 8_000_000_000;

fn random() -> Pcg64 {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    Pcg64::new(seed, 1)
}

fn below(random: &mut Pcg64, n: u64) -> u64 {
    random.next_u64() % n
}

/// Random rates that are together at most the wire's, sometimes exactly; now and then a class with
/// none.
fn classes(random: &mut Pcg64) -> Vec<Class> {
    let count = 1 + below(random, 5);
    let mut left = WIRE.bps();
    let mut classes: Vec<Class> = (0..count)
        .map(|n| {
            let all = n + 1 == count && below(random, 2) == 0;
            let rate = if all { left } else { 1 + below(random, left / 2 + 1) };
            left -= rate.min(left - 1);
            Class { rate: Some(Rate::bits_per_second(rate)), queue: Bytes::new(u64::MAX) }
        })
        .collect();
    if below(random, 3) == 0 {
        classes.push(Class { rate: None, queue: Bytes::new(u64::MAX) });
    }
    classes
}

/// Packets at random: now and then in bursts, now and then after pauses.
fn arrivals(random: &mut Pcg64, classes: &[Class], flows: u64) -> Vec<Arrival> {
    let mut at = Timestamp::ZERO;
    (0..300)
        .map(|_| {
            let pause = match below(random, 10) {
                0..=4 => 0,
                5..=8 => below(random, 40_000),
                _ => below(random, 2_000_000),
            };
            at = at + Duration::from_nanos(pause);
            let class = below(random, classes.len() as u64) as usize;
            let bytes = [64, 1538, 1538, 64 + below(random, 1475)][below(random, 4) as usize];
            Arrival { at, class, flow: below(random, flows), bytes }
        })
        .collect()
}

/// When the fluid server of a rate begins with each of a class's packets, in units of 1/rate ns.
fn fluid(rate: Rate, arrivals: &[(usize, Arrival)]) -> Vec<u128> {
    let rate = u128::from(rate.bps());
    let mut free = 0;
    let begin = |(_, arrival): &(usize, Arrival)| {
        let begins = free.max(u128::from(arrival.at.as_nanos()) * rate);
        free = begins + u128::from(arrival.bytes) * BYTE;
        begins
    };
    arrivals.iter().map(begin).collect()
}

fn nanos(time: Timestamp) -> u128 {
    time.as_nanos().into()
}

/// One case: its classes, what came, and what left.
struct Case {
    classes: Vec<Class>,
    arrivals: Vec<Arrival>,
    sent: Vec<Sent>,
}

impl Case {
    fn new(random: &mut Pcg64, flows: u64) -> Self {
        let classes = classes(random);
        let arrivals = arrivals(random, &classes, flows);
        let mut world = World::new(WIRE, &classes);
        let sent = world.run(arrivals.iter().copied());
        assert_eq!((sent.len(), world.dropped), (arrivals.len(), 0), "nothing is lost");
        Self { classes, arrivals, sent }
    }

    /// By how much a packet of a class may begin later than it is due, in nanoseconds.
    fn bound(&self, class: usize) -> u128 {
        let largest = |n: usize| {
            self.arrivals.iter().filter(|a| a.class == n).map(|a| a.bytes).max().unwrap_or(0)
        };
        let others: u64 = (0..self.classes.len()).filter(|n| *n != class).map(largest).sum();
        let rounding = self.classes.len() as u128 + 1;
        (u128::from(others) * BYTE).div_ceil(u128::from(WIRE.bps())) + rounding
    }

    fn sent_of(&self, class: usize) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| sent.class == class).collect()
    }

    fn arrivals_of(&self, class: usize) -> Vec<(usize, Arrival)> {
        self.arrivals.iter().copied().enumerate().filter(|(_, a)| a.class == class).collect()
    }

    /// Each packet leaves between its fluid start and the bound, in order.
    fn check_pace(&self) {
        for (class, Class { rate, .. }) in self.classes.iter().enumerate() {
            let (sent, arrivals) = (self.sent_of(class), self.arrivals_of(class));
            assert!(sent.iter().map(|s| s.number).eq(arrivals.iter().map(|(number, _)| *number)));
            let Some(rate) = *rate else { continue };
            let bound = self.bound(class);
            for (sent, begins) in sent.iter().zip(fluid(rate, &arrivals)) {
                let due = begins / u128::from(rate.bps());
                let starts = nanos(sent.starts);
                assert!(starts >= due, "class {class}: {sent:?} is due at {due}");
                assert!(starts <= due + bound, "class {class}: {sent:?}, due at {due} + {bound}");
                let done = begins + u128::from(sent.bytes) * BYTE;
                let fluid_end = done / u128::from(rate.bps());
                assert!(nanos(sent.ends) <= fluid_end + bound, "{sent:?}, fluid {fluid_end}");
            }
        }
    }

    /// No window has more than the class's rate, a packet and what the bound lets through.
    fn check_windows(&self) {
        for (class, Class { rate, .. }) in self.classes.iter().enumerate() {
            let Some(rate) = *rate else { continue };
            let (sent, bound) = (self.sent_of(class), self.bound(class));
            let rate = u128::from(rate.bps());
            for (n, first) in sent.iter().enumerate() {
                let mut bytes = 0;
                for last in &sent[n..] {
                    let window = nanos(last.starts) - nanos(first.starts) + bound;
                    assert!(bytes * BYTE <= window * rate, "class {class} after {first:?}");
                    bytes += u128::from(last.bytes);
                }
            }
        }
    }

    /// The wire carries one packet at a time, each as long as it takes, and idles only where
    /// nothing that waits is due.
    fn check_wire(&self) {
        let dues: Vec<Vec<u128>> = self
            .classes
            .iter()
            .enumerate()
            .map(|(class, Class { rate, .. })| {
                let arrivals = self.arrivals_of(class);
                // A packet of a class without a rate is due when it comes.
                let at_once = |(_, a): &(usize, Arrival)| nanos(a.at);
                let begins = |rate: Rate| {
                    let begins = fluid(rate, &arrivals).into_iter();
                    begins.map(|b| b / u128::from(rate.bps())).collect()
                };
                rate.map_or_else(|| arrivals.iter().map(at_once).collect(), begins)
            })
            .collect();
        let mut left = vec![0; self.classes.len()];
        let (mut free, mut busy_since, mut work) = (0, 0, 0);
        for sent in &self.sent {
            let starts = nanos(sent.starts);
            assert!(starts >= free, "{sent:?} overlaps with what ends at {free}");
            let due = left.iter().zip(&dues).filter_map(|(n, due): (&usize, _)| due.get(*n)).min();
            assert_eq!(starts, free.max(*due.unwrap()), "{sent:?}: the wire waits for nothing");
            if starts > free || work == 0 {
                (busy_since, work) = (starts, 0);
            }
            work += u128::from(sent.bytes) * BYTE;
            free = nanos(sent.ends);
            assert_eq!(
                free,
                busy_since + work / u128::from(WIRE.bps()),
                "{sent:?}: nothing is lost"
            );
            left[sent.class] += 1;
        }
    }

    /// From when something waits until nothing does, gaps and packets are the wire's time.
    fn check_gaps(&self) {
        let mut waiting = 0;
        let mut events: Vec<(Timestamp, Option<&Sent>)> =
            self.arrivals.iter().map(|a| (a.at, None)).collect();
        events.extend(self.sent.iter().map(|sent| (sent.starts, Some(sent))));
        // What comes at a time is there before what leaves at it.
        events.sort_by_key(|(at, sent)| (*at, sent.is_some()));
        let (mut begins, mut ends, mut bytes) = (0, 0, 0);
        for (at, sent) in events {
            let Some(sent) = sent else {
                if waiting == 0 && nanos(at) > ends {
                    (begins, bytes) = (nanos(at), 0);
                }
                waiting += 1;
                continue;
            };
            waiting -= 1;
            ends = nanos(sent.ends);
            bytes += u128::from(sent.bytes + sent.gap.get());
            let work = |from: u128, to: u128| (to - from) * u128::from(WIRE.bps());
            assert!(bytes * BYTE <= work(begins, ends + 1), "{sent:?}: too much gap");
            assert!((bytes + 1) * BYTE > work(begins, ends), "{sent:?}: too little gap");
        }
    }
}

#[test]
fn random_arrivals_leave_as_in_the_fluid_model() {
    let mut random = random();
    for _ in 0..1000 {
        let case = Case::new(&mut random, 1);
        case.check_pace();
        case.check_windows();
        case.check_wire();
        case.check_gaps();
    }
}

#[test]
fn flows_of_a_class_keep_rate_and_order() {
    let mut random = random();
    for _ in 0..300 {
        let case = Case::new(&mut random, 4);
        case.check_windows();
        case.check_gaps();
        for class in 0..case.classes.len() {
            for flow in 0..4 {
                let sent = case.sent_of(class).into_iter().filter(|s| s.flow == flow);
                assert!(sent.map(|s| s.number).is_sorted(), "class {class}, flow {flow}");
            }
        }
    }
}

/// Classes that always have something waiting, whose rates change at random and are together never
/// above the wire's: over any time each carries what its rates allow, except for a packet and the bound.
#[test]
fn changing_rates_are_kept_over_any_window() {
    let mut random = random();
    for _ in 0..30 {
        let start = classes(&mut random).into_iter().filter(|c| c.rate.is_some());
        let start: Vec<Class> = start.collect();
        let mut world = World::new(WIRE, &start);
        let mut rates: Vec<u64> = start.iter().map(|c| c.rate.unwrap().bps()).collect();
        let mut sent = Vec::new();
        for number in 0..start.len() * 4000 {
            let at = Timestamp::ZERO;
            let arrival = Arrival { at, class: number % start.len(), flow: 0, bytes: 1538 };
            let packet = longhaul_netmodel::pacing::Packet {
                flow: 0,
                length: Bytes::new(1538),
                item: (number, arrival),
            };
            assert!(world.scheduler.enqueue(at, arrival.class, packet).is_empty());
        }
        // When each rate begins.
        let mut steps: Vec<(u128, Vec<u64>)> = vec![(0, rates.clone())];
        let mut at = Timestamp::ZERO;
        for _ in 0..100 {
            at = at + Duration::from_nanos(below(&mut random, 400_000));
            world.until(Some(at), &mut sent);
            let class = below(&mut random, rates.len() as u64) as usize;
            let others: u64 = rates.iter().sum::<u64>() - rates[class];
            rates[class] = 1 + below(&mut random, WIRE.bps() - others);
            let rate = Rate::bits_per_second(rates[class]);
            world.scheduler.set_rate(at, class, rate).unwrap();
            steps.push((nanos(at), rates.clone()));
        }
        for class in 0..rates.len() {
            check_steps(class, &steps, &sent);
        }
    }
}

/// What a class's rates allow up to a time.
fn allowed(class: usize, steps: &[(u128, Vec<u64>)], until: u128) -> u128 {
    let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([u128::MAX]);
    steps.iter().zip(ends).fold(0, |sum, ((begins, rates), ends)| {
        sum + until.min(ends).saturating_sub(*begins) * u128::from(rates[class])
    })
}

fn check_steps(class: usize, steps: &[(u128, Vec<u64>)], sent: &[Sent]) {
    let others = steps[0].1.len() as u128 - 1;
    let bound = (others * 1538 * BYTE).div_ceil(u128::from(WIRE.bps())) + others + 2;
    let sent = sent.iter().filter(|sent| sent.class == class);
    for (n, sent) in sent.enumerate() {
        // `n` packets have left before it: its fluid service begins when the rates allow these bytes.
        let before = n as u128 * 1538 * BYTE;
        let starts = nanos(sent.starts);
        assert!(allowed(class, steps, starts + 1) >= before, "class {class}: {sent:?} is early");
        let late = allowed(class, steps, starts.saturating_sub(bound));
        assert!(late <= before, "class {class}: {sent:?} is late");
    }
}
