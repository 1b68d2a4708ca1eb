// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows over one taildrop queue, packet by packet.
//!
//! A flow sends while less than its window is in flight, and not faster than its pacing rate where it
//! has one. A packet waits in the queue, takes its time on the link, and its acknowledgement comes
//! one propagation round trip later; packets are never reordered, so one that is acknowledged before
//! an older one tells that the older was dropped. Where nothing is acknowledged for a second (or two
//! round trips), all in flight counts as lost: a timeout.

use super::sender::{Flow, FlowSample, Sender};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};
use units::{Bytes, Duration, Rate, Timestamp};

/// A link that flows share.
#[derive(Debug, Clone, Copy)]
pub struct Bottleneck {
    /// The link's rate.
    pub rate: Rate,
    /// Packets that may wait, in addition to the one on the link.
    pub buffer_packets: usize,
    /// A packet as it counts on the link.
    pub packet: Bytes,
    /// Its payload.
    pub payload: Bytes,
}

/// The state at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Packets that wait.
    pub queue_packets: usize,
    /// Packets dropped so far.
    pub dropped: u64,
    /// Each flow.
    pub flows: Vec<FlowSample>,
}

impl Bottleneck {
    /// The time of a packet on the link.
    pub fn transmission(&self) -> Duration {
        self.rate.time_for(self.packet).expect("a link has a rate")
    }

    /// Runs the flows until `end` and samples every `interval`.
    pub fn run(&self, flows: &[Flow], end: Timestamp, interval: Duration) -> Vec<Sample> {
        let mut network = Network::new(*self, flows);
        network.plan(0, EventKind::Sample);
        let mut samples = Vec::new();
        while let Some(Reverse(PlannedEvent { at_ns, kind, .. })) = network.events.pop() {
            if at_ns > end.as_nanos() {
                break;
            }
            network.now_ns = at_ns;
            if kind == EventKind::Sample {
                samples.push(network.sample());
                network.plan(at_ns + interval.as_nanos(), EventKind::Sample);
            } else {
                network.happens(kind);
            }
        }
        samples
    }
}

/// In order of time, and of planning where times are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlannedEvent {
    at_ns: u64,
    order: u64,
    kind: EventKind,
}

/// What happens to the flow of that number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Sample,
    Start(usize),
    Acknowledged { flow: usize, packet: u64 },
    MaySend(usize),
    Timer(usize),
}

struct Network {
    link: Bottleneck,
    transmission_ns: u64,
    now_ns: u64,
    events: BinaryHeap<Reverse<PlannedEvent>>,
    planned: u64,
    /// When each packet that waits begins its transmission.
    queue: VecDeque<u64>,
    free_ns: u64,
    dropped: u64,
    senders: Vec<Sender>,
}

impl Network {
    fn new(link: Bottleneck, flows: &[Flow]) -> Self {
        let mut network = Self {
            link,
            transmission_ns: link.transmission().as_nanos(),
            now_ns: 0,
            events: BinaryHeap::new(),
            planned: 0,
            queue: VecDeque::new(),
            free_ns: 0,
            dropped: 0,
            senders: flows.iter().map(|flow| Sender::new(flow, link.payload)).collect(),
        };
        for (n, flow) in flows.iter().enumerate() {
            network.plan(flow.start.as_nanos(), EventKind::Start(n));
        }
        network
    }

    fn plan(&mut self, at_ns: u64, kind: EventKind) {
        self.planned += 1;
        self.events.push(Reverse(PlannedEvent { at_ns, order: self.planned, kind }));
    }

    fn happens(&mut self, kind: EventKind) {
        let now_ns = self.now_ns;
        match kind {
            EventKind::Sample => {}
            EventKind::Start(n) => {
                // The handshake has just been over the same path.
                let waits_ns = self.free_ns.saturating_sub(now_ns) + self.transmission_ns;
                self.senders[n].establish(now_ns, waits_ns);
                self.send(n);
                let at_ns = self.senders[n].gives_up_ns();
                self.plan(at_ns, EventKind::Timer(n));
            }
            EventKind::Acknowledged { flow, packet } => {
                self.senders[flow].acknowledged(now_ns, packet);
                self.send(flow);
            }
            EventKind::MaySend(n) => self.send(n),
            EventKind::Timer(n) => {
                if self.senders[n].gives_up_ns() <= now_ns {
                    self.senders[n].times_out(now_ns);
                    self.send(n);
                }
                let at_ns = self.senders[n].gives_up_ns().max(now_ns + 1);
                self.plan(at_ns, EventKind::Timer(n));
            }
        }
    }

    /// Sends what the flow may send now, and wakes it when its pacing lets it send more.
    fn send(&mut self, n: usize) {
        while let Some(packet) = self.senders[n].may_send(self.now_ns) {
            if let Some(left_ns) = self.offer() {
                let at_ns = left_ns + self.senders[n].flow.propagation.as_nanos();
                self.plan(at_ns, EventKind::Acknowledged { flow: n, packet });
            }
        }
        if let Some(at_ns) = self.senders[n].wake_ns(self.now_ns) {
            self.plan(at_ns, EventKind::MaySend(n));
        }
    }

    /// When a packet offered now has left the link; None where the queue is full.
    fn offer(&mut self) -> Option<u64> {
        self.settle();
        if self.free_ns > self.now_ns && self.queue.len() >= self.link.buffer_packets {
            self.dropped += 1;
            return None;
        }
        let begins_ns = self.free_ns.max(self.now_ns);
        if begins_ns > self.now_ns {
            self.queue.push_back(begins_ns);
        }
        self.free_ns = begins_ns + self.transmission_ns;
        Some(self.free_ns)
    }

    fn settle(&mut self) {
        while self.queue.front().is_some_and(|begins_ns| *begins_ns <= self.now_ns) {
            self.queue.pop_front();
        }
    }

    fn sample(&mut self) -> Sample {
        self.settle();
        Sample {
            at: Timestamp::from_nanos(self.now_ns),
            queue_packets: self.queue.len(),
            dropped: self.dropped,
            flows: self.senders.iter().map(Sender::sample).collect(),
        }
    }
}
