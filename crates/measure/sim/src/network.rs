// SPDX-License-Identifier: GPL-2.0-or-later
//! Link directions, paths over them, and the packets on their way.
//!
//! A link says at once when an accepted packet arrives, and its packets arrive in order, unless it has impairments.
//! So a link direction is a queue of packets with their times of arrival, of which only the first is in the event
//! queue, or none where the link direction leads into a junction (`crate::junction`).
//!
//! Where a link's discipline decides only when a packet leaves the queue, the packet is kept until then under
//! the ticket that the link gave it, and the moment at which the wire takes the next one is in the event queue.

mod background;
mod conservation;
mod departures;
mod link_direction;

pub(crate) use link_direction::LinkDirection;

use self::link_direction::{Arriving, FarEnd};
use crate::{
    capture::CaptureLog,
    event_queue::{EventId, EventKind, EventQueue},
    junction::Junction,
    packet::{Packet, PacketAccount, PacketCount, SackStore, flag},
    sender_qdisc::{PacketPacing, SenderQdisc},
    winner_tree::NEVER,
};
use experiment::capture::Heading;
use netmodel::{Fate, Link, pacing::GapFrames};
use units::{Bytes, Timestamp};

/// Ends each path in [`Network::paths`].
const END: u32 = u32::MAX;

/// What has turns in the event queue.
#[derive(Debug, Clone, Copy)]
enum ArrivalSource {
    LinkDirection(u32),
    Junction(u32),
}

/// The link directions, and the paths over them.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) directions: Vec<LinkDirection>,
    /// The link directions of all paths by number, one path after the other, each with an [`END`].
    paths: Vec<u32>,
    /// The class of each path's packets at its host, by the same numbers.
    classes: Vec<u16>,
    /// The paths of traffic and reverse flows.
    pub(crate) background_paths: Vec<u32>,
    /// What was sent on each path, by the same numbers as the paths.
    sent_on: Vec<PacketCount>,
    /// What came to an end before the link direction of the same number, dropped there or lost on the one before.
    gone_before: Vec<PacketCount>,
    /// What was copied before the link direction of the same number.
    copied_before: Vec<PacketCount>,
    junctions: Vec<Junction>,
    /// By their numbers. Link directions come in order, so that at one time the lower one comes first.
    arrival_sources: Vec<ArrivalSource>,
    pub(crate) sack_store: SackStore,
    pub(crate) account: PacketAccount,
    /// Packets on their way, by owner.
    on_their_way: Vec<u32>,
    /// Arrivals at the ends of link directions so far.
    pub(crate) arrivals: u64,
    /// What nodes send and receive, if any are captured.
    pub(crate) capture: Option<Box<CaptureLog>>,
}

impl Network {
    /// Of links, each with what gap frames are like on it where it has a rate.
    pub(crate) fn new(links: impl Iterator<Item = (Link, Option<GapFrames>)>) -> Self {
        let directions = links.map(|(link, frames)| LinkDirection::new(link, frames)).collect();
        Self { directions, ..Self::default() }
    }

    /// A path by the numbers of its link directions: what its packets begin with as [`Packet::path`].
    pub(crate) fn add_path(&mut self, directions: &[u32]) -> u32 {
        let path = self.paths.len() as u32;
        self.paths.extend(directions);
        self.paths.push(END);
        self.classes.resize(self.paths.len(), SenderQdisc::DEFAULT_CLASS);
        self.sent_on.resize(self.paths.len(), PacketCount::default());
        self.gone_before.resize(self.paths.len(), PacketCount::default());
        self.copied_before.resize(self.paths.len(), PacketCount::default());
        path
    }

    /// Once all paths are known: where packets may be handed on late.
    pub(crate) fn junctions(&self) -> Vec<Junction> {
        let delays: Vec<_> =
            self.directions.iter().map(|direction| direction.link.config().delay).collect();
        let at_once: Vec<_> =
            self.directions.iter().map(|direction| direction.link.decides_at_once()).collect();
        Junction::all(self.paths.split(|direction| *direction == END), &delays, &at_once)
    }

    /// Gives turns to these junctions and to link directions that lead to none. How many there are.
    pub(crate) fn number_arrival_sources(&mut self, junctions: Vec<Junction>) -> usize {
        self.junctions = junctions;
        let mut far_end = vec![None; self.directions.len()];
        for (number, junction) in (0..).zip(&self.junctions) {
            for (index, direction) in (0..).zip(&junction.from) {
                far_end[*direction as usize] = Some(FarEnd::Junction { junction: number, index });
            }
        }
        for (number, (direction, far_end)) in (0..).zip(self.directions.iter_mut().zip(far_end)) {
            direction.far_end = far_end.unwrap_or_else(|| {
                self.arrival_sources.push(ArrivalSource::LinkDirection(number));
                FarEnd::OneByOne(self.arrival_sources.len() as u32 - 1)
            });
        }
        for (number, junction) in (0..).zip(&mut self.junctions) {
            junction.arrival_source = self.arrival_sources.len() as u32;
            self.arrival_sources.push(ArrivalSource::Junction(number));
        }
        self.arrival_sources.len()
    }

