// SPDX-License-Identifier: GPL-2.0-or-later
//! A run in virtual time.

use crate::{
    capture::CaptureLog,
    connection_table::{ConnectionTable, ConnectionUser},
    event_queue::{EventId, EventKind, EventQueue},
    file_log::FileLog,
    flows::{FlowHandle, FlowState, KeptConnections},
    observe::{self, Observer},
    packet::{Packet, PacketKind},
    plan::{self, Planner, Unsupported},
    simulation_state::SimulationState,
    tcp::ConnectionEvent,
    traffic::{TrafficHandle, TrafficState},
};
use experiment::capture::CapturedPacket;
use record::{OfferedFiles, Series, Summary};
use scenario::{Flow, Run};
use units::{Bytes, Timestamp};

/// A run in virtual time. It reads no clock and draws all chance from the run's seed, so the same run
/// gives the same result on every machine, bit for bit.
///
/// ```no_run
/// # let run: scenario::Run = unimplemented!();
/// let mut simulation = longhaul_sim::Simulation::new(&run)?;
/// while simulation.advance(1_000_000) {
///     eprintln!("{:.1} s", simulation.now().as_secs_f64());
/// }
/// let outcome = simulation.outcome();
/// # Ok::<(), longhaul_sim::Unsupported>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    run: Run,
    state: SimulationState,
    flows: Vec<FlowState>,
    traffic: Vec<TrafficState>,
    observer: Observer,
    /// Events that were no arrivals.
    others: u64,
    ends: Timestamp,
    over: bool,
}

/// The results of a run so far.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Flows, links and metrics.
    pub summary: Summary,
    /// Samples over time.
    pub series: Series,
    /// The files that traffic offered, or a sample of them.
    pub files: OfferedFiles,
}

impl Simulation {
    /// A run at its start.
    ///
    /// # Errors
    /// The scenario asks for what can't be simulated; the text names all of it.
    pub fn new(run: &Run) -> Result<Self, Unsupported> {
        let mut planner = Planner::new(run);
        let of_nodes = plan::check(run);
        let flows = Unsupported::gather(run.flows.iter().map(|flow| {
            let hops = planner.hops(flow)?;
            let redirecting = FlowState::redirecting(flow).into_iter();
            let redirects =
                redirecting.map(|node| planner.hop(node, &flow.to, &hops[0].cc, flow.reverse));
            let redirects = Unsupported::gather(redirects)?;
            Ok(FlowState::new(flow, hops, redirects, run))
        }));
        let traffic =
            Unsupported::gather(run.traffic.iter().map(|traffic| {
                Ok(TrafficState::new(traffic, planner.traffic(traffic)?, run.seed))
            }));
        let (flows, traffic) = match (of_nodes, flows, traffic) {
            (Ok(()), Ok(flows), Ok(traffic)) => (flows, traffic),
            (of_nodes, flows, traffic) => {
                let all = [of_nodes, flows.map(drop), traffic.map(drop)];
                return Err(Unsupported::gather(all).expect_err("one of them is"));
            }
        };
        planner.set_classes();
        let mut network = planner.network;
        network.capture = CaptureLog::of(run);
        let mut events = EventQueue::new(network.number_arrival_sources(network.junctions()));
        let kept: Vec<KeptConnections> = run
            .flows
            .iter()
            .zip(&flows)
            .map(|(flow, state)| KeptConnections::new(flow, &state.hops))
            .collect();
        for (n, flow) in (0..).zip(&run.flows).filter(|(_, flow)| flow.after.is_none()) {
            events.plan(Timestamp::ZERO + flow.start, EventId::new(EventKind::Flow, n, 0));
            if kept[n as usize].known_from_start().is_some() {
                events.plan(Timestamp::ZERO, EventId::new(EventKind::Site, n, 0));
            }
        }
        for (n, traffic) in (0..).zip(&run.traffic) {
            events.plan(Timestamp::ZERO + traffic.start, EventId::new(EventKind::Traffic, n, 0));
        }
        events.plan(Timestamp::ZERO, EventId::new(EventKind::Sample, 0, 0));
        let state = SimulationState {
            now: Timestamp::ZERO,
            tcp: run.tcp.clone(),
            events,
            network,
            arrival_source: SimulationState::NO_ARRIVAL,
            connections: ConnectionTable::default(),
            kept,
            files: FileLog::new(run.seed, OfferedFiles::MAX_ROWS),
            flows_left: run.flows.iter().filter(|flow| flow.bytes.is_some()).count(),
        };
        Ok(Self {
            observer: Observer::new(run, &flows),
            ends: Timestamp::ZERO + run.duration.unwrap_or(run.timeout),
            run: run.clone(),
            state,
            flows,
            traffic,
            others: 0,
            over: false,
        })
    }

