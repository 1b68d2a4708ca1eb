// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a link.

#![allow(clippy::inline_always, reason = "calls cost a simulation of full links a twenty-fifth")]

use crate::{
    Counters, Discipline, Fate, GapStatistics, Impairments, Loss, LossModel, Monitor, QueueLimit,
    QueueState, RateOverTime, SpacingMeter,
    impairment::Impairing,
    queue::{
        Queue,
        arrival::{QueueOnArrival, Verdict},
        departure_queue::TakenPacket,
    },
    service::Service,
};
use std::collections::VecDeque;
use units::{Bytes, Duration, Rate, Timestamp};

mod change;

pub use change::LinkChange;

/// Settings of one direction of a link.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// The rate of serialisation; without one, it takes no time and nothing ever queues.
    pub rate: Option<RateOverTime>,
    /// Propagation, one way.
    pub delay: Duration,
    /// Where the queue ends.
    pub queue: QueueLimit,
    /// The queue's discipline.
    pub discipline: Discipline,
    /// Loss on the wire, after serialisation: a lost packet has used the link.
    pub loss: LossModel,
    /// What it does to packets beyond that.
    pub impairments: Impairments,
    /// The longest IP packet that it carries.
    pub mtu: Bytes,
    /// Bytes of the link that a packet takes beyond its IP length. 14 counts an Ethernet frame as tc
    /// does; 38 adds preamble, check sequence and inter-frame gap, as the wire does.
    pub overhead: Bytes,
    /// The width of the monitor's bins.
    pub monitor: Duration,
    /// Whether gaps and bursts are counted, at some nanoseconds a packet.
    pub spacing: bool,
    /// The seed of the losses, the impairments and the discipline's chance.
    pub seed: u64,
}

impl LinkConfig {
    /// The rate, where one stands for all: see [`RateOverTime::nominal`].
    pub fn nominal_rate(&self) -> Option<Rate> {
        self.rate.as_ref().map(RateOverTime::nominal)
    }
}

/// A packet, as far as a link looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Of the IP packet.
    pub length: Bytes,
    /// Whether its sender supports ECN (ECT, RFC 3168).
    pub ect: bool,
    /// Tells its flow from others, for a discipline that has a queue for each.
    pub flow: u64,
}

impl From<Bytes> for Packet {
    /// One that is not marked, of some flow.
    fn from(length: Bytes) -> Self {
        Self { length, ect: false, flow: 0 }
    }
}

/// One direction of a link at work.
#[derive(Debug, Clone)]
pub struct Link {
    config: LinkConfig,
    queue: Queue,
    loss: Loss,
    /// The nominal rate.
    rate: Option<Rate>,
    /// Where that is not the rate all the time.
    service: Option<Box<Service>>,
    impairing: Option<Box<Impairing>>,
    monitor: Monitor,
    spacing: Option<SpacingMeter>,
    counters: Counters,
    /// Accepted packets whose serialisation had not begun when last looked: when it begins, and
    /// the bytes, with [`GAP`] of a gap frame. In order of time. Empty where the discipline decides at
    /// departure.
    waiting: VecDeque<(Timestamp, u64)>,
    waiting_bytes: u64,
    waiting_gaps: QueueState,
    /// When the wire is free again: whole nanoseconds, and the rest in units of 1/rate ns, so that
    /// no rounding accumulates over a busy period.
    free_at: Timestamp,
    free_rest: u64,
    /// Cached transmission times of the last lengths, of packets and of gap frames: most are as long as the one
    /// before.
    last: [Transmission; 2],
    now: Timestamp,
}

/// Marks the bytes of a gap frame among those that wait.
const GAP: u64 = 1 << 63;

/// Kind of frame on the wire.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Packet,
    Gap,
}

