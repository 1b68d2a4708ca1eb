// SPDX-License-Identifier: GPL-2.0-or-later
//! What flows and traffic act on: virtual time, the agenda, the network, the connections.

use crate::{
    agenda::Agenda,
    file_log::FileLog,
    network::Network,
    plan::Hop,
    slots::{Slots, User},
    tcp::{Connection, Context, Line},
};
use scenario::Tcp;
use units::Timestamp;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    /// Whose turn it is, for the network; what is no lane's comes after all arrivals of its time.
    pub(crate) turn: u32,
    pub(crate) tcp: Tcp,
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    pub(crate) slots: Slots,
    /// Files of traffic.
    pub(crate) files: FileLog,
    /// Flows of a file that have not ended.
    pub(crate) flows_left: usize,
}

impl World {
    /// A turn that is no lane's.
    pub(crate) const NO_LANE: u32 = u32::MAX;

    /// Makes the network as it is now, for those who look at it.
    pub(crate) fn settle(&mut self) {
        self.network.settle(&mut self.agenda, self.now, self.turn);
    }

    /// A number for packets of that user, and where they go.
    pub(crate) fn line(&mut self, user: User, hop: &Hop) -> (u32, Line) {
        if self.slots.any_leave() {
            self.settle();
            self.slots.sweep(&self.network);
        }
        let (owner, generation) = self.slots.take(user);
        let (forward, backward) = (hop.forward, hop.backward);
        (owner, Line { owner, generation, forward, backward, header: self.tcp.header })
    }

    /// A connection with what it needs to act.
    pub(crate) fn with<R>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> R {
        let connection = self.slots.get_mut(number).expect("it is in use");
        let mut cx = Context {
            now: self.now,
            tcp: &self.tcp,
            network: &mut self.network,
            agenda: &mut self.agenda,
            line: connection.line,
        };
        act(connection, &mut cx)
    }
}
