// SPDX-License-Identifier: GPL-2.0-or-later
//! Lanes, paths over them, and the packets on their way.
//!
//! A link says at once when an accepted packet arrives, and its packets arrive in order. So a lane is
//! a queue of packets with their times of arrival, of which only the first is on the agenda.

use crate::{
    agenda::Agenda,
    packet::{Packet, Sacks, flag},
};
use netmodel::{Fate, Link};
use std::collections::VecDeque;
use units::{Bytes, Timestamp};

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) link: Link,
    arriving: VecDeque<(Timestamp, Packet)>,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    fn add(&mut self, packet: &Packet) {
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

/// The lanes of paths, by number.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) lanes: Vec<Lane>,
    paths: Vec<Box<[u32]>>,
    pub(crate) sacks: Sacks,
    pub(crate) account: Account,
    /// Packets on their way, by owner.
    on_their_way: Vec<u32>,
}

impl Network {
    pub(crate) fn new(links: impl Iterator<Item = Link>) -> Self {
        let lane = |link| Lane { link, arriving: VecDeque::new() };
        Self { lanes: links.map(lane).collect(), ..Self::default() }
    }

    /// A path by the numbers of its lanes. None where there are too many paths, or too long ones.
    pub(crate) fn add_path(&mut self, lanes: Vec<u32>) -> Option<u16> {
        if lanes.len() > u8::MAX.into() {
            return None;
        }
        let number = u16::try_from(self.paths.len()).ok()?;
        self.paths.push(lanes.into());
        Some(number)
    }

    /// The lanes of a path.
    pub(crate) fn path(&self, path: u16) -> &[u32] {
        &self.paths[usize::from(path)]
    }

    /// Whether packets of that owner are on their way.
    pub(crate) fn carries(&self, owner: u32) -> bool {
        self.on_their_way.get(owner as usize).is_some_and(|packets| *packets > 0)
    }

    pub(crate) fn send(&mut self, agenda: &mut Agenda, now: Timestamp, packet: Packet) {
        self.account.sent.add(&packet);
        let owner = packet.owner as usize;
        if owner >= self.on_their_way.len() {
            self.on_their_way.resize(owner + 1, 0);
        }
        self.on_their_way[owner] += 1;
        self.offer(agenda, now, packet, 0);
    }

    /// Takes the first packet off its lane and onto the next one. The packet, where this was its last.
    pub(crate) fn arrive(
        &mut self,
        agenda: &mut Agenda,
        now: Timestamp,
        lane: u32,
    ) -> Option<Packet> {
        let arriving = &mut self.lanes[lane as usize].arriving;
        let (_, packet) = arriving.pop_front().expect("a lane on the agenda has a packet");
        agenda.arrival(lane, arriving.front().map(|(next, _)| *next));
        let hop = packet.hop + 1;
        if usize::from(hop) < self.paths[usize::from(packet.path)].len() {
            self.offer(agenda, now, packet, hop);
            return None;
        }
        self.account.delivered.add(&packet);
        self.on_their_way[packet.owner as usize] -= 1;
        Some(packet)
    }

    /// Offers a packet to that lane of its path. What changes of it is changed where it lies in the end:
    /// a copy of what was written a moment ago in smaller pieces waits for the processor to write them.
    fn offer(&mut self, agenda: &mut Agenda, now: Timestamp, packet: Packet, hop: u8) {
        let number = self.paths[usize::from(packet.path)][usize::from(hop)];
        let lane = &mut self.lanes[number as usize];
        let gone = match lane.link.offer(now, Bytes::new(packet.length.into())) {
            Fate::Arrives { at, marked, .. } => {
                if lane.arriving.is_empty() {
                    agenda.arrival(number, Some(at));
                }
                lane.arriving.push_back((at, packet));
                if let Some((_, packet)) = lane.arriving.back_mut() {
                    packet.hop = hop;
                    if marked && packet.flags & flag::CAPABLE != 0 {
                        packet.flags |= flag::MARKED;
                    }
                }
                return;
            }
            Fate::QueueFull => &mut self.account.dropped,
            Fate::Lost => &mut self.account.lost,
            Fate::TooLong => &mut self.account.too_long,
        };
        gone.add(&packet);
        self.on_their_way[packet.owner as usize] -= 1;
        self.sacks.take(packet.sacks);
    }

    /// Asserts that every byte sent was delivered, dropped or lost, or is on its way.
    pub(crate) fn assert_conservation(&self) {
        let mut found = Count::default();
        for lane in &self.lanes {
            lane.arriving.iter().for_each(|(_, packet)| found.add(packet));
        }
        let Account { sent, delivered, dropped, lost, too_long } = self.account;
        for count in [delivered, dropped, lost, too_long] {
            found.packets += count.packets;
            found.bytes += count.bytes;
        }
        assert_eq!(found, sent, "packets and bytes found and sent");
        for lane in &self.lanes {
            let counters = lane.link.counters();
            let accounted =
                counters.delivered + counters.queue_drops + counters.losses + counters.too_long;
            assert_eq!(accounted, counters.offered, "a link accounts for every packet");
        }
    }
}
