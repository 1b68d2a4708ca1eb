// SPDX-License-Identifier: GPL-2.0-or-later
//! Lanes, paths over them, and the packets on their way.
//!
//! A link says at once when an accepted packet arrives, and its packets arrive in order. So a lane is
//! a queue of packets with their times of arrival, of which only the first is on the agenda, or none where
//! the lane leads into a junction (`crate::junction`).
//!
//! Where a link's discipline decides only when a packet leaves the queue, the packet is kept until then under
//! the ticket that the link gave it, and the moment at which the wire takes the next one is on the agenda.

use crate::{
    agenda::{Agenda, Id, What},
    host::{Host, Paced},
    junction::Junction,
    packet::{Packet, Sacks, flag},
    tournament::NEVER,
};
use netmodel::{Fate, Link, pacing::GapFrames};
use std::collections::VecDeque;
use units::{Bytes, Rate, Timestamp};

/// Behind the last lane of a path, where lanes of paths stand.
const END: u32 = u32::MAX;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) link: Link,
    arriving: VecDeque<Arriving>,
    leads: Leads,
    /// What gap frames are like on it, where it has a rate.
    frames: Option<GapFrames>,
    /// What is between it and those who send onto it, once somebody is paced.
    host: Option<Box<Host>>,
    /// Packets of which the link has not said what becomes of them, by their tickets.
    queued: Vec<Option<Packet>>,
    /// Whether the agenda has the time at which it next says something.
    dequeue_planned: bool,
}

/// A packet on its way, and when it arrives at the lane's end.
#[derive(Debug, Clone, Copy)]
struct Arriving {
    at: Timestamp,
    packet: Packet,
}

impl Lane {
    fn new_host(&self) -> Box<Host> {
        Box::new(Host::new(self.frames.expect("pacing is planned for links with a rate only")))
    }

    fn host(&mut self) -> &mut Host {
        if self.host.is_none() {
            self.host = Some(self.new_host());
        }
        self.host.as_mut().expect("made above")
    }

    /// Keeps a packet until the link says what becomes of it.
    fn keep(&mut self, ticket: u32, packet: Packet) {
        let at = ticket as usize;
        if at >= self.queued.len() {
            self.queued.resize(at + 1, None);
        }
        self.queued[at] = Some(packet);
    }

    /// Takes the first packet away, which there is; and when the next one arrives.
    #[inline]
    fn take(&mut self) -> (Arriving, Timestamp) {
        // Not what `pop_front` gives: an optional packet is taken apart and put together again.
        let first = self.arriving[0];
        self.arriving.pop_front();
        (first, self.arriving.front().map_or(NEVER, |next| next.at))
    }
}

/// Where packets come at the end of a lane.
#[derive(Debug, Clone, Copy)]
enum Leads {
    /// Each at its time: the lane's turn on the agenda.
    On(u32),
    /// To a junction, and which of its lanes this is.
    To { junction: u32, place: u32 },
}

/// What has turns on the agenda.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Lane(u32),
    Junction(u32),
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    pub(crate) fn take(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.length);
    }

    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.length);
    }
}

/// What became of everything that was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) sent: Count,
    pub(crate) delivered: Count,
    pub(crate) dropped: Count,
    pub(crate) lost: Count,
    pub(crate) too_long: Count,
}

/// The lanes, and the paths over them.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) lanes: Vec<Lane>,
    /// The lanes of all paths by number, one path after the other, each with an [`END`].
    paths: Vec<u32>,
    /// The class of each path's packets at its host, by the same numbers.
    classes: Vec<u16>,
    junctions: Vec<Junction>,
    /// By their numbers. Lanes come in order, so that at one time the lower one comes first.
    turns: Vec<Turn>,
    pub(crate) sacks: Sacks,
    pub(crate) account: Account,
    /// Packets on their way, by owner.
    on_their_way: Vec<u32>,
    /// Arrivals at the ends of lanes so far.
    pub(crate) arrivals: u64,
}

