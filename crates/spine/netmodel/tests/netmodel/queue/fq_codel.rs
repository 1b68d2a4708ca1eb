// SPDX-License-Identifier: GPL-2.0-or-later
//! FQ-CoDel: equal parts for unequal flows, priority for sparse ones, and whose packets go at the limit.

use crate::queue::{PACKET, config, micros, packet};
use longhaul_netmodel::{
    Discipline, Fate, Link, QueueLimit,
    queue::{codel, fq_codel::Params},
};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Timestamp};

/// With a target that is never passed, so that the scheduler is seen by itself.
fn params(target_s: u64) -> Params {
    let codel = codel::Params {
        target: Duration::from_secs(target_s),
        interval: Duration::from_secs(2 * target_s),
        ecn: false,
    };
    Params { codel, flows: 1024, quantum: Bytes::new(1514) }
}

/// A link that is offered packets by flow and number.
struct Flows {
    link: Link,
    tickets: BTreeMap<u32, (u64, usize)>,
    /// Flow, number, when its first bit left; or that it was dropped.
    became: Vec<(u64, usize, Result<Timestamp, Fate>)>,
}

impl Flows {
    fn new(params: Params, limit: QueueLimit) -> Self {
        let link = Link::new(config(Discipline::FqCodel(params), limit, 1));
        Self { link, tickets: BTreeMap::new(), became: Vec::new() }
    }

    fn offer(&mut self, now: Timestamp, flow: u64, number: usize, bytes: u64) {
        self.told(now);
        let Fate::Queued { ticket } = self.link.offer(now, packet(bytes, false, flow)) else {
            panic!("FQ-CoDel takes every packet first")
        };
        self.tickets.insert(ticket, (flow, number));
        self.told(now);
    }

    fn told(&mut self, now: Timestamp) {
        while let Some((ticket, fate)) = self.link.decided(now) {
            let (flow, number) = self.tickets.remove(&ticket).expect("a ticket that was given");
            let starts = match fate {
                Fate::Arrives { starts, .. } => Ok(starts),
                other => Err(other),
            };
            self.became.push((flow, number, starts));
        }
    }

    /// How many packets of a flow left within a time.
    fn left(&self, flow: u64, from: Timestamp, to: Timestamp) -> usize {
        let within =
            |starts: &Result<Timestamp, Fate>| starts.is_ok_and(|at| at >= from && at < to);
        self.became.iter().filter(|(of, _, starts)| *of == flow && within(starts)).count()
    }
}

#[test]
fn flows_of_different_rates_have_equal_parts() {
    let mut flows = Flows::new(params(1000), QueueLimit::Unlimited);
    // 3, 1.5 and 0.2 times what the link carries: the last has all it wants, the others half of the rest each.
    for n in 0..20_000_usize {
        let now = micros(n as u64 * 333);
        flows.offer(now, 1, n, PACKET);
        if n % 2 == 0 {
            flows.offer(now, 2, n, PACKET);
        }
        if n % 15 == 0 {
            flows.offer(now, 3, n, PACKET);
        }
    }
    let left = [1, 2, 3].map(|flow| flows.left(flow, micros(1_000_000), micros(6_000_000)) as f64);
    // 5 s of a packet each millisecond.
    assert!((left.iter().sum::<f64>() - 5000.0).abs() <= 2.0, "{left:?}");
    assert!((left[0] - left[1]).abs() <= 2.0 && (left[2] - 1001.0).abs() <= 2.0, "{left:?}");
}

#[test]
fn parts_are_of_bytes_and_not_of_packets() {
    let mut flows = Flows::new(params(1000), QueueLimit::Unlimited);
    for n in 0..10_000 {
        flows.offer(micros(0), 1, n, 1500);
        flows.offer(micros(0), 2, n, 250);
        flows.offer(micros(0), 2, n, 250);
    }
    flows.told(micros(2_000_000));
    let (from, to) = (micros(0), micros(2_000_000));
    let [long, short] = [1, 2].map(|flow| flows.left(flow, from, to) as f64);
    // Half of 2.5 MB each, to within a quantum and a packet.
    assert!((long * 1500.0 - 1.25e6).abs() < 3100.0 && (short * 250.0 - 1.25e6).abs() < 3100.0);
}

