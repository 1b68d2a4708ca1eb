// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a link.

use crate::{Loss, LossModel, Monitor, Spacing, SpacingMeter};
use std::collections::VecDeque;
use units::{Bytes, Duration, Rate, Timestamp};

/// What one direction of a link is like.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// The rate of serialisation; without one, it takes no time and nothing ever queues.
    pub rate: Option<Rate>,
    /// Propagation, one way.
    pub delay: Duration,
    /// Where the queue ends.
    pub queue: QueueLimit,
    /// From which queue on packets are marked, for who can be told of congestion (ECN, RFC 3168);
    /// none are where it is none.
    pub mark: Option<QueueLimit>,
    /// Loss on the wire, after serialisation: a lost packet has used the link.
    pub loss: LossModel,
    /// The longest IP packet that it carries.
    pub mtu: Bytes,
    /// What a packet takes on the link beyond its IP length. 14 counts an Ethernet frame as tc
    /// does; 38 adds preamble, check sequence and inter-frame gap, as the wire does.
    pub overhead: Bytes,
    /// The width of the monitor's bins.
    pub monitor: Duration,
    /// Whether gaps and bursts are counted, at some nanoseconds a packet.
    pub spacing: bool,
    /// The seed of the losses.
    pub seed: u64,
}

/// Where a taildrop queue ends. Counted are the packets that wait; the one being serialised has
/// left the queue, as in Linux's pfifo and ns-2's `DropTail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Nowhere.
    Unlimited,
    /// At so many packets.
    Packets(u64),
    /// At so many bytes on the link, [`LinkConfig::overhead`] included.
    Bytes(Bytes),
}

/// A packet, as far as a link looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Of the IP packet.
    pub length: Bytes,
    /// Whether its sender can be told of congestion by a mark (ECT, RFC 3168).
    pub ect: bool,
}

impl From<Bytes> for Packet {
    /// One that is not marked.
    fn from(length: Bytes) -> Self {
        Self { length, ect: false }
    }
}

/// What became of an offered packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives {
        /// When its first bit goes onto the wire.
        starts: Timestamp,
        /// When its last bit reaches the other end.
        at: Timestamp,
        /// Whether it is marked (CE): it met a queue that marks, and its sender can be told.
        marked: bool,
    },
    /// The queue was full.
    QueueFull,
    /// Lost on the wire.
    Lost,
    /// Longer than the MTU.
    TooLong,
}

/// Counts since the start. `offered` is the sum of all other packet counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered: u64,
    /// Packets that arrive.
    pub delivered: u64,
    /// Packets dropped at the full queue.
    pub queue_drops: u64,
    /// Packets lost on the wire.
    pub losses: u64,
    /// Packets longer than the MTU.
    pub too_long: u64,
    /// Packets marked by the queue, lost ones included. They are in one of the counts above, too.
    pub marks: u64,
    /// Bytes on the link (with overhead) of packets that were serialised, lost ones included.
    pub carried_bytes: u64,
    /// Bytes on the link of packets that arrive.
    pub delivered_bytes: u64,
    /// The largest number of packets that waited at once.
    pub queue_max_packets: u64,
    /// The largest number of bytes that waited at once.
    pub queue_max_bytes: u64,
    /// The sum of all times in the queue, for the mean over `offered` less drops.
    pub queueing: Duration,
    /// Gap frames that were serialised. They are in none of the counts above but the queue's largest.
    pub gaps: u64,
    /// Their bytes on the link.
    pub gap_bytes: u64,
    /// Gap frames dropped at the full queue.
    pub gap_drops: u64,
}

/// What waits at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets and gap frames that wait.
    pub packets: u64,
    /// Their bytes on the link.
    pub bytes: u64,
    /// Of those, gap frames.
    pub gaps: u64,
    /// And their bytes.
    pub gap_bytes: u64,
}

/// One direction of a link at work.
#[derive(Debug, Clone)]
pub struct Link {
    config: LinkConfig,
    loss: Loss,
    monitor: Monitor,
    spacing: Option<SpacingMeter>,
    counters: Counters,
    /// Accepted packets whose serialisation had not begun when last looked: when it begins, and
    /// the bytes, with [`GAP`] of a gap frame. In order of time.
    waiting: VecDeque<(Timestamp, u64)>,
    waiting_bytes: u64,
    waiting_gaps: QueueState,
    /// When the wire is free again: whole nanoseconds, and the rest in units of 1/rate ns, so that
    /// no rounding accumulates over a busy period.
    free_at: Timestamp,
    free_rest: u64,
    /// What the last length took, of packets and of gap frames: most are as long as the one before.
    last: [Transmission; 2],
    now: Timestamp,
}

/// Marks the bytes of a gap frame among those that wait.
const GAP: u64 = 1 << 63;

/// What is put onto the wire.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Packet,
    Gap,
}

/// How long so many bytes take on the wire: whole nanoseconds, and the rest in units of 1/rate ns.
#[derive(Debug, Clone, Copy, Default)]
struct Transmission {
    bytes: u64,
    nanos: u64,
    rest: u64,
}

impl Transmission {
    fn new(bytes: u64, rate: Rate) -> Self {
        // In 128 bits: from 2.3 GB on, bits times 10^9 no longer fit 64. The quotient fits unless a
        // packet takes centuries.
        let work = u128::from(bytes) * 8_000_000_000;
        let rate = u128::from(rate.bps());
        Self { bytes, nanos: (work / rate) as u64, rest: (work % rate) as u64 }
    }
}

