// SPDX-License-Identifier: GPL-2.0-or-later
//! The idle connections of a chain of depots, to each other and to the source: those that transfers have left, and
//! those that were opened ahead of need. Real depots are described in docs/depot/configuration.md (Warm connections).

use crate::{
    connection_table::ConnectionUser,
    plan::ConnectionPlan,
    simulation_state::SimulationState,
    tcp::{Connection, ConnectionEvent, Content},
};
use scenario::{Flow, kept};
use units::{Duration, Timestamp};

/// Of a flow's depots, and of those flows that take over its connections.
#[derive(Debug)]
pub(crate) struct KeptConnections {
    hops: Vec<IdleConnections>,
}

/// The idle connections of one hop.
#[derive(Debug)]
struct IdleConnections {
    plan: ConnectionPlan,
    lasting: Lasting,
    /// How many are kept open ahead of need.
    warm: usize,
    /// How many of those are being opened.
    opening: usize,
    /// When the next depot was asked last.
    asked: Timestamp,
    /// The one that was used last stands last.
    idle: Vec<Idle>,
}

#[derive(Debug)]
struct Idle {
    number: u32,
    /// When a transfer over it ended; none if there was none.
    used: Option<Timestamp>,
}

/// How long an idle connection lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// So long after it was used.
    AfterUse(Duration),
    /// So long after the next depot was asked last.
    AfterAsking(Duration),
    /// To the end: a site leads there.
    Always,
}

impl KeptConnections {
    /// None as yet, of a flow with these hops.
    pub(crate) fn new(flow: &Flow, hops: &[ConnectionPlan]) -> Self {
        let to_client = hops.len() - 1;
        let of_hop = |(hop, plan): (usize, &ConnectionPlan)| {
            let warm = if hop == 0 { 0 } else { usize::from(flow.warm) };
            let lasting = match warm {
                0 => Lasting::AfterUse(kept::IDLE),
                _ if flow.site && hop + 1 == to_client => Lasting::Always,
                _ => Lasting::AfterAsking(kept::WARM_IDLE),
            };
            IdleConnections {
                plan: plan.clone(),
                lasting,
                warm,
                opening: 0,
                asked: Timestamp::ZERO,
                idle: Vec::new(),
            }
        };
        Self { hops: hops[..to_client].iter().enumerate().map(of_hop).collect() }
    }

    /// The idle connection of a hop whose window has grown most, if there is one; of several, the one that was used
    /// last. `windows` are a connection's now and before it was idle. None where the hop leads to the client, who opens
    /// a connection for each transfer.
    pub(crate) fn take(
        &mut self,
        hop: u32,
        now: Timestamp,
        windows: impl Fn(u32) -> (u32, u32),
    ) -> Option<u32> {
        let of_hop = self.hops.get_mut(hop as usize)?;
        of_hop.close_stale(now);
        of_hop.asked = now;
        let places = of_hop.idle.iter().enumerate();
        let (grown_most, _) = places.max_by_key(|(at, idle)| (windows(idle.number), *at))?;
        Some(of_hop.idle.remove(grown_most).number)
    }

    /// A transfer over a connection has ended at the hop's receiver.
    pub(crate) fn put(&mut self, hop: u32, number: u32, now: Timestamp) {
        self.hops[hop as usize].put(Idle { number, used: Some(now) });
    }

    /// The hop whose next depot is known before anybody asks: the one nearest to the client, of a site.
    pub(crate) fn known_from_start(&self) -> Option<u32> {
        let is_always = |of_hop: &IdleConnections| of_hop.lasting == Lasting::Always;
        self.hops.iter().position(is_always).map(|hop| hop as u32)
    }
}

impl IdleConnections {
    fn put(&mut self, idle: Idle) {
        let at = self.idle.partition_point(|other| other.used <= idle.used);
        self.idle.insert(at, idle);
    }

    /// Nothing is sent when a connection is closed, so it is enough that it is not taken.
    fn close_stale(&mut self, now: Timestamp) {
        let (lasting, asked) = (self.lasting, self.asked);
        self.idle.retain(|idle| match lasting {
            Lasting::AfterUse(limit) => idle.used.is_some_and(|used| now.since(used) < limit),
            Lasting::AfterAsking(limit) => now.since(asked) < limit,
            Lasting::Always => true,
        });
    }
}

impl SimulationState {
    /// Opens what is missing of a hop's warm connections; each carries some bytes first, to grow its window.
    pub(crate) fn keep_warm(&mut self, chain: u32, hop: u32) {
        loop {
            let kept = &mut self.kept[chain as usize];
            let Some(of_hop) = kept.hops.get_mut(hop as usize) else { return };
            if of_hop.idle.len() + of_hop.opening >= of_hop.warm {
                return;
            }
            of_hop.opening += 1;
            let plan = of_hop.plan.clone();
            let (number, event) = self.open(ConnectionUser::Warm { chain, hop }, &plan);
            self.on_warm_event(number, (chain, hop), event);
        }
    }

    /// News of a connection that is opened ahead of need.
    pub(crate) fn on_warm_event(
        &mut self,
        number: u32,
        (chain, hop): (u32, u32),
        event: ConnectionEvent,
    ) {
        let of_hop = &mut self.kept[chain as usize].hops[hop as usize];
        if event == ConnectionEvent::Requested {
            let filler = Content::of_bytes(kept::PRIME.get(), of_hop.plan.mss);
            self.with(number, |c, cx| c.offer(cx, filler));
        } else if event == ConnectionEvent::Arrived
            && self.connections.get(number).is_some_and(Connection::is_whole)
        {
            of_hop.opening -= 1;
            of_hop.put(Idle { number, used: None });
        }
    }
}
