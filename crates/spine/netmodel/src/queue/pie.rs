// SPDX-License-Identifier: GPL-2.0-or-later
//! PIE, proportional integral controller enhanced: RFC 8033.
//!
//! Every `tupdate`, with `delay` the time that a packet which comes now would wait:
//!
//! ```text
//! p += (alpha (delay - target) + beta (delay - delay before)) / tuning(p)
//! p *= 0.98 where both delays are zero            p is kept from 0 to 1
//! ```
//!
//! A packet that comes is dropped with probability p (section 4.1), except
//! - the first `burst` of a busy time (section 4.4);
//! - while the delay was below half the target and p is below 20 %, or no more than two full packets wait.
//!
//! With ECN packets are marked instead while p is below `ecn_limit`, and dropped beyond (section 5.1).
//!
//! The delay is exact, because the link's rate is known: there is no need to estimate the rate of departure
//! (section 5.2). The updates between two packets depend on nothing but when the wire will be free, so they
//! are computed when the next packet comes. Optional elements of section 5: ECN is implemented;
//! de-randomisation (5.4) and the cap on steps (5.5) are not, so that drops are independent of each other,
//! as the control law takes them to be.

use super::arrival::{DisciplineRandom, QueueOnArrival, Verdict};
use units::{Duration, Timestamp};

/// The parameters, named as by tc-pie(8) where it has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// The delay that is aimed at (`QDELAY_REF`).
    pub target: Duration,
    /// How often the probability is updated (`T_UPDATE`); at least a microsecond.
    pub tupdate: Duration,
    /// By how much a second of delay beyond the target changes the probability at an update.
    pub alpha: f64,
    /// By how much a second of growth of the delay does.
    pub beta: f64,
    /// For how long nothing is dropped once a queue builds up (`MAX_BURST`).
    pub burst: Duration,
    /// Whether packets are marked instead of dropped where their senders can be told.
    pub ecn: bool,
    /// From which probability on they are dropped all the same (`mark_ecnth`).
    pub ecn_limit: f64,
}

/// PIE at work.
#[derive(Debug, Clone)]
pub(crate) struct Pie {
    params: Params,
    random: DisciplineRandom,
    /// The bytes of two full packets.
    few: u64,
    probability: f64,
    /// The delay at the last update (`qdelay_old`).
    delay: Duration,
    burst_left: Duration,
    next_update: Timestamp,
}

/// By how much a step is divided where the probability is below (section 4.2): small ones are to move
/// slowly, or the control oscillates.
const TUNING: [(f64, f64); 6] = [
    (0.000_001, 2048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];

/// How much of the probability is left at an update of an empty queue.
const DECAY: f64 = 0.98;

/// Below it nothing is dropped as long as the delay is small.
const SAFE: f64 = 0.2;

impl Pie {
    pub(crate) fn new(params: Params, random: DisciplineRandom, largest: u64) -> Self {
        let tupdate = params.tupdate.max(Duration::from_micros(1));
        Self {
            few: 2 * largest,
            probability: 0.0,
            delay: Duration::ZERO,
            burst_left: params.burst,
            next_update: Timestamp::ZERO + tupdate,
            params: Params { tupdate, ..params },
            random,
        }
    }

    /// A packet comes.
    pub(crate) fn judge(&mut self, now: Timestamp, ect: bool, found: QueueOnArrival) -> Verdict {
        self.catch_up(now, found.free_at);
        let half = Duration::from_nanos(self.params.target.as_nanos() / 2);
        if self.probability <= 0.0 && self.delay < half && found.free_at.since(now) < half {
            self.burst_left = self.params.burst;
        }
        let safe = self.delay < half && self.probability < SAFE || found.bytes <= self.few;
        if self.burst_left > Duration::ZERO || safe || self.random.draw() >= self.probability {
            return Verdict::Pass;
        }
        if self.params.ecn && ect && self.probability < self.params.ecn_limit {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Makes the updates that were due by `now`, where nothing came since the last packet.
    fn catch_up(&mut self, now: Timestamp, free_at: Timestamp) {
        while self.next_update <= now {
            let before = self.delay;
            self.update(free_at.since(self.next_update));
            self.next_update = self.next_update + self.params.tupdate;
            let idle = self.delay == Duration::ZERO && before == Duration::ZERO;
            let at_rest = self.probability <= 0.0 && self.burst_left == Duration::ZERO;
            if idle && at_rest && self.next_update <= now {
                // Nothing changes until the next packet.
                let period = self.params.tupdate.as_nanos();
                let periods = now.since(self.next_update).as_nanos() / period + 1;
                self.next_update = self.next_update + self.params.tupdate.saturating_mul(periods);
            }
        }
    }

    fn update(&mut self, delay: Duration) {
        let before = self.delay;
        let (seconds, target) = (delay.as_secs_f64(), self.params.target.as_secs_f64());
        let growth = seconds - before.as_secs_f64();
        let step = self.params.alpha * (seconds - target) + self.params.beta * growth;
        let tuning = TUNING.iter().find(|(below, _)| self.probability < *below);
        let mut probability = self.probability + step / tuning.map_or(1.0, |(_, divisor)| *divisor);
        if delay == Duration::ZERO && before == Duration::ZERO {
            probability *= DECAY;
        }
        self.probability = probability.clamp(0.0, 1.0);
        self.delay = delay;
        self.burst_left = self.burst_left.saturating_sub(self.params.tupdate);
    }
}
