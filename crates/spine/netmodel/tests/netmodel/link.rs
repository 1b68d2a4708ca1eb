// SPDX-License-Identifier: GPL-2.0-or-later
//! A link against hand computation, and against a second model that is written as an event
//! simulation packet by packet, with exact rational time.

use longhaul_netmodel::{
    Discipline, Fate, Impairments, Link, LinkConfig, LossModel, Packet, QueueLimit,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, Duration, Rate, Timestamp};

fn config() -> LinkConfig {
    LinkConfig {
        rate: Some("10mbit".parse::<Rate>().unwrap().into()),
        delay: Duration::from_millis(5),
        queue: QueueLimit::Packets(2),
        discipline: Discipline::TailDrop { mark: None },
        loss: LossModel::None,
        impairments: Impairments::default(),
        mtu: Bytes::new(1500),
        overhead: Bytes::new(14),
        monitor: Duration::from_micros(500),
        spacing: true,
        seed: 1,
    }
}

fn micros(us: u64) -> Timestamp {
    Timestamp::from_nanos(us * 1000)
}

#[test]
fn a_gap_frame_takes_the_link_and_arrives_nowhere() {
    let mut link = Link::new(config());
    let starts = |fate| match fate {
        Fate::Arrives { starts, .. } => Some(starts),
        _ => None,
    };
    // 1250 bytes take 1 ms, and the gap of 2500 bytes 2 ms.
    assert_eq!(starts(link.offer(micros(0), Bytes::new(1236))), Some(micros(0)));
    assert!(link.offer_gap(micros(0), Bytes::new(2500)));
    assert_eq!(starts(link.offer(micros(0), Bytes::new(1236))), Some(micros(3000)));
    let waits = link.queue(micros(0));
    assert_eq!((waits.packets, waits.bytes, waits.gaps, waits.gap_bytes), (2, 3750, 1, 2500));
    // Two wait: there is no room for a third.
    assert!(!link.offer_gap(micros(0), Bytes::new(100)));
    let counters = *link.counters();
    assert_eq!((counters.gaps, counters.gap_bytes, counters.gap_drops), (1, 2500, 1));
    assert_eq!((counters.offered, counters.delivered, counters.carried_bytes), (2, 2, 2500));
    assert_eq!(counters.queueing, Duration::from_millis(3), "of packets");
    assert_eq!(link.monitor().bins().iter().sum::<u64>(), 2500, "of packets");
    let waits = link.queue(micros(1000));
    assert_eq!((waits.packets, waits.bytes, waits.gaps, waits.gap_bytes), (1, 1250, 0, 0));
}

#[test]
fn packets_that_meet_a_long_queue_are_marked() {
    let mark = Some(QueueLimit::Packets(1));
    let queue = QueueLimit::Packets(3);
    let discipline = Discipline::TailDrop { mark };
    let mut link = Link::new(LinkConfig { queue, discipline, ..config() });
    let packet = Packet { length: Bytes::new(1236), ect: true, flow: 0 };
    let mut offer = |ect| match link.offer(micros(0), Packet { ect, ..packet }) {
        Fate::Arrives { marked, .. } => Some(marked),
        _ => None,
    };
    // The first is on the wire, the second alone in the queue; the third can't be told.
    let marked = [true, true, false, true, true].map(&mut offer);
    assert_eq!(marked, [Some(false), Some(false), Some(false), Some(true), None]);
    assert_eq!(link.counters().marks, 1);
}

#[test]
fn a_packet_takes_serialisation_and_propagation() {
    let mut link = Link::new(config());
    // 1250 bytes on the link are 10 000 bits: 1 ms at 10 Mb/s.
    let fate = link.offer(micros(100), Bytes::new(1236));
    assert_eq!(fate, Fate::Arrives { starts: micros(100), at: micros(6100), marked: false });
}

