// SPDX-License-Identifier: GPL-2.0-or-later
//! Background traffic: constant-rate datagrams, on-off connections, arriving files.

use crate::{
    connection_table::ConnectionUser,
    event_queue::{EventId, EventKind},
    packet::{Packet, PacketKind},
    plan::ConnectionPlan,
    simulation_state::SimulationState,
    tcp::{Connection, ConnectionEvent, Content},
};
use record::TrafficSummary;
use scenario::{Burst, FileArrivals, Random, Source, Traffic};
use units::{Bytes, Duration, Timestamp};

/// A source at work.
#[derive(Debug)]
pub(crate) struct TrafficState {
    hop: ConnectionPlan,
    source: Source,
    /// Of a source of files.
    arrivals: Option<FileArrivals>,
    /// Of others.
    random: Random,
    state: State,
    start: Timestamp,
    /// Connections that were opened.
    opened: u64,
    /// Files that arrived whole.
    completed: u64,
    /// The time that they took together, from their clients' starts.
    took: Duration,
    /// Content bytes of files that arrived whole, and datagrams.
    delivered: Bytes,
}

#[derive(Debug)]
enum State {
    /// Not begun, or files that come as they come.
    Files,
    /// Datagrams sent so far, by that number.
    Cbr { owner: u32, sent: u64 },
    /// The connection, and whether it is on.
    OnOff { connection: u32, on: bool },
}

impl TrafficState {
    pub(crate) fn new(traffic: &Traffic, hop: ConnectionPlan, seed: u64) -> Self {
        let arrivals = match traffic.source {
            Source::Files { per_second, size } => {
                Some(FileArrivals::new(seed, &traffic.name, per_second, size))
            }
            Source::Cbr { .. } | Source::OnOff { .. } => None,
        };
        Self {
            hop,
            source: traffic.source,
            arrivals,
            random: Random::new(seed, &traffic.name),
            state: State::Files,
            start: Timestamp::ZERO + traffic.start,
            opened: 0,
            completed: 0,
            took: Duration::ZERO,
            delivered: Bytes::ZERO,
        }
    }

    /// Results so far. `under_way`: bytes that have arrived of incomplete files.
    pub(crate) fn summary(
        &self,
        traffic: &Traffic,
        under_way: u64,
        sim: &SimulationState,
    ) -> TrafficSummary {
        let on_off = match self.state {
            State::OnOff { connection, .. } => sim.connections.get(connection),
            State::Files | State::Cbr { .. } => None,
        };
        let bytes = self.delivered.get() + under_way + on_off.map_or(0, Connection::arrived_bytes);
        let seconds = sim.now.since(self.start).as_secs_f64();
        let sends_files = matches!(self.source, Source::Files { .. });
        let mean_s = self.took.as_secs_f64() / self.completed as f64;
        TrafficSummary {
            name: traffic.name.clone(),
            from: traffic.from.clone(),
            to: traffic.to.clone(),
            kind: self.source.kind().to_owned(),
            start_s: self.start.as_secs_f64(),
            end_s: sim.now.max(self.start).as_secs_f64(),
            bytes,
            goodput_bps: record::goodput_bps(bytes, seconds),
            files_offered: sends_files.then_some(self.opened),
            files_completed: sends_files.then_some(self.completed),
            completion_mean_s: (self.completed > 0).then_some(mean_s),
            ..TrafficSummary::default()
        }
    }
}

/// A source with the number that its connections' users give.
pub(crate) struct TrafficHandle<'a> {
    pub(crate) number: u32,
    pub(crate) state: &'a mut TrafficState,
}

