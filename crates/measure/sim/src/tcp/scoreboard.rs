// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender's state of each segment between the first unacknowledged one and the next new one:
//! RFC 2018, RFC 6675.
//!
//! A segment is in flight, or known to be there (sacked), or taken for lost; a lost one that was sent
//! again is in flight again. Each of these changes is made once and counted, so
//! `in_flight = next - una - sacked - lost + resent` needs no walk over the window.

use crate::ranges::Ranges;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::Range,
};
use units::Timestamp;

/// The state of delivery when a segment was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeliveryStamp {
    /// Segments delivered.
    pub(super) delivered: u32,
    pub(super) delivered_us: u32,
    /// When the first segment of the sample's flight was sent.
    pub(super) first_sent_us: u32,
}

/// A segment on its way, or lost, or known to be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// When it was sent last.
    pub(super) sent: Timestamp,
    pub(super) stamp: DeliveryStamp,
    flags: u8,
}

// A window may hold many segments, so each is kept small.
const _: () = assert!(size_of::<Segment>() == 24);

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// Lost, and its retransmission is in flight.
const RESENT: u8 = 4;
/// Sent more than once, now or before.
const REPEATED: u8 = 8;
/// Sent, when it was sent last, with the window to spare.
const APP_LIMITED: u8 = 16;

impl Segment {
    /// Whether it was sent once only: what it tells of the round trip is not ambiguous (Karn).
    pub(super) fn is_original(&self) -> bool {
        self.flags & REPEATED == 0
    }

    /// Whether the application was what limited the rate when it was sent.
    pub(super) fn is_app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    /// In flight for the first time.
    fn is_first_flight(&self) -> bool {
        self.flags & (SACKED | LOST | REPEATED) == 0
    }
}

/// The new information of an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivered {
    /// Segments delivered.
    pub(super) segments: u32,
    /// Of those, the one sent last, by time and then by number.
    pub(super) newest: Option<(u64, Segment)>,
    /// When the first of those that were acknowledged in order and sent once was sent.
    pub(super) first_sent: Option<Timestamp>,
    /// Whether the first unacknowledged segment moved.
    pub(super) advanced: bool,
    /// Whether it arrived before any retransmission, by the timestamp that is echoed.
    pub(super) is_late: bool,
    /// Whether segments were acknowledged selectively.
    pub(super) sacked: bool,
    /// The lowest of those that were sent once only.
    pub(super) lowest_original: Option<u64>,
    /// The lowest of those that were sent once only and that others had overtaken: acknowledged selectively, and in
    /// order.
    pub(super) late_sacked: Option<u64>,
    pub(super) late_acknowledged: Option<u64>,
}

/// Keeps the lower one of two numbers.
fn lower(lowest: &mut Option<u64>, number: u64) {
    *lowest = Some(lowest.map_or(number, |lowest| lowest.min(number)));
}

impl Delivered {
    fn add(&mut self, number: u64, segment: Segment) {
        self.segments += 1;
        let key = |(number, segment): &(u64, Segment)| (segment.sent, *number);
        if self.newest.as_ref().is_none_or(|newest| key(newest) < key(&(number, segment))) {
            self.newest = Some((number, segment));
        }
    }
}

/// The segments of the window.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    una: u64,
    segments: VecDeque<Segment>,
    sacked: Ranges,
    /// Lost, and to be sent again; may hold some that have arrived since.
    lost: BinaryHeap<Reverse<u64>>,
    sacked_count: u32,
    lost_count: u32,
    resent_count: u32,
    lost_ever: u64,
}

impl Scoreboard {
    /// Whether everything that was sent is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments taken for lost since the start, each time.
    pub(super) fn lost_ever(&self) -> u64 {
        self.lost_ever
    }

    /// The first unacknowledged segment.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// The next new one.
    pub(super) fn next(&self) -> u64 {
        self.una + self.segments.len() as u64
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.segments.len() as u32 - self.sacked_count - self.lost_count + self.resent_count
    }

    /// Segments known to be there, beyond the first unacknowledged one.
    pub(super) fn sacked(&self) -> u32 {
        self.sacked_count
    }

    /// Lost ones, whether sent again or not.
    pub(super) fn lost(&self) -> u32 {
        self.lost_count
    }

    /// Lost ones whose retransmission is in flight.
    pub(super) fn resent_in_flight(&self) -> u32 {
        self.resent_count
    }

    /// Whether the first unacknowledged segment was ever sent again, or any other retransmission is in flight.
    pub(super) fn awaits_any_retransmission(&self) -> bool {
        self.resent_count > 0 || self.segments.front().is_some_and(|first| !first.is_original())
    }

    /// One past the highest segment known to be there.
    pub(super) fn sacked_end(&self) -> u64 {
        self.sacked.end()
    }

    /// Whether a segment of the window is known to be there.
    pub(super) fn is_sacked(&self, number: u64) -> bool {
        self.get(number).flags & SACKED != 0
    }

    pub(super) fn get(&self, number: u64) -> &Segment {
        &self.segments[(number - self.una) as usize]
    }

    /// Whether a segment of the window is in flight, never lost.
    pub(super) fn is_first_flight(&self, number: u64) -> bool {
        self.get(number).is_first_flight()
    }

