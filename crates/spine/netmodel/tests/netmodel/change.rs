// SPDX-License-Identifier: GPL-2.0-or-later
//! Links that change at work, against a queue that is written a second time, and against links that do not change.

use longhaul_netmodel::{
    Discipline, Fate, Impairments, Link, LinkChange, LinkConfig, LossModel, QueueLimit,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Duration, Probability, Rate, Timestamp};

const DELAY: Duration = Duration::from_millis(3);
const LIMIT: u64 = 4;

fn config(discipline: Discipline) -> LinkConfig {
    LinkConfig {
        rate: Some(Rate::bits_per_second(8_000_000).into()),
        delay: DELAY,
        queue: QueueLimit::Packets(LIMIT),
        discipline,
        loss: LossModel::None,
        impairments: Impairments::default(),
        mtu: Bytes::new(1500),
        overhead: Bytes::ZERO,
        monitor: Duration::from_millis(1),
        spacing: false,
        seed: 1,
    }
}

/// A byte of 8 Mb/s takes one.
fn micros(us: u64) -> Timestamp {
    Timestamp::from_nanos(us * 1000)
}

fn rate(bps: u64) -> LinkChange {
    LinkChange { rate: Some(Rate::bits_per_second(bps)), ..LinkChange::default() }
}

/// A link, and what became of its packets by number; those that it dropped are not there.
struct Told {
    link: Link,
    offered: usize,
    tickets: BTreeMap<u32, usize>,
    arrivals: BTreeMap<usize, Timestamp>,
}

impl Told {
    fn new(discipline: Discipline) -> Self {
        let (tickets, arrivals) = (BTreeMap::new(), BTreeMap::new());
        Self { link: Link::new(config(discipline)), offered: 0, tickets, arrivals }
    }

    fn offer(&mut self, now: Timestamp, bytes: u64) {
        let number = self.offered;
        self.offered += 1;
        match self.link.offer(now, Bytes::new(bytes)) {
            Fate::Queued { ticket } => drop(self.tickets.insert(ticket, number)),
            Fate::Arrives { at, .. } => drop(self.arrivals.insert(number, at)),
            _ => {}
        }
        self.look(now);
    }

    fn look(&mut self, now: Timestamp) {
        while let Some((ticket, fate)) = self.link.decided(now) {
            let number = self.tickets.remove(&ticket).unwrap();
            if let Fate::Arrives { at, .. } = fate {
                self.arrivals.insert(number, at);
            }
        }
    }

    fn change(&mut self, now: Timestamp, change: LinkChange) {
        self.look(now);
        self.link.change(now, change);
    }
}

/// What happens to a link after some microseconds.
#[derive(Debug, Clone, Copy)]
enum Step {
    Packet(u64),
    /// To so many microseconds a byte, of which 8 Mb/s is a multiple.
    Slower(u64),
}

/// A queue that knows of each byte only how long it takes: packets that wait begin at the rate of that time.
fn by_hand(steps: &[(u64, Step)]) -> BTreeMap<usize, Timestamp> {
    let (mut now, mut per_byte, mut number) = (0, 1, 0);
    let mut waiting: VecDeque<(usize, u64)> = VecDeque::new();
    let mut free_at = 0;
    let mut arrivals = BTreeMap::new();
    for &(after, step) in steps {
        let until = now + after;
        while let Some(&(first, bytes)) = waiting.front()
            && free_at <= until
        {
            waiting.pop_front();
            free_at += bytes * per_byte;
            arrivals.insert(first, micros(free_at) + DELAY);
        }
        now = until;
        match step {
            Step::Slower(micros) => per_byte = micros,
            Step::Packet(bytes) => {
                if free_at <= now {
                    free_at = now + bytes * per_byte;
                    arrivals.insert(number, micros(free_at) + DELAY);
                } else if (waiting.len() as u64) < LIMIT {
                    waiting.push_back((number, bytes));
                }
                number += 1;
            }
        }
    }
    for (number, bytes) in waiting {
        free_at += bytes * per_byte;
        arrivals.insert(number, micros(free_at) + DELAY);
    }
    arrivals
}

