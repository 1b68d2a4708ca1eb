// SPDX-License-Identifier: GPL-2.0-or-later
//! Impairments on a link at work: against hand computation, and what holds for any of them.

use longhaul_netmodel::{
    DeliveryOpportunities, Discipline, Distribution, Fate, Impairments, ImpairmentsError, Jitter,
    Link, LinkConfig, LossModel, Outage, Policer, QueueLimit, RateOverTime, RateSteps, Reorder,
    queue::codel,
};
use proptest::prelude::*;
use units::{Bytes, Duration, Probability, Rate, Timestamp};

/// A packet of 1250 bytes on it takes a millisecond.
fn config(impairments: Impairments) -> LinkConfig {
    LinkConfig {
        rate: Some(Rate::bits_per_second(10_000_000).into()),
        delay: Duration::from_millis(5),
        queue: QueueLimit::Packets(2),
        discipline: Discipline::TailDrop { mark: None },
        loss: LossModel::None,
        impairments,
        mtu: Bytes::new(1500),
        overhead: Bytes::ZERO,
        monitor: Duration::from_millis(1),
        spacing: false,
        seed: 1,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + ms(millis)
}

const PACKET: Bytes = Bytes::new(1250);

/// When it arrives, in milliseconds.
fn arrival(fate: Fate) -> Option<u64> {
    match fate {
        Fate::Arrives { at, .. } | Fate::ArrivesImpaired { at, .. } => {
            Some(at.since(Timestamp::ZERO).as_nanos() / 1_000_000)
        }
        _ => None,
    }
}

fn outage(from: u64, lasts: u64, every: Option<u64>, packets_wait: bool) -> Impairments {
    let outage = Outage { from: ms(from), lasts: ms(lasts), every: every.map(ms), packets_wait };
    Impairments { outages: vec![outage], ..Impairments::default() }
}

#[test]
fn packets_wait_for_the_end_of_an_outage_or_are_lost() {
    let mut link = Link::new(config(outage(10, 20, None, true)));
    assert_eq!(arrival(link.offer(at(8), PACKET)), Some(14));
    // Two wait at a wire that is down, also where it was idle; there is room for no more.
    let waiting: Vec<_> = (0..3).map(|_| link.offer(at(12), PACKET)).collect();
    assert_eq!([0, 1].map(|n| arrival(waiting[n])), [Some(36), Some(37)]);
    assert_eq!(waiting[2], Fate::QueueFull);
    assert_eq!(link.queue(at(29)).packets, 2);
    assert_eq!(link.queue(at(30)).packets, 1);
    assert_eq!(link.free_at(), at(32));

    let mut link = Link::new(config(outage(10, 20, Some(100), false)));
    let fates = [8, 9, 28, 30, 109, 129].map(|time| link.offer(at(time), PACKET));
    assert_eq!(fates.map(arrival), [Some(14), None, None, Some(36), None, Some(135)]);
    let counters = link.counters();
    assert_eq!((counters.losses, counters.outage_losses, counters.delivered), (3, 3, 3));
    assert_eq!(counters.carried_bytes, 6 * 1250, "what is lost has used the link");
}

#[test]
fn queue_that_decides_at_departure_waits_for_the_end_of_an_outage() {
    let params = codel::Params { target: ms(5), interval: ms(100), ecn: false };
    let config = config(outage(10, 20, None, true));
    let mut link = Link::new(LinkConfig { discipline: Discipline::Codel(params), ..config });
    assert!(matches!(link.offer(at(12), PACKET), Fate::Queued { .. }));
    assert_eq!(link.decides_at(), Some(at(30)));
    assert_eq!(link.decided(at(29)), None);
    assert_eq!(link.decided(at(30)).and_then(|(_, fate)| arrival(fate)), Some(36));
}

#[test]
fn rate_follows_its_steps_and_its_trace() {
    let rate = |mbps: u64| Rate::bits_per_second(mbps * 1_000_000);
    let steps = vec![(ms(0), rate(10)), (ms(10), rate(20))];
    let steps = RateOverTime::Steps(RateSteps::new(steps, Some(ms(20))).unwrap());
    let mut link = Link::new(LinkConfig { rate: Some(steps), ..config(Impairments::default()) });
    let times = [0, 9, 11, 12, 20].map(|time| match link.offer(at(time), PACKET) {
        Fate::Arrives { at, .. } => at.since(Timestamp::ZERO).as_nanos() / 1000,
        fate => panic!("{fate:?}"),
    });
    assert_eq!(times, [6000, 15_000, 16_500, 17_500, 26_000]);

    let trace = DeliveryOpportunities::new(vec![1, 5, 6]).unwrap();
    let rate = Some(RateOverTime::Opportunities(trace));
    let mut link = Link::new(LinkConfig { rate, ..config(Impairments::default()) });
    let times = [0, 0, 2, 7].map(|time| arrival(link.offer(at(time), Bytes::new(1500))));
    assert_eq!(times, [Some(6), Some(10), Some(11), Some(12)]);
}

#[test]
fn schedule_begins_when_it_is_told_to() {
    let mut link = Link::new(config(outage(10, 20, None, true)));
    let mut lossy = Link::new(config(outage(10, 20, None, false)));
    link.begin_schedule(at(1000));
    lossy.begin_schedule(at(1000));
    for (time, waits, lost) in
        [(1002, 1008, Some(1008)), (1012, 1036, None), (1040, 1046, Some(1046))]
    {
        assert_eq!(arrival(link.offer(at(time), PACKET)), Some(waits));
        assert_eq!(arrival(lossy.offer(at(time), PACKET)), lost);
    }
}

#[test]
fn policer_drops_before_the_queue() {
    let policer = Some(Policer { rate: Rate::bits_per_second(1_000_000), burst: Bytes::new(2500) });
    let mut link = Link::new(config(Impairments { policer, ..Impairments::default() }));
    let fates = [0, 0, 0, 9, 10].map(|time| link.offer(at(time), PACKET));
    assert_eq!(fates.map(arrival), [Some(6), Some(7), None, None, Some(16)]);
    assert_eq!(fates[2], Fate::Policed);
    assert_eq!((link.counters().policed, link.counters().queue_drops), (2, 0));
}

#[test]
fn senseless_impairments_are_refused() {
    let check = |impairments: Impairments| impairments.check(Bytes::new(1500));
    assert_eq!(check(outage(0, 5, Some(5), true)), Err(ImpairmentsError::AlwaysDown));
    let mut together = outage(0, 5, Some(10), true);
    together.outages.extend(outage(5, 10, Some(20), false).outages);
    assert_eq!(check(together), Err(ImpairmentsError::AlwaysDown));
    assert_eq!(check(outage(3, 0, None, true)), Err(ImpairmentsError::NoTime));
    for (bps, burst) in [(0, 3000), (1000, 1499)] {
        let policer = Some(Policer { rate: Rate::bits_per_second(bps), burst: Bytes::new(burst) });
        let refused = check(Impairments { policer, ..Impairments::default() });
        assert_eq!(refused, Err(ImpairmentsError::NoTokens));
    }
    assert_eq!(check(outage(0, 5, Some(6), true)), Ok(()));
}

fn any_impairments() -> impl Strategy<Value = Impairments> {
    let reorder = proptest::option::of((0.0..0.5, 0u64..20)).prop_map(|reorder| {
        reorder.map(|(p, by)| Reorder { probability: Probability::new(p).unwrap(), by: ms(by) })
    });
    let jitter = proptest::option::of((0u64..10, any::<bool>(), 0..3)).prop_map(|jitter| {
        jitter.map(|(time, reorders, kind)| {
            let distribution = match kind {
                0 => Distribution::Uniform(ms(time)),
                1 => Distribution::Exponential(ms(time)),
                _ => Distribution::Normal(ms(time), ms(time / 2)),
            };
            Jitter { distribution, reorders }
        })
    });
    let one = (0u64..50, 1u64..20, proptest::option::of(40u64..60), any::<bool>());
    let outages = proptest::collection::vec(one, 0..2).prop_map(|outages| {
        let outage = |(from, lasts, every, packets_wait)| Outage {
            from: ms(from),
            lasts: ms(lasts),
            every: Option::map(every, ms),
            packets_wait,
        };
        outages.into_iter().map(outage).collect()
    });
    (reorder, 0.0..0.3, jitter, outages).prop_map(|(reorder, p, jitter, outages)| Impairments {
        reorder,
        duplicate: Probability::new(p).unwrap(),
        jitter,
        outages,
        policer: None,
    })
}

proptest! {
    /// Whatever a link does to packets, it does the same of equal seeds, early it delivers nothing, and each packet
    /// is accounted for.
    #[test]
    fn nothing_is_early_and_everything_is_counted(
        impairments in any_impairments(),
        gaps in proptest::collection::vec(0u64..5000, 1..300),
    ) {
        let config = config(impairments.clone());
        let (mut link, mut again) = (Link::new(config.clone()), Link::new(config));
        let (mut now, mut last) = (Timestamp::ZERO, Timestamp::ZERO);
        let (mut delivered, mut copies) = (0, 0);
        for gap in gaps {
            now = now + Duration::from_micros(gap);
            let fate = link.offer(now, PACKET);
            prop_assert_eq!(fate, again.offer(now, PACKET));
            let (starts, at, twice, on_time) = match fate {
                Fate::Arrives { starts, at, .. } => (starts, at, false, true),
                Fate::ArrivesImpaired { starts, at, twice, on_time, .. } => {
                    (starts, at, twice, on_time)
                }
                _ => continue,
            };
            let earliest = starts + Duration::from_millis(6);
            prop_assert!(starts >= now && at >= earliest, "{:?}", fate);
            delivered += 1;
            copies += u64::from(twice);
            if impairments.reorder.is_none() && impairments.jitter.is_none_or(|j| !j.reorders) {
                prop_assert!(at >= last, "in order");
                last = at;
            }
            if impairments.reorder.is_none() && impairments.jitter.is_none() {
                prop_assert!(on_time);
            }
        }
        let counters = *link.counters();
        prop_assert_eq!((counters.delivered, counters.copies), (delivered, copies));
        let accounted = counters.delivered + counters.queue_drops + counters.losses;
        prop_assert_eq!(accounted, counters.offered);
    }
}
