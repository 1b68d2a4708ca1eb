// SPDX-License-Identifier: GPL-2.0-or-later
//! IPG-aware packet scheduling (Takano et al., section II-B, which leaves it unfinished): packets for
//! several bottlenecks leave over one wire, each bottleneck's at its own pace.
//!
//! ```text
//! class 0 (rate) ─▶ flows in turn  ─▶ due at the fluid server's pace ─┐
//! class 1 (rate) ─▶ flows in turn  ─▶ due at the fluid server's pace ─┼─▶ earliest due first ─▶ wire
//! class 2 (none) ─▶ flows in turn  ─▶ when no paced packet is due ────┘
//! ```
//!
//! - A packet is **due** when an ideal server of its class's rate would begin with it. It leaves then,
//!   or as soon as the wire is free; of several that are due, the earliest leaves first, of equals
//!   that of the lower class.
//! - **Waiting for the wire is made good**: what was held up by another class's packet leaves late, the
//!   next of its class are due when they would have been. Where the rates are together not above the
//!   wire's, no packet begins later than it is due by more than one largest packet of every other
//!   class takes on the wire (the bound of start-time fair queueing; proved in `tests/scheduler.rs`).
//! - **Idle time is not made good**: a class in which nothing waited starts again at the next arrival.
//! - **Where classes want more than the wire carries**, no packet can lag more than that bound: all
//!   classes with something waiting are put off together by what is above it. So they share the wire
//!   by their rates, and when there is room again, there is no burst of what was missed. The same
//!   happens where the caller asks late.
//! - **A class without a rate** gets the rest: it sends when the wire is free and no paced packet is
//!   due. Where the paced ones need all of the wire, it gets nothing; of several, the lowest comes first.
//! - Within a class, flows take turns, equal in bytes: were it one queue, each flow would get
//!   what it puts in, and one that fills the queue would keep the others out.
//!
//! **Gaps.** Each departure says how many bytes the wire idled before it: a sender that paces by
//! gap frames fills these bytes. With several classes on the wire this is not a class's own gap but the part
//! that the others' packets leave of it (the paper's figure 4). Idling while nothing waited at all
//! needs no gap frame and is none. From when a packet came to the scheduler until nothing waits any
//! more, gaps and packets fill the wire's time exactly, to the byte.
//!
//! Times are whole nanoseconds; the remainders are carried, so that rates are kept exactly.

use super::{
    class_clock::{BYTE, ClassClock, ExactTime},
    drr::DrrQueue,
};
use std::fmt;
use units::{Bytes, Duration, Rate, Timestamp};

/// Settings of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The rate of its bottleneck, in bytes on the link; without one, it has what the others leave.
    pub rate: Option<Rate>,
    /// How many bytes of it may wait.
    pub queue: Bytes,
}

/// A packet to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Which flow of its class it belongs to.
    pub flow: u64,
    /// Bytes of the link that it takes, overhead included.
    pub length: Bytes,
    /// The caller's value for the packet.
    pub item: T,
}

/// A packet that goes onto the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The caller's value for the packet.
    pub item: T,
    /// Its class.
    pub class: usize,
    /// When its first bit goes onto the wire.
    pub starts: Timestamp,
    /// When its last one does.
    pub ends: Timestamp,
    /// Bytes that the wire idled between it and the packet before while a packet waited for its time.
    pub gap: Bytes,
}

/// The next action of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<T> {
    /// A packet leaves now.
    Departure(Departure<T>),
    /// Nothing before this time, unless something else comes.
    Wait(Timestamp),
    /// Nothing waits.
    Idle,
}