    /// Whether packets of that owner are on their way.
    pub(crate) fn carries(&self, owner: u32) -> bool {
        self.on_their_way.get(owner as usize).is_some_and(|packets| *packets > 0)
    }

    pub(crate) fn send(
        &mut self,
        events: &mut EventQueue,
        now: Timestamp,
        packet: Packet,
        paced: Option<PacketPacing>,
    ) {
        self.account.sent.add(&packet);
        self.sent_on[packet.path as usize].add(&packet);
        let owner = packet.owner as usize;
        if owner >= self.on_their_way.len() {
            self.on_their_way.resize(owner + 1, 0);
        }
        self.on_their_way[owner] += 1;
        if let Some(capture) = &mut self.capture {
            capture.sent(&packet);
        }
        let number = self.paths[packet.path as usize];
        if paced.is_none() && self.directions[number as usize].qdisc.is_none() {
            self.offer(events, now, packet);
        } else {
            self.pass_qdisc(events, now, packet, paced);
        }
    }

    /// The link that packets of that path are sent on.
    pub(crate) fn first_link(&self, path: u32) -> &Link {
        &self.directions[self.paths[path as usize] as usize].link
    }

    /// The link directions of a path, in order.
    pub(crate) fn directions_of(&self, path: u32) -> &[u32] {
        let directions = &self.paths[path as usize..];
        let end = directions.iter().position(|direction| *direction == END);
        &directions[..end.unwrap_or(directions.len())]
    }

    /// The link direction that a path begins with.
    pub(crate) fn first_direction(&self, path: u32) -> u32 {
        self.paths[path as usize]
    }

    /// A turn in the event queue: a link direction's first packet, or what has come to a junction, is offered
    /// to the next link direction. The packet, where that was its last link direction.
    pub(crate) fn arrive(
        &mut self,
        events: &mut EventQueue,
        now: Timestamp,
        source: u32,
    ) -> Option<Packet> {
        let number = match self.arrival_sources[source as usize] {
            ArrivalSource::LinkDirection(number) => number,
            ArrivalSource::Junction(junction) => {
                self.drain_junction(events, junction, |at, _| at <= now);
                return None;
            }
        };
        let (Arriving { packet, .. }, next) = self.directions[number as usize].take();
        events.arrival(source, next);
        self.arrivals += 1;
        self.note(now, number, Heading::Inbound, &packet);
        if self.paths[packet.path as usize] != END {
            self.offer(events, now, packet);
            return None;
        }
        if let Some(capture) = &mut self.capture {
            capture.delivered(&packet);
        }
        self.account.delivered.add(&packet);
        self.on_their_way[packet.owner as usize] -= 1;
        Some(packet)
    }

    /// Hands on those packets at a junction that have `come` there, by their times and link directions.
    fn drain_junction(
        &mut self,
        events: &mut EventQueue,
        number: u32,
        come: impl Fn(Timestamp, u32) -> bool,
    ) {
        loop {
            let junction = &mut self.junctions[number as usize];
            let first = junction.heads.first();
            let from = junction.from[first.number as usize];
            if first.at == NEVER || !come(first.at, from) {
                junction.plan(events);
                return;
            }
            let (Arriving { at, packet }, next) = self.directions[from as usize].take();
            junction.heads.set(first.number, next);
            self.arrivals += 1;
            self.note(at, from, Heading::Inbound, &packet);
            self.offer(events, at, packet);
        }
    }

    /// Forwards all packets that have come to junctions, so that the state is that of `now`. Of packets that
    /// arrive at this moment, it forwards those that come before the end of the turn of `source`.
    pub(crate) fn settle(&mut self, events: &mut EventQueue, now: Timestamp, source: u32) {
        let last = match self.arrival_sources.get(source as usize) {
            Some(ArrivalSource::LinkDirection(number)) => *number,
            _ => u32::MAX,
        };
        for junction in 0..self.junctions.len() as u32 {
            self.drain_junction(events, junction, |at, direction| {
                at < now || at == now && direction <= last
            });
        }
    }

    /// A packet passes an end of a link direction, whose node may be captured.
    #[inline]
    fn note(&mut self, at: Timestamp, number: u32, heading: Heading, packet: &Packet) {
        if let Some(capture) = &mut self.capture {
            capture.passes(at, number, heading, packet, &self.sack_store);
        }
    }

    /// Offers a packet to the next link direction of its path. It is modified only in its final
    /// location: a copy of what was written a moment ago in smaller pieces waits for the processor to write
    /// them.
    fn offer(&mut self, events: &mut EventQueue, now: Timestamp, packet: Packet) {
        let number = self.paths[packet.path as usize];
        self.note(now, number, Heading::Outbound, &packet);
        let direction = &mut self.directions[number as usize];
        let ect = packet.flags & flag::ECT != 0;
        let length = Bytes::new(packet.length.into());
        let flow = packet.owner.into();
        let fate = direction.link.offer(now, netmodel::Packet { length, ect, flow });
        let Fate::Arrives { at, marked, .. } = fate else {
            self.follow_fate(events, now, number, packet, fate);
            return;
        };
        self.arrives(events, number, packet, at, marked);
    }

