// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines: which packets a link's queue takes, drops or marks, and in which order they leave.
//!
//! | discipline | decides | by |
//! |---|---|---|
//! | taildrop | when a packet comes | the queue's length |
//! | RED | when a packet comes | the average of the queue's length |
//! | PIE | when a packet comes | a probability that follows the delay in the queue |
//! | CoDel | when a packet leaves | how long the packet waited |
//! | FQ-CoDel | when a packet leaves | CoDel in each of many queues, which take turns |
//!
//! The first three keep packets in order, so a link knows when it takes a packet at what time the packet
//! leaves. The last two don't know (`queue/scheduled.rs`). Every queue has a limit besides, beyond which
//! packets are dropped whatever the discipline says.

pub mod codel;
pub mod fq_codel;
pub mod pie;
pub mod red;
pub(crate) mod scheduled;

use pie::Pie;
use rand_core::Rng;
use rand_pcg::Pcg64;
use red::Red;
use scheduled::Scheduled;
use units::{Bytes, Timestamp};

/// Where a queue ends. Counted are the packets that wait; the one being serialised has left the queue, as in
/// Linux's pfifo and ns-2's `DropTail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Nowhere.
    Unlimited,
    /// At so many packets.
    Packets(u64),
    /// At so many bytes on the link, [`crate::LinkConfig::overhead`] included.
    Bytes(Bytes),
}

impl QueueLimit {
    /// Whether so much may wait.
    #[inline]
    pub(crate) fn holds(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Packets(limit) => packets <= limit,
            Self::Bytes(limit) => bytes <= limit.get(),
        }
    }
}

/// What decides about the packets of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// A packet that comes to the full queue is dropped, no other.
    TailDrop {
        /// From which queue on packets are marked, for who can be told of congestion (ECN, RFC 3168);
        /// none are where it is none.
        mark: Option<QueueLimit>,
    },
    /// Random early detection.
    Red(red::Params),
    /// Proportional integral controller enhanced.
    Pie(pie::Params),
    /// Controlled delay.
    Codel(codel::Params),
    /// Flow queueing with controlled delay.
    FqCodel(fq_codel::Params),
}

/// A discipline at work.
#[derive(Debug, Clone)]
pub(crate) enum Queue {
    TailDrop { mark: Option<QueueLimit> },
    Red(Box<Red>),
    Pie(Box<Pie>),
    Scheduled(Box<Scheduled>),
}

impl Queue {
    /// `largest` is the most bytes that a packet takes on the link.
    pub(crate) fn new(discipline: Discipline, seed: u64, largest: u64) -> Self {
        match discipline {
            Discipline::TailDrop { mark } => Self::TailDrop { mark },
            Discipline::Red(params) => Self::Red(Box::new(Red::new(params, Chance::new(seed)))),
            Discipline::Pie(params) => {
                Self::Pie(Box::new(Pie::new(params, Chance::new(seed), largest)))
            }
            Discipline::Codel(params) => {
                Self::Scheduled(Box::new(Scheduled::codel(params, largest)))
            }
            Discipline::FqCodel(params) => {
                Self::Scheduled(Box::new(Scheduled::fq_codel(params, largest, seed)))
            }
        }
    }
}

/// What a packet finds that comes to a queue which decides at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Packets that wait.
    pub(crate) packets: u64,
    /// Their bytes on the link.
    pub(crate) bytes: u64,
    /// When the wire is free of all that it was given: in the past where it is idle.
    pub(crate) free_at: Timestamp,
}

/// What a discipline says of a packet that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// A discipline's random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(Pcg64);

impl Chance {
    /// The stream is another than that of the losses, which the same seed begins: what a discipline draws
    /// changes no loss.
    fn new(seed: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), 0x51a7_19ce_8c4e_33d5))
    }

    /// From 0 up to 1, without 1, in steps of 2^-53: the same on every machine.
    pub(crate) fn draw(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * f64::EPSILON / 2.0
    }
}
