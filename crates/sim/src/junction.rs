// SPDX-License-Identifier: GPL-2.0-or-later
//! Where lanes lead into lanes and nobody sends or receives.
//!
//! What becomes of a packet on a lane is decided by what was offered to the lane before, and when. Where
//! all of that comes over other lanes, it is all the same at which moment of a run it is worked out, as
//! long as every packet is offered in order and with the time at which it came, and
//!
//! - before it can have passed the next lane, so at most that lane's delay later;
//! - before anybody looks: a sample, the end, a sender's number that may be free
//!   (`Network::settle`).
//!
//! That holds for links that decide at once when a packet comes. One that decides at departure has turns of
//! its own, at each of which it must know of every packet that has come: where it begins is no junction.
//!
//! So packets cross a junction late and many at a time: it has its turn when the first packet that has come
//! there would else be too late. Of the three lanes from a sender over a bottleneck to its receiver, only
//! the last has a turn for every packet.

use crate::{
    agenda::Agenda,
    tournament::{NEVER, Tournament},
};
use std::collections::BTreeMap;
use units::{Duration, Timestamp};

/// Less than any time that passes.
const TICK: Duration = Duration::from_nanos(1);

#[derive(Debug)]
pub(crate) struct Junction {
    /// The lanes that lead there.
    pub(crate) from: Vec<u32>,
    /// When the first packet on each of them arrives, by its place in `from`.
    pub(crate) heads: Tournament,
    /// How much later than it arrives a packet may be handed on.
    lag: Duration,
    /// Its turn on the agenda, and when that is.
    pub(crate) turn: u32,
    due: Timestamp,
}

impl Junction {
    /// The junctions of these paths over lanes with these delays, each of which decides at once or at
    /// departure.
    pub(crate) fn all<'a>(
        paths: impl Iterator<Item = &'a [u32]>,
        delays: &[Duration],
        at_once: &[bool],
    ) -> Vec<Self> {
        let mut places = Places::new(delays.len());
        for (lane, _) in (0..).zip(at_once).filter(|(_, at_once)| !**at_once) {
            places.join(Places::begin(lane), places.endpoints());
        }
        for path in paths {
            let (Some(first), Some(last)) = (path.first(), path.last()) else { continue };
            places.join(Places::begin(*first), places.endpoints());
            places.join(places.end(*last), places.endpoints());
            for lanes in path.windows(2) {
                places.join(places.end(lanes[0]), Places::begin(lanes[1]));
            }
        }
        let mut found = BTreeMap::<usize, (Vec<u32>, Option<Duration>)>::new();
        for (lane, &delay) in (0..).zip(delays) {
            found.entry(places.of(places.end(lane))).or_default().0.push(lane);
            let (_, least) = found.entry(places.of(Places::begin(lane))).or_default();
            *least = Some(least.map_or(delay, |least| least.min(delay)));
        }
        found.remove(&places.of(places.endpoints()));
        let junction = |(from, delay): (Vec<u32>, Option<Duration>)| {
            // What leaves the next lane comes at least a nanosecond after the turn.
            let lag = delay?.saturating_sub(TICK);
            let heads = Tournament::new(from.len());
            (lag > Duration::ZERO && !from.is_empty()).then_some(Self {
                from,
                heads,
                lag,
                turn: 0,
                due: NEVER,
            })
        };
        found.into_values().filter_map(junction).collect()
    }

    /// The first packet on one of its lanes arrives then.
    pub(crate) fn expect(&mut self, agenda: &mut Agenda, place: u32, at: Timestamp) {
        self.heads.set(place, at);
        if at + self.lag < self.due {
            self.plan(agenda);
        }
    }

    /// Has its turn when it is time for the first packet.
    pub(crate) fn plan(&mut self, agenda: &mut Agenda) {
        self.due = NEVER.min(self.heads.first().at + self.lag);
        agenda.arrival(self.turn, self.due);
    }
}

/// The beginnings and ends of lanes, and the endpoints: which of them meet.
struct Places {
    lanes: usize,
    /// Another place that each meets, nearer to the one that stands for all of them.
    joined: Vec<usize>,
}

impl Places {
    fn new(lanes: usize) -> Self {
        Self { lanes, joined: (0..=2 * lanes).collect() }
    }

    fn begin(lane: u32) -> usize {
        lane as usize
    }

    fn end(&self, lane: u32) -> usize {
        self.lanes + lane as usize
    }

    fn endpoints(&self) -> usize {
        2 * self.lanes
    }

    /// The one that stands for all that meet there.
    fn of(&self, mut place: usize) -> usize {
        while self.joined[place] != place {
            place = self.joined[place];
        }
        place
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.joined[one] = other;
    }
}
