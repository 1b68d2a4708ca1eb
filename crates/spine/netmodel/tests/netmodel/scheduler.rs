// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduler of several paced classes on one wire: by hand, and with random arrivals against an
//! ideal fluid server for each class.

mod fluid;
mod world;

use longhaul_netmodel::pacing::{Class, Departure, Next, Packet, Scheduler, SchedulerError};
use units::{Bytes, Duration, Rate, Timestamp};
use world::{Arrival, Sent, World, class, mbit, micros};

/// Packets of 1250 bytes take 10 µs at 1 Gb/s.
const LENGTH: u64 = 1250;

fn backlog(class: usize, count: usize) -> impl Iterator<Item = Arrival> {
    (0..count).map(move |_| Arrival { at: Timestamp::ZERO, class, flow: 0, bytes: LENGTH })
}

#[test]
fn two_streams_merge_and_their_gaps_with_them() {
    // The paper's figure 4. Alone, packets of the first class have gaps of one packet between them
    // (half of the wire), those of the second gaps of three (a quarter).
    let mut world = World::new(mbit(1000), &[class(500), class(250)]);
    let sent = world.run(backlog(0, 5).chain(backlog(1, 3)));
    let seen: Vec<_> =
        sent.iter().map(|s| (s.class, s.starts.as_nanos() / 1000, s.gap.get())).collect();
    assert_eq!(
        seen,
        [
            (0, 0, 0),
            (1, 10, 0),
            (0, 20, 0),
            (0, 40, LENGTH),
            (1, 50, 0),
            (0, 60, 0),
            (0, 80, LENGTH),
            (1, 90, 0)
        ]
    );
    for (class, gap) in [(0, LENGTH), (1, 3 * LENGTH)] {
        let mut world = World::new(mbit(1000), &[self::class(500), self::class(250)]);
        let gaps = world.run(backlog(class, 9)).iter().skip(1).all(|s| s.gap == Bytes::new(gap));
        assert!(gaps, "class {class} alone");
    }
}

#[test]
fn idle_time_causes_neither_burst_nor_gap() {
    let mut world = World::new(mbit(1000), &[class(100)]);
    let late = (0..3).map(|_| Arrival { at: micros(5000), class: 0, flow: 0, bytes: LENGTH });
    let sent = world.run(backlog(0, 1).chain(late));
    let seen: Vec<_> = sent.iter().map(|s| (s.starts, s.gap.get())).collect();
    let gap = 9 * LENGTH;
    assert_eq!(seen, [(micros(0), 0), (micros(5000), 0), (micros(5100), gap), (micros(5200), gap)]);
}

#[test]
fn packet_soon_after_another_waits_the_rest_of_the_gap() {
    let mut world = World::new(mbit(1000), &[class(100)]);
    let soon = Arrival { at: micros(70), class: 0, flow: 0, bytes: LENGTH };
    let sent = world.run(backlog(0, 1).chain([soon]));
    // From its arrival at 70 µs to its time at 100 µs.
    assert_eq!((sent[1].starts, sent[1].gap), (micros(100), Bytes::new(3 * LENGTH)));
}

#[test]
fn a_class_without_a_rate_has_what_is_left() {
    let unpaced = Class { rate: None, queue: Bytes::new(u64::MAX) };
    let mut world = World::new(mbit(1000), &[class(600), class(200), unpaced]);
    let sent = world.run(backlog(0, 600).chain(backlog(1, 200)).chain(backlog(2, 400)));
    let until = |class: usize| {
        let times = sent.iter().filter(|s| s.class == class && s.starts < micros(5000));
        times.count()
    };
    assert_eq!((until(0), until(1), until(2)), (300, 100, 100));
    assert!(sent.iter().all(|s| s.gap == Bytes::ZERO), "the wire never idles");
}

#[test]
fn overloaded_classes_share_by_rate_and_do_not_catch_up() {
    // 1.5 times the wire. The first has 20 ms of it, then the others have what they want.
    let mut world = World::new(mbit(1000), &[class(900), class(450), class(150)]);
    let sent = world.run(backlog(0, 1200).chain(backlog(1, 2000)).chain(backlog(2, 2000)));
    let count = |class: usize, from: u64, to: u64| {
        let within = |s: &&Sent| s.starts >= micros(from) && s.starts < micros(to);
        sent.iter().filter(|s| s.class == class).filter(within).count()
    };
    for (class, share) in [(0, 600), (1, 300), (2, 100)] {
        let seen = count(class, 5000, 15_000);
        assert!(seen.abs_diff(share) <= 1, "class {class}: {seen} packets of {share}");
    }
    for (class, share) in [(0, 0), (1, 450), (2, 150)] {
        // What they were behind when it ended is at most what two packets take on the wire.
        let seen = count(class, 20_100, 30_100);
        assert!(seen.abs_diff(share) <= 1, "class {class}: {seen} packets of {share}, then");
    }
}

#[test]
fn late_class_on_an_overloaded_wire_waits_briefly() {
    let mut world = World::new(mbit(1000), &[class(900), class(900), class(100)]);
    let late = Arrival { at: micros(100_000), class: 2, flow: 0, bytes: LENGTH };
    let sent = world.run(backlog(0, 9000).chain(backlog(1, 9000)).chain([late]));
    let it = sent.iter().find(|s| s.class == 2).unwrap();
    assert!(it.starts.since(late.at) <= Duration::from_micros(50), "{it:?}");
}

