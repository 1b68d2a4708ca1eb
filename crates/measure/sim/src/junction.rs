// SPDX-License-Identifier: GPL-2.0-or-later
//! Junctions: points at which link directions lead into link directions, without a sender or receiver.
//!
//! What becomes of a packet on a link direction is decided by what was offered to the link direction before,
//! and when. Where all of that comes over other link directions, it is all the same at which moment of a run
//! it is worked out, as long as every packet is offered in order and with the time at which it came, and
//!
//! - before it can have passed the next link direction, so at most that link direction's delay later;
//! - before anybody looks: a sample, the end, a sender's number that may be free
//!   (`Network::settle`).
//!
//! That holds for links that decide at once when a packet comes. One that decides at departure has turns of
//! its own, at each of which it must know of every packet that has come: it does not begin at a junction.
//!
//! So packets cross a junction late and many at a time: it has its turn when the first waiting packet
//! would otherwise be too late. Of the three link directions from a sender over a bottleneck to its
//! receiver, only the last has a turn for every packet.

use crate::{
    event_queue::EventQueue,
    winner_tree::{NEVER, WinnerTree},
};
use std::collections::BTreeMap;
use units::{Duration, Timestamp};

/// Less than any time that passes.
const TICK: Duration = Duration::from_nanos(1);

#[derive(Debug)]
pub(crate) struct Junction {
    /// The link directions that lead there.
    pub(crate) from: Vec<u32>,
    /// When the first packet on each of them arrives, by its index in `from`.
    pub(crate) heads: WinnerTree,
    /// How much later than it arrives a packet may be handed on.
    lag: Duration,
    /// Its turn in the event queue, and when that is.
    pub(crate) arrival_source: u32,
    due: Timestamp,
}

impl Junction {
    /// The junctions of these paths over link directions with these delays, each of which decides at once or at
    /// departure.
    pub(crate) fn all<'a>(
        paths: impl Iterator<Item = &'a [u32]>,
        delays: &[Duration],
        at_once: &[bool],
    ) -> Vec<Self> {
        let mut points = MeetingPoints::new(delays.len());
        for (direction, _) in (0..).zip(at_once).filter(|(_, at_once)| !**at_once) {
            points.join(MeetingPoints::begin(direction), points.endpoints());
        }
        for path in paths {
            let (Some(first), Some(last)) = (path.first(), path.last()) else { continue };
            points.join(MeetingPoints::begin(*first), points.endpoints());
            points.join(points.end(*last), points.endpoints());
            for directions in path.windows(2) {
                points.join(points.end(directions[0]), MeetingPoints::begin(directions[1]));
            }
        }
        let mut found = BTreeMap::<usize, (Vec<u32>, Option<Duration>)>::new();
        for (direction, &delay) in (0..).zip(delays) {
            found
                .entry(points.representative(points.end(direction)))
                .or_default()
                .0
                .push(direction);
            let (_, least) =
                found.entry(points.representative(MeetingPoints::begin(direction))).or_default();
            *least = Some(least.map_or(delay, |least| least.min(delay)));
        }
        found.remove(&points.representative(points.endpoints()));
        let junction = |(from, delay): (Vec<u32>, Option<Duration>)| {
            // What leaves the next link direction comes at least a nanosecond after the turn.
            let lag = delay?.saturating_sub(TICK);
            let heads = WinnerTree::new(from.len());
            (lag > Duration::ZERO && !from.is_empty()).then_some(Self {
                from,
                heads,
                lag,
                arrival_source: 0,
                due: NEVER,
            })
        };
        found.into_values().filter_map(junction).collect()
    }

    /// The first packet on one of its link directions arrives then.
    pub(crate) fn expect(&mut self, events: &mut EventQueue, index: u32, at: Timestamp) {
        self.heads.set(index, at);
        if at + self.lag < self.due {
            self.plan(events);
        }
    }

    /// Has its turn when it is time for the first packet.
    pub(crate) fn plan(&mut self, events: &mut EventQueue) {
        self.due = NEVER.min(self.heads.first().at + self.lag);
        events.arrival(self.arrival_source, self.due);
    }
}

/// The beginnings and ends of link directions, and the endpoints: which of them meet.
struct MeetingPoints {
    directions: usize,
    /// Another point that each meets, nearer to the one that stands for all of them.
    joined: Vec<usize>,
}

impl MeetingPoints {
    fn new(directions: usize) -> Self {
        Self { directions, joined: (0..=2 * directions).collect() }
    }

    fn begin(direction: u32) -> usize {
        direction as usize
    }

    fn end(&self, direction: u32) -> usize {
        self.directions + direction as usize
    }

    fn endpoints(&self) -> usize {
        2 * self.directions
    }

    /// The one that stands for all that meet there.
    fn representative(&self, mut point: usize) -> usize {
        while self.joined[point] != point {
            point = self.joined[point];
        }
        point
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.representative(one), self.representative(other));
        self.joined[one] = other;
    }
}