    /// A packet that was offered and does not arrive as most do: late, twice or not at all, or it waits for the
    /// queue's decision.
    #[cold]
    fn follow_fate(
        &mut self,
        events: &mut EventQueue,
        now: Timestamp,
        number: u32,
        packet: Packet,
        fate: Fate,
    ) {
        match fate {
            Fate::Queued { ticket } => {
                self.directions[number as usize].keep(ticket, packet);
                self.dequeue(events, now, number);
            }
            Fate::ArrivesImpaired { starts, at, marked, twice, .. } => {
                let direction = &mut self.directions[number as usize];
                direction.begins.note(now, starts, &packet);
                self.arrives_in_order(events, number, packet, at, marked);
                if twice {
                    let copy = self.copy(&packet);
                    self.arrives_in_order(events, number, copy, at, marked);
                }
            }
            fate => self.drop_packet(fate, &packet),
        }
    }

    /// Another packet like it, which comes out of a link beside it.
    fn copy(&mut self, packet: &Packet) -> Packet {
        self.account.copied.add(packet);
        self.copied_before[packet.path as usize + 1].add(packet);
        self.on_their_way[packet.owner as usize] += 1;
        self.sack_store.copy(packet)
    }

    /// The same as [`Self::arrives`] for a packet that others may come before that are on their way already.
    fn arrives_in_order(
        &mut self,
        events: &mut EventQueue,
        number: u32,
        mut packet: Packet,
        at: Timestamp,
        marked: bool,
    ) {
        packet.path += 1;
        if marked {
            packet.flags |= flag::CE;
        }
        let direction = &mut self.directions[number as usize];
        if direction.insert(Arriving { at, packet }) {
            self.expect_first(events, number, at);
        }
    }

    /// A link direction's first packet arrives then.
    #[inline]
    fn expect_first(&mut self, events: &mut EventQueue, number: u32, at: Timestamp) {
        match self.directions[number as usize].far_end {
            FarEnd::OneByOne(source) => events.arrival(source, at),
            FarEnd::Junction { junction, index } => {
                self.junctions[junction as usize].expect(events, index, at);
            }
        }
    }

    /// A packet goes onto a link direction, at whose end it arrives then.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a call costs a simulation of full links a twentieth")]
    fn arrives(
        &mut self,
        events: &mut EventQueue,
        number: u32,
        packet: Packet,
        at: Timestamp,
        marked: bool,
    ) {
        let direction = &mut self.directions[number as usize];
        direction.arriving.push_back(Arriving { at, packet });
        if let Some(Arriving { packet, .. }) = direction.arriving.back_mut() {
            packet.path += 1;
            if marked {
                packet.flags |= flag::CE;
            }
        }
        if direction.arriving.len() == 1 {
            self.expect_first(events, number, at);
        }
    }

    /// The event for a link direction whose queue decides at departure.
    pub(crate) fn dequeue_due(&mut self, events: &mut EventQueue, now: Timestamp, number: u32) {
        self.directions[number as usize].dequeue_planned = false;
        self.dequeue(events, now, number);
    }

    /// What such a queue has decided by now goes on or is gone, and its next decision into the event queue.
    fn dequeue(&mut self, events: &mut EventQueue, now: Timestamp, number: u32) {
        while let Some((ticket, fate)) = self.directions[number as usize].link.decided(now) {
            let packet = self.directions[number as usize].queued[ticket as usize].take();
            let packet = packet.expect("it was kept when the link gave the ticket");
            match fate {
                Fate::Arrives { at, marked, .. } => {
                    self.arrives(events, number, packet, at, marked);
                }
                fate => self.follow_fate(events, now, number, packet, fate),
            }
        }
        let direction = &mut self.directions[number as usize];
        if let Some(at) = direction.link.decides_at().filter(|_| !direction.dequeue_planned) {
            direction.dequeue_planned = true;
            events.plan(at, EventId::new(EventKind::Dequeue, number, 0));
        }
    }

    /// A packet that does not arrive.
    fn drop_packet(&mut self, fate: Fate, packet: &Packet) {
        let count = match fate {
            Fate::QueueFull | Fate::EarlyDrop | Fate::Policed => &mut self.account.dropped,
            Fate::Lost => &mut self.account.lost,
            Fate::TooLong => &mut self.account.too_long,
            Fate::Arrives { .. } | Fate::ArrivesImpaired { .. } | Fate::Queued { .. } => {
                unreachable!("it is not gone")
            }
        };
        count.add(packet);
        let carried_here = u32::from(fate == Fate::Lost);
        self.gone_before[(packet.path + carried_here) as usize].add(packet);
        self.on_their_way[packet.owner as usize] -= 1;
        self.sack_store.take(packet);
    }
}

#[cfg(test)]
mod tests;