#[test]
fn queue_limit_excludes_the_packet_on_the_wire() {
    let mut link = Link::new(config());
    let fates: Vec<Fate> = (0..5).map(|_| link.offer(micros(0), Bytes::new(1236))).collect();
    for (n, fate) in (0..3).zip(&fates) {
        assert_eq!(
            *fate,
            Fate::Arrives {
                starts: micros(n * 1000),
                at: micros((n + 1) * 1000 + 5000),
                marked: false
            }
        );
    }
    assert_eq!(fates[3..], [Fate::QueueFull, Fate::QueueFull]);
    assert_eq!(link.free_at(), micros(3000));
    assert_eq!(link.queue(micros(999)).packets, 2);
    assert_eq!(link.queue(micros(1000)).packets, 1, "the second is on the wire now");
    assert!(matches!(link.offer(micros(1000), Bytes::new(1236)), Fate::Arrives { .. }));
    assert_eq!(link.offer(micros(1000), Bytes::new(1236)), Fate::QueueFull);
    let counters = link.counters();
    assert_eq!((counters.offered, counters.delivered, counters.queue_drops), (7, 4, 3));
    assert_eq!((counters.queue_max_packets, counters.queue_max_bytes), (2, 2500));
}

#[test]
fn byte_queue_accepts_only_packets_that_fit() {
    let queue = QueueLimit::Bytes(Bytes::new(2000));
    let mut link = Link::new(LinkConfig { queue, ..config() });
    let mut arrives =
        |length| matches!(link.offer(micros(0), Bytes::new(length)), Fate::Arrives { .. });
    assert!(arrives(1236), "goes onto the wire at once");
    assert!(arrives(1236));
    assert!(!arrives(1236), "1250 wait, 1250 more are over 2000");
    assert!(arrives(736), "750 more are exactly 2000");
    assert!(!arrives(0), "not even a header");
}

#[test]
fn lost_packets_use_the_link_and_long_ones_do_not() {
    let mut link = Link::new(LinkConfig { loss: LossModel::Periodic(2), ..config() });
    assert_eq!(link.offer(micros(0), Bytes::new(1501)), Fate::TooLong);
    assert_eq!(
        link.offer(micros(0), Bytes::new(1236)),
        Fate::Arrives { starts: micros(0), at: micros(6000), marked: false }
    );
    assert_eq!(link.offer(micros(0), Bytes::new(1236)), Fate::Lost);
    assert_eq!(
        link.offer(micros(0), Bytes::new(1236)),
        Fate::Arrives { starts: micros(2000), at: micros(8000), marked: false }
    );
    let bins: u64 = link.monitor().bins().iter().sum();
    assert_eq!(bins, 3 * 1250, "the monitor sees what was on the wire");
    assert_eq!(link.monitor().bins()[2], 1250, "the first ends after 1 ms, in the third bin");
    let counters = link.counters();
    assert_eq!((counters.losses, counters.too_long, counters.carried_bytes), (1, 1, 3750));
}

#[test]
fn gaps_and_bursts_are_those_on_the_wire() {
    // Losses use the wire, drops don't: three packets of 1 ms back to back, and one after 2 ms.
    let loss = LossModel::Periodic(2);
    let mut link = Link::new(LinkConfig { loss, ..config() });
    for at in [0, 0, 0, 0, 5000] {
        link.offer(micros(at), Bytes::new(1236));
    }
    assert_eq!((link.counters().queue_drops, link.counters().losses), (1, 2));
    let spacing = link.spacing().unwrap();
    assert_eq!((spacing.packets(), spacing.burst_max()), (4, Some(3)));
    assert_eq!(spacing.gap_quantile(1.0), Some(Duration::from_millis(2)));
    let mean = spacing.gap().unwrap().mean_ns;
    assert!((mean - 2e6 / 3.0).abs() < 1e-6, "{mean}");
    let mut link = Link::new(LinkConfig { spacing: false, ..config() });
    link.offer(micros(0), Bytes::new(1236));
    assert!(link.spacing().is_none(), "not asked for");
}