impl Network {
    /// Of links, each with what gap frames are like on it where it has a rate.
    pub(crate) fn new(links: impl Iterator<Item = (Link, Option<GapFrames>)>) -> Self {
        let lane = |(link, frames)| Lane {
            link,
            arriving: VecDeque::new(),
            leads: Leads::On(0),
            frames,
            host: None,
            queued: Vec::new(),
            dequeue_planned: false,
        };
        Self { lanes: links.map(lane).collect(), ..Self::default() }
    }

    /// A path by the numbers of its lanes: what its packets begin with as [`Packet::path`].
    pub(crate) fn add_path(&mut self, lanes: &[u32]) -> u32 {
        let path = self.paths.len() as u32;
        self.paths.extend(lanes);
        self.paths.push(END);
        self.classes.resize(self.paths.len(), Host::OTHERS);
        path
    }

    /// Once all paths are known: where packets may be handed on late.
    pub(crate) fn junctions(&self) -> Vec<Junction> {
        let delays: Vec<_> = self.lanes.iter().map(|lane| lane.link.config().delay).collect();
        let at_once: Vec<_> = self.lanes.iter().map(|lane| lane.link.decides_at_once()).collect();
        Junction::all(self.paths.split(|lane| *lane == END), &delays, &at_once)
    }

    /// Gives turns to these junctions and to lanes that lead to none. How many there are.
    pub(crate) fn give_turns(&mut self, junctions: Vec<Junction>) -> usize {
        self.junctions = junctions;
        let mut leads = vec![None; self.lanes.len()];
        for (number, junction) in (0..).zip(&self.junctions) {
            for (place, lane) in (0..).zip(&junction.from) {
                leads[*lane as usize] = Some(Leads::To { junction: number, place });
            }
        }
        for (number, (lane, leads)) in (0..).zip(self.lanes.iter_mut().zip(leads)) {
            lane.leads = leads.unwrap_or_else(|| {
                self.turns.push(Turn::Lane(number));
                Leads::On(self.turns.len() as u32 - 1)
            });
        }
        for (number, junction) in (0..).zip(&mut self.junctions) {
            junction.turn = self.turns.len() as u32;
            self.turns.push(Turn::Junction(number));
        }
        self.turns.len()
    }

    /// Whether packets of that owner are on their way.
    pub(crate) fn carries(&self, owner: u32) -> bool {
        self.on_their_way.get(owner as usize).is_some_and(|packets| *packets > 0)
    }

    pub(crate) fn send(
        &mut self,
        agenda: &mut Agenda,
        now: Timestamp,
        packet: Packet,
        paced: Option<Paced>,
    ) {
        self.account.sent.add(&packet);
        let owner = packet.owner as usize;
        if owner >= self.on_their_way.len() {
            self.on_their_way.resize(owner + 1, 0);
        }
        self.on_their_way[owner] += 1;
        let number = self.paths[packet.path as usize];
        if paced.is_none() && self.lanes[number as usize].host.is_none() {
            self.offer(agenda, now, packet);
        } else {
            self.pass_host(agenda, now, packet, paced);
        }
    }

    /// The link that packets of that path are sent on.
    pub(crate) fn first_link(&self, path: u32) -> &Link {
        &self.lanes[self.paths[path as usize] as usize].link
    }

    /// Gives the host of a lane classes of these rates; packets of each of these paths, which begin with
    /// that lane, are of the class beside it.
    pub(crate) fn set_classes(&mut self, lane: u32, rates: &[Rate], paths: &[(u32, u16)]) {
        let lane = &mut self.lanes[lane as usize];
        let wire = lane.link.config().rate.expect("a checked bottleneck's first link has one");
        lane.host().set_classes(wire, rates);
        for (path, class) in paths {
            self.classes[*path as usize] = *class;
        }
    }

    /// The lanes of a path, in order.
    pub(crate) fn lanes_of(&self, path: u32) -> &[u32] {
        let lanes = &self.paths[path as usize..];
        let end = lanes.iter().position(|lane| *lane == END);
        &lanes[..end.unwrap_or(lanes.len())]
    }

