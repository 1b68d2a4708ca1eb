// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a link at work between two devices: the segments of what is read go onto the
//! link, and what survives waits here for its time.
//!
//! Where the link's discipline decides only when a segment leaves the queue, the segment is kept until then
//! under the ticket that the link gave it. The link decides in its own time, so it is enough to ask it before
//! the next segment can have arrived.

use crate::{
    gso_frame::{Frame, FramePart},
    health::Punctuality,
    link_clock::Reading,
    port::Port,
};
use netmodel::{Fate, Link, LinkChange, LinkConfig, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{collections::VecDeque, ops::Range};
use units::{Bytes, Duration, Timestamp};

/// One direction of a link between two devices.
pub struct DirectedLink {
    /// The link's properties.
    pub link: LinkConfig,
    /// The longest time on the link that one delivered frame may span; zero delivers single packets.
    pub max_burst: Duration,
    /// The port whose frames go in; none where they come out of another link.
    pub from: Option<Port>,
    /// Where frames come out.
    pub to: Outlet,
    /// Whether frames to groups are carried. Two hosts that know each other need none, and what their kernels send to
    /// groups by themselves (multicast listener reports) would only spoil the counts.
    pub carries_groups: bool,
}

/// Where the frames of a directed link come out.
pub enum Outlet {
    /// By a port.
    Port(Port),
    /// On the directed link of that number, at the moment of their arrival.
    Link(usize),
}

/// A directed link that the emulator moves packets along.
pub struct Running {
    pub link: Link,
    pub from: Option<Port>,
    pub to: Outlet,
    pub carries_groups: bool,
    pub pending: VecDeque<Pending>,
    pub backlog: Backlog,
    /// Frames that were too long for the port that they came out at.
    pub too_long: u64,
    /// How many of its packets came out late.
    pub punctuality: Punctuality,
    max_burst: Duration,
    /// Segments of which the link has not said what becomes of them, by their tickets.
    queued: Vec<Option<Queued>>,
    /// The frame and run of the last entry of `pending`, as long as it may grow.
    last: Option<(Frame, Run)>,
}

/// A frame on its way: written to the directed link's device at `release`.
pub struct Pending {
    pub release: Timestamp,
    pub frame: FramePart,
    /// How many packets it is on the wire.
    pub packets: u64,
    pub read: Reading,
}

/// A segment that the link keeps.
#[derive(Clone)]
struct Queued {
    frame: Frame,
    segment: usize,
    read: Reading,
}

/// Neighbouring segments of one frame that are delivered together.
#[derive(Clone)]
struct Run {
    starts: Timestamp,
    segments: Range<usize>,
    release: Timestamp,
    /// Whether they carry the mark of congestion (CE).
    marked: bool,
    read: Reading,
}

impl Running {
    pub fn new(directed_link: DirectedLink) -> Self {
        let DirectedLink { link, max_burst, from, to, carries_groups } = directed_link;
        let (mut link, pending) = (Link::new(link), VecDeque::new());
        link.reserve();
        let (backlog, queued) = (Backlog::default(), Vec::new());
        Self {
            link,
            from,
            to,
            carries_groups,
            pending,
            backlog,
            too_long: 0,
            punctuality: Punctuality::default(),
            max_burst,
            queued,
            last: None,
        }
    }

    /// Takes in a frame that arrived at `now`, where the link is ([`catch_up`](Self::catch_up)): its packets go onto the link, a gap frame ends on it.
    pub fn accept(&mut self, now: Timestamp, frame: &Frame, read: Reading) {
        if frame.is_gap() {
            self.offer_gap(now, frame);
        } else if self.carries_groups || !frame.is_multicast() {
            self.offer(now, frame, read);
        }
    }

    /// Offers each segment of a frame, and queues runs of neighbours that survive for delivery.
    fn offer(&mut self, now: Timestamp, frame: &Frame, read: Reading) {
        let mut run: Option<Run> = None;
        let (ect, flow) = (frame.is_ect(), frame.flow());
        for n in 0..frame.segments() {
            let length = Bytes::new(frame.packet_length(n) as u64);
            let fate = self.link.offer(now, Packet { length, ect, flow });
            if let Fate::Queued { ticket } = fate {
                self.keep(ticket, Queued { frame: frame.clone(), segment: n, read });
                self.decide(now);
                continue;
            }
            let (starts, at, marked) = match fate {
                Fate::Arrives { starts, at, marked } => (starts, at, marked),
                Fate::ArrivesImpaired { starts, at, marked, on_time: true, twice: false } => {
                    (starts, at, marked)
                }
                Fate::ArrivesImpaired { starts, at, marked, twice, .. } => {
                    self.deliver(frame, run.take());
                    let segments = n..n + 1;
                    let alone = Run { starts, segments, release: at, marked, read };
                    self.deliver_alone(frame, &alone, twice);
                    continue;
                }
                _ => {
                    self.deliver(frame, run.take());
                    continue;
                }
            };
            // Serialisation of this run up to and with this segment; propagation cancels out.
            let ends = at - self.link.config().delay;
            match &mut run {
                // A receiver's stack merges no marked segments with others either.
                Some(run)
                    if run.marked == marked && self.fits_one_frame(ends.since(run.starts)) =>
                {
                    run.segments.end = n + 1;
                    run.release = at;
                }
                _ => {
                    self.deliver(frame, run.take());
                    run = Some(Run { starts, segments: n..n + 1, release: at, marked, read });
                }
            }
        }
        self.deliver(frame, run);
    }

    /// Queues a segment for delivery by itself, or twice.
    fn deliver_alone(&mut self, frame: &Frame, alone: &Run, twice: bool) {
        for _ in 0..=u32::from(twice) {
            self.deliver(frame, Some(alone.clone()));
        }
    }

    /// Keeps a segment until the link says what becomes of it.
    fn keep(&mut self, ticket: u32, segment: Queued) {
        let at = ticket as usize;
        if at >= self.queued.len() {
            self.queued.resize(at + 1, None);
        }
        self.queued[at] = Some(segment);
    }

    /// Queues for delivery what the link has decided by `now`.
    pub fn decide(&mut self, now: Timestamp) {
        while let Some((ticket, fate)) = self.link.decided(now) {
            let kept = self.queued[ticket as usize].take();
            let Queued { frame, segment, read } =
                kept.expect("it was kept when the link gave the ticket");
            let segments = segment..segment + 1;
            match fate {
                Fate::Arrives { starts, at, marked } => {
                    self.append(frame, Run { starts, segments, release: at, marked, read });
                }
                Fate::ArrivesImpaired { starts, at, marked, twice, .. } => {
                    let alone = Run { starts, segments, release: at, marked, read };
                    self.deliver_alone(&frame, &alone, twice);
                }
                _ => {}
            }
        }
    }

    /// Queues a segment for delivery: with those before it that it follows in its frame, if the span fits and
    /// they have not been delivered.
    fn append(&mut self, frame: Frame, alone: Run) {
        let ends = alone.release - self.link.config().delay;
        let last = self.last.take().filter(|(of, run)| {
            of.is_same(&frame)
                && run.segments.end == alone.segments.start
                && run.marked == alone.marked
                && self.fits_one_frame(ends.since(run.starts))
        });
        let run = if let Some((_, run)) = last {
            self.pending.pop_back();
            let segments = run.segments.start..alone.segments.end;
            Run { segments, release: alone.release, ..run }
        } else {
            alone
        };
        self.deliver(&frame, Some(run.clone()));
        self.last = Some((frame, run));
    }

    /// The link is as it is now. One that decides at departure knows before only of the packet on the wire, not
    /// that others were behind it.
    pub fn catch_up(&mut self, now: Timestamp) {
        if !self.link.decides_at_once() {
            self.decide(now);
        }
    }

    /// When the next segment can arrive that the link has not decided about: it is asked by then.
    pub fn next_decision(&self) -> Option<Timestamp> {
        Some(self.link.decides_at()? + self.link.config().delay)
    }

    /// When the first frame is due.
    pub fn next_release(&self) -> Option<Timestamp> {
        self.pending.front().map(|frame| frame.release)
    }

    /// Takes the first frame away, for delivery.
    pub fn take_due(&mut self) -> Option<Pending> {
        let due = self.pending.pop_front();
        if self.pending.is_empty() {
            self.last = None;
        }
        due
    }

    /// Puts a gap frame onto the link, where it ends.
    fn offer_gap(&mut self, now: Timestamp, frame: &Frame) {
        // A link's sizes are those of IP packets and an overhead for what is around them.
        let bytes = frame.packet_length(0) as u64 + self.link.config().overhead.get();
        self.link.offer_gap(now, Bytes::new(bytes));
    }

    /// Whether segments that take `span` on the link may be delivered in one frame.
    fn fits_one_frame(&self, span: Duration) -> bool {
        // Without a rate every span is zero, and a limit of zero still means single packets.
        self.max_burst > Duration::ZERO && span <= self.max_burst
    }

    fn deliver(&mut self, frame: &Frame, run: Option<Run>) {
        if let Some(run) = run {
            let packets = run.segments.len() as u64;
            let mut cut = frame.cut(run.segments);
            if run.marked {
                cut.mark();
            }
            let release = run.release;
            // Most belong at the end. Late ones wait for those that overtake them.
            let later = self.pending.iter().rev().take_while(|other| other.release > release);
            let place = self.pending.len() - later.count();
            self.pending.insert(place, Pending { release, frame: cut, packets, read: run.read });
        }
    }

    /// Has what the link does over time begin now.
    pub fn begin_schedule(&mut self, now: Timestamp) {
        self.link.begin_schedule(now);
    }

    /// Changes the link from now on. What it has decided by then arrives as it was decided.
    pub fn change(&mut self, now: Timestamp, change: LinkChange) {
        self.catch_up(now);
        self.link.change(now, change);
        // Frames that are delivered together have crossed the same link.
        self.last = None;
    }

    /// Whether the port has another frame, asked without taking it.
    pub fn has_unread(&self) -> bool {
        let Some(from) = &self.from else { return false };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut device = [PollFd::new(from, PollFlags::IN)];
        poll(&mut device, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// How long a link idled while a frame is known to have waited unread in its device.
///
/// Lateness of deliveries does not show that: a segment's time begins when its frame is read, so
/// with too much to read every delivery can be on time while the link carries less than was sent.
///
/// Known is the wait of a frame that was seen when the emulator had to stop reading, and of those
/// behind it until the device is found empty. Not known is a wait before the device was looked at.
#[derive(Debug, Default)]
pub struct Backlog {
    unread_since: Option<Timestamp>,
    starved: Duration,
}

impl Backlog {
    /// Reading ended at `now` with a frame still in the device.
    pub fn remains(&mut self, now: Timestamp) {
        self.unread_since = Some(now);
    }

    /// The device has no more.
    pub fn is_gone(&mut self) {
        self.unread_since = None;
    }

    /// Records that a frame was read at `now` for a link that has been free since `free_at`.
    pub fn frame_read(&mut self, now: Timestamp, free_at: Timestamp) {
        if let Some(since) = &mut self.unread_since {
            self.starved = self.starved + now.since(free_at.max(*since));
            *since = now;
        }
    }

    /// The sum so far.
    pub fn starved(&self) -> Duration {
        self.starved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmodel::{Discipline, Impairments, LossModel, QueueLimit};
    use units::Rate;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    #[test]
    fn gap_frame_takes_link_time_and_is_not_delivered() {
        let link = LinkConfig {
            rate: Some(Rate::bits_per_second(8_000_000).into()),
            delay: Duration::ZERO,
            queue: QueueLimit::Unlimited,
            discipline: Discipline::TailDrop { mark: None },
            loss: LossModel::None,
            impairments: Impairments::default(),
            mtu: Bytes::new(1500),
            overhead: Bytes::new(38),
            monitor: Duration::from_micros(500),
            spacing: false,
            seed: 1,
        };
        let mut directed_link = Running::new(DirectedLink {
            link,
            max_burst: Duration::ZERO,
            from: None,
            to: Outlet::Link(0),
            carries_groups: false,
        });
        // With the virtio-net header of 10 bytes; of the link, preamble, check sequence and inter-frame gap more.
        for (length, bytes) in [(60, 84), (4072, 4096)] {
            let free_at = directed_link.link.free_at().max(at(0));
            let frame = Frame::parse(&[&[0; 10][..], &vec![0; length]].concat()).unwrap();
            directed_link.offer_gap(at(0), &frame);
            // A byte takes a microsecond.
            assert_eq!(directed_link.link.free_at().since(free_at), Duration::from_micros(bytes));
        }
        assert!(directed_link.pending.is_empty());
        let counters = directed_link.link.counters();
        assert_eq!((counters.gaps, counters.gap_bytes, counters.offered), (2, 4180, 0));
    }

    #[test]
    fn idle_link_starves_only_while_a_frame_waits() {
        let mut backlog = Backlog::default();
        backlog.frame_read(at(100), at(0));
        assert_eq!(backlog.starved(), Duration::ZERO, "nothing was known to wait");
        backlog.remains(at(110));
        backlog.frame_read(at(150), at(120));
        assert_eq!(backlog.starved(), Duration::from_micros(30), "idle since 120");
        backlog.frame_read(at(160), at(0));
        assert_eq!(backlog.starved(), Duration::from_micros(40), "idle before 150 is counted once");
        backlog.frame_read(at(170), at(900));
        assert_eq!(backlog.starved(), Duration::from_micros(40), "a busy link starves of nothing");
        backlog.is_gone();
        backlog.frame_read(at(5000), at(900));
        assert_eq!(backlog.starved(), Duration::from_micros(40), "it idled because nothing came");
    }
}
