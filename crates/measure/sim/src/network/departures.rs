// SPDX-License-Identifier: GPL-2.0-or-later
//! How packets come from their senders onto the first link direction of their path, where pacing or a host's
//! classes may hold them back ([`SenderQdisc`]).

use super::Network;
use crate::{
    event_queue::{EventId, EventKind, EventQueue},
    packet::Packet,
    sender_qdisc::PacketPacing,
};
use units::{Bytes, Rate, Timestamp};

impl Network {
    /// Gives the host of a link direction classes of these rates; packets of each of these paths, which begin
    /// with that link direction, are of the class given with the path.
    pub(crate) fn set_classes(&mut self, direction: u32, rates: &[Rate], paths: &[(u32, u16)]) {
        let direction = &mut self.directions[direction as usize];
        let wire = direction
            .link
            .config()
            .nominal_rate()
            .expect("a checked bottleneck's first link has one");
        direction.qdisc().set_classes(wire, rates);
        for (path, class) in paths {
            self.classes[*path as usize] = *class;
        }
    }

    /// A packet that a sender's pacing or its host's classes may hold back.
    pub(super) fn pass_qdisc(
        &mut self,
        events: &mut EventQueue,
        now: Timestamp,
        packet: Packet,
        paced: Option<PacketPacing>,
    ) {
        let number = self.paths[packet.path as usize];
        match paced {
            // Packets that may leave immediately wait too: behind those that are due now and have not left.
            Some(PacketPacing::At(at)) => {
                self.directions[number as usize].qdisc().hold_until(at, packet);
            }
            Some(PacketPacing::Gap { flow, target, rtt }) => {
                self.enter_class(events, now, packet);
                let direction = &mut self.directions[number as usize];
                let bytes = Bytes::new(packet.length.into()) + direction.link.config().overhead;
                let mut qdisc = direction.qdisc.take().unwrap_or_else(|| direction.new_qdisc());
                for gap in qdisc.injector.packet(now, flow, target, rtt, bytes) {
                    direction.link.offer_gap(now, gap);
                }
                direction.qdisc = Some(qdisc);
            }
            None => self.enter_class(events, now, packet),
        }
        self.depart(events, now, number);
    }

    /// A packet whose time has come enters its class, or leaves where its host has none.
    fn enter_class(&mut self, events: &mut EventQueue, now: Timestamp, packet: Packet) {
        let class = self.classes[packet.path as usize];
        let direction = &mut self.directions[self.paths[packet.path as usize] as usize];
        let length = Bytes::new(packet.length.into()) + direction.link.config().overhead;
        if let Some(packet) = direction.qdisc().enqueue(now, class, packet, length) {
            self.offer(events, now, packet);
        }
    }

    /// What a link direction's host lets go now goes; the rest has its turn when the first of it may.
    fn depart(&mut self, events: &mut EventQueue, now: Timestamp, number: u32) {
        while let Some(packet) = self.directions[number as usize].qdisc().pop_due(now) {
            self.enter_class(events, now, packet);
        }
        let waits = loop {
            match self.directions[number as usize].qdisc().dequeue(now) {
                Ok(packet) => self.offer(events, now, packet),
                Err(until) => break until,
            }
        };
        let qdisc = self.directions[number as usize].qdisc();
        if let Some(next) = [waits, qdisc.next_due()].into_iter().flatten().min() {
            let id = EventId::new(EventKind::Departure, number, 0);
            qdisc.timer.set(next, |at| events.plan(at, id));
        }
    }

    /// The event for a link direction's host.
    pub(crate) fn departure(&mut self, events: &mut EventQueue, now: Timestamp, number: u32) {
        let id = EventId::new(EventKind::Departure, number, 0);
        if self.directions[number as usize].qdisc().timer.fires(now, |at| events.plan(at, id)) {
            self.depart(events, now, number);
        }
    }
}
