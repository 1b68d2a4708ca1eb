// SPDX-License-Identifier: GPL-2.0-or-later
//! What a host does to its packets before they go onto its first link direction: gap frames behind them,
//! times of departure, classes for bottlenecks.
//!
//! ```text
//! sender ─▶ departures (edt) ─▶ scheduler (classes of `[[bottleneck]]`) ─▶ link direction, gap frames behind
//! ```
//!
//! Gap frames and classes are `netmodel`'s; here is only in which order a packet meets them. Where the wire
//! idles between times of departure or classes, a real host may send gap frames: what leaves when is the
//! same.

use crate::{
    packet::{Packet, PacketCount},
    timer::Timer,
};
use netmodel::pacing::{self, Class, GapFrames, GapInjector, Next, Scheduler};
use std::{cmp::Reverse, collections::BinaryHeap, num::NonZeroU64};
use units::{Bytes, Duration, Rate, Timestamp};

/// How a packet's sender is paced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PacketPacing {
    /// By gap frames behind its packets.
    Gap {
        /// The flow that it counts as.
        flow: NonZeroU64,
        /// Bytes a second of the link; 0: not known yet.
        target: u64,
        /// The sender's round trip.
        rtt: Duration,
    },
    /// By a time before which the packet does not leave.
    At(Timestamp),
}

/// A packet that waits for its time.
#[derive(Debug)]
struct HeldPacket {
    at: Timestamp,
    /// Of packets of one time, the one that came first leaves first.
    number: u64,
    packet: Packet,
}

impl HeldPacket {
    fn order(&self) -> (Timestamp, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for HeldPacket {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for HeldPacket {}

impl PartialOrd for HeldPacket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeldPacket {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// A host's side of a link direction.
#[derive(Debug)]
pub(crate) struct SenderQdisc {
    pub(crate) injector: GapInjector,
    later: BinaryHeap<Reverse<HeldPacket>>,
    held: u64,
    scheduler: Option<Scheduler<Packet>>,
    pub(crate) timer: Timer,
    /// What waits here, for the account of all packets.
    pub(crate) waits: PacketCount,
}

impl SenderQdisc {
    /// The class of packets that go to no bottleneck.
    pub(crate) const DEFAULT_CLASS: u16 = u16::MAX;

    pub(crate) fn new(frames: GapFrames) -> Self {
        Self {
            injector: GapInjector::new(frames),
            later: BinaryHeap::new(),
            held: 0,
            scheduler: None,
            timer: Timer::OFF,
            waits: PacketCount::default(),
        }
    }

    /// Gives it classes of these rates, numbered from 0, and a last class for all other packets. The senders'
    /// windows bound the number of packets that wait.
    pub(crate) fn set_classes(&mut self, wire: Rate, rates: &[Rate]) {
        let class = |rate| Class { rate, queue: Bytes::new(u64::MAX) };
        let paced = rates.iter().map(|rate| class(Some(*rate)));
        let classes: Vec<_> = paced.chain([class(None)]).collect();
        let scheduler = Scheduler::new(wire, &classes);
        self.scheduler = Some(scheduler.expect("a checked scenario's bottlenecks fit the wire"));
    }

    /// Holds a packet until its time.
    pub(crate) fn hold_until(&mut self, at: Timestamp, packet: Packet) {
        self.waits.add(&packet);
        self.held += 1;
        self.later.push(Reverse(HeldPacket { at, number: self.held, packet }));
    }

    /// A packet whose time has come.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Packet> {
        self.later.peek().filter(|later| later.0.at <= now)?;
        let packet = self.later.pop()?.0.packet;
        self.waits.take(&packet);
        Some(packet)
    }

    /// Queues a packet, whose size on the link is given, in its class. Returns the packet if there
    /// are no classes.
    pub(crate) fn enqueue(
        &mut self,
        now: Timestamp,
        class: u16,
        packet: Packet,
        length: Bytes,
    ) -> Option<Packet> {
        let Some(scheduler) = &mut self.scheduler else { return Some(packet) };
        let class = usize::from(class).min(scheduler.classes() - 1);
        self.waits.add(&packet);
        let flow = packet.owner.into();
        let dropped = scheduler.enqueue(now, class, pacing::Packet { flow, length, item: packet });
        assert!(dropped.is_empty(), "classes are not bounded");
        None
    }

    /// A packet that its class lets go now.
    pub(crate) fn dequeue(&mut self, now: Timestamp) -> Result<Packet, Option<Timestamp>> {
        let Some(scheduler) = &mut self.scheduler else { return Err(None) };
        match scheduler.next(now) {
            Next::Departure(departure) => {
                self.waits.take(&departure.item);
                Ok(departure.item)
            }
            Next::Wait(until) => Err(Some(until)),
            Next::Idle => Err(None),
        }
    }

    /// When the first packet's time comes.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.later.peek().map(|later| later.0.at)
    }
}