    /// Processes the given number of entries of the event queue, each one event or the arrivals of several packets.
    /// Returns whether the run continues after them.
    ///
    /// # Panics
    /// At the end of a run, if a packet or a byte was lost track of.
    pub fn advance(&mut self, entries: u64) -> bool {
        for _ in 0..entries {
            if self.over || !self.step() {
                return false;
            }
        }
        true
    }

    /// The next event, if there is one before the end.
    fn step(&mut self) -> bool {
        let files_are_all = self.run.duration.is_none() && self.state.flows_left == 0;
        let event = self.state.events.first().filter(|event| event.at <= self.ends);
        let Some(event) = event.filter(|_| !files_are_all) else {
            self.end(files_are_all);
            return false;
        };
        self.state.now = event.at;
        let (kind, index) = (event.id.kind(), event.id.index());
        if kind == EventKind::Arrival {
            self.state.arrival_source = index;
            let SimulationState { network, events, now, .. } = &mut self.state;
            if let Some(packet) = network.arrive(events, *now, index) {
                self.deliver(&packet);
            }
            return true;
        }
        self.state.arrival_source = SimulationState::NO_ARRIVAL;
        self.others += 1;
        self.state.events.pop();
        match kind {
            EventKind::Flow => self.start_flow(index),
            EventKind::Site => {
                if let Some(hop) = self.state.kept[index as usize].known_from_start() {
                    self.state.keep_warm(index, hop);
                }
            }
            EventKind::Application => {
                let state = &mut self.flows[index as usize];
                let mut flow = FlowHandle { number: index, state };
                flow.produce(&mut self.state, event.id.generation());
            }
            EventKind::Traffic => self.act(index),
            EventKind::Departure => {
                let SimulationState { network, events, now, .. } = &mut self.state;
                network.departure(events, *now, index);
            }
            EventKind::Dequeue => {
                let SimulationState { network, events, now, .. } = &mut self.state;
                network.dequeue_due(events, *now, index);
            }
            EventKind::Sample => self.sample(),
            _ => self.timer(event.id, kind),
        }
        true
    }

    fn start_flow(&mut self, number: u32) {
        let earlier = &self.run.flows[number as usize].after;
        if let Some(at) =
            self.run.flows.iter().position(|flow| earlier.as_ref() == Some(&flow.name))
        {
            self.flows[at].hand_over(&self.state);
        }
        let state = &mut self.flows[number as usize];
        FlowHandle { number, state }.start(&mut self.state);
    }

    fn act(&mut self, number: u32) {
        let mut traffic = TrafficHandle { number, state: &mut self.traffic[number as usize] };
        if let Some(next) = traffic.act(&mut self.state) {
            traffic.plan(&mut self.state, next);
        }
    }

    fn sample(&mut self) {
        self.state.settle();
        self.observer.sample(&mut self.state, &self.flows);
        let next = self.state.now + self.run.sample;
        // The end takes a sample of its own.
        if next < self.ends {
            self.state.events.plan(next, EventId::new(EventKind::Sample, 0, 0));
        }
    }

    /// A connection's entry in the event queue, unless the connection has gone.
    fn timer(&mut self, id: EventId, kind: EventKind) {
        let number = id.index();
        let connections = &self.state.connections;
        if id.is_of(connections.generation(number)) && connections.get(number).is_some() {
            self.state.with(number, |connection, cx| connection.timer_fired(cx, kind));
        }
    }

