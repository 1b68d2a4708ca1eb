// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a link: the packets that wait for it and those that are on their way over it.

use crate::{packet::Packet, sender_qdisc::SenderQdisc, winner_tree::NEVER};
use netmodel::{Link, pacing::GapFrames};
use std::collections::VecDeque;
use units::Timestamp;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    pub(crate) link: Link,
    pub(super) arriving: VecDeque<Arriving>,
    pub(super) far_end: FarEnd,
    /// What gap frames are like on it, where it has a rate.
    frames: Option<GapFrames>,
    /// Queueing discipline between the senders and the link direction, if any sender is paced.
    pub(super) qdisc: Option<Box<SenderQdisc>>,
    /// Packets of which the link has not said what becomes of them, by their tickets.
    pub(super) queued: Vec<Option<Packet>>,
    /// Whether the event queue has the time at which it next says something.
    pub(super) dequeue_planned: bool,
    /// When packets begin that arrive otherwise than their link's delay after their end.
    pub(super) begins: Begins,
}

/// Packets that have not begun to go onto the link, where their arrival does not tell.
#[derive(Debug, Default)]
pub(super) struct Begins(VecDeque<(Timestamp, Packet)>);

impl Begins {
    /// A packet begins then. What has begun by now is forgotten.
    pub(super) fn note(&mut self, now: Timestamp, begins: Timestamp, packet: &Packet) {
        while self.0.front().is_some_and(|(begun, _)| *begun <= now) {
            self.0.pop_front();
        }
        if begins > now {
            self.0.push_back((begins, *packet));
        }
    }

    /// Those that have not begun at that time.
    pub(super) fn after(&self, now: Timestamp) -> impl Iterator<Item = &Packet> {
        self.0.iter().filter(move |(begins, _)| *begins > now).map(|(_, packet)| packet)
    }
}

/// A packet on its way, and when it arrives at the link direction's end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arriving {
    pub(super) at: Timestamp,
    pub(super) packet: Packet,
}

impl LinkDirection {
    /// Nothing is on its way. `frames`: what gap frames are like on it, where it has a rate.
    pub(super) fn new(link: Link, frames: Option<GapFrames>) -> Self {
        Self {
            link,
            arriving: VecDeque::new(),
            far_end: FarEnd::OneByOne(0),
            frames,
            qdisc: None,
            queued: Vec::new(),
            dequeue_planned: false,
            begins: Begins::default(),
        }
    }

    pub(super) fn new_qdisc(&self) -> Box<SenderQdisc> {
        Box::new(SenderQdisc::new(
            self.frames.expect("pacing is planned for links with a rate only"),
        ))
    }

    pub(super) fn qdisc(&mut self) -> &mut SenderQdisc {
        if self.qdisc.is_none() {
            self.qdisc = Some(self.new_qdisc());
        }
        self.qdisc.as_mut().expect("made above")
    }

    /// Keeps a packet until the link says what becomes of it.
    pub(super) fn keep(&mut self, ticket: u32, packet: Packet) {
        let at = ticket as usize;
        if at >= self.queued.len() {
            self.queued.resize(at + 1, None);
        }
        self.queued[at] = Some(packet);
    }

    /// Puts a packet among those on their way, behind those that arrive then or before. Whether it is the first.
    pub(super) fn insert(&mut self, packet: Arriving) -> bool {
        // Most belong at the end, or near it.
        let later = self.arriving.iter().rev().take_while(|other| other.at > packet.at).count();
        let place = self.arriving.len() - later;
        self.arriving.insert(place, packet);
        place == 0
    }

    /// Takes the first packet away, which there is; and when the next one arrives.
    #[inline]
    pub(super) fn take(&mut self) -> (Arriving, Timestamp) {
        // Not what `pop_front` gives: an optional packet is taken apart and put together again.
        let first = self.arriving[0];
        self.arriving.pop_front();
        (first, self.arriving.front().map_or(NEVER, |next| next.at))
    }
}

/// Where packets come at the end of a link direction.
#[derive(Debug, Clone, Copy)]
pub(super) enum FarEnd {
    /// Each at its time: the link direction's turn in the event queue.
    OneByOne(u32),
    /// To a junction, and which of its link directions this is.
    Junction { junction: u32, index: u32 },
}
