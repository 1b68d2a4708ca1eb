// SPDX-License-Identifier: GPL-2.0-or-later
//! The delivery rate: draft-cheng-iccrg-delivery-rate-estimation-02.
//!
//! A segment remembers how much was delivered when it was sent. When it arrives, what was delivered
//! since, over the longer of the times in which that was sent and acknowledged, is a sample. In whole
//! microseconds and wrapping counters of 32 bits, as in Linux.

use super::scoreboard::{Delivered, DeliveryStamp, Segment};
use units::{Duration, Timestamp};

/// The state of delivery.
#[derive(Debug, Default)]
pub(super) struct DeliveryRateSampler {
    /// Segments delivered; wraps.
    pub(super) delivered: u32,
    delivered_us: u32,
    first_sent_us: u32,
    /// Segments sent until this many are delivered did not need the whole window.
    app_limited_until: Option<u32>,
}

/// A sample of an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes a second; 0: no sample.
    pub(super) bytes_per_second: u64,
    /// Segments delivered when the newest was sent.
    pub(super) prior_delivered: u32,
    pub(super) app_limited: bool,
}

pub(super) fn micros(at: Timestamp) -> u32 {
    (at.as_nanos() / 1000) as u32
}

impl DeliveryRateSampler {
    /// What a segment sent now remembers; the first of a flight has no others before it.
    pub(super) fn stamp(&mut self, now: Timestamp, is_first: bool) -> DeliveryStamp {
        if is_first {
            (self.first_sent_us, self.delivered_us) = (micros(now), micros(now));
        }
        DeliveryStamp {
            delivered: self.delivered,
            delivered_us: self.delivered_us,
            first_sent_us: self.first_sent_us,
        }
    }

    /// Whether segments sent now do not need the whole window.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// The application had nothing to send while the window had room.
    pub(super) fn app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = Some(self.delivered.wrapping_add(in_flight));
    }

    /// Takes note of what was delivered.
    /// Over less than the smallest RTT there is no sample: what was delivered in that time was not sent in
    /// it.
    pub(super) fn sample(
        &mut self,
        now: Timestamp,
        delivered: &Delivered,
        mss: u32,
        min_rtt: Option<Duration>,
    ) -> Rate {
        if delivered.segments > 0 {
            self.delivered = self.delivered.wrapping_add(delivered.segments);
            self.delivered_us = micros(now);
        }
        if self.app_limited_until.is_some_and(|until| before(until, self.delivered)) {
            self.app_limited_until = None;
        }
        match delivered.newest {
            Some((_, segment)) => self.of(now, segment, mss, min_rtt),
            None => Rate { prior_delivered: self.delivered, ..Rate::default() },
        }
    }

    fn of(
        &mut self,
        now: Timestamp,
        segment: Segment,
        mss: u32,
        min_rtt: Option<Duration>,
    ) -> Rate {
        let stamp = segment.stamp;
        let sent_us = micros(segment.sent);
        self.first_sent_us = sent_us;
        let sending = sent_us.wrapping_sub(stamp.first_sent_us);
        let acknowledging = micros(now).wrapping_sub(stamp.delivered_us);
        let bytes = u64::from(self.delivered.wrapping_sub(stamp.delivered)) * u64::from(mss);
        let took = u64::from(sending.max(acknowledging));
        let is_sound = min_rtt.is_none_or(|min| took >= min.as_nanos() / 1000);
        Rate {
            bytes_per_second: (bytes * 1_000_000)
                .checked_div(took)
                .filter(|_| is_sound)
                .unwrap_or_default(),
            prior_delivered: stamp.delivered,
            app_limited: segment.is_app_limited(),
        }
    }
}

/// Of wrapping counters.
pub(super) fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}
