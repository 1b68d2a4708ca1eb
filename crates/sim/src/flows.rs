// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows: from the client's start to the last byte, over depots where there are any.
//!
//! A client that is led to depots asks the source first, which answers with a redirect (and each
//! depot on the way too, where the scenario says `lead`). Then it opens a connection to the depot
//! nearest to it, which opens one to the next, and so on to the source. A depot reads from one
//! connection what the other's send buffer has room for, so what it holds is bounded by the two
//! sockets' buffers and a slow hop shuts the window of the one before.

use crate::{
    connection_table::ConnectionUser,
    plan::ConnectionPlan,
    simulation_state::SimulationState,
    tcp::{Connection, ConnectionEvent, ConnectionSetup, Content},
};
use scenario::{Flow, Signalling};
use units::Timestamp;

/// Bytes of a redirect's answer.
const REDIRECT: u64 = 300;

/// A flow at work.
#[derive(Debug)]
pub(crate) struct FlowState {
    pub(crate) hops: Vec<ConnectionPlan>,
    /// Redirects before the data: from each of these nodes to the client.
    redirects: Vec<ConnectionPlan>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
}

/// One of the connections, or chains of them, that share a flow's file.
#[derive(Debug)]
pub(crate) struct Stream {
    /// All that it carries; no end where it is none.
    pub(crate) bytes: Option<u64>,
    /// Numbers of the connections, hop by hop, once they are opened.
    pub(crate) connections: Vec<Option<u32>>,
    /// Bytes that the depot behind each hop but the last has passed on.
    passed: Vec<u64>,
}

impl FlowState {
    pub(crate) fn new(
        flow: &Flow,
        hops: Vec<ConnectionPlan>,
        redirects: Vec<ConnectionPlan>,
    ) -> Self {
        let streams = u64::from(flow.streams.max(1));
        let share = |n: u64| {
            // The first streams have one byte more where it does not come out even.
            flow.bytes.map(|b| b.get() / streams + u64::from(n < b.get() % streams))
        };
        let stream = |n| Stream {
            bytes: share(n),
            connections: vec![None; hops.len()],
            passed: vec![0; hops.len()],
        };
        let streams = (0..streams).map(stream).collect();
        Self { hops, redirects, streams, started: None, ended: None }
    }

    /// The nodes that redirect a flow's client, in order.
    pub(crate) fn redirecting(flow: &Flow) -> Vec<&str> {
        let depots = match flow.signalling {
            Signalling::Fetch => 0,
            Signalling::Lead => flow.via.len().saturating_sub(1),
        };
        if flow.via.is_empty() {
            return Vec::new();
        }
        std::iter::once(&flow.from).chain(&flow.via[..depots]).map(String::as_str).collect()
    }

    /// Content bytes that the client has.
    pub(crate) fn received(&self, sim: &SimulationState) -> u64 {
        let last = self.hops.len() - 1;
        self.streams.iter().map(|stream| stream.received(last, &self.hops[last], sim)).sum()
    }
}

impl Stream {
    /// Content bytes in order at the end of a hop.
    fn received(&self, hop: usize, plan: &ConnectionPlan, sim: &SimulationState) -> u64 {
        let connection = self.connections[hop].and_then(|number| sim.connections.get(number));
        let bytes = connection.map_or(0, |c| c.arrived() * u64::from(plan.mss));
        self.bytes.map_or(bytes, |all| bytes.min(all))
    }
}

impl SimulationState {
    /// Opens a connection of that user; what it sends is said later.
    pub(crate) fn open(
        &mut self,
        user: ConnectionUser,
        hop: &ConnectionPlan,
    ) -> (u32, ConnectionEvent) {
        let (number, route) = self.allocate_route(user, hop);
        let setup = ConnectionSetup {
            route,
            params: &hop.params,
            mss: hop.mss,
            sndbuf: hop.sndbuf,
            rcvbuf: hop.rcvbuf,
            content: Content::NOTHING,
            pace: hop.pace,
            frame: hop.frame,
        };
        let connection = Connection::new(&setup, &self.tcp, self.now);
        self.connections.insert(number, connection);
        let event = self.with(number, Connection::open);
        (number, event)
    }
}

/// A flow with the number that its connections' users give.
pub(crate) struct FlowHandle<'a> {
    pub(crate) number: u32,
    pub(crate) state: &'a mut FlowState,
}