/// Transmission time of a number of bytes: whole nanoseconds, and the rest in units of 1/rate ns.
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
        let largest = (config.mtu + config.overhead).get();
        Self {
            queue: Queue::new(config.discipline, config.seed, largest),
            loss: Loss::new(config.loss, config.seed),
            rate: config.nominal_rate(),
            service: config
                .rate
                .as_ref()
                .and_then(|rate| Service::new(rate, &config.impairments.outages))
                .map(Box::new),
            impairing: Impairing::new(&config.impairments, config.seed),
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
        let Packet { length, ect, flow } = packet.into();
        self.advance(now);
        self.counters.offered += 1;
        if length > self.config.mtu {
            self.counters.too_long += 1;
            return Fate::TooLong;
        }
        let bytes = (length + self.config.overhead).get();
        if self.impairing.is_some() && !self.passes_policer(bytes) {
            return Fate::Policed;
        }
        let Queue::TailDrop { mark } = self.queue else {
            return self.offer_to_discipline(bytes, ect, flow);
        };
        let waits = self.must_wait();
        if waits && !self.has_room(self.config.queue, bytes) {
            self.counters.queue_drops += 1;
            return Fate::QueueFull;
        }
        let marked = ect && waits && mark.is_some_and(|from| !self.has_room(from, bytes));
        self.counters.marks += u64::from(marked);
        let (starts, ends) = self.serialise(bytes, Kind::Packet);
        self.cross(bytes, (starts, ends), marked)
    }

    /// The same with another discipline than taildrop. Apart, so that taildrop's way is short.
    #[cold]
    fn offer_to_discipline(&mut self, bytes: u64, ect: bool, flow: u64) -> Fate {
        if matches!(self.queue, Queue::AtDeparture(_)) {
            self.serve();
            return self.schedule(bytes, ect, flow);
        }
        match self.judge(bytes, ect) {
            Ok(marked) => {
                self.counters.marks += u64::from(marked);
                let (starts, ends) = self.serialise(bytes, Kind::Packet);
                self.cross(bytes, (starts, ends), marked)
            }
            Err(dropped) => dropped,
        }
    }

    /// Decision of a discipline at arrival: whether the packet is marked, or its fate if it is dropped.
    fn judge(&mut self, bytes: u64, ect: bool) -> Result<bool, Fate> {
        let found = QueueOnArrival {
            packets: self.waiting.len() as u64,
            bytes: self.waiting_bytes,
            free_at: self.free_at,
        };
        let verdict = match &mut self.queue {
            Queue::Red(red) => {
                let rate = self.service.as_ref().map(|service| service.rate_at(self.now));
                red.judge(self.now, ect, rate.or(self.rate), found)
            }
            Queue::Pie(pie) => pie.judge(self.now, ect, found),
            Queue::TailDrop { .. } | Queue::AtDeparture(_) => Verdict::Pass,
        };
        if verdict == Verdict::Drop {
            self.counters.queue_drops += 1;
            self.counters.early_drops += 1;
            return Err(Fate::EarlyDrop);
        }
        if self.must_wait() && !self.has_room(self.config.queue, bytes) {
            self.counters.queue_drops += 1;
            return Err(Fate::QueueFull);
        }
        Ok(verdict == Verdict::Mark)
    }

    /// The fate of a packet on the wire.
    #[inline(always)]
    fn cross(&mut self, bytes: u64, (starts, ends): (Timestamp, Timestamp), marked: bool) -> Fate {
        self.counters.carried_bytes += bytes;
        self.monitor.add(ends, bytes);
        if let Some(spacing) = &mut self.spacing {
            spacing.add(starts, ends);
        }
        if self.loss.next_is_lost() {
            self.counters.losses += 1;
            return Fate::Lost;
        }
        let at = ends + self.config.delay;
        if self.impairing.is_some() {
            return self.impair(bytes, (starts, ends), at, marked);
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += bytes;
        Fate::Arrives { starts, at, marked }
    }

    /// Whether the policer, if there is one, lets a packet pass.
    #[cold]
    fn passes_policer(&mut self, bytes: u64) -> bool {
        let bucket = self.impairing.as_mut().and_then(|impairing| impairing.bucket.as_mut());
        let passes = bucket.is_none_or(|bucket| bucket.passes(self.now, bytes));
        self.counters.policed += u64::from(!passes);
        passes
    }

    /// The fate of a packet that the wire has not lost, where it has impairments.
    #[cold]
    fn impair(
        &mut self,
        bytes: u64,
        (starts, ends): (Timestamp, Timestamp),
        at: Timestamp,
        marked: bool,
    ) -> Fate {
        let impairing = self.impairing.as_mut().expect("asked before");
        if impairing.is_cut(ends) {
            self.counters.losses += 1;
            self.counters.outage_losses += 1;
            return Fate::Lost;
        }
        let arrival = impairing.arrival(at);
        self.counters.delivered += 1;
        self.counters.delivered_bytes += bytes;
        self.counters.late += u64::from(arrival.late);
        self.counters.copies += u64::from(arrival.twice);
        let on_time = arrival.at == at;
        Fate::ArrivesImpaired { starts, at: arrival.at, marked, on_time, twice: arrival.twice }
    }

    /// A packet for a discipline that decides at departure.
    fn schedule(&mut self, bytes: u64, ect: bool, flow: u64) -> Fate {
        let waits = self.must_wait();
        let Queue::AtDeparture(queue) = &mut self.queue else { unreachable!("asked before") };
        if waits && queue.refuses(self.config.queue, bytes) {
            self.counters.queue_drops += 1;
            return Fate::QueueFull;
        }
        let ticket = queue.push(self.now, flow, bytes, ect);
        if waits {
            self.counters.queue_drops += queue.overflow(self.config.queue);
            let (waits, counters) = (queue.waits(), &mut self.counters);
            counters.queue_max_packets = counters.queue_max_packets.max(waits.packets);
            counters.queue_max_bytes = counters.queue_max_bytes.max(waits.bytes);
        } else {
            self.take(self.now);
        }
        Fate::Queued { ticket }
    }

    /// The wire, which is free, takes what the discipline gives it at that time.
    fn take(&mut self, now: Timestamp) {
        let Queue::AtDeparture(queue) = &mut self.queue else { return };
        let (taken, dropped) = queue.take(now);
        self.counters.queue_drops += dropped;
        self.counters.early_drops += dropped;
        let Some(TakenPacket { ticket, marked, came, bytes }) = taken else { return };
        self.counters.marks += u64::from(marked);
        self.counters.queueing = self.counters.queueing + now.since(came);
        let span = match self.rate {
            None => (now, now),
            Some(rate) => {
                if self.free_at < now {
                    self.begin_anew(now);
                }
                self.occupy(bytes, rate, Kind::Packet)
            }
        };
        let fate = self.cross(bytes, span, marked);
        if let Queue::AtDeparture(queue) = &mut self.queue {
            queue.decide(ticket, fate);
        }
    }

    /// Whether it is known when a packet is offered what becomes of it, or only when it leaves the queue.
    pub fn decides_at_once(&self) -> bool {
        !matches!(self.queue, Queue::AtDeparture(_))
    }

    /// The next fate of a packet that was [queued](Fate::Queued), if one is decided by `now`, with
    /// the packet's ticket, which is free then. In the order of the decisions.
    pub fn decided(&mut self, now: Timestamp) -> Option<(u32, Fate)> {
        self.advance(now);
        self.serve();
        let Queue::AtDeparture(queue) = &mut self.queue else { return None };
        queue.next_decided()
    }

    /// When [`Link::decided`] next has something to tell, if nothing comes before; none where nothing waits.
    pub fn decides_at(&self) -> Option<Timestamp> {
        let Queue::AtDeparture(queue) = &self.queue else { return None };
        if queue.has_decided() {
            return Some(self.now);
        }
        (queue.waits().packets > 0).then_some(self.free_at)
    }

    /// Packets that wait and of which it is not decided what becomes of them: none but where the discipline
    /// decides at departure.
    pub fn undecided(&self) -> QueueState {
        match &self.queue {
            Queue::AtDeparture(queue) => queue.waits(),
            _ => QueueState::default(),
        }
    }

    /// Offers a gap frame that takes `bytes` bytes of the link, overhead included: it is serialised like a
    /// packet and arrives nowhere, since the port at the other end drops it. Whether the queue took it: it had
    /// room, and keeps the order of what comes, without which a gap means nothing.
    #[inline]
    pub fn offer_gap(&mut self, now: Timestamp, bytes: Bytes) -> bool {
        self.advance(now);
        let bytes = bytes.get();
        let queueing = self.counters.queueing;
        let in_order = !matches!(self.queue, Queue::AtDeparture(_));
        if !in_order || self.must_wait() && !self.has_room(self.config.queue, bytes) {
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

    #[inline(always)]
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
        if let Some(service) = &self.service {
            // A wire that is down is taken, also where it was idle.
            let begins = service.begins(self.now);
            if begins > self.now && self.free_at < begins {
                if self.free_at < self.now {
                    self.begin_anew(begins);
                }
                self.free_at = begins;
            }
        }
    }

    /// The wire takes what it was free for by now, where the discipline decides at departure.
    fn serve(&mut self) {
        while self.undecided().packets > 0 && self.free_at <= self.now {
            self.take(self.free_at);
        }
    }

    fn must_wait(&self) -> bool {
        self.free_at > self.now
    }

    #[inline]
    fn has_room(&self, limit: QueueLimit, bytes: u64) -> bool {
        limit.holds(self.waiting.len() as u64 + 1, self.waiting_bytes + bytes)
    }

    /// Puts what was accepted onto the wire behind the others: when it begins and ends.
    #[inline(always)]
    fn serialise(&mut self, bytes: u64, kind: Kind) -> (Timestamp, Timestamp) {
        let Some(rate) = self.rate else { return (self.now, self.now) };
        if self.must_wait() {
            self.waiting.push_back((self.free_at, bytes));
            self.waiting_bytes += bytes;
            let counters = &mut self.counters;
            counters.queue_max_packets = counters.queue_max_packets.max(self.waiting.len() as u64);
            counters.queue_max_bytes = counters.queue_max_bytes.max(self.waiting_bytes);
            counters.queueing = counters.queueing + self.free_at.since(self.now);
        } else {
            self.begin_anew(self.now);
        }
        self.occupy(bytes, rate, kind)
    }

    /// The wire was idle until then.
    #[inline]
    fn begin_anew(&mut self, now: Timestamp) {
        self.free_at = now;
        self.free_rest = 0;
        if let Some(service) = &mut self.service {
            service.was_idle();
        }
    }

    /// Transmits `bytes` bytes once the wire is free. Returns when they begin and end.
    #[inline(always)]
    fn occupy(&mut self, bytes: u64, rate: Rate, kind: Kind) -> (Timestamp, Timestamp) {
        let starts = self.free_at;
        if let Some(service) = &mut self.service {
            let ends = service.ends(starts, bytes);
            self.free_at = service.begins(ends);
            return (starts, ends);
        }
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

    /// Length of the queue at `now`.
    pub fn queue(&mut self, now: Timestamp) -> QueueState {
        self.advance(now);
        self.serve();
        if let Queue::AtDeparture(queue) = &self.queue {
            return queue.waits();
        }
        let packets = self.waiting.len() as u64;
        QueueState { packets, bytes: self.waiting_bytes, ..self.waiting_gaps }
    }

    /// Has what the link does over time (rates that change, outages) begin now. It begins at time zero otherwise.
    pub fn begin_schedule(&mut self, now: Timestamp) {
        if let Some(service) = &mut self.service {
            service.begin_schedule(now);
        }
        if let Some(impairing) = &mut self.impairing {
            impairing.begin_schedule(now);
        }
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
    pub fn spacing(&mut self) -> Option<&GapStatistics> {
        self.spacing.as_mut().map(SpacingMeter::counted)
    }

    /// The settings of the link.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }
}