impl TrafficHandle<'_> {
    /// Its time in the event queue has come: the next time, if there is one.
    pub(crate) fn act(&mut self, sim: &mut SimulationState) -> Option<Timestamp> {
        match self.state.source {
            Source::Cbr { rate, packet } => {
                self.send_datagram(sim, packet);
                let State::Cbr { sent, .. } = self.state.state else { return None };
                // From the start on, so that no rounding adds up.
                let bits = u128::from(sent) * u128::from(packet) * 8_000_000_000;
                let nanos = bits / u128::from(rate.bps());
                let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                Some(self.state.start + Duration::from_nanos(nanos))
            }
            Source::OnOff { on, off } => self.switch_on_off(sim, on, off),
            Source::Files { .. } => {
                let arrival = self.state.arrivals.as_mut()?.draw();
                self.start_file(sim, arrival.size);
                Some(sim.now + arrival.until_next)
            }
        }
    }

    fn user(&self) -> ConnectionUser {
        ConnectionUser::Traffic(self.number)
    }

    fn send_datagram(&mut self, sim: &mut SimulationState, length: u32) {
        if matches!(self.state.state, State::Files) {
            let (owner, _) = sim.allocate_route(self.user(), &self.state.hop);
            self.state.state = State::Cbr { owner, sent: 0 };
        }
        let State::Cbr { owner, sent } = &mut self.state.state else { return };
        let packet = Packet {
            number: *sent,
            owner: *owner,
            window: 0,
            length: length as u16,
            path: self.state.hop.forward,
            kind: PacketKind::Datagram,
            flags: 0,
        };
        *sent += 1;
        sim.network.send(&mut sim.events, sim.now, packet, None);
    }

    /// A datagram has arrived.
    pub(crate) fn datagram_arrived(&mut self, length: Bytes) {
        self.state.delivered = self.state.delivered + length;
    }

    fn start_file(&mut self, sim: &mut SimulationState, size: Bytes) {
        self.state.opened += 1;
        let (connection, event) = sim.open(self.user(), &self.state.hop);
        let name = (self.number, self.state.opened);
        sim.files.offered(name, size, connection, sim.now);
        self.on_connection_event(sim, connection, event);
    }

    /// An on-off source's next turn.
    fn switch_on_off(
        &mut self,
        sim: &mut SimulationState,
        on: Burst,
        off: Duration,
    ) -> Option<Timestamp> {
        let State::OnOff { connection, on: is_on } = &mut self.state.state else {
            self.state.opened += 1;
            let (connection, event) = sim.open(self.user(), &self.state.hop);
            self.state.state = State::OnOff { connection, on: false };
            if event == ConnectionEvent::Requested {
                return self.switch_on_off(sim, on, off);
            }
            return None; // goes on when the data is asked for
        };
        let connection = *connection;
        *is_on = !*is_on;
        let begins = *is_on;
        let random = &mut self.state.random;
        let una = sim.connections.get(connection).map_or(0, Connection::una);
        match (begins, on) {
            (true, Burst::Time(mean)) => {
                let end = sim.now + random.time(mean);
                sim.with(connection, |c, cx| c.offer(cx, Content::ENDLESS));
                Some(end)
            }
            (true, Burst::Bytes(mean)) => {
                let segments = random.size(mean).get().div_ceil(self.state.hop.mss.into());
                let more = Content { available: una + segments, ..Content::NOTHING };
                sim.with(connection, |c, cx| c.offer(cx, more));
                None // until all of it is acknowledged
            }
            (false, _) => {
                let next = sim.now + random.time(off);
                let sent = sim.connections.get(connection).map_or(0, Connection::sent);
                let stop = Content { available: sent, ..Content::NOTHING };
                sim.with(connection, |c, cx| c.offer(cx, stop));
                Some(next)
            }
        }
    }

    /// News of one of its connections.
    pub(crate) fn on_connection_event(
        &mut self,
        sim: &mut SimulationState,
        connection: u32,
        event: ConnectionEvent,
    ) {
        match (event, self.state.source) {
            (ConnectionEvent::Requested, Source::Files { .. }) => {
                let Some(size) = sim.files.asked_for(connection) else { return };
                let all = Content::of_bytes(size.get(), self.state.hop.mss);
                sim.with(connection, |c, cx| c.offer(cx, all));
            }
            (ConnectionEvent::Requested, Source::OnOff { .. }) => self.plan(sim, sim.now),
            (ConnectionEvent::Arrived, Source::Files { .. }) => {
                self.count_if_whole(sim, connection);
            }
            (ConnectionEvent::Acknowledged, Source::Files { .. }) => {
                Self::close_if_done(sim, connection);
            }
            (ConnectionEvent::Acknowledged, Source::OnOff { on: Burst::Bytes(_), .. }) => {
                let is_over = sim
                    .connections
                    .get(connection)
                    .is_some_and(|c| c.una() == c.content().available);
                if is_over && matches!(self.state.state, State::OnOff { on: true, .. }) {
                    self.plan(sim, sim.now);
                }
            }
            _ => {}
        }
    }

    /// A file is complete when its client has all of it, as a flow is.
    fn count_if_whole(&mut self, sim: &mut SimulationState, connection: u32) {
        let whole = sim.connections.get(connection).filter(|c| c.is_whole());
        let Some(bytes) = whole.map(Connection::arrived_bytes) else { return };
        if let Some(took) = sim.files.completed(connection, sim.now) {
            self.state.delivered = self.state.delivered + Bytes::new(bytes);
            self.state.completed += 1;
            self.state.took = self.state.took + took;
        }
    }

    /// Its last acknowledgement has come.
    fn close_if_done(sim: &mut SimulationState, connection: u32) {
        if sim.connections.get(connection).is_some_and(Connection::is_done) {
            sim.connections.close(connection);
        }
    }

    /// Puts its next act in the event queue.
    pub(crate) fn plan(&self, sim: &mut SimulationState, at: Timestamp) {
        sim.events.plan(at, EventId::new(EventKind::Traffic, self.number, 0));
    }
}
