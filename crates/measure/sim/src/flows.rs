// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows: from the client's start to the last byte, over depots where there are any.
//!
//! A client that is led to depots asks the source first, which answers with a redirect (and each
//! depot on the way too, where the scenario says `lead`). Then it opens a connection to the depot
//! nearest to it, which opens one to the next, and so on to the source. A depot reads from one
//! connection what the other's send buffer has room for, so what it holds is bounded by the two
//! sockets' buffers and a slow hop shuts the window of the one before.
//!
//! Depots keep their connections to each other and to the source when a transfer is over, for the flow that comes
//! after it (`kept`). The client of a site asks the depot nearest to it at once.

mod kept;
mod stream;

pub(crate) use kept::KeptConnections;

use crate::{
    connection_table::ConnectionUser,
    event_queue::{EventId, EventKind},
    plan::ConnectionPlan,
    simulation_state::SimulationState,
    tcp::{Connection, ConnectionEvent, ConnectionSetup, Content},
};
use scenario::{Flow, Run, Signalling};
use stream::{HopConnection, Stream};
use units::{Duration, Rate, Timestamp};

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
    /// The flow whose depots it shares with those that came after that one: itself where it comes after none.
    chain: u32,
    /// The flow that comes after it, and how long after its end.
    next: Option<(u32, Duration)>,
}

impl FlowState {
    pub(crate) fn new(
        flow: &Flow,
        hops: Vec<ConnectionPlan>,
        redirects: Vec<ConnectionPlan>,
        run: &Run,
    ) -> Self {
        let streams = u64::from(flow.streams.max(1));
        let share = |n: u64| {
            // The first streams have one byte more where it does not come out even.
            flow.bytes.map(|b| b.get() / streams + u64::from(n < b.get() % streams))
        };
        let rate = flow.app_rate.map(|rate| Rate::bits_per_second((rate.bps() / streams).max(1)));
        let streams = (0..streams).map(|n| Stream::new(share(n), rate, hops.len())).collect();
        let is_next = |(_, other): &(u32, &Flow)| other.after.as_ref() == Some(&flow.name);
        let next = (0..).zip(&run.flows).find(is_next).map(|(n, other)| (n, other.start));
        Self {
            hops,
            redirects,
            streams,
            started: None,
            ended: None,
            chain: chain_of(flow, run),
            next,
        }
    }

    /// The nodes that redirect a flow's client, in order.
    pub(crate) fn redirecting(flow: &Flow) -> Vec<&str> {
        let depots = match flow.signalling {
            Signalling::Fetch => 0,
            Signalling::Lead => flow.via.len().saturating_sub(1),
        };
        if flow.via.is_empty() || flow.site {
            return Vec::new();
        }
        std::iter::once(&flow.from).chain(&flow.via[..depots]).map(String::as_str).collect()
    }

    /// Content bytes that the client has.
    pub(crate) fn received(&self, sim: &SimulationState) -> u64 {
        let last = self.hops.len() - 1;
        self.streams.iter().map(|stream| stream.received(last, &self.hops[last], sim)).sum()
    }

    /// What its connections carry from now on is another flow's.
    pub(crate) fn hand_over(&mut self, sim: &SimulationState) {
        let connections = self.streams.iter_mut().flat_map(|stream| &mut stream.connections);
        for connection in connections.flatten() {
            connection.hand_over(sim);
        }
    }
}

/// The number of the first of the flows that share their depots with this one, one after the other.
fn chain_of(flow: &Flow, run: &Run) -> u32 {
    let number = |name: &String| run.flows.iter().position(|other| other.name == *name);
    let mut first = number(&flow.name).expect("it is one of the run's");
    while let Some(earlier) = run.flows[first].after.as_ref().and_then(number) {
        first = earlier;
    }
    first as u32
}