proptest! {
    #[test]
    fn packets_that_wait_leave_at_the_rate_of_that_time(
        steps in proptest::collection::vec(
            (0..1500u64, prop_oneof![
                4 => (1..1500u64).prop_map(Step::Packet),
                1 => proptest::sample::select(vec![1u64, 2, 4, 5, 8]).prop_map(Step::Slower),
            ]),
            1..200,
        )
    ) {
        let mut told = Told::new(Discipline::TailDropAtDeparture);
        let mut now = 0;
        for &(after, step) in &steps {
            now += after;
            match step {
                Step::Packet(bytes) => told.offer(micros(now), bytes),
                Step::Slower(per_byte) => told.change(micros(now), rate(8_000_000 / per_byte)),
            }
        }
        told.look(micros(now + 1_000_000));
        prop_assert_eq!(told.arrivals, by_hand(&steps));
    }

    /// Nothing changes: it is taildrop.
    #[test]
    fn without_a_change_it_is_when_they_come_that_decides_as_well(
        packets in proptest::collection::vec((0..2000u64, 1..1500u64), 1..200)
    ) {
        let mut both = [Discipline::TailDropAtDeparture, Discipline::TailDrop { mark: None }].map(Told::new);
        let mut now = 0;
        for (after, bytes) in packets {
            now += after;
            for told in &mut both {
                told.offer(micros(now), bytes);
            }
        }
        for told in &mut both {
            told.look(micros(now + 1_000_000));
        }
        let [at_departure, at_arrival] = &both;
        prop_assert_eq!(&at_departure.arrivals, &at_arrival.arrivals);
        let counters = |told: &Told| *told.link.counters();
        prop_assert_eq!(counters(at_departure), counters(at_arrival));
    }
}

#[test]
fn cut_link_loses_everything_until_it_is_joined() {
    let mut link = Link::new(config(Discipline::TailDrop { mark: None }));
    let cut = |cut| LinkChange { cut: Some(cut), ..LinkChange::default() };
    let mut at = |now: u64, change: Option<LinkChange>| {
        if let Some(change) = change {
            link.change(micros(now), change);
        }
        link.offer(micros(now), Bytes::new(1000))
    };
    assert!(matches!(at(0, None), Fate::Arrives { .. }));
    assert_eq!(at(2000, Some(cut(true))), Fate::Lost);
    assert_eq!(at(4000, None), Fate::Lost);
    let Fate::ArrivesImpaired { at, on_time, twice, .. } = at(6000, Some(cut(false))) else {
        panic!("it arrives")
    };
    assert_eq!((at, on_time, twice), (micros(7000) + DELAY, true, false));
    assert_eq!((link.counters().losses, link.counters().outage_losses), (2, 2));
}

#[test]
fn delay_and_loss_are_those_of_the_latest_change() {
    let mut link = Link::new(config(Discipline::TailDrop { mark: None }));
    let far = LinkChange { delay: Some(Duration::from_millis(50)), ..LinkChange::default() };
    link.change(micros(0), far);
    let Fate::Arrives { at, .. } = link.offer(micros(0), Bytes::new(1000)) else { panic!() };
    assert_eq!(at, micros(51_000));
    let all = Some(LossModel::Uniform(Probability::new(1.0).unwrap()));
    link.change(micros(2000), LinkChange { loss: all, ..LinkChange::default() });
    assert_eq!(link.offer(micros(2000), Bytes::new(1000)), Fate::Lost);
    let none =
        LinkChange { loss: Some(LossModel::None), delay: Some(DELAY), ..LinkChange::default() };
    link.change(micros(4000), none);
    // It overtakes the first.
    let Fate::Arrives { at, .. } = link.offer(micros(4000), Bytes::new(1000)) else { panic!() };
    assert_eq!(at, micros(8000));
    assert_eq!(link.config().delay, DELAY);
}
