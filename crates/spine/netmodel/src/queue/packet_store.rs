// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting packets, by ticket, and their queues.

use units::Timestamp;

/// No packet.
const NONE: u32 = u32::MAX;

/// The packets that wait, in whatever queues, by their tickets.
#[derive(Debug, Clone, Default)]
pub(crate) struct PacketStore {
    packets: Vec<StoredPacket>,
    free: Vec<u32>,
}

/// A packet that waits.
#[derive(Debug, Clone, Copy)]
struct StoredPacket {
    came: Timestamp,
    bytes: u64,
    ect: bool,
    /// The one behind it.
    next: u32,
}

/// A queue of packets in a [`PacketStore`].
#[derive(Debug, Clone)]
pub(crate) struct Fifo {
    first: u32,
    last: u32,
    pub(crate) bytes: u64,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { first: NONE, last: NONE, bytes: 0 }
    }
}

impl PacketStore {
    pub(super) fn take(&mut self, came: Timestamp, bytes: u64, ect: bool) -> u32 {
        let packet = StoredPacket { came, bytes, ect, next: NONE };
        if let Some(ticket) = self.free.pop() {
            self.packets[ticket as usize] = packet;
            return ticket;
        }
        self.packets.push(packet);
        self.packets.len() as u32 - 1
    }

    pub(crate) fn push(&mut self, queue: &mut Fifo, ticket: u32) {
        match queue.last {
            NONE => queue.first = ticket,
            last => self.packets[last as usize].next = ticket,
        }
        queue.last = ticket;
        queue.bytes += self.bytes(ticket);
    }

    pub(crate) fn pop(&self, queue: &mut Fifo) -> Option<u32> {
        let ticket = queue.first;
        let packet = self.packets.get(ticket as usize)?;
        queue.first = packet.next;
        if packet.next == NONE {
            queue.last = NONE;
        }
        queue.bytes -= packet.bytes;
        Some(ticket)
    }

    /// A packet's ticket is free again.
    pub(super) fn free(&mut self, ticket: u32) {
        self.free.push(ticket);
    }

    pub(crate) fn came(&self, ticket: u32) -> Timestamp {
        self.packets[ticket as usize].came
    }

    pub(crate) fn bytes(&self, ticket: u32) -> u64 {
        self.packets[ticket as usize].bytes
    }

    pub(crate) fn is_ect(&self, ticket: u32) -> bool {
        self.packets[ticket as usize].ect
    }
}
