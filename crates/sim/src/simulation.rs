// SPDX-License-Identifier: GPL-2.0-or-later
//! A run in virtual time.

use crate::{
    agenda::{Agenda, Id, What},
    file_log::FileLog,
    flows::{FlowOf, FlowState},
    observe::Observer,
    packet::{Kind, Packet},
    plan::{self, Planner, Unsupported},
    slots::{Slots, User},
    tcp::News,
    traffic::{TrafficOf, TrafficState},
    world::World,
};
use record::{Files, Series, Summary};
use scenario::Run;
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
    world: World,
    flows: Vec<FlowState>,
    traffic: Vec<TrafficState>,
    observer: Observer,
    /// Events that were no arrivals.
    others: u64,
    ends: Timestamp,
    over: bool,
}

/// What came out of a run so far.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Flows, links and metrics.
    pub summary: Summary,
    /// Samples over time.
    pub series: Series,
    /// The files that traffic offered, or a sample of them.
    pub files: Files,
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
            let redirects = redirecting.map(|node| planner.hop(node, &flow.to, &hops[0].cc));
            let redirects = Unsupported::gather(redirects)?;
            Ok(FlowState::new(flow, hops, redirects))
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
        let mut agenda = Agenda::new(network.give_turns(network.junctions()));
        for (n, flow) in (0..).zip(&run.flows) {
            agenda.plan(Timestamp::ZERO + flow.start, Id::new(What::Flow, n, 0));
        }
        for (n, traffic) in (0..).zip(&run.traffic) {
            agenda.plan(Timestamp::ZERO + traffic.start, Id::new(What::Traffic, n, 0));
        }
        agenda.plan(Timestamp::ZERO, Id::new(What::Sample, 0, 0));
        let world = World {
            now: Timestamp::ZERO,
            tcp: run.tcp.clone(),
            agenda,
            network,
            turn: World::NO_LANE,
            slots: Slots::default(),
            files: FileLog::new(run.seed, Files::MOST),
            flows_left: run.flows.iter().filter(|flow| flow.bytes.is_some()).count(),
        };
        Ok(Self {
            observer: Observer::new(run, &flows),
            ends: Timestamp::ZERO + run.duration.unwrap_or(run.timeout),
            run: run.clone(),
            world,
            flows,
            traffic,
            others: 0,
            over: false,
        })
    }

    /// Goes on by so many entries of the agenda, each one event or the arrivals of several packets.
    /// Whether the run goes on after them.
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
        let files_are_all = self.run.duration.is_none() && self.world.flows_left == 0;
        let entry = self.world.agenda.first().filter(|entry| entry.at <= self.ends);
        let Some(entry) = entry.filter(|_| !files_are_all) else {
            self.end(files_are_all);
            return false;
        };
        self.world.now = entry.at;
        let (what, index) = (entry.id.what(), entry.id.index());
        if what == What::Arrival {
            self.world.turn = index;
            let World { network, agenda, now, .. } = &mut self.world;
            if let Some(packet) = network.arrive(agenda, *now, index) {
                self.deliver(&packet);
            }
            return true;
        }
        self.world.turn = World::NO_LANE;
        self.others += 1;
        self.world.agenda.pop();
        match what {
            What::Flow => {
                let state = &mut self.flows[index as usize];
                FlowOf { number: index, state }.start(&mut self.world);
            }
            What::Traffic => self.act(index),
            What::Departure => {
                let World { network, agenda, now, .. } = &mut self.world;
                network.departure(agenda, *now, index);
            }
            What::Dequeue => {
                let World { network, agenda, now, .. } = &mut self.world;
                network.dequeue_due(agenda, *now, index);
            }
            What::Sample => self.sample(),
            _ => self.timer(entry.id, what),
        }
        true
    }

    fn act(&mut self, number: u32) {
        let mut traffic = TrafficOf { number, state: &mut self.traffic[number as usize] };
        if let Some(next) = traffic.act(&mut self.world) {
            traffic.plan(&mut self.world, next);
        }
    }

    fn sample(&mut self) {
        self.world.settle();
        self.observer.sample(&mut self.world, &self.flows);
        let next = self.world.now + self.run.sample;
        // The end takes a sample of its own.
        if next < self.ends {
            self.world.agenda.plan(next, Id::new(What::Sample, 0, 0));
        }
    }

    /// A connection's entry on the agenda, unless the connection has gone.
    fn timer(&mut self, id: Id, what: What) {
        let number = id.index();
        let slots = &self.world.slots;
        if id.is_of(slots.generation(number)) && slots.get(number).is_some() {
            self.world.with(number, |connection, cx| connection.time_has_come(cx, what));
        }
    }

    /// A packet has come to its end.
    fn deliver(&mut self, packet: &Packet) {
        let number = packet.owner;
        let user = self.world.slots.user(number);
        if packet.kind == Kind::Datagram {
            if let User::Traffic(source) = user {
                let length = Bytes::new(packet.length.into());
                let state = &mut self.traffic[source as usize];
                TrafficOf { number: source, state }.datagram_arrived(length);
            }
            return;
        }
        let news = self.world.with(number, |connection, cx| connection.takes(cx, packet));
        if news == News::Nothing {
            return;
        }
        let world = &mut self.world;
        match user {
            User::Hop { flow: number, stream, hop } => {
                let state = &mut self.flows[number as usize];
                FlowOf { number, state }.hop_news(world, stream, hop, news);
            }
            User::Redirect { flow, step } => {
                let state = &mut self.flows[flow as usize];
                FlowOf { number: flow, state }.redirect_news(world, number, step, news);
            }
            User::Traffic(source) => {
                let state = &mut self.traffic[source as usize];
                TrafficOf { number: source, state }.news(world, number, news);
            }
        }
    }

    fn end(&mut self, early: bool) {
        if self.over {
            return;
        }
        self.over = true;
        if !early {
            (self.world.now, self.world.turn) = (self.ends, World::NO_LANE);
        }
        self.world.settle();
        self.observer.sample(&mut self.world, &self.flows);
        self.world.network.assert_conservation();
    }

    /// Virtual time.
    pub fn now(&self) -> Timestamp {
        self.world.now
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
        let of_time = self.world.now.as_secs_f64() / self.ends.as_secs_f64();
        if self.run.duration.is_some() {
            return of_time;
        }
        let expected: u64 =
            self.run.flows.iter().filter_map(|flow| flow.bytes).map(Bytes::get).sum();
        let received: u64 = self.flows.iter().map(|flow| flow.received(&self.world)).sum();
        of_time.max(received as f64 / expected.max(1) as f64)
    }

    /// Events so far: arrivals at the ends of links, timers, samples.
    pub fn events(&self) -> u64 {
        self.others + self.world.network.arrivals
    }

    /// What came out so far.
    ///
    /// # Panics
    /// If a packet or a byte was lost track of.
    pub fn outcome(&mut self) -> Outcome {
        self.world.settle();
        self.world.network.assert_conservation();
        let series = self.observer.series(&self.world);
        let files = self.world.files.files(&self.run);
        let summary = Observer::summary(&self.run, &mut self.world, &self.flows, &series);
        let summary = self.with_traffic(summary, &files);
        Outcome { summary, series, files }
    }

    fn with_traffic(&self, summary: Summary, files: &Files) -> Summary {
        let under_way = self.world.files.arrived(&self.world, self.traffic.len());
        let sources = self.run.traffic.iter().zip(&self.traffic).zip(under_way);
        let traffic: Vec<_> = sources
            .map(|((traffic, state), bytes)| {
                state.summary(traffic, bytes, &self.world).with_files(files)
            })
            .collect();
        let metrics = summary.metrics.with_traffic(&traffic, files);
        Summary { traffic, metrics, ..summary }
    }
}
