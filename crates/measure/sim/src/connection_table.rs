// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections by number. A number is used again once its connection is over and none of its packets
//! is on its way, so memory goes with what is under way, not with what has been.

use crate::{network::Network, tcp::Connection};

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionUser {
    /// A hop of a stream of a flow.
    Hop { flow: u32, stream: u32, hop: u32 },
    /// Depots of a chain, who opened it for a hop ahead of need.
    Warm { chain: u32, hop: u32 },
    /// A redirect that leads the client of a flow to a depot; the n-th.
    Redirect { flow: u32, step: u32 },
    /// A traffic source.
    Traffic(u32),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    user: ConnectionUser,
    connection: Option<Box<Connection>>,
    /// It is over, and will be given up as soon as its last packet has arrived.
    over: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    all: Vec<Slot>,
    free: Vec<u32>,
    /// Over, with packets on their way.
    closing: Vec<u32>,
}

impl ConnectionTable {
    /// A number and its generation, for packets of that user.
    pub(crate) fn allocate(&mut self, user: ConnectionUser) -> (u32, u32) {
        if let Some(number) = self.free.pop() {
            let slot = &mut self.all[number as usize];
            slot.generation = slot.generation.wrapping_add(1);
            (slot.user, slot.over) = (user, false);
            return (number, slot.generation);
        }
        self.all.push(Slot { generation: 0, user, connection: None, over: false });
        (self.all.len() as u32 - 1, 0)
    }

    pub(crate) fn insert(&mut self, number: u32, connection: Connection) {
        self.all[number as usize].connection = Some(Box::new(connection));
    }

    pub(crate) fn user(&self, number: u32) -> ConnectionUser {
        self.all[number as usize].user
    }

    /// Assigns the connection to another user.
    pub(crate) fn pass_to(&mut self, number: u32, user: ConnectionUser) {
        self.all[number as usize].user = user;
    }

    pub(crate) fn generation(&self, number: u32) -> u32 {
        self.all[number as usize].generation
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Connection> {
        self.all[number as usize].connection.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        self.all[number as usize].connection.as_deref_mut()
    }

    /// The connection is over.
    pub(crate) fn close(&mut self, number: u32) {
        let slot = &mut self.all[number as usize];
        if !std::mem::replace(&mut slot.over, true) {
            self.closing.push(number);
        }
    }

    /// Whether any are over and not given up.
    pub(crate) fn any_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Gives up those that are over and have no packets on their way any more.
    pub(crate) fn free_closed(&mut self, network: &Network) {
        let Self { all, free, closing } = self;
        closing.retain(|&number| {
            let stays = network.carries(number);
            if !stays {
                all[number as usize].connection = None;
                free.push(number);
            }
            stays
        });
    }
}