    /// The lane that a path begins with.
    pub(crate) fn first_lane(&self, path: u32) -> u32 {
        self.paths[path as usize]
    }

    /// A packet that a sender's pacing or its host's classes may hold back.
    fn pass_host(
        &mut self,
        agenda: &mut Agenda,
        now: Timestamp,
        packet: Packet,
        paced: Option<Paced>,
    ) {
        let number = self.paths[packet.path as usize];
        match paced {
            // Also what may leave at once: behind what is due now and has not left.
            Some(Paced::At(at)) => self.lanes[number as usize].host().hold(at, packet),
            Some(Paced::Gap { flow, target, rtt }) => {
                self.enter(agenda, now, packet);
                let lane = &mut self.lanes[number as usize];
                let bytes = Bytes::new(packet.length.into()) + lane.link.config().overhead;
                let mut host = lane.host.take().unwrap_or_else(|| lane.new_host());
                for gap in host.injector.packet(now, flow, target, rtt, bytes) {
                    lane.link.offer_gap(now, gap);
                }
                lane.host = Some(host);
            }
            None => self.enter(agenda, now, packet),
        }
        self.depart(agenda, now, number);
    }

    /// A packet whose time has come enters its class, or leaves where its host has none.
    fn enter(&mut self, agenda: &mut Agenda, now: Timestamp, packet: Packet) {
        let class = self.classes[packet.path as usize];
        let lane = &mut self.lanes[self.paths[packet.path as usize] as usize];
        let length = Bytes::new(packet.length.into()) + lane.link.config().overhead;
        if let Some(packet) = lane.host().schedule(now, class, packet, length) {
            self.offer(agenda, now, packet);
        }
    }

    /// What a lane's host lets go now goes; the rest has its turn when the first of it may.
    fn depart(&mut self, agenda: &mut Agenda, now: Timestamp, number: u32) {
        while let Some(packet) = self.lanes[number as usize].host().due(now) {
            self.enter(agenda, now, packet);
        }
        let waits = loop {
            match self.lanes[number as usize].host().scheduled(now) {
                Ok(packet) => self.offer(agenda, now, packet),
                Err(until) => break until,
            }
        };
        let host = self.lanes[number as usize].host();
        if let Some(next) = [waits, host.next_due()].into_iter().flatten().min() {
            let id = Id::new(What::Departure, number, 0);
            host.timer.set(next, |at| agenda.plan(at, id));
        }
    }

    /// The agenda's entry for a lane's host.
    pub(crate) fn departure(&mut self, agenda: &mut Agenda, now: Timestamp, number: u32) {
        let id = Id::new(What::Departure, number, 0);
        if self.lanes[number as usize].host().timer.fires(now, |at| agenda.plan(at, id)) {
            self.depart(agenda, now, number);
        }
    }

    /// A turn on the agenda: a lane's first packet, or what has come to a junction, is offered to the next
    /// lane. The packet, where that was its last lane.
    pub(crate) fn arrive(
        &mut self,
        agenda: &mut Agenda,
        now: Timestamp,
        turn: u32,
    ) -> Option<Packet> {
        let number = match self.turns[turn as usize] {
            Turn::Lane(number) => number,
            Turn::Junction(junction) => {
                self.cross(agenda, junction, |at, _| at <= now);
                return None;
            }
        };
        let (Arriving { packet, .. }, next) = self.lanes[number as usize].take();
        agenda.arrival(turn, next);
        self.arrivals += 1;
        if self.paths[packet.path as usize] != END {
            self.offer(agenda, now, packet);
            return None;
        }
        self.account.delivered.add(&packet);
        self.on_their_way[packet.owner as usize] -= 1;
        Some(packet)
    }

