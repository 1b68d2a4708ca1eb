// SPDX-License-Identifier: GPL-2.0-or-later
//! What flows and traffic act on: virtual time, the event queue, the network, the connections.

use crate::{
    capture::OpenedConnection,
    connection_table::{ConnectionTable, ConnectionUser},
    event_queue::EventQueue,
    file_log::FileLog,
    flows::KeptConnections,
    network::Network,
    plan::ConnectionPlan,
    tcp::{Connection, ConnectionRoute, Context},
};
use scenario::Tcp;
use units::Timestamp;

#[derive(Debug)]
pub(crate) struct SimulationState {
    pub(crate) now: Timestamp,
    /// The link direction whose turn it is. Other events come after all arrivals of the same time.
    pub(crate) arrival_source: u32,
    pub(crate) tcp: Tcp,
    pub(crate) events: EventQueue,
    pub(crate) network: Network,
    pub(crate) connections: ConnectionTable,
    /// Idle connections of flows' depots, by the number of the flow that comes first.
    pub(crate) kept: Vec<KeptConnections>,
    /// Files of traffic.
    pub(crate) files: FileLog,
    /// Flows of a file that have not ended.
    pub(crate) flows_left: usize,
}

impl SimulationState {
    /// Value of `arrival_source` during an event of no link direction.
    pub(crate) const NO_ARRIVAL: u32 = u32::MAX;

    /// Makes the network as it is now, for those who look at it.
    pub(crate) fn settle(&mut self) {
        self.network.settle(&mut self.events, self.now, self.arrival_source);
    }

    /// A number for packets of that user, and where they go.
    pub(crate) fn allocate_route(
        &mut self,
        user: ConnectionUser,
        hop: &ConnectionPlan,
    ) -> (u32, ConnectionRoute) {
        if self.connections.any_closing() {
            self.settle();
            self.connections.free_closed(&self.network);
        }
        let (owner, generation) = self.connections.allocate(user);
        if let Some(capture) = &mut self.network.capture {
            let ConnectionPlan { from: server, to: client, mss, rcvbuf, .. } = hop;
            let (mss, rcvbuf) = (*mss, *rcvbuf);
            capture.opens(owner, &OpenedConnection { server, client, mss, rcvbuf });
        }
        let (forward, backward) = (hop.forward, hop.backward);
        (owner, ConnectionRoute { owner, generation, forward, backward, header: self.tcp.header })
    }

    /// A connection with what it needs to act.
    pub(crate) fn with<R>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> R {
        let connection = self.connections.get_mut(number).expect("it is in use");
        let mut cx = Context {
            now: self.now,
            tcp: &self.tcp,
            network: &mut self.network,
            events: &mut self.events,
            route: connection.route,
        };
        act(connection, &mut cx)
    }
}