    /// Whether the retransmission of that time is in flight.
    pub(super) fn is_resent(&self, number: u64, sent: Timestamp) -> bool {
        number >= self.una && {
            let segment = self.get(number);
            segment.flags & RESENT != 0 && segment.sent == sent
        }
    }

    /// The next new segment was sent.
    pub(super) fn sent(&mut self, at: Timestamp, stamp: DeliveryStamp, app_limited: bool) {
        let flags = if app_limited { APP_LIMITED } else { 0 };
        self.segments.push_back(Segment { sent: at, stamp, flags });
    }

    /// The lowest lost segment that was not sent again yet.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        while let Some(&Reverse(number)) = self.lost.peek() {
            if self.awaits_retransmission(number) {
                return Some(number);
            }
            self.lost.pop();
        }
        None
    }

    /// Whether a segment is lost and was not sent again yet.
    pub(super) fn awaits_retransmission(&self, number: u64) -> bool {
        (self.una..self.next()).contains(&number) && {
            let flags = self.get(number).flags;
            flags & LOST != 0 && flags & (SACKED | RESENT) == 0
        }
    }

    /// A segment was sent again. One that was not lost stays in flight as it is, once.
    pub(super) fn resent(
        &mut self,
        number: u64,
        at: Timestamp,
        stamp: DeliveryStamp,
        app_limited: bool,
    ) {
        let segment = &mut self.segments[(number - self.una) as usize];
        (segment.sent, segment.stamp) = (at, stamp);
        segment.flags &= !APP_LIMITED;
        segment.flags |= REPEATED | if app_limited { APP_LIMITED } else { 0 };
        if segment.flags & LOST != 0 && segment.flags & RESENT == 0 {
            segment.flags |= RESENT;
            self.resent_count += 1;
        }
    }

    /// A segment is taken for lost; a retransmission that was in flight is lost again.
    pub(super) fn lose(&mut self, number: u64) {
        let segment = &mut self.segments[(number - self.una) as usize];
        let before = segment.flags;
        if before & (LOST | RESENT) == LOST {
            return;
        }
        segment.flags = before & !RESENT | LOST;
        self.resent_count -= u32::from(before & RESENT != 0);
        self.lost_count += u32::from(before & LOST == 0);
        self.lost_ever += 1;
        self.lost.push(Reverse(number));
    }

    /// Everything that is not known to be there is taken for lost.
    pub(super) fn lose_all(&mut self) {
        for number in self.una..self.next() {
            if self.get(number).flags & SACKED == 0 {
                self.lose(number);
            }
        }
    }

    /// Asserts that the counts are those of the segments.
    #[cfg(test)]
    pub(super) fn assert_counts(&self) {
        let count = |is: fn(u8) -> bool| {
            self.segments.iter().filter(|segment| is(segment.flags)).count() as u32
        };
        assert_eq!(count(|flags| flags & SACKED != 0), self.sacked_count, "sacked");
        assert_eq!(count(|flags| flags & LOST != 0), self.lost_count, "lost");
        assert_eq!(count(|flags| flags & RESENT != 0), self.resent_count, "resent");
        assert_eq!(count(|flags| flags & SACKED != 0 && flags & (LOST | RESENT) != 0), 0);
    }

    /// Nothing is lost: what was taken for lost is in flight, and its retransmissions as well.
    pub(super) fn lose_none(&mut self) {
        for segment in &mut self.segments {
            segment.flags &= !LOST;
        }
        self.lost_count = 0;
        self.lost.clear();
    }

    /// Everything below `number` has arrived.
    pub(super) fn acknowledge(&mut self, number: u64, delivered: &mut Delivered) {
        if number <= self.una {
            return;
        }
        delivered.advanced = true;
        let overtaken = self.sacked.end();
        while self.una < number {
            let segment = self.segments.pop_front().expect("only what was sent is acknowledged");
            self.leave(segment);
            if segment.flags & SACKED != 0 {
                self.sacked_count -= 1;
            } else {
                if segment.is_original() {
                    delivered.first_sent.get_or_insert(segment.sent);
                    delivered.lowest_original.get_or_insert(self.una);
                    if self.una < overtaken {
                        delivered.late_acknowledged.get_or_insert(self.una);
                    }
                }
                delivered.add(self.una, segment);
            }
            self.una += 1;
        }
        if !self.sacked.is_empty() {
            self.sacked.cut_below(number);
        }
    }

    /// A block of segments has arrived. `overtaken`: segments below that number were, by those that an earlier
    /// acknowledgement told of.
    pub(super) fn sack(&mut self, block: Range<u64>, overtaken: u64, delivered: &mut Delivered) {
        let block = block.start.max(self.una)..block.end.min(self.next());
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(block, |new| {
            for number in new {
                let segment = *self.get(number);
                self.leave(segment);
                self.segments[(number - self.una) as usize].flags =
                    (segment.flags & REPEATED) | SACKED;
                self.sacked_count += 1;
                delivered.sacked = true;
                if segment.is_original() {
                    lower(&mut delivered.lowest_original, number);
                    if number < overtaken {
                        lower(&mut delivered.late_sacked, number);
                    }
                }
                delivered.add(number, segment);
            }
        });
        self.sacked = sacked;
    }

    /// A segment arrived, so it is neither lost nor in flight.
    fn leave(&mut self, segment: Segment) {
        self.lost_count -= u32::from(segment.flags & LOST != 0);
        self.resent_count -= u32::from(segment.flags & RESENT != 0);
    }
}
