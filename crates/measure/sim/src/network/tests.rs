// SPDX-License-Identifier: GPL-2.0-or-later
//! Junctions against networks without any: when packets are handed on changes nothing.

use super::*;
use crate::packet::PacketKind;
use netmodel::{
    Discipline, Distribution, Impairments, Jitter, LinkConfig, LossModel, Outage, Policer,
    QueueLimit, RateOverTime, RateSteps, Reorder,
};
use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Duration, Rate};

/// Three senders over two link directions in a row to three receivers, with a narrow queue on each and losses on
/// one; a fourth sender joins them on the second of the two.
fn network() -> Network {
    network_of(|_, config| config)
}

/// The same, with another discipline on a link direction.
fn network_with(direction: u64, discipline: Discipline) -> Network {
    network_of(
        |n, config| if n == direction { LinkConfig { discipline, ..config } } else { config },
    )
}

/// The same, with whatever is changed of a link direction.
fn network_of(change: impl Fn(u64, LinkConfig) -> LinkConfig) -> Network {
    let link = |(n, micros): (u64, u64)| {
        let config = LinkConfig {
            rate: (n != 4).then(|| Rate::bits_per_second(100_000_000 + n * 1_000_000).into()),
            delay: Duration::from_micros(micros),
            queue: QueueLimit::Packets(5),
            discipline: Discipline::TailDrop { mark: None },
            impairments: Impairments::default(),
            loss: if n == 3 { LossModel::Periodic(7) } else { LossModel::None },
            mtu: Bytes::new(1500),
            overhead: Bytes::ZERO,
            monitor: Duration::from_millis(1),
            spacing: true,
            seed: n,
        };
        Link::new(change(n, config))
    };
    let delays = [100, 100, 130, 900, 700, 90, 80, 70, 100];
    let mut network = Network::new((0..).zip(delays).map(link).map(|link| (link, None)));
    for n in 0..3 {
        network.add_path(&[n, 3, 4, 5 + n]);
    }
    network.add_path(&[8, 4, 5]);
    network
}

/// What arrives at the end of its path, and when; and what a link says of itself, when looked at.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Arrival(Timestamp, u64),
    Look(netmodel::Counters, u64),
}

fn seen(mut network: Network, junctions: Vec<Junction>, seed: u128) -> Vec<Seen> {
    let mut events = EventQueue::new(network.number_arrival_sources(junctions));
    let mut random = Pcg64::new(seed, 1);
    let mut seen = Vec::new();
    let mut sent = Timestamp::ZERO;
    for number in 0..5000 {
        // Whole microseconds, so that much happens at one time.
        sent = sent + Duration::from_micros(random.next_u64() % 120);
        while let Some(event) = events.first().filter(|event| event.at <= sent) {
            let source = event.id.index();
            if event.id.kind() == EventKind::Dequeue {
                events.pop();
                network.dequeue_due(&mut events, event.at, source);
                continue;
            }
            if let Some(packet) = network.arrive(&mut events, event.at, source) {
                seen.push(Seen::Arrival(event.at, packet.number));
            }
        }
        if random.next_u64().is_multiple_of(50) {
            network.settle(&mut events, sent, u32::MAX);
            for direction in &mut network.directions {
                let waits = direction.link.queue(sent).bytes;
                seen.push(Seen::Look(*direction.link.counters(), waits));
            }
        }
        let path = [0, 5, 10, 15][(random.next_u64() % 4) as usize];
        let length = 100 + (random.next_u64() % 4 * 400) as u16;
        let (owner, window, flags) = (path, 0, 0);
        let kind = PacketKind::Datagram;
        let packet = Packet { number, owner, window, path, length, kind, flags };
        network.send(&mut events, sent, packet, None);
    }
    network.assert_conservation();
    seen
}

fn directions_into(junctions: &[Junction]) -> Vec<&[u32]> {
    let mut from: Vec<_> = junctions.iter().map(|junction| &junction.from[..]).collect();
    from.sort_unstable();
    from
}

