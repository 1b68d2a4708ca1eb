// SPDX-License-Identifier: GPL-2.0-or-later
//! FQ-CoDel, flow queueing with CoDel: RFC 8290.
//!
//! - Packets go to one of `flows` queues by a hash of their flow, which the seed perturbs. Flows may share
//!   one.
//! - Queues take turns by deficit round robin: each may send `quantum` bytes a turn. One that was empty comes
//!   first ("new"), and after its first turn behind the others ("old"). So a flow that never fills its turn
//!   waits for none of those that do.
//! - One that runs empty while it is new goes behind the old ones first, so that it can't be new again at
//!   once (section 4.2).
//! - CoDel works in each by itself. Its "one full packet" is of that queue, as RFC 8289 says; Linux counts
//!   those of all.
//! - Where the limit is passed, packets are dropped from the head of the queue with the most bytes: up to 64,
//!   or half of its bytes (as in Linux since 4.6), so that not every packet that comes has to look for it.

use super::{
    codel::{self, Codel, Dequeued},
    packet_store::{Fifo, PacketStore},
};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Timestamp};

/// The parameters, named as by tc-fq_codel(8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Of CoDel in each queue.
    pub codel: codel::Params,
    /// How many queues there are.
    pub flows: u32,
    /// Bytes on the link that a queue may send in a turn.
    pub quantum: Bytes,
}

/// The most packets that are dropped at once where the limit is passed.
const BATCH: u32 = 64;

/// FQ-CoDel at work.
#[derive(Debug, Clone)]
pub(crate) struct FqCodel {
    params: Params,
    perturbation: u64,
    /// Queues that have had a packet, in the order in which they first had one; and where they are by their
    /// number. Made as they are needed: of the 1024 of a link few are.
    queues: Vec<FlowQueue>,
    places: BTreeMap<u32, usize>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

#[derive(Debug, Clone, Default)]
struct FlowQueue {
    packets: Fifo,
    codel: Codel,
    deficit: i64,
    /// Whether it is among the new or old.
    listed: bool,
}

impl FqCodel {
    pub(crate) fn new(params: Params, seed: u64) -> Self {
        Self {
            params,
            perturbation: mix(seed ^ 0x6a09_e667_f3bc_c908),
            queues: Vec::new(),
            places: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    fn quantum(&self) -> i64 {
        i64::try_from(self.params.quantum.get()).unwrap_or(i64::MAX).max(1)
    }

    /// Puts a packet of a flow behind those of its queue.
    pub(crate) fn push(&mut self, flow: u64, ticket: u32, store: &mut PacketStore) {
        // The high half of a product: as even as the remainder of a division, and faster.
        let hash = mix(flow ^ self.perturbation);
        let number = ((u128::from(hash) * u128::from(self.params.flows.max(1))) >> 64) as u32;
        let (quantum, next) = (self.quantum(), self.queues.len());
        let place = *self.places.entry(number).or_insert(next);
        if place == next {
            self.queues.push(FlowQueue::default());
        }
        let queue = &mut self.queues[place];
        store.push(&mut queue.packets, ticket);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = quantum;
            self.new.push_back(place);
        }
    }

    /// Drops packets of the queue with the most bytes, where the limit is passed.
    pub(crate) fn overflow(&mut self, store: &mut PacketStore, dropped: &mut Vec<u32>) {
        // Of equal ones, the one that was used first.
        let fattest = self.queues.iter_mut().rev().max_by_key(|queue| queue.packets.bytes);
        let Some(queue) = fattest else { return };
        let enough = queue.packets.bytes / 2;
        let (mut packets, before) = (0, queue.packets.bytes);
        while packets < BATCH && (packets == 0 || before - queue.packets.bytes < enough) {
            let Some(ticket) = store.pop(&mut queue.packets) else { break };
            dropped.push(ticket);
            packets += 1;
        }
        queue.codel.dropped(packets);
    }

    /// The wire takes a packet: which; `dropped` gets those that CoDel dropped before.
    pub(crate) fn dequeue(
        &mut self,
        now: Timestamp,
        largest: u64,
        store: &mut PacketStore,
        dropped: &mut Vec<u32>,
    ) -> Option<Dequeued> {
        let quantum = self.quantum();
        loop {
            let of_new = !self.new.is_empty();
            let list = if of_new { &mut self.new } else { &mut self.old };
            let place = *list.front()?;
            let queue = &mut self.queues[place];
            if queue.deficit <= 0 {
                queue.deficit += quantum;
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            let packets = (&mut queue.packets, &mut *store);
            let codel = &self.params.codel;
            if let Some(dequeued) = queue.codel.dequeue(now, codel, largest, packets, dropped) {
                queue.deficit -= i64::try_from(store.bytes(dequeued.ticket)).unwrap_or(i64::MAX);
                return Some(dequeued);
            }
            list.pop_front();
            if of_new && !self.old.is_empty() {
                self.old.push_back(place);
            } else {
                queue.listed = false;
            }
        }
    }
}

/// Spreads what is in some bits over all (the finaliser of SplitMix64: Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", 2014).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
