// SPDX-License-Identifier: GPL-2.0-or-later
//! A host that asks its scheduler at the right times, in virtual time.

use longhaul_netmodel::pacing::{Class, Departure, Next, Packet, Scheduler};
use units::{Bytes, Rate, Timestamp};

pub fn mbit(rate: u64) -> Rate {
    Rate::bits_per_second(rate * 1_000_000)
}

pub fn micros(time: u64) -> Timestamp {
    Timestamp::from_nanos(time * 1000)
}

/// A class of `rate` Mb/s with an unlimited queue.
pub fn class(rate: u64) -> Class {
    Class { rate: Some(mbit(rate)), queue: Bytes::new(u64::MAX) }
}

/// A packet that comes to the host.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub at: Timestamp,
    pub class: usize,
    pub flow: u64,
    pub bytes: u64,
}

/// A packet that left it.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The number of its arrival.
    pub number: usize,
    pub class: usize,
    pub flow: u64,
    pub bytes: u64,
    pub starts: Timestamp,
    pub ends: Timestamp,
    pub gap: Bytes,
}

/// A scheduler with its host.
pub struct World {
    pub scheduler: Scheduler<(usize, Arrival)>,
    pub dropped: usize,
    now: Timestamp,
}

impl World {
    pub fn new(wire: Rate, classes: &[Class]) -> Self {
        let scheduler = Scheduler::new(wire, classes).unwrap();
        Self { scheduler, dropped: 0, now: Timestamp::ZERO }
    }

    /// Runs until everything has left. Arrivals are in order of time.
    pub fn run(&mut self, arrivals: impl Iterator<Item = Arrival>) -> Vec<Sent> {
        let mut sent = Vec::new();
        for (number, arrival) in arrivals.enumerate() {
            self.until(Some(arrival.at), &mut sent);
            let length = Bytes::new(arrival.bytes);
            let packet = Packet { flow: arrival.flow, length, item: (number, arrival) };
            self.dropped += self.scheduler.enqueue(arrival.at, arrival.class, packet).len();
        }
        self.until(None, &mut sent);
        sent
    }

    /// Sends what leaves before a time.
    pub fn until(&mut self, end: Option<Timestamp>, sent: &mut Vec<Sent>) {
        while end.is_none_or(|end| self.now < end) {
            match self.scheduler.next(self.now) {
                Next::Idle => break,
                Next::Wait(until) => {
                    assert!(until > self.now, "at {:?} told to wait until {until:?}", self.now);
                    self.now = end.unwrap_or(until).min(until);
                }
                Next::Departure(Departure {
                    item: (number, arrival),
                    class,
                    starts,
                    ends,
                    gap,
                }) => {
                    assert_eq!((class, starts), (arrival.class, self.now));
                    let Arrival { flow, bytes, .. } = arrival;
                    sent.push(Sent { number, class, flow, bytes, starts, ends, gap });
                }
            }
        }
        self.now = end.unwrap_or(self.now);
    }
}