impl Link {
    /// An idle link at time zero.
    pub fn new(config: LinkConfig) -> Self {
        Self {
            loss: Loss::new(config.loss, config.seed),
            monitor: Monitor::new(config.monitor),
            spacing: config.spacing.then(SpacingMeter::new),
            counters: Counters::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_gaps: QueueState::default(),
            free_at: Timestamp::ZERO,
            free_rest: 0,
            last: Default::default(),
            now: Timestamp::ZERO,
            config,
        }
    }

    /// Offers a packet at `now`. Time never runs backwards: an earlier `now` is taken as the latest one
    /// seen.
    #[inline]
    pub fn offer(&mut self, now: Timestamp, packet: impl Into<Packet>) -> Fate {
        let Packet { length, ect } = packet.into();
        self.advance(now);
        self.counters.offered += 1;
        if length > self.config.mtu {
            self.counters.too_long += 1;
            return Fate::TooLong;
        }
        let bytes = (length + self.config.overhead).get();
        let waits = self.must_wait();
        if waits && !self.has_room(self.config.queue, bytes) {
            self.counters.queue_drops += 1;
            return Fate::QueueFull;
        }
        let marked =
            ect && waits && self.config.mark.is_some_and(|from| !self.has_room(from, bytes));
        self.counters.marks += u64::from(marked);
        let (starts, ends) = self.serialise(bytes, Kind::Packet);
        self.counters.carried_bytes += bytes;
        self.monitor.add(ends, bytes);
        if let Some(spacing) = &mut self.spacing {
            spacing.add(starts, ends);
        }
        if self.loss.next_is_lost() {
            self.counters.losses += 1;
            return Fate::Lost;
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += bytes;
        Fate::Arrives { starts, at: ends + self.config.delay, marked }
    }

    /// Offers a gap frame that takes so many bytes of the link, overhead included: it is serialised like a
    /// packet and arrives nowhere, since the port at the other end drops it. Whether the queue had room.
    #[inline]
    pub fn offer_gap(&mut self, now: Timestamp, bytes: Bytes) -> bool {
        self.advance(now);
        let bytes = bytes.get();
        let queueing = self.counters.queueing;
        if self.must_wait() && !self.has_room(self.config.queue, bytes) {
            self.counters.gap_drops += 1;
            return false;
        }
        let waited = self.waiting.len();
        self.serialise(bytes, Kind::Gap);
        if self.waiting.len() > waited
            && let Some((_, waits)) = self.waiting.back_mut()
        {
            *waits |= GAP;
            self.waiting_gaps.gaps += 1;
            self.waiting_gaps.gap_bytes += bytes;
        }
        self.counters.queueing = queueing;
        self.counters.gaps += 1;
        self.counters.gap_bytes += bytes;
        true
    }

    #[inline]
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some(&(starts, bytes)) = self.waiting.front() {
            if starts > self.now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes & !GAP;
            if bytes & GAP != 0 {
                self.waiting_gaps.gaps -= 1;
                self.waiting_gaps.gap_bytes -= bytes & !GAP;
            }
        }
    }

    fn must_wait(&self) -> bool {
        self.free_at > self.now
    }

    fn has_room(&self, limit: QueueLimit, bytes: u64) -> bool {
        match limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(limit) => (self.waiting.len() as u64) < limit,
            QueueLimit::Bytes(limit) => self.waiting_bytes + bytes <= limit.get(),
        }
    }

    /// Puts what was accepted onto the wire behind the others: when it begins and ends.
    #[inline]
    fn serialise(&mut self, bytes: u64, kind: Kind) -> (Timestamp, Timestamp) {
        let Some(rate) = self.config.rate else { return (self.now, self.now) };
        if self.must_wait() {
            self.waiting.push_back((self.free_at, bytes));
            self.waiting_bytes += bytes;
            let counters = &mut self.counters;
            counters.queue_max_packets = counters.queue_max_packets.max(self.waiting.len() as u64);
            counters.queue_max_bytes = counters.queue_max_bytes.max(self.waiting_bytes);
            counters.queueing = counters.queueing + self.free_at.since(self.now);
        } else {
            self.free_at = self.now;
            self.free_rest = 0;
        }
        let starts = self.free_at;
        let last = &mut self.last[kind as usize];
        if bytes != last.bytes {
            *last = Transmission::new(bytes, rate);
        }
        let mut nanos = last.nanos;
        self.free_rest += last.rest;
        if self.free_rest >= rate.bps() {
            self.free_rest -= rate.bps();
            nanos += 1;
        }
        self.free_at = starts + Duration::from_nanos(nanos);
        (starts, self.free_at)
    }

    /// What waits at `now`.
    pub fn queue(&mut self, now: Timestamp) -> QueueState {
        self.advance(now);
        let packets = self.waiting.len() as u64;
        QueueState { packets, bytes: self.waiting_bytes, ..self.waiting_gaps }
    }

    /// When the wire is free again: in the past where it is idle, and time zero where it has no
    /// rate, so is never taken.
    pub fn free_at(&self) -> Timestamp {
        self.free_at
    }

    /// Counts so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For a thread that must not be held up: makes room for all that the link may come to count.
    pub fn reserve(&mut self) {
        self.monitor.reserve();
        if let Some(spacing) = &mut self.spacing {
            spacing.reserve();
        }
    }

    /// Bytes over time, each packet counted whole when its last bit leaves onto the wire.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Gaps and bursts of what went onto the wire, lost packets included, and of what waits for it;
    /// none where they are not counted.
    pub fn spacing(&mut self) -> Option<&Spacing> {
        self.spacing.as_mut().map(SpacingMeter::counted)
    }

    /// What the link is like.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }
}