    /// Hands on those packets at a junction that have `come` there, by their times and lanes.
    fn cross(&mut self, agenda: &mut Agenda, number: u32, come: impl Fn(Timestamp, u32) -> bool) {
        loop {
            let junction = &mut self.junctions[number as usize];
            let first = junction.heads.first();
            let from = junction.from[first.number as usize];
            if first.at == NEVER || !come(first.at, from) {
                junction.plan(agenda);
                return;
            }
            let (Arriving { at, packet }, next) = self.lanes[from as usize].take();
            junction.heads.set(first.number, next);
            self.arrivals += 1;
            self.offer(agenda, at, packet);
        }
    }

    /// Hands on what has come to any junction, so that all is as it is now. Of what arrives at this very
    /// moment, that is what comes before the end of that turn.
    pub(crate) fn settle(&mut self, agenda: &mut Agenda, now: Timestamp, turn: u32) {
        let last = match self.turns.get(turn as usize) {
            Some(Turn::Lane(number)) => *number,
            _ => u32::MAX,
        };
        for junction in 0..self.junctions.len() as u32 {
            self.cross(agenda, junction, |at, lane| at < now || at == now && lane <= last);
        }
    }

    /// Offers a packet to the next lane of its path. What changes of it is changed where it lies in the
    /// end: a copy of what was written a moment ago in smaller pieces waits for the processor to write
    /// them.
    fn offer(&mut self, agenda: &mut Agenda, now: Timestamp, packet: Packet) {
        let number = self.paths[packet.path as usize];
        let lane = &mut self.lanes[number as usize];
        let ect = packet.flags & flag::CAPABLE != 0;
        let length = Bytes::new(packet.length.into());
        let flow = packet.owner.into();
        let fate = lane.link.offer(now, netmodel::Packet { length, ect, flow });
        let Fate::Arrives { at, marked, .. } = fate else {
            self.does_not_leave(agenda, now, number, packet, fate);
            return;
        };
        self.arrives(agenda, number, packet, at, marked);
    }

    /// A packet that was offered and does not leave at once: it waits for the queue's decision, or is gone.
    #[cold]
    fn does_not_leave(
        &mut self,
        agenda: &mut Agenda,
        now: Timestamp,
        number: u32,
        packet: Packet,
        fate: Fate,
    ) {
        if let Fate::Queued { ticket } = fate {
            self.lanes[number as usize].keep(ticket, packet);
            self.dequeue(agenda, now, number);
        } else {
            self.gone(fate, &packet);
        }
    }

    /// A packet goes onto a lane, at whose end it arrives then.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a call costs a simulation of full links a twentieth")]
    fn arrives(
        &mut self,
        agenda: &mut Agenda,
        number: u32,
        packet: Packet,
        at: Timestamp,
        marked: bool,
    ) {
        let lane = &mut self.lanes[number as usize];
        lane.arriving.push_back(Arriving { at, packet });
        if let Some(Arriving { packet, .. }) = lane.arriving.back_mut() {
            packet.path += 1;
            if marked {
                packet.flags |= flag::MARKED;
            }
        }
        if lane.arriving.len() == 1 {
            match lane.leads {
                Leads::On(turn) => agenda.arrival(turn, at),
                Leads::To { junction, place } => {
                    self.junctions[junction as usize].expect(agenda, place, at);
                }
            }
        }
    }

    /// The agenda's entry for a lane whose queue decides at departure.
    pub(crate) fn dequeue_due(&mut self, agenda: &mut Agenda, now: Timestamp, number: u32) {
        self.lanes[number as usize].dequeue_planned = false;
        self.dequeue(agenda, now, number);
    }

    /// What such a queue has decided by now goes on or is gone, and its next decision onto the agenda.
    fn dequeue(&mut self, agenda: &mut Agenda, now: Timestamp, number: u32) {
        while let Some((ticket, fate)) = self.lanes[number as usize].link.decided(now) {
            let packet = self.lanes[number as usize].queued[ticket as usize].take();
            let packet = packet.expect("it was kept when the link gave the ticket");
            match fate {
                Fate::Arrives { at, marked, .. } => {
                    self.arrives(agenda, number, packet, at, marked);
                }
                fate => self.gone(fate, &packet),
            }
        }
        let lane = &mut self.lanes[number as usize];
        if let Some(at) = lane.link.decides_at().filter(|_| !lane.dequeue_planned) {
            lane.dequeue_planned = true;
            agenda.plan(at, Id::new(What::Dequeue, number, 0));
        }
    }