#[test]
fn a_sparse_flow_waits_for_one_packet_at_most() {
    let mut flows = Flows::new(params(1000), QueueLimit::Unlimited);
    let mut came = BTreeMap::new();
    for n in 0..40_000_usize {
        let now = micros(n as u64 * 500);
        flows.offer(now, 1, n, PACKET);
        if n % 50 == 7 {
            let now = now + Duration::from_micros(n as u64 % 400);
            flows.offer(now, 2, n, PACKET);
            came.insert(n, now);
        }
    }
    assert!(flows.link.queue(micros(20_000_000)).packets > 15_000, "a queue of 15 s");
    let mut sparse = 0;
    for (_, number, starts) in flows.became.iter().filter(|(flow, ..)| *flow == 2) {
        let waited = starts.unwrap().since(came[number]);
        assert!(waited <= Duration::from_millis(1), "packet {number}: {waited}");
        sparse += 1;
    }
    assert_eq!(sparse, 800);
}

#[test]
fn full_queue_drops_half_or_64_packets_of_the_fattest_flow() {
    for (limit, batch) in [(100, 41), (1000, 64)] {
        let mut flows = Flows::new(params(1000), QueueLimit::Packets(limit));
        // Ten packets each of two thin flows, first so that the fat one is the last; one more is on the wire.
        for n in 0..10 {
            flows.offer(micros(0), 2, n, PACKET);
            flows.offer(micros(0), 3, n, PACKET);
        }
        let fat = limit as usize - 19;
        (0..fat).for_each(|n| flows.offer(micros(0), 1, n, PACKET));
        assert_eq!(flows.link.queue(micros(0)).packets, limit);
        assert_eq!(flows.became.len(), 1, "nothing but the one on the wire");
        // One of a thin flow more than may wait.
        flows.offer(micros(0), 2, 10, PACKET);
        let dropped: Vec<_> = flows.became[1..].iter().map(|(flow, n, _)| (*flow, *n)).collect();
        let expected: Vec<_> = (0..batch).map(|n| (1, n)).collect();
        assert_eq!(dropped, expected, "from the head, of the fat one alone");
        let counters = flows.link.counters();
        assert_eq!((counters.queue_drops, counters.early_drops), (batch as u64, 0));
    }
}

#[test]
fn codel_works_in_each_queue_by_itself() {
    let codel = codel::Params {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: false,
    };
    let mut flows = Flows::new(Params { codel, ..params(1) }, QueueLimit::Packets(10_240));
    for n in 0..30_000_usize {
        let now = micros(n as u64 * 700);
        flows.offer(now, 1, n, PACKET);
        if n % 10 == 0 {
            flows.offer(now, 2, n, PACKET);
        }
    }
    let dropped = |flow| {
        let of = flows.became.iter().filter(|(of, _, starts)| *of == flow && starts.is_err());
        of.count()
    };
    assert!(dropped(1) > 1000, "{}", dropped(1));
    assert_eq!(dropped(2), 0, "a seventh of the link has no queue of its own");
}

#[test]
fn the_seed_decides_who_shares_a_queue() {
    let order = |seed| {
        let few = Discipline::FqCodel(Params { flows: 8, ..params(1000) });
        let mut link = Link::new(config(few, QueueLimit::Unlimited, seed));
        // One packet on the wire and two of each flow behind it: flows with a queue of their own take turns,
        // others wait for those they share it with.
        for flow in [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0] {
            link.offer(micros(0), packet(1500, false, flow));
        }
        std::iter::from_fn(|| link.decided(micros(1_000_000))).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert!((2..40).any(|seed| order(seed) != order(1)));
}
