// SPDX-License-Identifier: GPL-2.0-or-later
//! Which of a session's connections carries which bytes, if it has several at once (docs/lsl.md, section 15). No sockets, no
//! clock: time is an argument.
//!
//! ```text
//! lost      no healthy connection carries it: sent again by the one that is expected to deliver it first
//! new       taken by a connection with room, unless another one would have sent all of it before this one delivers it
//! late      nothing new may be sent: a faster connection sends again what a slower one still carries
//! ```
//! The unit is the group of 256 KiB, which the receiver verifies by itself. GOT tells, for each connection, what has arrived by
//! it: rate, round trip and bytes in flight are measured from end to end, whatever depots buffer. Room is 1 MiB and twice the
//! rate times the shortest round trip, as in BBR (draft-ietf-ccwg-bbr, section 4.6.4.2). The rule for new bytes is that of ECF
//! (Lim and others, 2017), with what the receiver still takes as its horizon, as in BLEST (Ferlin and others, 2016).
//! A connection without progress is suspected, and its bytes are lost until it goes on; later it is given up.

use crate::session::{
    fields::Malformed,
    tree::{GROUP, group_end, group_start},
};
use std::{collections::VecDeque, ops::Range, time::Duration};

/// The most connections of a session at once.
pub const MAX_LANES: usize = 16;
/// What a connection may carry before anything is known of it, and on top of what is known later.
const LEAST_ROOM: u64 = 4 * GROUP;
/// A connection is suspected after this time without progress, or later if it is known to be slow.
const SUSPECTED_AFTER: Duration = Duration::from_secs(1);
/// It is given up after this time.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);
/// Rates are remembered for this time, or for 8 round trips.
const RATE_MEMORY: Duration = Duration::from_secs(1);
/// The shortest round trip is remembered for this time.
const RTT_MEMORY: Duration = Duration::from_secs(10);
/// Nothing is known any more of a connection that has carried nothing for this time: it is tried.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3);
/// The shortest interval that a rate is measured over.
const LEAST_INTERVAL: Duration = Duration::from_micros(100);

/// A connection of a session; a number is not used again in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

/// What a connection sends next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignment {
    /// Bytes that were not sent before.
    New(Range<u64>),
    /// A group from its beginning, as far as it was sent.
    Again(Range<u64>),
}

/// How far the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamEnd {
    /// Offset before which everything was sent once.
    pub sent: u64,
    /// Offset up to which bytes are there and the receiver takes them.
    pub to: u64,
}

/// Assigns the bytes of a stream to connections.
#[derive(Debug)]
pub struct Scheduler {
    lanes: Vec<Lane>,
    /// From the group of the first byte that is not acknowledged to that of the last one that was sent.
    groups: VecDeque<Group>,
    /// Where the first of them begins.
    first: u64,
    /// The connection that carries the last group, if that is not complete: what follows in it goes there too.
    unfinished: Option<LaneId>,
    /// Some group may be lost: a connection is gone or suspected.
    may_lack: bool,
}

#[derive(Debug)]
struct Lane {
    id: LaneId,
    carried: VecDeque<Carried>,
    /// Bytes given to it.
    sent: u64,
    /// Of these, bytes that have arrived.
    got: u64,
    /// When the latest arrived.
    got_at: Duration,
    /// Rates in bytes a second and when they were measured; the highest of those that are remembered first.
    rates: VecDeque<(Duration, u64)>,
    /// Round trips likewise, the shortest first.
    rtts: VecDeque<(Duration, Duration)>,
    /// Smoothed, of whole groups.
    rtt: Option<Duration>,
    is_suspected: bool,
}

/// A group under way on a connection.
#[derive(Debug)]
struct Carried {
    group: u64,
    /// Offset in the stream up to which it is there.
    end: u64,
    /// [`Lane::sent`] behind it.
    upto: u64,
    at: Duration,
    /// [`Lane::got`] when it was sent, and since when.
    got: u64,
    since: Duration,
}

/// A group that is not acknowledged.
#[derive(Debug)]
struct Group {
    /// Offset up to which it has arrived.
    got_to: u64,
}

