// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines: which packets a link's queue takes, drops or marks, and in which order they leave.
//!
//! | discipline | decides | by |
//! |---|---|---|
//! | taildrop | when a packet comes; when it leaves, where the rate may change meanwhile | the queue's length |
//! | RED | when a packet comes | the average of the queue's length |
//! | PIE | when a packet comes | a probability that follows the delay in the queue |
//! | CoDel | when a packet leaves | how long the packet waited |
//! | FQ-CoDel | when a packet leaves | CoDel in each of many queues, which take turns |
//!
//! The first three keep packets in order, so a link knows when it takes a packet at what time the packet
//! leaves. The last two don't know (`queue/departure_queue.rs`). Every queue has a limit besides, beyond which
//! packets are dropped whatever the discipline says.

pub(crate) mod arrival;
pub mod codel;
pub(crate) mod departure_queue;
pub mod fq_codel;
mod occupancy;
mod packet_store;
pub mod pie;
pub mod red;

pub use occupancy::{QueueLimit, QueueState};

use arrival::DisciplineRandom;
use departure_queue::DepartureQueue;
use pie::Pie;
use red::Red;

/// Queue discipline: decides which packets of a queue are dropped or marked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// A packet that comes to the full queue is dropped, no other.
    TailDrop {
        /// Queue length above which ECN-capable packets are marked (RFC 3168).
        /// `None`: no packet is marked.
        mark: Option<QueueLimit>,
    },
    /// The same without marks, and decided when packets leave: what waits does so at a rate that
    /// [changes](crate::Link::change).
    TailDropAtDeparture,
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
    AtDeparture(Box<DepartureQueue>),
}

impl Queue {
    /// `largest` is the most bytes that a packet takes on the link.
    pub(crate) fn new(discipline: Discipline, seed: u64, largest: u64) -> Self {
        match discipline {
            Discipline::TailDrop { mark } => Self::TailDrop { mark },
            Discipline::TailDropAtDeparture => {
                Self::AtDeparture(Box::new(DepartureQueue::taildrop(largest)))
            }
            Discipline::Red(params) => {
                Self::Red(Box::new(Red::new(params, DisciplineRandom::new(seed))))
            }
            Discipline::Pie(params) => {
                Self::Pie(Box::new(Pie::new(params, DisciplineRandom::new(seed), largest)))
            }
            Discipline::Codel(params) => {
                Self::AtDeparture(Box::new(DepartureQueue::codel(params, largest)))
            }
            Discipline::FqCodel(params) => {
                Self::AtDeparture(Box::new(DepartureQueue::fq_codel(params, largest, seed)))
            }
        }
    }
}
