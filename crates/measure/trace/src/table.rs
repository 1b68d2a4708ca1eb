// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections by their ends, in bounded memory.
//!
//! A closed connection is summed up [`LINGER_NS`] after its last packet, by the capture's clock. If memory runs out, closed
//! connections go first, then the one longest without a packet; the table counts what it had to give up ([`Ending::Evicted`]).
//!
//! [`Ending::Evicted`]: crate::Ending::Evicted

mod recency;

use crate::{
    connection::{Connection, Observer},
    curves::KeptCurves,
    segment::{Endpoint, Segment},
    summary::ConnectionSummary,
};
use recency::{Links, List};
use std::collections::HashMap;

/// How long packets of a closed connection are waited for, by the capture's clock.
const LINGER_NS: u64 = 5_000_000_000;
/// Memory of a connection's places in the table.
const PLACE_BYTES: usize = 160;

type Ends = (Endpoint, Endpoint);

/// A place of a connection.
#[derive(Debug)]
struct Slot {
    ends: Ends,
    connection: Box<Connection>,
    bytes: usize,
    is_closed: bool,
}

/// Connections whose packets come in.
#[derive(Debug)]
pub struct ConnectionTable<O> {
    places: HashMap<Ends, u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    links: Links,
    open: List,
    closed: List,
    /// The last packet's place: the next one is mostly of the same connection.
    recent: Option<(Ends, u32)>,
    bytes: usize,
    limit_bytes: usize,
    evicted: u64,
    kept: KeptCurves,
    observer: O,
}

impl<O: Observer> ConnectionTable<O> {
    /// A table that takes about so many bytes of memory at most. The observer learns of each packet.
    pub fn new(limit_bytes: usize, observer: O) -> Self {
        Self {
            places: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            open: List::default(),
            closed: List::default(),
            recent: None,
            bytes: 0,
            limit_bytes,
            evicted: 0,
            kept: KeptCurves::None,
            observer,
        }
    }

    /// Also keeps these curves of each direction.
    #[must_use]
    pub fn keeping(self, kept: KeptCurves) -> Self {
        Self { kept, ..self }
    }

    /// Takes a packet. Connections that are over are handed to `finished`.
    pub fn take(&mut self, segment: &Segment, finished: &mut impl FnMut(ConnectionSummary)) {
        self.finish_closed(segment.unix_ns, finished);
        let ends = if segment.from <= segment.to {
            (segment.from, segment.to)
        } else {
            (segment.to, segment.from)
        };
        let known = match self.recent {
            Some((recent, place)) if recent == ends => Some(place),
            _ => self.places.get(&ends).copied(),
        };
        let known = known.filter(|place| {
            let is_replaced = self.slot(*place).connection.is_replaced_by(segment);
            if is_replaced {
                self.finish(*place, false, finished);
            }
            !is_replaced
        });
        let place = known.unwrap_or_else(|| self.insert(ends, segment));
        self.recent = Some((ends, place));
        let slot = self.slots[place as usize].as_mut().expect("a place in use");
        slot.connection.take(segment, &mut self.observer);
        let bytes = slot.connection.bytes();
        self.bytes = self.bytes - slot.bytes + bytes;
        slot.bytes = bytes;
        if slot.is_closed {
            self.links.touch(&mut self.closed, place);
        } else if slot.connection.is_closed() {
            slot.is_closed = true;
            self.links.remove(&mut self.open, place);
            self.links.push(&mut self.closed, place);
        } else {
            self.links.touch(&mut self.open, place);
        }
        self.evict(place, finished);
    }

    /// Sums all connections up that are left, and returns the observer and how many were given up for want of memory.
    pub fn finish_all(mut self, finished: &mut impl FnMut(ConnectionSummary)) -> (O, u64) {
        for list in [self.closed, self.open] {
            let mut list = list;
            while let Some(place) = list.first() {
                self.links.remove(&mut list, place);
                if let Some(slot) = self.slots[place as usize].take() {
                    finished(slot.connection.summary(false));
                }
            }
        }
        (self.observer, self.evicted)
    }

    /// Connections that are known now.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no connection is known now.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of memory that connections take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn slot(&self, place: u32) -> &Slot {
        self.slots[place as usize].as_ref().expect("a place in use")
    }

    fn insert(&mut self, ends: Ends, segment: &Segment) -> u32 {
        let connection = Box::new(Connection::new(segment, self.kept));
        let bytes = connection.bytes();
        self.bytes += bytes + PLACE_BYTES;
        let slot = Slot { ends, connection, bytes, is_closed: false };
        let place = if let Some(place) = self.free.pop() {
            self.slots[place as usize] = Some(slot);
            place
        } else {
            self.slots.push(Some(slot));
            (self.slots.len() - 1) as u32
        };
        self.places.insert(ends, place);
        self.links.push(&mut self.open, place);
        place
    }

    fn finish(
        &mut self,
        place: u32,
        is_evicted: bool,
        finished: &mut impl FnMut(ConnectionSummary),
    ) {
        let slot = self.slots[place as usize].take().expect("a place in use");
        let list = if slot.is_closed { &mut self.closed } else { &mut self.open };
        self.links.remove(list, place);
        self.places.remove(&slot.ends);
        self.recent = None;
        self.bytes -= slot.bytes + PLACE_BYTES;
        self.free.push(place);
        finished(slot.connection.summary(is_evicted));
    }

    fn finish_closed(&mut self, now_ns: u64, finished: &mut impl FnMut(ConnectionSummary)) {
        while let Some(place) = self.closed.first() {
            if self.slot(place).connection.last_ns.saturating_add(LINGER_NS) >= now_ns {
                return;
            }
            self.finish(place, false, finished);
        }
    }

    /// Keeps the limit; the connection of the last packet stays.
    fn evict(&mut self, last: u32, finished: &mut impl FnMut(ConnectionSummary)) {
        while self.bytes > self.limit_bytes {
            let closed = self.closed.first().filter(|place| *place != last);
            let Some(place) = closed.or(self.open.first()).filter(|place| *place != last) else {
                return;
            };
            self.evicted += u64::from(closed.is_none());
            self.finish(place, closed.is_none(), finished);
        }
    }
}
