// SPDX-License-Identifier: GPL-2.0-or-later
//! The connections that carry a flow's file, each only for the time of the flow: what it carried before, and what it
//! carries after the flow, belongs to other flows.

use crate::{
    plan::ConnectionPlan,
    simulation_state::SimulationState,
    tcp::{Carried, Connection, Content},
};
use scenario::app_rate;
use units::{Rate, Timestamp};

/// One of the connections, or chains of them, that share a flow's file.
#[derive(Debug)]
pub(crate) struct Stream {
    /// All that it carries; no end where it is none.
    pub(crate) bytes: Option<u64>,
    /// Hop by hop, once they are taken.
    pub(crate) connections: Vec<Option<HopConnection>>,
    /// The program that sends it, where that produces the data at a rate.
    pub(super) program: Option<Program>,
    /// Bytes that the depot behind each hop but the last has passed on.
    pub(super) passed: Vec<u64>,
}

/// A program that produces data at a rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) rate: Rate,
    /// When it was asked for the data.
    pub(super) begun: Option<Timestamp>,
}

/// A connection that a flow has taken.
#[derive(Debug)]
pub(crate) struct HopConnection {
    pub(crate) number: u32,
    /// What it had carried before.
    pub(super) before: Carried,
    /// What it had carried when it became another flow's.
    until: Option<Carried>,
}

impl Stream {
    pub(super) fn new(bytes: Option<u64>, rate: Option<Rate>, hops: usize) -> Self {
        let connections = std::iter::repeat_with(|| None).take(hops).collect();
        let program = rate.map(|rate| Program { rate, begun: None });
        Self { bytes, connections, program, passed: vec![0; hops] }
    }

    /// What the source has to send now, in segments of `mss` bytes, and when it has more: `None` if it has everything.
    pub(super) fn content(&mut self, mss: u32, now: Timestamp) -> (Content, Option<Timestamp>) {
        let all = self.bytes.map_or(Content::ENDLESS, |bytes| Content::of_bytes(bytes, mss));
        let Some(Program { rate, begun }) = &mut self.program else { return (all, None) };
        let begun = *begun.get_or_insert(now);
        let produced = app_rate::produced(*rate, now.since(begun));
        if self.bytes.is_some_and(|bytes| produced >= bytes) {
            return (all, None);
        }
        // A part of a segment waits for the rest of it (RFC 896).
        let available = produced / u64::from(mss);
        let next = (available + 1).saturating_mul(mss.into());
        let next = self.bytes.map_or(next, |bytes| next.min(bytes));
        let at = begun + app_rate::time_of(*rate, next);
        (Content { available, ..Content::NOTHING }, Some(at))
    }

    /// Content bytes in order at the end of a hop.
    pub(super) fn received(&self, hop: usize, plan: &ConnectionPlan, sim: &SimulationState) -> u64 {
        // What comes when it is another flow's is beyond all bytes of this one.
        let segments = self.connections[hop].as_ref().map_or(0, |c| c.arrived(sim));
        let bytes = segments * u64::from(plan.mss);
        self.bytes.map_or(bytes, |all| bytes.min(all))
    }
}

impl HopConnection {
    /// A flow has just taken it.
    pub(super) fn taken(number: u32, sim: &SimulationState) -> Self {
        let before = sim.connections.get(number).map(|c| c.carried(sim.now)).unwrap_or_default();
        Self { number, before, until: None }
    }

    /// What it has carried for its flow.
    pub(crate) fn carried(&self, sim: &SimulationState) -> Carried {
        let now = || sim.connections.get(self.number).map(|c| c.carried(sim.now));
        self.until.or_else(now).unwrap_or_default().since(&self.before)
    }

    /// Segments in order at its receiver, counted from its flow's first segment.
    fn arrived(&self, sim: &SimulationState) -> u64 {
        sim.connections.get(self.number).map_or(0, |c| c.arrived() - self.before.arrived)
    }

    /// Its flow's segments that are acknowledged.
    pub(super) fn acknowledged(&self, sim: &SimulationState) -> u64 {
        let all = sim.connections.get(self.number).map_or(0, Connection::una);
        all.saturating_sub(self.before.arrived)
    }

    /// Content that comes behind what it carried before.
    pub(super) fn beyond_before(&self, content: Content) -> Content {
        Content { available: self.before.arrived.saturating_add(content.available), ..content }
    }

    /// What it carries from now on is another flow's.
    pub(super) fn hand_over(&mut self, sim: &SimulationState) {
        self.until = sim.connections.get(self.number).map(|c| c.carried(sim.now));
    }
}