    /// A packet that does not arrive.
    fn gone(&mut self, fate: Fate, packet: &Packet) {
        let count = match fate {
            Fate::QueueFull | Fate::EarlyDrop => &mut self.account.dropped,
            Fate::Lost => &mut self.account.lost,
            Fate::TooLong => &mut self.account.too_long,
            Fate::Arrives { .. } | Fate::Queued { .. } => unreachable!("it is not gone"),
        };
        count.add(packet);
        self.on_their_way[packet.owner as usize] -= 1;
        self.sacks.take(packet);
    }

    /// Asserts that every byte sent was delivered, dropped or lost, or is on its way.
    pub(crate) fn assert_conservation(&self) {
        let mut found = Count::default();
        for lane in &self.lanes {
            lane.arriving.iter().for_each(|arriving| found.add(&arriving.packet));
            lane.queued.iter().flatten().for_each(|packet| found.add(packet));
            if let Some(host) = &lane.host {
                found.packets += host.waits.packets;
                found.bytes += host.waits.bytes;
            }
        }
        let Account { sent, delivered, dropped, lost, too_long } = self.account;
        for count in [delivered, dropped, lost, too_long] {
            found.packets += count.packets;
            found.bytes += count.bytes;
        }
        assert_eq!(found, sent, "packets and bytes found and sent");
        for lane in &self.lanes {
            let counters = lane.link.counters();
            let decided =
                counters.delivered + counters.queue_drops + counters.losses + counters.too_long;
            let accounted = decided + lane.link.undecided().packets;
            assert_eq!(accounted, counters.offered, "a link accounts for every packet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;
    use netmodel::{Discipline, LinkConfig, LossModel, QueueLimit};
    use rand_core::Rng;
    use rand_pcg::Pcg64;
    use units::{Duration, Rate};

    /// Three senders over two lanes in a row to three receivers, with a narrow queue on each and losses on
    /// one; a fourth sender joins them on the second of the two.
    fn network() -> Network {
        network_with(u64::MAX, Discipline::TailDrop { mark: None })
    }

    /// The same, with another discipline on a lane.
    fn network_with(lane: u64, discipline: Discipline) -> Network {
        let taildrop = Discipline::TailDrop { mark: None };
        let link = |(n, micros): (u64, u64)| {
            Link::new(LinkConfig {
                rate: (n != 4).then(|| Rate::bits_per_second(100_000_000 + n * 1_000_000)),
                delay: Duration::from_micros(micros),
                queue: QueueLimit::Packets(5),
                discipline: if n == lane { discipline } else { taildrop },
                loss: if n == 3 { LossModel::Periodic(7) } else { LossModel::None },
                mtu: Bytes::new(1500),
                overhead: Bytes::ZERO,
                monitor: Duration::from_millis(1),
                spacing: true,
                seed: n,
            })
        };
        let delays = [100, 100, 130, 900, 700, 90, 80, 70, 100];
        let mut network = Network::new((0..).zip(delays).map(link).map(|link| (link, None)));
        for n in 0..3 {
            network.add_path(&[n, 3, 4, 5 + n]);
        }
        network.add_path(&[8, 4, 5]);
        network
    }

    /// What arrives at the end of its path, and when; and what a link says of itself, when looked at.
    #[derive(Debug, PartialEq, Eq)]
    enum Seen {
        Arrival(Timestamp, u64),
        Look(netmodel::Counters, u64),
    }

    fn seen(mut network: Network, junctions: Vec<Junction>, seed: u128) -> Vec<Seen> {
        let mut agenda = Agenda::new(network.give_turns(junctions));
        let mut random = Pcg64::new(seed, 1);
        let mut seen = Vec::new();
        let mut sent = Timestamp::ZERO;
        for number in 0..5000 {
            // Whole microseconds, so that much happens at one time.
            sent = sent + Duration::from_micros(random.next_u64() % 120);
            while let Some(entry) = agenda.first().filter(|entry| entry.at <= sent) {
                let turn = entry.id.index();
                if entry.id.what() == What::Dequeue {
                    agenda.pop();
                    network.dequeue_due(&mut agenda, entry.at, turn);
                    continue;
                }
                if let Some(packet) = network.arrive(&mut agenda, entry.at, turn) {
                    seen.push(Seen::Arrival(entry.at, packet.number));
                }
            }
            if random.next_u64().is_multiple_of(50) {
                network.settle(&mut agenda, sent, u32::MAX);
                for lane in &mut network.lanes {
                    let waits = lane.link.queue(sent).bytes;
                    seen.push(Seen::Look(*lane.link.counters(), waits));
                }
            }
            let path = [0, 5, 10, 15][(random.next_u64() % 4) as usize];
            let length = 100 + (random.next_u64() % 4 * 400) as u16;
            let (owner, window, flags) = (path, 0, 0);
            let kind = Kind::Datagram;
            let packet = Packet { number, owner, window, path, length, kind, flags };
            network.send(&mut agenda, sent, packet, None);
        }
        network.assert_conservation();
        seen
    }

    fn lanes_into(junctions: &[Junction]) -> Vec<&[u32]> {
        let mut from: Vec<_> = junctions.iter().map(|junction| &junction.from[..]).collect();
        from.sort_unstable();
        from
    }

    #[test]
    fn where_somebody_sends_or_receives_is_no_junction() {
        let mut network = network();
        network.add_path(&[4, 5]);
        network.add_path(&[0]);
        assert_eq!(lanes_into(&network.junctions()), [&[4]]);
    }

    #[test]
    fn at_junctions_it_is_all_the_same_when_packets_are_handed_on() {
        let seed = crate::testing::seed();
        let junctions = network().junctions();
        assert_eq!(lanes_into(&junctions), [&[0, 1, 2][..], &[3, 8], &[4]]);
        let late = seen(network(), junctions, seed);
        assert!(late == seen(network(), Vec::new(), seed));
        let dropped =
            |seen: &Seen| matches!(seen, Seen::Look(counters, _) if counters.queue_drops > 0);
        assert!(late.iter().any(dropped), "somewhere was a queue");
    }

    #[test]
    fn so_it_is_beside_queues_that_decide_at_departure() {
        let seed = crate::testing::seed();
        let (target, interval) = (Duration::from_micros(10), Duration::from_micros(40));
        let codel = netmodel::queue::codel::Params { target, interval, ecn: false };
        let quantum = Bytes::new(1000);
        let fq_codel = netmodel::queue::fq_codel::Params { codel, flows: 64, quantum };
        for discipline in [Discipline::Codel(codel), Discipline::FqCodel(fq_codel)] {
            // Where that lane begins is no junction. Lane 4 has no rate, lanes 0 to 2 begin at senders.
            for (lane, expected) in [
                (0, vec![&[0, 1, 2][..], &[3, 8], &[4]]),
                (3, vec![&[3, 8], &[4]]),
                (5, vec![&[0, 1, 2], &[3, 8]]),
            ] {
                let network = || network_with(lane, discipline);
                let junctions = network().junctions();
                assert_eq!(lanes_into(&junctions), expected);
                let late = seen(network(), junctions, seed);
                assert!(late == seen(network(), Vec::new(), seed), "{discipline:?} on {lane}");
                let early = |seen: &Seen| matches!(seen, Seen::Look(counters, _) if counters.early_drops > 0);
                // A flow's own queue of FQ-CoDel is too short here for its CoDel.
                let decides = lane == 3 && matches!(discipline, Discipline::Codel(_));
                assert!(!decides || late.iter().any(early), "it had something to decide");
            }
        }
    }
}
