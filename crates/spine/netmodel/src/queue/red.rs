// SPDX-License-Identifier: GPL-2.0-or-later
//! RED, random early detection: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993.
//!
//! For each packet that comes, with `q` packets or bytes that wait:
//!
//! ```text
//! avg   = (1 - w) avg + w q                       while the queue is in use
//! avg   = (1 - w)^m avg                           after the link idled for m small packets
//! below min: passes. From min to max, p_b rises from 0 to `probability`; with `gentle`, from max to
//! 2 max it rises on to 1; beyond that every packet is dropped.
//! p_a   = p_b / (1 - count p_b)                   count: packets that passed since the last drop
//! ```
//!
//! `count` spreads the drops: from one to the next it is uniform between 1 and `1/p_b` packets.
//!
//! - `gentle` is Floyd's later recommendation ("Recommendation on using the gentle variant of RED", 2000),
//!   and ns-2's default.
//! - A packet is as likely to be dropped whatever its length (RFC 7141 section 2.2, and Linux).
//! - Marked is what chance picks; where every packet is dropped, no packet is marked instead (RFC 3168
//!   section 7).

use super::arrival::{DisciplineRandom, QueueOnArrival, Verdict};
use units::{Bytes, Duration, Rate, Timestamp};

/// The parameters, named as by tc-red(8).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Between which averages packets are dropped at random.
    pub thresholds: Thresholds,
    /// The probability of a drop where the average is at the upper threshold (`max_p`).
    pub probability: f64,
    /// The weight of a new queue length in the average (`w_q`).
    pub weight: f64,
    /// The small packet by which an idle link's average falls.
    pub avpkt: Bytes,
    /// Whether the probability rises on between the upper threshold and twice that.
    pub gentle: bool,
    /// Whether packets are marked instead of dropped where their senders can be told.
    pub ecn: bool,
}

/// Parameters of RED: the averaging weight, and the thresholds between which drops are random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thresholds {
    /// Packets that wait.
    Packets {
        /// Below it every packet passes.
        min: u64,
        /// From it on drops are frequent with `gentle`, and certain without.
        max: u64,
    },
    /// Bytes that wait.
    Bytes {
        /// Below it every packet passes.
        min: Bytes,
        /// From it on drops are frequent with `gentle`, and certain without.
        max: Bytes,
    },
}

/// RED at work.
#[derive(Debug, Clone)]
pub(crate) struct Red {
    params: Params,
    random: DisciplineRandom,
    average: f64,
    /// Packets since the last drop while the average was above `min`.
    count: u64,
}

impl Red {
    pub(crate) fn new(params: Params, random: DisciplineRandom) -> Self {
        Self { params, random, average: 0.0, count: 0 }
    }

    /// A packet comes.
    pub(crate) fn judge(
        &mut self,
        now: Timestamp,
        ect: bool,
        rate: Option<Rate>,
        found: QueueOnArrival,
    ) -> Verdict {
        self.update(now, rate, found);
        let Some(by_chance) = self.probability() else {
            self.count = 0;
            return Verdict::Drop;
        };
        if by_chance <= 0.0 {
            self.count = 0;
            return Verdict::Pass;
        }
        let spread = 1.0 - self.count as f64 * by_chance;
        let picked = spread <= by_chance || self.random.draw() < by_chance / spread;
        if !picked {
            self.count += 1;
            return Verdict::Pass;
        }
        self.count = 0;
        if self.params.ecn && ect { Verdict::Mark } else { Verdict::Drop }
    }

    /// The average queue that this packet meets.
    fn update(&mut self, now: Timestamp, rate: Option<Rate>, found: QueueOnArrival) {
        let (weight, idle) = (self.params.weight, now.since(found.free_at));
        if idle > Duration::ZERO {
            let small = rate.and_then(|rate| rate.time_for(self.params.avpkt));
            let small = small.map_or(0, Duration::as_nanos);
            self.average = match idle.as_nanos().checked_div(small) {
                Some(packets) => self.average * power(1.0 - weight, packets),
                None => 0.0,
            };
        } else {
            let queue = match self.params.thresholds {
                Thresholds::Packets { .. } => found.packets,
                Thresholds::Bytes { .. } => found.bytes,
            };
            self.average += weight * (queue as f64 - self.average);
        }
    }

    /// `p_b` of the average; none where every packet is dropped.
    fn probability(&self) -> Option<f64> {
        let (min, max) = match self.params.thresholds {
            Thresholds::Packets { min, max } => (min as f64, max as f64),
            Thresholds::Bytes { min, max } => (min.get() as f64, max.get() as f64),
        };
        let most = self.params.probability;
        match self.average {
            average if average < min => Some(0.0),
            average if average < max => Some(most * (average - min) / (max - min)),
            average if self.params.gentle && average < 2.0 * max => {
                Some(most + (1.0 - most) * (average - max) / max)
            }
            _ => None,
        }
    }
}

/// By squaring, so with multiplications alone: the same on every machine, as a power from the machine's
/// mathematical library need not be.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}