impl Lane {
    fn new(id: LaneId, now: Duration) -> Self {
        let (rates, rtts, rtt) = (VecDeque::new(), VecDeque::new(), None);
        let carried = VecDeque::new();
        Self { id, carried, sent: 0, got: 0, got_at: now, rates, rtts, rtt, is_suspected: false }
    }

    fn in_flight(&self) -> u64 {
        self.sent - self.got
    }

    /// Bytes a second; `None` if it is not known.
    fn rate(&self) -> Option<u64> {
        self.rates.front().map(|(_, rate)| *rate).filter(|rate| *rate > 0)
    }

    fn shortest_rtt(&self) -> Duration {
        self.rtts.front().map(|(_, rtt)| *rtt).unwrap_or_default()
    }

    /// How many bytes may be under way.
    fn room(&self) -> u64 {
        let of_path = self.rate().map_or(0, |rate| bytes_in(rate, self.shortest_rtt()));
        LEAST_ROOM.saturating_add(of_path.saturating_mul(2))
    }

    /// When this many further bytes will have arrived, and GOT for them; at once if nothing is known.
    fn time_for(&self, bytes: u64) -> Duration {
        let Some(rate) = self.rate() else { return Duration::ZERO };
        time_of(self.in_flight().saturating_add(bytes), rate) + self.shortest_rtt()
    }

    /// When the group will have arrived that it carries.
    fn time_until(&self, carried: &Carried, now: Duration) -> Duration {
        let Some(rate) = self.rate() else { return Duration::MAX };
        let by_rate = time_of(carried.upto.saturating_sub(self.got), rate);
        by_rate.max((carried.at + self.shortest_rtt()).saturating_sub(now))
    }

    fn carries(&self, group: u64) -> Option<&Carried> {
        self.carried.iter().rev().find(|carried| carried.group == group)
    }

    /// Since when it has not gone on.
    fn waits_since(&self) -> Option<Duration> {
        self.carried.front().map(|oldest| oldest.at.max(self.got_at))
    }

    /// Looks at the time: forgets what is old, and suspects the connection if it does not go on. Whether it does so now.
    fn look(&mut self, now: Duration) -> bool {
        let slow = self.rate().map_or(Duration::ZERO, |rate| time_of(GROUP, rate)) * 3;
        let patience = SUSPECTED_AFTER.max(self.rtt.unwrap_or_default() * 4).max(slow);
        let overdue = |since: Duration| now.saturating_sub(since) > patience;
        if self.carried.is_empty() && now.saturating_sub(self.got_at) > FORGOTTEN_AFTER {
            self.rates.clear();
        }
        let was_suspected = self.is_suspected;
        self.is_suspected |= self.waits_since().is_some_and(overdue);
        self.is_suspected && !was_suspected
    }

    /// Takes what has arrived by it; returns the groups and how far they are there.
    fn take(&mut self, got: u64, now: Duration) -> Vec<(u64, u64)> {
        let (mut arrived, mut latest) = (Vec::new(), None);
        self.got = got;
        while self.carried.front().is_some_and(|front| front.upto <= got) {
            let front = self.carried.pop_front().expect("there is one");
            arrived.push((front.group, front.end));
            latest = Some(front);
        }
        self.got_at = now;
        self.is_suspected = false;
        let Some(latest) = latest else { return arrived };
        let rtt = now.saturating_sub(latest.at);
        self.rtt = Some(self.rtt.map_or(rtt, |old| (old * 7 + rtt) / 8));
        let interval = now.saturating_sub(latest.since).max(LEAST_INTERVAL);
        let rate = u128::from(got - latest.got) * 1_000_000_000 / interval.as_nanos();
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // Of those before a larger one, or a shorter one, none will be asked for.
        while self.rates.back().is_some_and(|(_, earlier)| *earlier <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((now, rate));
        while self.rtts.back().is_some_and(|(_, earlier)| *earlier >= rtt) {
            self.rtts.pop_back();
        }
        self.rtts.push_back((now, rtt));
        let memory = RATE_MEMORY.max(self.shortest_rtt() * 8);
        forget(&mut self.rates, now, memory);
        forget(&mut self.rtts, now, RTT_MEMORY);
        arrived
    }
}

/// Drops what is older than `memory`.
fn forget<T>(samples: &mut VecDeque<(Duration, T)>, now: Duration, memory: Duration) {
    while samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > memory) {
        samples.pop_front();
    }
}

fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn bytes_in(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
}

impl Scheduler {
    /// A stream that was sent and acknowledged up to `acknowledged`.
    pub fn new(acknowledged: u64) -> Self {
        let (lanes, groups) = (Vec::new(), VecDeque::new());
        let (first, unfinished, may_lack) = (group_start(acknowledged), None, false);
        let mut scheduler = Self { lanes, groups, first, unfinished, may_lack };
        scheduler.reaches(acknowledged);
        scheduler.acknowledge(acknowledged);
        scheduler
    }

    /// A further connection. Nothing is known of it.
    pub fn join(&mut self, id: LaneId, now: Duration) {
        self.lanes.push(Lane::new(id, now));
    }

    /// A connection is gone: what it carries is lost.
    pub fn leave(&mut self, id: LaneId) {
        self.lanes.retain(|lane| lane.id != id);
        self.may_lack = true;
    }

    /// How many bytes have arrived by a connection, those that came again included.
    pub fn carried(&self, id: LaneId) -> u64 {
        self.lane(id).map_or(0, |lane| lane.got)
    }

    /// What this connection sends next; `None` if nothing now.
    pub fn next(&mut self, id: LaneId, stream: StreamEnd, now: Duration) -> Option<Assignment> {
        for lane in &mut self.lanes {
            self.may_lack |= lane.look(now);
        }
        let lane = self.lane(id)?;
        if lane.is_suspected || lane.in_flight() >= lane.room() {
            return None;
        }
        if let Some(range) = self.lost(stream.sent)
            && !self.is_on_trial(id)
            && self.is_first_to_deliver(id, &range)
        {
            return Some(Assignment::Again(range));
        }
        if stream.sent < stream.to {
            let range = stream.sent..group_end(stream.sent).min(stream.to);
            return self.is_for(id, &range, stream).then_some(Assignment::New(range));
        }
        self.late(id, stream.sent, now).map(Assignment::Again)
    }

