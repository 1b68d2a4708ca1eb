// SPDX-License-Identifier: GPL-2.0-or-later
//! Queues whose discipline decides when the wire takes a packet, and not when the packet comes.
//!
//! A packet that is accepted gets a ticket, and its owner keeps it under that number. Each time the wire is
//! free, the discipline says which packet is next, and which it drops before. The decisions wait in
//! `decided` until the owner asks ([`crate::Link::decided`]). All is decided in the link's own time, before
//! anything that comes later: when the owner asks changes nothing.

use super::{
    codel::{self, Codel, Dequeued},
    fq_codel::{self, FqCodel},
    occupancy::{QueueLimit, QueueState},
    packet_store::{Fifo, PacketStore},
};
use crate::Fate;
use std::collections::VecDeque;
use units::Timestamp;

/// Such a queue of a link.
#[derive(Debug, Clone)]
pub(crate) struct DepartureQueue {
    order: Order,
    store: PacketStore,
    /// The most bytes of a packet.
    largest: u64,
    waits: QueueState,
    /// Fates of packets that have left the queue, and that their owner has not fetched yet.
    decided: VecDeque<(u32, Fate)>,
    /// Kept for its memory.
    dropped: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Order {
    TailDrop(Fifo),
    Codel { params: codel::Params, codel: Codel, queue: Fifo },
    FqCodel(FqCodel),
}

/// A packet that the wire takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenPacket {
    pub(crate) ticket: u32,
    pub(crate) marked: bool,
    pub(crate) came: Timestamp,
    pub(crate) bytes: u64,
}

impl DepartureQueue {
    pub(crate) fn taildrop(largest: u64) -> Self {
        Self::of(Order::TailDrop(Fifo::default()), largest)
    }

    pub(crate) fn codel(params: codel::Params, largest: u64) -> Self {
        let (codel, queue) = (Codel::default(), Fifo::default());
        Self::of(Order::Codel { params, codel, queue }, largest)
    }

    pub(crate) fn fq_codel(params: fq_codel::Params, largest: u64, seed: u64) -> Self {
        Self::of(Order::FqCodel(FqCodel::new(params, seed)), largest)
    }

    fn of(order: Order, largest: u64) -> Self {
        Self {
            order,
            store: PacketStore::default(),
            largest,
            waits: QueueState::default(),
            decided: VecDeque::new(),
            dropped: Vec::new(),
        }
    }

    pub(crate) fn waits(&self) -> QueueState {
        self.waits
    }

    /// Whether the packet that comes is dropped at a limit. FQ-CoDel takes it, and drops others.
    pub(crate) fn refuses(&self, limit: QueueLimit, bytes: u64) -> bool {
        !matches!(self.order, Order::FqCodel(_))
            && !limit.holds(self.waits.packets + 1, self.waits.bytes + bytes)
    }

    /// Takes a packet, which gets the ticket.
    pub(crate) fn push(&mut self, now: Timestamp, flow: u64, bytes: u64, ect: bool) -> u32 {
        let ticket = self.store.take(now, bytes, ect);
        self.waits.packets += 1;
        self.waits.bytes += bytes;
        match &mut self.order {
            Order::TailDrop(queue) | Order::Codel { queue, .. } => self.store.push(queue, ticket),
            Order::FqCodel(queues) => queues.push(flow, ticket, &mut self.store),
        }
        ticket
    }

    /// Drops what is beyond the limit. How many packets that are.
    pub(crate) fn overflow(&mut self, limit: QueueLimit) -> u64 {
        let mut packets = 0;
        while !limit.holds(self.waits.packets, self.waits.bytes) {
            let Order::FqCodel(queues) = &mut self.order else { break };
            queues.overflow(&mut self.store, &mut self.dropped);
            packets += self.drop_all(Fate::QueueFull);
        }
        packets
    }

    /// The wire takes a packet at `now`, if there is one: which, and how many the discipline dropped before.
    pub(crate) fn take(&mut self, now: Timestamp) -> (Option<TakenPacket>, u64) {
        let dequeued = match &mut self.order {
            Order::TailDrop(queue) => {
                self.store.pop(queue).map(|ticket| Dequeued { ticket, marked: false })
            }
            Order::Codel { params, codel, queue } => {
                let packets = (queue, &mut self.store);
                codel.dequeue(now, params, self.largest, packets, &mut self.dropped)
            }
            Order::FqCodel(queues) => {
                queues.dequeue(now, self.largest, &mut self.store, &mut self.dropped)
            }
        };
        let dropped = self.drop_all(Fate::EarlyDrop);
        let taken = dequeued.map(|Dequeued { ticket, marked }| {
            let (came, bytes) = (self.store.came(ticket), self.store.bytes(ticket));
            self.waits.packets -= 1;
            self.waits.bytes -= bytes;
            TakenPacket { ticket, marked, came, bytes }
        });
        (taken, dropped)
    }

    fn drop_all(&mut self, fate: Fate) -> u64 {
        for ticket in &self.dropped {
            self.waits.packets -= 1;
            self.waits.bytes -= self.store.bytes(*ticket);
            self.decided.push_back((*ticket, fate));
        }
        let packets = self.dropped.len() as u64;
        self.dropped.clear();
        packets
    }

    pub(crate) fn decide(&mut self, ticket: u32, fate: Fate) {
        self.decided.push_back((ticket, fate));
    }

    pub(crate) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }

    /// Removes the earliest decision. Its ticket is free then.
    pub(crate) fn next_decided(&mut self) -> Option<(u32, Fate)> {
        let next = self.decided.pop_front()?;
        self.store.free(next.0);
        Some(next)
    }
}