#[test]
fn without_a_rate_nothing_waits() {
    let mut link = Link::new(LinkConfig { rate: None, queue: QueueLimit::Packets(0), ..config() });
    for _ in 0..1000 {
        let fate = link.offer(micros(7), Bytes::new(1500));
        assert_eq!(fate, Fate::Arrives { starts: micros(7), at: micros(5007), marked: false });
    }
}

#[test]
fn no_rounding_accumulates_at_full_load() {
    // 1514 bytes at 7 Gb/s take 1730.2857… ns; a million of them 1 730 285 714 ns.
    let rate = Some(Rate::bits_per_second(7_000_000_000));
    let mut link = Link::new(LinkConfig {
        rate: rate.map(Into::into),
        queue: QueueLimit::Unlimited,
        ..config()
    });
    let last = (0..1_000_000).map(|_| link.offer(Timestamp::ZERO, Bytes::new(1500))).last();
    let Some(Fate::Arrives { at, .. }) = last else { panic!("{last:?}") };
    assert_eq!(at, Timestamp::from_nanos(1_730_285_714) + Duration::from_millis(5));
}

/// A queue and a server written the other way round: events in order of time, time as a fraction
/// with the rate as denominator, the packets' states explicit.
fn reference(rate: u64, limit: usize, arrivals: &[(u64, u64)]) -> Vec<Option<u128>> {
    let scale = u128::from(rate);
    let mut ends = vec![None; arrivals.len()];
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut serving: Option<(usize, u128)> = None;
    let work = |n: usize| u128::from(arrivals[n].1 + 14) * 8_000_000_000;
    let finish = |queue: &mut VecDeque<usize>,
                  serving: &mut Option<(usize, u128)>,
                  ends: &mut Vec<Option<u128>>,
                  until: Option<u128>| {
        while let Some((n, end)) = *serving {
            // The link's times are whole nanoseconds: a packet is done when its nanosecond is.
            if until.is_some_and(|t| end / scale > t / scale) {
                break;
            }
            ends[n] = Some(end / scale);
            *serving = queue.pop_front().map(|next| (next, end + work(next)));
        }
    };
    for (n, (at, _)) in arrivals.iter().enumerate() {
        let at = u128::from(*at) * scale;
        finish(&mut queue, &mut serving, &mut ends, Some(at));
        match serving {
            None => serving = Some((n, at + work(n))),
            Some(_) if queue.len() < limit => queue.push_back(n),
            Some(_) => {}
        }
    }
    finish(&mut queue, &mut serving, &mut ends, None);
    ends
}

proptest! {
    #[test]
    fn agrees_with_an_event_simulation(
        rate in 1_000_000u64..20_000_000_000,
        limit in 0usize..20,
        steps in prop::collection::vec((0u64..3000, 0u64..=1500), 1..300),
    ) {
        let mut at = 0;
        let arrivals: Vec<(u64, u64)> = steps.iter().map(|(gap, length)| { at += gap; (at, *length) }).collect();
        let mut link = Link::new(LinkConfig {
            rate: Some(Rate::bits_per_second(rate).into()),
            delay: Duration::ZERO,
            queue: QueueLimit::Packets(limit as u64),
            ..config()
        });
        let ends: Vec<Option<u128>> = arrivals
            .iter()
            .map(|(at, length)| match link.offer(Timestamp::from_nanos(*at), Bytes::new(*length)) {
                Fate::Arrives { at, .. } => Some(u128::from(at.as_nanos())),
                _ => None,
            })
            .collect();
        prop_assert_eq!(ends, reference(rate, limit, &arrivals));
        let counters = *link.counters();
        prop_assert_eq!(counters.offered, counters.delivered + counters.queue_drops);
        prop_assert_eq!(link.spacing().unwrap().packets(), counters.delivered);
        prop_assert_eq!(link.monitor().bins().iter().sum::<u64>(), counters.carried_bytes);
    }
}