#[test]
fn late_scheduler_calls_get_no_burst() {
    let mut scheduler = Scheduler::new(mbit(1000), &[class(100)]).unwrap();
    for n in 0..5 {
        let packet = Packet { flow: 0, length: Bytes::new(LENGTH), item: n };
        assert!(scheduler.enqueue(micros(0), 0, packet).is_empty());
    }
    let mut starts = |asked: u64| match scheduler.next(micros(asked)) {
        Next::Departure(Departure { starts, .. }) => starts,
        other => panic!("{other:?}"),
    };
    assert_eq!(starts(0), micros(0));
    assert_eq!(starts(3000), micros(3000), "due at 100");
    match scheduler.next(micros(3010)) {
        Next::Wait(until) => assert_eq!(until.as_nanos() / 1000, 3099, "only lag is made up"),
        other => panic!("{other:?}"),
    }
}

/// What flows of a class of 100 Mb/s have in a second, in Mb/s, that each put in packets evenly.
fn shares(wishes: &[u64]) -> Vec<f64> {
    let queue = Bytes::new(40 * LENGTH);
    let mut world = World::new(mbit(1000), &[Class { rate: Some(mbit(100)), queue }]);
    let flows = (0..).zip(wishes).flat_map(|(flow, wish)| {
        // 100 packets a second are 1 Mb/s.
        (0..wish * 100).map(move |n| {
            let at = Timestamp::from_nanos(n * 10_000_000 / wish);
            Arrival { at, class: 0, flow, bytes: LENGTH }
        })
    });
    let mut arrivals: Vec<_> = flows.collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let offered = arrivals.len();
    let sent = world.run(arrivals.into_iter());
    assert_eq!(sent.len() + world.dropped, offered);
    let of = |flow| sent.iter().filter(|s| s.flow == flow && s.starts < micros(1_000_000)).count();
    (0..wishes.len() as u64).map(|flow| of(flow) as f64 / 100.0).collect()
}

#[test]
fn flows_of_a_class_share_equally_under_any_load() {
    // Six have their wish, which are 48 together; each of the others gets half of the rest.
    let fair = [1.0, 2.0, 4.0, 8.0, 13.0, 20.0, 26.0, 26.0];
    for (share, fair) in shares(&[1, 2, 4, 8, 13, 20, 50, 100]).into_iter().zip(fair) {
        assert!((share / fair - 1.0).abs() < 0.02, "{share} where {fair} is fair");
    }
    let greedy = shares(&[25, 30, 40, 50, 60, 70, 80, 100]);
    let sum: f64 = greedy.iter().sum();
    let squares: f64 = greedy.iter().map(|share| share * share).sum();
    assert!(sum * sum / (8.0 * squares) > 0.999, "Jain's index of {greedy:?}");
}

#[test]
fn rates_that_cannot_be_are_refused() {
    let new = |wire: Rate, classes: &[Class]| Scheduler::<()>::new(wire, classes).map(|_| ());
    let zero = Rate::bits_per_second(0);
    assert_eq!(new(zero, &[]), Err(SchedulerError::NoWire));
    let none = Class { rate: Some(zero), queue: Bytes::ZERO };
    assert_eq!(new(mbit(1), &[class(1), none]), Err(SchedulerError::NoRate { class: 1 }));
    let error = new(mbit(100), &[class(100), class(101)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "class 1 can't be paced at 101mbit on a wire of 100mbit: its rate must not be above the wire's"
    );
    let mut scheduler = Scheduler::<()>::new(mbit(100), &[class(100)]).unwrap();
    assert!(scheduler.set_rate(micros(0), 0, mbit(101)).is_err());
    assert!(scheduler.set_rate(micros(0), 0, zero).is_err());
    assert_eq!(scheduler.next(micros(0)), Next::Idle);
}

#[test]
fn a_full_class_drops_and_tells() {
    let queue = Bytes::new(2 * LENGTH);
    let mut scheduler =
        Scheduler::new(mbit(1000), &[Class { rate: Some(mbit(100)), queue }]).unwrap();
    let mut offer = |item| {
        let packet = Packet { flow: 0, length: Bytes::new(LENGTH), item };
        scheduler.enqueue(micros(0), 0, packet)
    };
    assert_eq!([offer(0), offer(1), offer(2)], [vec![], vec![], vec![2]]);
    assert_eq!(scheduler.waiting(0), queue);
    for (asked, item) in [(0, 0), (100, 1)] {
        match scheduler.next(micros(asked)) {
            Next::Departure(departure) => assert_eq!(departure.item, item),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(scheduler.next(micros(110)), Next::Idle);
    // What was dropped takes none of the class's time.
    let packet = Packet { flow: 0, length: Bytes::new(LENGTH), item: 3 };
    assert!(scheduler.enqueue(micros(150), 0, packet).is_empty());
    assert_eq!(scheduler.next(micros(150)), Next::Wait(micros(200)));
}

#[test]
fn new_rate_applies_immediately_in_a_long_gap() {
    // At 1 kb/s a packet takes 10 s.
    let slow = Class { rate: Some("1kbit".parse().unwrap()), queue: Bytes::new(u64::MAX) };
    let mut scheduler = Scheduler::new(mbit(1000), &[slow]).unwrap();
    for n in 0..2 {
        let packet = Packet { flow: 0, length: Bytes::new(LENGTH), item: n };
        assert!(scheduler.enqueue(micros(0), 0, packet).is_empty());
    }
    assert!(matches!(scheduler.next(micros(0)), Next::Departure(_)));
    assert_eq!(scheduler.next(micros(10)), Next::Wait(micros(10_000_000)));
    // After half of it, the other half takes 50 µs at 100 Mb/s.
    scheduler.set_rate(micros(5_000_000), 0, mbit(100)).unwrap();
    assert_eq!(scheduler.next(micros(5_000_000)), Next::Wait(micros(5_000_050)));
}
