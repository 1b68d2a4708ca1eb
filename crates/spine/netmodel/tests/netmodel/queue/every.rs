// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds of every discipline, at random parameters and arrivals.

use crate::queue::{config, packet};
use longhaul_netmodel::{
    Discipline, Fate, Link, LinkConfig, LossModel, QueueLimit,
    queue::{codel, fq_codel, pie, red},
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{Bytes, Duration, Timestamp};

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1..200_u64).prop_map(QueueLimit::Packets),
        (1500..200_000_u64).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
    ]
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let time = || (1..200_000_000_u64).prop_map(Duration::from_nanos);
    let codel = (time(), time(), any::<bool>()).prop_map(|(target, interval, ecn)| codel::Params {
        target,
        interval,
        ecn,
    });
    let red = (0..50_u64, 1..100_u64, 0.0..=1.0, 0.0..=1.0, any::<[bool; 3]>()).prop_map(
        |(min, more, probability, weight, [gentle, ecn, packets])| {
            let thresholds = if packets {
                red::Thresholds::Packets { min, max: min + more }
            } else {
                let (min, max) = (Bytes::new(min * 1000), Bytes::new((min + more) * 1000));
                red::Thresholds::Bytes { min, max }
            };
            let avpkt = Bytes::new(more);
            red::Params { thresholds, probability, weight, avpkt, gentle, ecn }
        },
    );
    let gains = (0.0..10.0, 0.0..10.0, 0.0..=1.0);
    let pie = (time(), time(), time(), gains, any::<bool>()).prop_map(
        |(target, tupdate, burst, (alpha, beta, ecn_limit), ecn)| {
            let tupdate = Duration::from_micros(100) + tupdate;
            pie::Params { target, tupdate, alpha, beta, burst, ecn, ecn_limit }
        },
    );
    let fq = (codel.clone(), 1..2000_u32, 0..20_000_u64).prop_map(|(codel, flows, quantum)| {
        fq_codel::Params { codel, flows, quantum: Bytes::new(quantum) }
    });
    prop_oneof![
        Just(Discipline::TailDrop { mark: Some(QueueLimit::Packets(5)) }),
        Just(Discipline::TailDropAtDeparture),
        red.prop_map(Discipline::Red),
        pie.prop_map(Discipline::Pie),
        codel.prop_map(Discipline::Codel),
        fq.prop_map(Discipline::FqCodel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_is_accounted_for_and_flows_keep_order(
        discipline in discipline(),
        limit in limit(),
        seed: u64,
        lossy: bool,
        offers in prop::collection::vec((0..3_000_000_u64, 40..1600_u64, any::<bool>(), 0..6_u64), 1..600),
    ) {
        let loss = if lossy { LossModel::Periodic(7) } else { LossModel::None };
        let mut link = Link::new(LinkConfig { loss, ..config(discipline, limit, seed) });
        let (mut tickets, mut fates) = (BTreeMap::new(), Vec::new());
        let mut now = Timestamp::ZERO;
        for (n, (pause, bytes, ect, flow)) in offers.iter().enumerate() {
            // Half of them come with the one before.
            now = now + Duration::from_nanos(pause / 2 * (pause % 2));
            let fate = link.offer(now, packet(*bytes, *ect, *flow));
            if let Fate::Queued { ticket } = fate {
                prop_assert!(tickets.insert(ticket, n).is_none(), "a ticket of one packet at a time");
            } else {
                fates.push((n, fate));
            }
            if n % 3 == 0 {
                while let Some((ticket, fate)) = link.decided(now) {
                    fates.push((tickets.remove(&ticket).unwrap(), fate));
                }
            }
            let waits = link.queue(now);
            let within = match limit {
                QueueLimit::Packets(most) => waits.packets <= most,
                QueueLimit::Bytes(most) => waits.bytes <= most.get(),
                QueueLimit::Unlimited => true,
            };
            prop_assert!(within, "{waits:?}");
            prop_assert!(waits.packets == 0 || link.free_at() > now, "the wire is not idle then");
            let c = *link.counters();
            let decided = c.delivered + c.queue_drops + c.losses + c.too_long;
            prop_assert_eq!(decided + link.undecided().packets, c.offered);
            prop_assert!(c.early_drops <= c.queue_drops);
        }
        // The longest queue takes no longer than this.
        let end = now + Duration::from_secs(10);
        while let Some((ticket, fate)) = link.decided(end) {
            fates.push((tickets.remove(&ticket).unwrap(), fate));
        }
        prop_assert!(tickets.is_empty() && link.decides_at().is_none());
        prop_assert_eq!(fates.len(), offers.len());
        let (mut arrived, mut marks, mut early) = (Vec::new(), 0, 0);
        for (n, fate) in &fates {
            match fate {
                Fate::Arrives { at, marked, .. } => {
                    arrived.push((*at, *n));
                    marks += u64::from(*marked);
                    prop_assert!(!marked || offers[*n].2, "only who can be told is marked");
                }
                Fate::EarlyDrop => early += 1,
                Fate::Queued { .. } => prop_assert!(false, "told twice"),
                _ => {}
            }
        }
        arrived.sort_unstable();
        for flow in 0..6 {
            let of_flow: Vec<_> =
                arrived.iter().map(|(_, n)| *n).filter(|n| offers[*n].3 == flow).collect();
            prop_assert!(of_flow.is_sorted(), "flow {flow} in order");
        }
        let c = link.counters();
        prop_assert_eq!((c.delivered, c.early_drops), (arrived.len() as u64, early));
        prop_assert!(c.marks >= marks && (lossy || c.marks == marks));
    }
}