    /// A packet has come to its end.
    fn deliver(&mut self, packet: &Packet) {
        let number = packet.owner;
        let user = self.state.connections.user(number);
        if packet.kind == PacketKind::Datagram {
            if let ConnectionUser::Traffic(source) = user {
                let length = Bytes::new(packet.length.into());
                let state = &mut self.traffic[source as usize];
                TrafficHandle { number: source, state }.datagram_arrived(length);
            }
            return;
        }
        let event = self.state.with(number, |connection, cx| connection.receive(cx, packet));
        if event == ConnectionEvent::Nothing {
            return;
        }
        let sim = &mut self.state;
        match user {
            ConnectionUser::Hop { flow: number, stream, hop } => {
                let state = &mut self.flows[number as usize];
                FlowHandle { number, state }.on_hop_event(sim, stream, hop, event);
            }
            ConnectionUser::Warm { chain, hop } => sim.on_warm_event(number, (chain, hop), event),
            ConnectionUser::Redirect { flow, step } => {
                let state = &mut self.flows[flow as usize];
                FlowHandle { number: flow, state }.on_redirect_event(sim, number, step, event);
            }
            ConnectionUser::Traffic(source) => {
                let state = &mut self.traffic[source as usize];
                TrafficHandle { number: source, state }.on_connection_event(sim, number, event);
            }
        }
    }

    fn end(&mut self, early: bool) {
        if self.over {
            return;
        }
        self.over = true;
        if !early {
            (self.state.now, self.state.arrival_source) = (self.ends, SimulationState::NO_ARRIVAL);
        }
        self.state.settle();
        self.observer.sample(&mut self.state, &self.flows);
        self.state.network.assert_conservation();
    }

    /// Hands over what captured nodes have sent and received since this was last called, in order of time, each packet
    /// with the number of its node among those that are captured.
    pub fn take_captured(&mut self, each: impl FnMut(usize, &CapturedPacket<'_>)) {
        if self.state.network.capture.is_some() {
            self.state.settle();
        }
        if let Some(capture) = &mut self.state.network.capture {
            capture.take(each);
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Timestamp {
        self.state.now
    }

    /// When it ends at the latest: its duration, or its timeout.
    pub fn ends(&self) -> Timestamp {
        self.ends
    }

    /// The share of the run that is done, between 0 and 1: of its duration, or of the files' bytes.
    pub fn progress(&self) -> f64 {
        if self.over {
            return 1.0;
        }
        let of_time = self.state.now.as_secs_f64() / self.ends.as_secs_f64();
        if self.run.duration.is_some() {
            return of_time;
        }
        let expected: u64 =
            self.run.flows.iter().filter_map(|flow| flow.bytes).map(Bytes::get).sum();
        let received: u64 = self.flows.iter().map(|flow| flow.received(&self.state)).sum();
        of_time.max(received as f64 / expected.max(1) as f64)
    }

    /// Events so far: arrivals at the ends of links, timers, samples.
    pub fn events(&self) -> u64 {
        self.others + self.state.network.arrivals
    }

    /// Why the run is not to be believed.
    pub fn faults(&self) -> Vec<String> {
        let flows = self.run.flows.iter().zip(&self.flows);
        let unprepared = flows.filter(|(flow, state)| flow.prepares && state.ended.is_none());
        let fault = |(flow, state): (&Flow, &FlowState)| {
            flow.unprepared(&observe::outcome(&self.run, flow, state))
        };
        unprepared.map(fault).collect()
    }

    /// The results so far.
    ///
    /// # Panics
    /// If a packet or a byte was lost track of.
    pub fn outcome(&mut self) -> Outcome {
        self.state.settle();
        self.state.network.assert_conservation();
        let series = self.observer.series(&self.state);
        let files = self.state.files.files(&self.run);
        let summary = Observer::summary(&self.run, &mut self.state, &self.flows, &series);
        let summary = self.with_traffic(summary, &files);
        Outcome { summary, series, files }
    }

    fn with_traffic(&self, summary: Summary, files: &OfferedFiles) -> Summary {
        let under_way = self.state.files.arrived(&self.state.connections, self.traffic.len());
        let sources = self.run.traffic.iter().zip(&self.traffic).zip(under_way);
        let traffic: Vec<_> = sources
            .map(|((traffic, state), bytes)| {
                state.summary(traffic, bytes, &self.state).with_completion_quantiles(files)
            })
            .collect();
        let metrics = summary.metrics.with_traffic(&traffic, files);
        Summary { traffic, metrics, ..summary }
    }
}
