// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens next.
//!
//! Entries are few, one for each link direction or junction of link directions and a few for each connection
//! and not one for each packet, because packets on a link direction arrive in order and only the first of
//! them has an entry. At one time, the smaller id comes first, so the order of events depends on nothing but
//! the scenario.

use crate::winner_tree::{Contestant, NEVER, WinnerTree};
use units::Timestamp;

/// What an entry is about: packed so that an entry is 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId(u64);

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The first packet on its way over a link direction arrives at the link direction's end, or those at a
    /// junction are handed on.
    Arrival,
    /// A link direction whose queue decides at departure takes its next packet.
    Dequeue,
    /// The sender's retransmission timer: timeout, loss probe or reordering.
    Retransmission,
    /// The sender's pacing lets more out.
    Pacing,
    /// The receiver's acknowledgement must wait no longer.
    Acknowledgement,
    /// The client's handshake or request was not answered.
    Opening,
    /// A host lets packets go onto a link direction.
    Departure,
    /// A flow starts.
    Flow,
    /// A flow's site starts to keep connections open.
    Site,
    /// A flow's program produces more data, of the stream that the id's generation is.
    Application,
    /// A traffic source acts.
    Traffic,
    /// A sample is due.
    Sample,
}

impl EventKind {
    const ALL: [Self; 12] = [
        Self::Arrival,
        Self::Dequeue,
        Self::Retransmission,
        Self::Pacing,
        Self::Acknowledgement,
        Self::Opening,
        Self::Departure,
        Self::Flow,
        Self::Site,
        Self::Application,
        Self::Traffic,
        Self::Sample,
    ];
}

impl EventId {
    /// `generation` tells the users of one index apart; 24 bits of it are kept.
    pub(crate) fn new(kind: EventKind, index: u32, generation: u32) -> Self {
        Self((kind as u64) << 56 | u64::from(generation & 0x00ff_ffff) << 32 | u64::from(index))
    }

    pub(crate) fn kind(self) -> EventKind {
        EventKind::ALL[(self.0 >> 56) as usize]
    }

    pub(crate) fn index(self) -> u32 {
        self.0 as u32
    }

    /// What tells the users of the index apart.
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & 0x00ff_ffff
    }

    /// Whether it was made for that generation of its index.
    pub(crate) fn is_of(self, generation: u32) -> bool {
        self.generation() == generation & 0x00ff_ffff
    }
}

/// A time and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) id: EventId,
}

/// All that is planned.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The turns of link directions and junctions. With a heap, their changes were a third of a run.
    arrivals: WinnerTree,
    heap: Vec<Event>,
}

impl EventQueue {
    /// A queue for `turns` link directions and junctions.
    pub(crate) fn new(turns: usize) -> Self {
        Self { arrivals: WinnerTree::new(turns), heap: Vec::new() }
    }

    /// What happens next.
    pub(crate) fn first(&self) -> Option<Event> {
        let Contestant { at, number } = self.arrivals.first();
        match self.heap.first() {
            // At one time, arrivals come before all else.
            Some(event) if event.at < at => Some(*event),
            _ => {
                (at < NEVER).then(|| Event { at, id: EventId::new(EventKind::Arrival, number, 0) })
            }
        }
    }

    /// It is the turn of a link direction or junction then, or [`NEVER`].
    pub(crate) fn arrival(&mut self, source: u32, at: Timestamp) {
        self.arrivals.set(source, at);
    }

    /// Plans anything but an arrival.
    pub(crate) fn plan(&mut self, at: Timestamp, id: EventId) {
        self.heap.push(Event { at, id });
        self.rise(self.heap.len() - 1);
    }

    /// Removes the first entry that is not an arrival.
    pub(crate) fn pop(&mut self) {
        let last = self.heap.pop();
        if let (Some(last), Some(first)) = (last, self.heap.first_mut()) {
            *first = last;
            self.sink();
        }
    }

    fn rise(&mut self, mut hole: usize) {
        let event = self.heap[hole];
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.heap[parent] <= event {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = event;
    }

    fn sink(&mut self) {
        let heap = self.heap.as_mut_slice();
        let event = heap[0];
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            let Some(children) = heap.get(first..heap.len().min(first + 4)) else { break };
            let Some((least, child)) = children.iter().enumerate().min_by_key(|(_, c)| **c) else {
                break;
            };
            if event <= *child {
                break;
            }
            heap[hole] = *child;
            hole = first + least;
        }
        heap[hole] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;
    use rand_pcg::Pcg64;

    #[test]
    fn comes_out_in_order_of_time_and_id() {
        let mut random = Pcg64::new(crate::testing::seed(), 1);
        let mut events = EventQueue::new(37);
        let mut expected: Vec<Event> = Vec::new();
        for n in 0..3000 {
            let at = Timestamp::from_nanos(random.next_u64() % 500);
            if n % 2 == 0 {
                let direction = (random.next_u64() % 37) as u32;
                let id = EventId::new(EventKind::Arrival, direction, 0);
                let at = Some(at).filter(|_| n % 10 > 0);
                events.arrival(direction, at.unwrap_or(NEVER));
                expected.retain(|event| event.id != id);
                expected.extend(at.map(|at| Event { at, id }));
            } else {
                let kind = EventKind::ALL[1 + n % 9];
                let id = EventId::new(kind, (random.next_u64() % 100) as u32, n as u32);
                events.plan(at, id);
                expected.push(Event { at, id });
            }
            expected.sort_unstable();
            assert_eq!(events.first(), expected.first().copied());
            if n % 3 == 0 && !expected.is_empty() {
                take_first(&mut events);
                expected.remove(0);
            }
        }
        for event in expected {
            assert_eq!(events.first(), Some(event));
            take_first(&mut events);
        }
        assert_eq!(events.first(), None);
    }

    fn take_first(events: &mut EventQueue) {
        let first = events.first().unwrap();
        match first.id.kind() {
            EventKind::Arrival => events.arrival(first.id.index(), NEVER),
            _ => events.pop(),
        }
    }

    #[test]
    fn an_id_says_what_it_is_about() {
        let id = EventId::new(EventKind::Sample, u32::MAX, 0x0123_4567);
        assert_eq!((id.kind(), id.index()), (EventKind::Sample, u32::MAX));
        assert!(id.is_of(0x0123_4567) && !id.is_of(0x0123_4568));
    }
}
