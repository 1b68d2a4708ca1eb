// SPDX-License-Identifier: GPL-2.0-or-later
//! CoDel, controlled delay: RFC 8289.
//!
//! A packet that leaves the queue has waited for some time. Where that has been above `target` for a whole
//! `interval`, the queue does not go away by itself:
//!
//! ```text
//!              above target for an interval: drops one
//!   passing ─────────────────────────────────────────────▶ dropping: one more at each
//!      ▲                                                      │       next = next + interval / sqrt(count)
//!      └──────── a packet waited less than target ────────────┘
//! ```
//!
//! - No packet is dropped while no more than one full packet waits behind it.
//! - A dropping state that follows soon after another begins with the rate of drops that the other had come
//!   to (`count`, section 5.4).
//! - With ECN a packet is marked instead, and leaves.
//! - The root and the division are of doubles, which round alike on every machine; the RFC's approximation
//!   by Newton's method is for processors without them.

use super::packet_store::{Fifo, PacketStore};
use units::{Duration, Timestamp};

/// The parameters, named as by tc-codel(8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// The wait in the queue that is acceptable.
    pub target: Duration,
    /// For how long it may be exceeded: about the longest usual round trip.
    pub interval: Duration,
    /// Whether packets are marked instead of dropped where their senders can be told.
    pub ecn: bool,
}

/// How long after a dropping state another takes up its count, in intervals.
const SOON: u64 = 16;

/// CoDel at work on one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codel {
    /// When waits will have been above the target for an interval; none while they are not.
    above_until: Option<Timestamp>,
    dropping: bool,
    drop_next: Timestamp,
    /// Drops since this dropping state began, and the count that it began with.
    count: u32,
    last_count: u32,
}

/// A packet that leaves the queue for the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dequeued {
    pub(crate) ticket: u32,
    pub(crate) marked: bool,
}

impl Codel {
    /// Drops before this one, that the queue's limit made: they count for the pace of drops, as in Linux.
    pub(crate) fn dropped(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// The wire takes a packet: which; `dropped` gets those that it dropped before. `largest` is the most
    /// bytes of a packet.
    pub(crate) fn dequeue(
        &mut self,
        now: Timestamp,
        params: &Params,
        largest: u64,
        (queue, store): (&mut Fifo, &mut PacketStore),
        dropped: &mut Vec<u32>,
    ) -> Option<Dequeued> {
        let mut head = self.head(now, params, largest, queue, store);
        if self.dropping {
            while let Some((ticket, late)) = head {
                self.dropping = late;
                if !late || now < self.drop_next {
                    break;
                }
                self.count = self.count.saturating_add(1);
                let marks = params.ecn && store.is_ect(ticket);
                if marks {
                    self.drop_next = self.after(self.drop_next, params);
                    return Some(Dequeued { ticket, marked: true });
                }
                dropped.push(ticket);
                head = self.head(now, params, largest, queue, store);
                if head.is_some_and(|(_, late)| late) {
                    self.drop_next = self.after(self.drop_next, params);
                }
            }
            self.dropping &= head.is_some();
        } else if let Some((ticket, true)) = head {
            let marked = params.ecn && store.is_ect(ticket);
            self.dropping = true;
            let grown = self.count.saturating_sub(self.last_count);
            let soon = now.since(self.drop_next) < params.interval.saturating_mul(SOON);
            self.count = if grown > 1 && soon { grown } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.after(now, params);
            if marked {
                return Some(Dequeued { ticket, marked });
            }
            dropped.push(ticket);
            head = self.head(now, params, largest, queue, store);
        }
        head.map(|(ticket, _)| Dequeued { ticket, marked: false })
    }

    /// The first packet, and whether it may be dropped because waits have been too long for too long.
    fn head(
        &mut self,
        now: Timestamp,
        params: &Params,
        largest: u64,
        queue: &mut Fifo,
        store: &mut PacketStore,
    ) -> Option<(u32, bool)> {
        let Some(ticket) = store.pop(queue) else {
            self.above_until = None;
            return None;
        };
        if now.since(store.came(ticket)) < params.target || queue.bytes <= largest {
            self.above_until = None;
            return Some((ticket, false));
        }
        let Some(until) = self.above_until else {
            self.above_until = Some(now + params.interval);
            return Some((ticket, false));
        };
        Some((ticket, now >= until))
    }

    /// When the next packet is dropped after this one.
    fn after(&self, drop: Timestamp, params: &Params) -> Timestamp {
        let wait = params.interval.as_nanos() as f64 / f64::from(self.count.max(1)).sqrt();
        drop + Duration::from_nanos(wait.round() as u64)
    }
}