#[test]
fn node_with_sender_or_receiver_is_not_a_junction() {
    let mut network = network();
    network.add_path(&[4, 5]);
    network.add_path(&[0]);
    assert_eq!(directions_into(&network.junctions()), [&[4]]);
}

#[test]
fn late_forwarding_at_junctions_changes_no_outcome() {
    let seed = crate::testing::seed();
    let junctions = network().junctions();
    assert_eq!(directions_into(&junctions), [&[0, 1, 2][..], &[3, 8], &[4]]);
    let late = seen(network(), junctions, seed);
    assert!(late == seen(network(), Vec::new(), seed));
    let dropped = |seen: &Seen| matches!(seen, Seen::Look(counters, _) if counters.queue_drops > 0);
    assert!(late.iter().any(dropped), "somewhere was a queue");
}

#[test]
fn late_forwarding_matches_with_departure_queues() {
    let seed = crate::testing::seed();
    let (target, interval) = (Duration::from_micros(10), Duration::from_micros(40));
    let codel = netmodel::queue::codel::Params { target, interval, ecn: false };
    let quantum = Bytes::new(1000);
    let fq_codel = netmodel::queue::fq_codel::Params { codel, flows: 64, quantum };
    for discipline in [Discipline::Codel(codel), Discipline::FqCodel(fq_codel)] {
        // That link direction does not begin at a junction. Link direction 4 has no rate, link directions 0 to
        // 2 begin at senders.
        for (direction, expected) in [
            (0, vec![&[0, 1, 2][..], &[3, 8], &[4]]),
            (3, vec![&[3, 8], &[4]]),
            (5, vec![&[0, 1, 2], &[3, 8]]),
        ] {
            let network = || network_with(direction, discipline);
            let junctions = network().junctions();
            assert_eq!(directions_into(&junctions), expected);
            let late = seen(network(), junctions, seed);
            assert!(late == seen(network(), Vec::new(), seed), "{discipline:?} on {direction}");
            let early =
                |seen: &Seen| matches!(seen, Seen::Look(counters, _) if counters.early_drops > 0);
            // A flow's own queue of FQ-CoDel is too short here for its CoDel.
            let decides = direction == 3 && matches!(discipline, Discipline::Codel(_));
            assert!(!decides || late.iter().any(early), "it had something to decide");
        }
    }
}

#[test]
fn late_forwarding_matches_with_impairments() {
    let seed = crate::testing::seed();
    let probability = |p| units::Probability::new(p).unwrap();
    let micros = Duration::from_micros;
    let rate = |mbps: u64| Rate::bits_per_second(mbps * 1_000_000);
    let outage = |packets_wait| Outage {
        from: micros(3000),
        lasts: micros(700),
        every: Some(micros(9000)),
        packets_wait,
    };
    let jitter =
        |reorders| Jitter { distribution: Distribution::Exponential(micros(90)), reorders };
    let all = Impairments {
        reorder: Some(Reorder { probability: probability(0.1), by: micros(400) }),
        duplicate: probability(0.05),
        jitter: Some(jitter(true)),
        outages: vec![outage(true), outage(false)],
        policer: Some(Policer { rate: rate(60), burst: Bytes::new(4000) }),
    };
    let steps = vec![(Duration::ZERO, rate(80)), (micros(5000), rate(150))];
    let steps = RateOverTime::Steps(RateSteps::new(steps, Some(micros(11_000))).unwrap());
    for direction in 0..9 {
        let change = |n, config: LinkConfig| {
            let rate = config.rate.as_ref().map(|_| steps.clone());
            match n {
                n if n == direction => LinkConfig { rate, impairments: all.clone(), ..config },
                _ => config,
            }
        };
        let network = || network_of(change);
        let late = seen(network(), network().junctions(), seed);
        assert!(late == seen(network(), Vec::new(), seed), "on {direction}, seed {seed}");
        let impaired = |seen: &Seen| match seen {
            Seen::Look(counters, _) => counters.late > 0 && counters.copies > 0,
            Seen::Arrival(..) => false,
        };
        assert!(late.iter().any(impaired), "it had something to impair");
    }
}