/// Rates that there cannot be. All are the caller's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerError {
    /// The wire's rate is zero: nothing would ever leave.
    NoWire,
    /// A class's rate is zero: a class that is not paced has none.
    NoRate {
        /// The class.
        class: usize,
    },
    /// A class's rate is above the wire's: its bottleneck is the wire.
    AboveWire {
        /// The class.
        class: usize,
        /// Its rate.
        rate: Rate,
        /// The wire's.
        wire: Rate,
    },
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWire => f.write_str("the wire's rate must be above 0"),
            Self::NoRate { class } => write!(
                f,
                "the rate of class {class} is 0: give it one above that, or none if it is not paced"
            ),
            Self::AboveWire { class, rate, wire } => write!(
                f,
                "class {class} can't be paced at {rate} on a wire of {wire}: its rate must not be above the wire's"
            ),
        }
    }
}

impl std::error::Error for SchedulerError {}

/// A class at work.
#[derive(Debug, Clone)]
struct Queue<T> {
    /// None where it is not paced.
    clock: Option<ClassClock>,
    flows: DrrQueue<T>,
    /// How long the largest packet so far takes on the wire, rounded up.
    largest: Duration,
}

/// The scheduler of one wire.
#[derive(Debug, Clone)]
pub struct Scheduler<T> {
    wire: Rate,
    classes: Vec<Queue<T>>,
    /// When the wire is free again.
    free: ExactTime,
    /// Since when something waits.
    waits_since: Option<Timestamp>,
    /// Bits times 10^9 that the wire idled beyond whole bytes of gap.
    idled: u128,
}

impl<T> Scheduler<T> {
    /// A scheduler with nothing waiting.
    ///
    /// # Errors
    /// A rate is zero, or a class's above the wire's.
    pub fn new(wire: Rate, classes: &[Class]) -> Result<Self, SchedulerError> {
        if wire.bps() == 0 {
            return Err(SchedulerError::NoWire);
        }
        let queues = classes.iter().enumerate().map(|(class, Class { rate, queue })| {
            rate.map_or(Ok(()), |rate| check(wire, class, rate))?;
            let (clock, flows) = (rate.map(ClassClock::new), DrrQueue::new(*queue));
            Ok(Queue { clock, flows, largest: Duration::ZERO })
        });
        let classes = queues.collect::<Result<_, _>>()?;
        Ok(Self { wire, classes, free: ExactTime::default(), waits_since: None, idled: 0 })
    }

    /// A packet comes at `now`. Gives back what its class has no room for: that may be the packet
    /// itself or newer packets of the flow that has most waiting.
    #[must_use = "what has no room is dropped"]
    pub fn enqueue(&mut self, now: Timestamp, class: usize, packet: Packet<T>) -> Vec<T> {
        let Packet { flow, length, item } = packet;
        let queue = &mut self.classes[class];
        if queue.flows.largest() < length.get() {
            queue.largest = self.wire.time_for(length).unwrap_or_default();
        }
        queue.flows.push(flow, length.get(), item);
        if let Some(clock) = &mut queue.clock {
            clock.arrive(now, length.get());
        }
        let mut dropped = Vec::new();
        while let Some((bytes, item)) = queue.flows.drop_excess(flow) {
            if let Some(clock) = &mut queue.clock {
                clock.withdraw(bytes);
            }
            dropped.push(item);
        }
        self.waits_since = (!self.is_empty()).then(|| self.waits_since.unwrap_or(now));
        dropped
    }

    /// The action of the wire at `now`. If the result is a wait, call this again at that time and after every
    /// arrival. After a late call the packet leaves late.
    pub fn next(&mut self, now: Timestamp) -> Next<T> {
        if self.is_empty() {
            return Next::Idle;
        }
        if self.free.at > now {
            return Next::Wait(self.free.at);
        }
        let earliest = self.earliest_due();
        match earliest.filter(|(due, _)| *due <= now) {
            Some((due, class)) => {
                self.limit_lag(class, now.since(due));
                self.depart(now, class)
            }
            None => match self.unpaced() {
                Some(class) => self.depart(now, class),
                None => earliest.map_or(Next::Idle, |(due, _)| Next::Wait(due)),
            },
        }
    }