impl SimulationState {
    /// Opens a connection of that user. Its content is set later.
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
            slow_start_after_idle: hop.slow_start_after_idle,
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
            self.ask_hop(sim, stream, last);
        }
    }

    /// Asks for a hop's data: over a connection that was kept, or a new one.
    fn ask_hop(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        let user = ConnectionUser::Hop { flow: self.number, stream, hop };
        let chain = self.state.chain;
        let windows = |number| {
            let connection = sim.connections.get(number);
            connection.map_or((0, 0), |connection| connection.windows(sim.now, &sim.tcp))
        };
        let taken = sim.kept[chain as usize].take(hop, sim.now, windows);
        let (number, event) = match taken {
            Some(number) => {
                sim.connections.pass_to(number, user);
                (number, sim.with(number, Connection::ask_again))
            }
            None => sim.open(user, &self.state.hops[hop as usize]),
        };
        sim.keep_warm(chain, hop);
        let connection = HopConnection::taken(number, sim);
        self.state.streams[stream as usize].connections[hop as usize] = Some(connection);
        if event == ConnectionEvent::Requested {
            self.requested(sim, stream, hop);
        }
    }

    /// The server of a hop is asked: a depot asks the next, the source sends.
    fn requested(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        let is_to_client = hop as usize + 1 == self.state.hops.len();
        let state = &self.state.streams[stream as usize];
        let connection = state.connections[hop as usize].as_ref().expect("it has just asked");
        sim.with(connection.number, |c, _| c.reads = is_to_client);
        if hop > 0 {
            self.ask_hop(sim, stream, hop - 1);
            return;
        }
        self.produce(sim, stream);
    }

    /// The source hands over what it has of a stream.
    pub(crate) fn produce(&mut self, sim: &mut SimulationState, stream: u32) {
        let mss = self.state.hops[0].mss;
        let state = &mut self.state.streams[stream as usize];
        let (content, next) = state.content(mss, sim.now);
        let connection = state.connections[0].as_ref().expect("it was asked for the data");
        let content = connection.beyond_before(content);
        sim.with(connection.number, |c, cx| c.offer(cx, content));
        if let Some(at) = next {
            sim.events.plan(at, EventId::new(EventKind::Application, self.number, stream));
        }
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
            ConnectionEvent::Requested => self.requested(sim, stream, hop),
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
                if let Some((next, later)) = self.state.next {
                    sim.events.plan(sim.now + later, EventId::new(EventKind::Flow, next, 0));
                }
            }
        }
    }

    /// The depot behind `hop` passes on what the next hop's send buffer has room for.
    fn pass_on(&mut self, sim: &mut SimulationState, stream: u32, hop: u32) {
        let at = hop as usize;
        let [from, to] = [&self.state.hops[at], &self.state.hops[at + 1]];
        let stream = &mut self.state.streams[stream as usize];
        let [Some(upstream), Some(downstream)] = &stream.connections[at..=at + 1] else { return };
        let (taken, given) = (upstream.number, downstream.number);
        let Some(next) = sim.connections.get(given) else { return };
        let room = downstream.acknowledged(sim) * u64::from(to.mss) + next.buffer();
        let received = stream.received(at, from, sim);
        let passed = received.min(room);
        if passed <= stream.passed[at] {
            return;
        }
        let is_all = stream.bytes == Some(passed);
        let (read, more) = if is_all {
            (passed.div_ceil(from.mss.into()), Content::of_bytes(passed, to.mss))
        } else {
            let available = passed / u64::from(to.mss);
            (passed / u64::from(from.mss), Content { available, ..Content::NOTHING })
        };
        let read = upstream.before.arrived + read;
        let more = downstream.beyond_before(more);
        stream.passed[at] = passed;
        sim.with(taken, |c, cx| c.read(cx, read));
        sim.with(given, |c, cx| c.offer(cx, more));
        if is_all {
            sim.kept[self.state.chain as usize].put(hop, taken, sim.now);
        }
    }
}