    /// The range was given to the connection.
    pub fn sent(&mut self, id: LaneId, range: &Range<u64>, now: Duration) {
        self.reaches(range.end);
        let group = group_start(range.start);
        if group == self.last_group() {
            self.unfinished = Some(id);
        }
        // Of a connection that has gone meanwhile nothing arrives.
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) else {
            self.may_lack = true;
            return;
        };
        let since = if lane.in_flight() == 0 { now } else { lane.got_at };
        lane.sent += range.end - range.start;
        let upto = lane.sent;
        match lane.carried.back_mut() {
            // Short records of one group count as one.
            Some(last) if last.group == group => {
                (last.end, last.upto, last.at) = (range.end.max(last.end), upto, now);
            }
            _ => {
                let (end, got) = (range.end, lane.got);
                lane.carried.push_back(Carried { group, end, upto, at: now, got, since });
            }
        }
    }

    /// So many bytes have arrived by the connection since it joined (GOT).
    ///
    /// # Errors
    /// That is more than was given to it.
    pub fn got(&mut self, id: LaneId, bytes: u64, now: Duration) -> Result<(), Malformed> {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) else { return Ok(()) };
        if bytes > lane.sent {
            return Err(Malformed("GOT of bytes that were not sent"));
        }
        if bytes <= lane.got {
            return Ok(());
        }
        for (group, end) in lane.take(bytes, now) {
            let Some(ahead) = group.checked_sub(self.first) else { continue };
            if let Some(group) = self.groups.get_mut((ahead / GROUP) as usize) {
                group.got_to = group.got_to.max(end);
            }
        }
        Ok(())
    }

    /// Everything before `offset` was delivered (ACK).
    pub fn acknowledge(&mut self, offset: u64) {
        while self.first + GROUP <= offset && self.groups.pop_front().is_some() {
            self.first += GROUP;
        }
        if let Some(group) = self.groups.front_mut() {
            group.got_to = group.got_to.max(offset);
        }
    }

    /// Whether a connection is to be given up: it carries bytes, and nothing has arrived for long.
    pub fn is_stuck(&self, id: LaneId, now: Duration) -> bool {
        let Some(lane) = self.lane(id).filter(|lane| lane.is_suspected) else { return false };
        let patience = GIVEN_UP_AFTER.max(lane.rtt.unwrap_or_default() * 8);
        lane.waits_since().is_some_and(|since| now.saturating_sub(since) > patience)
    }

    /// Whether time alone may change what is to be sent.
    pub fn waits(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.carried.is_empty())
    }

    fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.id == id)
    }

    fn healthy(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| !lane.is_suspected)
    }

    fn last_group(&self) -> u64 {
        self.first + (self.groups.len() as u64).saturating_sub(1) * GROUP
    }

    /// There is a place for each group up to this offset.
    fn reaches(&mut self, offset: u64) {
        while self.first + (self.groups.len() as u64) * GROUP < offset {
            self.groups.push_back(Group { got_to: 0 });
        }
    }

    /// Groups that have not arrived as far as they were sent, in order.
    fn missing(&self, sent: u64) -> impl Iterator<Item = Range<u64>> {
        (self.first..).step_by(GROUP as usize).zip(&self.groups).filter_map(
            move |(start, group)| {
                let end = (start + GROUP).min(sent);
                (start < end && group.got_to < end).then_some(start..end)
            },
        )
    }

    /// The first group that no healthy connection carries.
    fn lost(&mut self, sent: u64) -> Option<Range<u64>> {
        if !self.may_lack {
            return None;
        }
        let lost = self.missing(sent).find(|range| {
            let carries =
                |lane: &Lane| lane.carries(range.start).is_some_and(|it| it.end >= range.end);
            !self.healthy().any(carries)
        });
        self.may_lack = lost.is_some();
        lost
    }

    /// Whether it is one of several of which nothing is known: such a one carries one group.
    fn is_on_trial(&self, id: LaneId) -> bool {
        let is_tried = |lane: &Lane| lane.rate().is_none() && lane.in_flight() > 0;
        self.lanes.len() > 1 && self.lane(id).is_some_and(is_tried)
    }

    fn is_first_to_deliver(&self, id: LaneId, range: &Range<u64>) -> bool {
        let bytes = range.end - range.start;
        let Some(own) = self.lane(id).map(|lane| lane.time_for(bytes)) else { return false };
        self.healthy().all(|lane| lane.id == id || lane.time_for(bytes) >= own)
    }

    /// Whether the connection is to take new bytes.
    fn is_for(&self, id: LaneId, range: &Range<u64>, stream: StreamEnd) -> bool {
        if range.start > group_start(range.start) {
            // The receiver verifies them with those before them, which one connection carries, or which are there.
            let holder = self.unfinished.and_then(|lane| self.lane(lane));
            if let Some(holder) = holder.filter(|holder| !holder.is_suspected) {
                return holder.id == id;
            }
            if self.missing(stream.sent).any(|missing| missing.end == stream.sent) {
                return false;
            }
        }
        let Some(lane) = self.lane(id).filter(|_| !self.is_on_trial(id)) else { return false };
        let own = lane.time_for(range.end - range.start);
        let all = stream.to - stream.sent;
        let others = self.healthy().filter(|other| other.id != id && other.rate().is_some());
        others.map(|other| other.time_for(all)).all(|time| time >= own)
    }

    /// The first group that this connection would deliver before those that carry it.
    fn late(&self, id: LaneId, sent: u64, now: Duration) -> Option<Range<u64>> {
        let own = self.lane(id).filter(|lane| lane.rate().is_some())?;
        self.missing(sent).find(|range| {
            if own.carries(range.start).is_some() {
                return false;
            }
            let carriers =
                self.healthy().filter_map(|lane| Some((lane, lane.carries(range.start)?)));
            let soonest = carriers.map(|(lane, carried)| lane.time_until(carried, now)).min();
            let own = own.time_for(range.end - range.start);
            soonest.is_some_and(|soonest| own < soonest)
        })
    }
}

#[cfg(test)]
mod tests;