    /// Changes the rate of a class at `now`. A class without a rate becomes paced.
    ///
    /// # Errors
    /// It is zero or above the wire's; the class keeps the rate that it has.
    pub fn set_rate(
        &mut self,
        now: Timestamp,
        class: usize,
        rate: Rate,
    ) -> Result<(), SchedulerError> {
        check(self.wire, class, rate)?;
        let queue = &mut self.classes[class];
        if let Some(clock) = &mut queue.clock {
            clock.set_rate(now, rate);
        } else {
            let mut clock = ClassClock::new(rate);
            clock.arrive(now, queue.flows.bytes());
            queue.clock = Some(clock);
        }
        Ok(())
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The bytes of a class that wait.
    pub fn waiting(&self, class: usize) -> Bytes {
        Bytes::new(self.classes[class].flows.bytes())
    }

    fn is_empty(&self) -> bool {
        self.classes.iter().all(|queue| queue.flows.is_empty())
    }

    /// When the next paced packet is due, and its class.
    fn earliest_due(&self) -> Option<(Timestamp, usize)> {
        let waiting = self.classes.iter().enumerate().filter(|(_, queue)| !queue.flows.is_empty());
        waiting.filter_map(|(n, queue)| Some((queue.clock.as_ref()?.due(), n))).min()
    }

    fn unpaced(&self) -> Option<usize> {
        self.classes.iter().position(|q| q.clock.is_none() && !q.flows.is_empty())
    }

    /// Puts off all paced classes with something waiting by what `lag` is above what it can be where
    /// the rates fit the wire.
    fn limit_lag(&mut self, class: usize, lag: Duration) {
        let others = self.classes.iter().enumerate().filter(|(n, _)| *n != class);
        // A nanosecond each, since due times are compared without their rests, and one for the start.
        let nanos: u64 = others.map(|(_, queue)| queue.largest.as_nanos() + 1).sum();
        let excess = lag.saturating_sub(Duration::from_nanos(nanos + 1));
        if excess == Duration::ZERO {
            return;
        }
        let waiting = self.classes.iter_mut().filter(|queue| !queue.flows.is_empty());
        for clock in waiting.filter_map(|queue| queue.clock.as_mut()) {
            clock.put_off(excess);
        }
    }

    /// Puts the next packet of a class onto the free wire.
    fn depart(&mut self, now: Timestamp, class: usize) -> Next<T> {
        let queue = &mut self.classes[class];
        let Some((bytes, item)) = queue.flows.pop() else { return Next::Idle };
        if let Some(clock) = &mut queue.clock {
            clock.leave(bytes);
        }
        let gap = self.gap_until(now);
        let starts = if self.free.at == now { self.free } else { ExactTime::whole(now) };
        self.free = starts.after(bytes, self.wire);
        if self.is_empty() {
            self.waits_since = None;
        }
        Next::Departure(Departure { item, class, starts: now, ends: self.free.at, gap })
    }

    /// How much the wire idled before `now` with something waiting.
    fn gap_until(&mut self, now: Timestamp) -> Bytes {
        let waits_since = self.waits_since.unwrap_or(now);
        if waits_since > self.free.at {
            // Before that, nothing waited.
            self.free = ExactTime::whole(waits_since);
            self.idled = 0;
        }
        if now > self.free.at {
            let nanos = u128::from(now.since(self.free.at).as_nanos());
            self.idled += nanos * u128::from(self.wire.bps()) - u128::from(self.free.rest);
        }
        let gap = Bytes::new((self.idled / BYTE) as u64);
        self.idled %= BYTE;
        gap
    }
}

fn check(wire: Rate, class: usize, rate: Rate) -> Result<(), SchedulerError> {
    match rate.bps() {
        0 => Err(SchedulerError::NoRate { class }),
        _ if rate > wire => Err(SchedulerError::AboveWire { class, rate, wire }),
        _ => Ok(()),
    }
}
