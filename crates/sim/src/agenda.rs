// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens next.
//!
//! Entries are few, one for each lane or junction of lanes and a few for each connection and not one for
//! each packet, because packets on a lane arrive in order and only the first of them stands here. At one
//! time, the smaller id comes first, so the order of events depends on nothing but the scenario.

use crate::tournament::{Contestant, NEVER, Tournament};
use units::Timestamp;

/// What an entry is about: packed so that an entry is 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u64);

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The first packet on its way over a lane arrives at the lane's end, or those at a junction are
    /// handed on.
    Arrival,
    /// A lane whose queue decides at departure takes its next packet.
    Dequeue,
    /// The sender's retransmission timer: timeout, loss probe or reordering.
    Retransmission,
    /// The sender's pacing lets more out.
    Pacing,
    /// The receiver's acknowledgement must wait no longer.
    Acknowledgement,
    /// The client's handshake or request was not answered.
    Opening,
    /// A host lets packets go onto a lane.
    Departure,
    /// A flow starts.
    Flow,
    /// A traffic source acts.
    Traffic,
    /// A sample is due.
    Sample,
}

impl What {
    const ALL: [Self; 10] = [
        Self::Arrival,
        Self::Dequeue,
        Self::Retransmission,
        Self::Pacing,
        Self::Acknowledgement,
        Self::Opening,
        Self::Departure,
        Self::Flow,
        Self::Traffic,
        Self::Sample,
    ];
}

impl Id {
    /// `generation` tells the users of one index apart; 24 bits of it are kept.
    pub(crate) fn new(what: What, index: u32, generation: u32) -> Self {
        Self((what as u64) << 56 | u64::from(generation & 0x00ff_ffff) << 32 | u64::from(index))
    }

    pub(crate) fn what(self) -> What {
        What::ALL[(self.0 >> 56) as usize]
    }

    pub(crate) fn index(self) -> u32 {
        self.0 as u32
    }

    /// Whether it was made for that generation of its index.
    pub(crate) fn is_of(self, generation: u32) -> bool {
        (self.0 >> 32) as u32 & 0x00ff_ffff == generation & 0x00ff_ffff
    }
}

/// A time and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) at: Timestamp,
    pub(crate) id: Id,
}

/// All that is planned.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The turns of lanes and junctions. With a heap, their changes were a third of a run.
    arrivals: Tournament,
    heap: Vec<Entry>,
}

impl Agenda {
    /// For so many turns of lanes and junctions.
    pub(crate) fn new(turns: usize) -> Self {
        Self { arrivals: Tournament::new(turns), heap: Vec::new() }
    }

    /// What happens next.
    pub(crate) fn first(&self) -> Option<Entry> {
        let Contestant { at, number } = self.arrivals.first();
        match self.heap.first() {
            // At one time, arrivals come before all else.
            Some(entry) if entry.at < at => Some(*entry),
            _ => (at < NEVER).then(|| Entry { at, id: Id::new(What::Arrival, number, 0) }),
        }
    }

    /// It is the turn of a lane or junction then, or [`NEVER`].
    pub(crate) fn arrival(&mut self, turn: u32, at: Timestamp) {
        self.arrivals.set(turn, at);
    }

    /// Plans anything but an arrival.
    pub(crate) fn plan(&mut self, at: Timestamp, id: Id) {
        self.heap.push(Entry { at, id });
        self.rise(self.heap.len() - 1);
    }

    /// Takes the first entry away that is no arrival.
    pub(crate) fn pop(&mut self) {
        let last = self.heap.pop();
        if let (Some(last), Some(first)) = (last, self.heap.first_mut()) {
            *first = last;
            self.sink();
        }
    }

    fn rise(&mut self, mut hole: usize) {
        let entry = self.heap[hole];
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    fn sink(&mut self) {
        let heap = self.heap.as_mut_slice();
        let entry = heap[0];
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            let Some(children) = heap.get(first..heap.len().min(first + 4)) else { break };
            let Some((least, child)) = children.iter().enumerate().min_by_key(|(_, c)| **c) else {
                break;
            };
            if entry <= *child {
                break;
            }
            heap[hole] = *child;
            hole = first + least;
        }
        heap[hole] = entry;
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
        let mut agenda = Agenda::new(37);
        let mut expected: Vec<Entry> = Vec::new();
        for n in 0..3000 {
            let at = Timestamp::from_nanos(random.next_u64() % 500);
            if n % 2 == 0 {
                let lane = (random.next_u64() % 37) as u32;
                let id = Id::new(What::Arrival, lane, 0);
                let at = Some(at).filter(|_| n % 10 > 0);
                agenda.arrival(lane, at.unwrap_or(NEVER));
                expected.retain(|entry| entry.id != id);
                expected.extend(at.map(|at| Entry { at, id }));
            } else {
                let what = What::ALL[1 + n % 9];
                let id = Id::new(what, (random.next_u64() % 100) as u32, n as u32);
                agenda.plan(at, id);
                expected.push(Entry { at, id });
            }
            expected.sort_unstable();
            assert_eq!(agenda.first(), expected.first().copied());
            if n % 3 == 0 && !expected.is_empty() {
                take_first(&mut agenda);
                expected.remove(0);
            }
        }
        for entry in expected {
            assert_eq!(agenda.first(), Some(entry));
            take_first(&mut agenda);
        }
        assert_eq!(agenda.first(), None);
    }

    fn take_first(agenda: &mut Agenda) {
        let first = agenda.first().unwrap();
        match first.id.what() {
            What::Arrival => agenda.arrival(first.id.index(), NEVER),
            _ => agenda.pop(),
        }
    }

    #[test]
    fn an_id_says_what_it_is_about() {
        let id = Id::new(What::Sample, u32::MAX, 0x0123_4567);
        assert_eq!((id.what(), id.index()), (What::Sample, u32::MAX));
        assert!(id.is_of(0x0123_4567) && !id.is_of(0x0123_4568));
    }
}