impl FlowHandle<'_> {
    /// The client starts.
    pub(crate) fn start(&mut self, sim: &mut SimulationState) {
        self.state.started = Some(sim.now);
        if sim.tcp.handshake && !self.state.redirects.is_empty() {
            self.redirect(sim, 0);
        } else {
            self.open_streams(sim);
        }
    }

    fn redirect(&mut self, sim: &mut SimulationState, step: u32) {
        let user = ConnectionUser::Redirect { flow: self.number, step };
        sim.open(user, &self.state.redirects[step as usize]);
    }

    /// News of a redirect's connection.
    pub(crate) fn on_redirect_event(
        &mut self,
        sim: &mut SimulationState,
        connection: u32,
        step: u32,
        event: ConnectionEvent,
    ) {
        match event {
            ConnectionEvent::Requested => {
                let mss = self.state.redirects[step as usize].mss;
                sim.with(connection, |c, cx| c.offer(cx, Content::of_bytes(REDIRECT, mss)));
            }
            ConnectionEvent::Arrived => {
                if step as usize + 1 < self.state.redirects.len() {
                    self.redirect(sim, step + 1);
                } else {
                    self.open_streams(sim);
                }
            }
            ConnectionEvent::Acknowledged => sim.connections.close(connection),
            ConnectionEvent::Nothing => {}
        }
    }

    fn open_streams(&mut self, sim: &mut SimulationState) {
        let last = self.state.hops.len() as u32 - 1;
        for stream in 0..self.state.streams.len() as u32 {
            self.open_hop(sim, stream, last);
        }
    }

    fn open_hop(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        let user = ConnectionUser::Hop { flow: self.number, stream, hop };
        let (number, event) = sim.open(user, &self.state.hops[hop as usize]);
        self.state.streams[stream as usize].connections[hop as usize] = Some(number);
        if event == ConnectionEvent::Requested {
            self.requested(sim, stream, hop);
        }
    }

    /// The server of a hop is asked: a depot asks the next, the source sends.
    fn requested(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        if hop > 0 {
            self.open_hop(sim, stream, hop - 1);
            return;
        }
        let state = &self.state.streams[stream as usize];
        let all =
            state.bytes.map_or(Content::ENDLESS, |b| Content::of_bytes(b, self.state.hops[0].mss));
        let number = state.connections[0].expect("it has just asked");
        let is_depots = self.state.hops.len() > 1;
        sim.with(number, |c, cx| {
            c.reads = !is_depots;
            c.offer(cx, all);
        });
    }

    /// News of a hop's connection.
    pub(crate) fn on_hop_event(
        &mut self,
        sim: &mut SimulationState,
        stream: u32,
        hop: u32,
        event: ConnectionEvent,
    ) {
        let last = self.state.hops.len() as u32 - 1;
        match event {
            ConnectionEvent::Requested => {
                let number = self.state.streams[stream as usize].connections[hop as usize];
                if hop < last
                    && let Some(number) = number
                {
                    sim.with(number, |c, _| c.reads = false);
                }
                self.requested(sim, stream, hop);
            }
            ConnectionEvent::Arrived if hop == last => self.arrived(sim, stream),
            ConnectionEvent::Arrived => self.pass_on(sim, stream, hop),
            ConnectionEvent::Acknowledged if hop > 0 => self.pass_on(sim, stream, hop - 1),
            ConnectionEvent::Acknowledged | ConnectionEvent::Nothing => {}
        }
    }

    /// More has come to the client.
    fn arrived(&mut self, sim: &mut SimulationState, stream: u32) {
        let last = self.state.hops.len() - 1;
        let hop = &self.state.hops[last];
        let state = &self.state.streams[stream as usize];
        let is_whole = state.bytes.is_some_and(|all| state.received(last, hop, sim) == all);
        if is_whole && self.state.ended.is_none() {
            let whole = |s: &Stream| s.bytes.is_some_and(|all| s.received(last, hop, sim) == all);
            if self.state.streams.iter().all(whole) {
                self.state.ended = Some(sim.now);
                sim.flows_left -= 1;
            }
        }
    }

    /// The depot behind `hop` passes on what the next hop's send buffer has room for.
    fn pass_on(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        let at = hop as usize;
        let [from, to] = [&self.state.hops[at], &self.state.hops[at + 1]];
        let stream = &mut self.state.streams[stream as usize];
        let (Some(upstream), Some(downstream)) =
            (stream.connections[at], stream.connections[at + 1])
        else {
            return;
        };
        let Some(next) = sim.connections.get(downstream) else { return };
        let room = next.una() * u64::from(to.mss) + next.buffer();
        let received = stream.received(at, from, sim);
        let passed = received.min(room);
        if passed <= stream.passed[at] {
            return;
        }
        stream.passed[at] = passed;
        let (read, more) = if stream.bytes == Some(passed) {
            (passed.div_ceil(from.mss.into()), Content::of_bytes(passed, to.mss))
        } else {
            let available = passed / u64::from(to.mss);
            (passed / u64::from(from.mss), Content { available, ..Content::NOTHING })
        };
        sim.with(upstream, |c, cx| c.read(cx, read));
        sim.with(downstream, |c, cx| c.offer(cx, more));
    }
}
