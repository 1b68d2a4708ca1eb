// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock of one paced class: when its next packet is due.
//!
//! It is that of a fluid server, which serves the class alone at the class's rate and is idle when
//! nothing waits: a packet is due when that server would begin with it. What the wire really does
//! changes nothing in that, so a packet that was held up is made good for by the next ones, and
//! time in which nothing waited is not.

use std::collections::VecDeque;
use units::{Duration, Rate, Timestamp};

/// A byte in units of 1e-9 bits, of which a rate transmits its value in bit/s per nanosecond.
pub const BYTE: u128 = 8_000_000_000;

/// A moment: whole nanoseconds, and the rest in units of 1/rate ns, so that no rounding accumulates.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExactTime {
    pub at: Timestamp,
    pub rest: u64,
}

impl ExactTime {
    /// The beginning of a nanosecond.
    pub fn whole(at: Timestamp) -> Self {
        Self { at, rest: 0 }
    }

    /// When `bytes` bytes that begin here end at a rate.
    pub fn after(self, bytes: u64, rate: Rate) -> Self {
        let work = u128::from(bytes) * BYTE + u128::from(self.rest);
        self.at_work(work, rate)
    }

    /// The moment at which work, in bits times 10^9, is done that begins at the whole nanosecond.
    fn at_work(self, work: u128, rate: Rate) -> Self {
        let rate = u128::from(rate.bps());
        let nanos = u64::try_from(work / rate).unwrap_or(u64::MAX);
        Self { at: self.at + Duration::from_nanos(nanos), rest: (work % rate) as u64 }
    }

    /// Moves an end time if the work that remains at `now` is done at another rate.
    fn with_rate(self, now: Timestamp, old: Rate, new: Rate) -> Self {
        let nanos = u128::from(self.at.since(now).as_nanos());
        let work = nanos * u128::from(old.bps()) + u128::from(self.rest);
        Self::whole(now).at_work(work, new)
    }
}

/// The fluid server of a class.
#[derive(Debug, Clone)]
pub struct ClassClock {
    rate: Rate,
    /// When it would begin with the next packet.
    due: ExactTime,
    /// From when on it works at this rate: when the next packet is due, or when the rate changed, if
    /// that was later. Then `ahead` is what it had done of what waits, in bits times 10^9.
    since: ExactTime,
    ahead: u128,
    /// When it would be done with all that came.
    done: ExactTime,
    /// Bytes that came, and that have left on the wire.
    came: u64,
    left: u64,
    /// Where it had been idle although the wire is not so far yet: after how many bytes that left,
    /// and when it began again.
    restarts: VecDeque<(u64, Timestamp)>,
}

impl ClassClock {
    pub fn new(rate: Rate) -> Self {
        let start = ExactTime::default();
        let (due, since, done) = (start, start, start);
        Self { rate, due, since, ahead: 0, done, came: 0, left: 0, restarts: VecDeque::new() }
    }

    /// When the next packet is due, to the nanosecond.
    pub fn due(&self) -> Timestamp {
        self.due.at
    }

    /// A packet comes.
    pub fn arrive(&mut self, now: Timestamp, bytes: u64) {
        if self.done.at < now {
            self.done = ExactTime::whole(now);
            self.restarts.push_back((self.came, now));
            self.restart();
        }
        self.done = self.done.after(bytes, self.rate);
        self.came += bytes;
    }

    /// A packet leaves on the wire.
    pub fn leave(&mut self, bytes: u64) {
        let work = u128::from(bytes) * BYTE;
        if work < self.ahead {
            // Its end lies before the rate changed: in that time as far as in that work.
            let time = u128::from(self.since.at.since(self.due.at).as_nanos());
            let part = Duration::from_nanos((time * work / self.ahead) as u64);
            self.due = ExactTime::whole(self.due.at + part);
            self.ahead -= work;
        } else {
            let rest = u128::from(self.since.rest);
            self.due = self.since.at_work(work - self.ahead + rest, self.rate);
            (self.since, self.ahead) = (self.due, 0);
        }
        self.left += bytes;
        self.restart();
    }

    /// A packet that came will not leave: what the server has to do is that much less.
    pub fn withdraw(&mut self, bytes: u64) {
        self.came -= bytes;
        for (after, _) in &mut self.restarts {
            *after = self.came.min(*after);
        }
        self.restart();
        let waiting = self.waiting();
        self.ahead = self.ahead.min(waiting);
        let rest = u128::from(self.since.rest);
        self.done = self.since.at_work(waiting - self.ahead + rest, self.rate);
    }

    /// The waiting work, in units of 1e-9 bits.
    fn waiting(&self) -> u128 {
        u128::from(self.came - self.left) * BYTE
    }

    fn restart(&mut self) {
        while let Some(&(after, at)) = self.restarts.front() {
            if after > self.left {
                break;
            }
            if self.since.at < at {
                self.due = ExactTime::whole(at);
                (self.since, self.ahead) = (self.due, 0);
            }
            self.restarts.pop_front();
        }
    }

    /// Stands still for some time.
    pub fn put_off(&mut self, by: Duration) {
        for moment in [&mut self.due, &mut self.since, &mut self.done] {
            moment.at = moment.at + by;
        }
    }

    /// Goes on at another rate, also with the packet that it is at.
    pub fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        let old = self.rate;
        if self.since.at < now {
            let nanos = u128::from(now.since(self.since.at).as_nanos());
            let done = nanos * u128::from(old.bps()) - u128::from(self.since.rest);
            self.ahead = self.waiting().min(self.ahead + done);
            self.since = ExactTime::whole(now);
        } else {
            self.since = self.since.with_rate(now, old, rate);
        }
        if self.ahead == 0 {
            self.due = self.since;
        }
        if self.done.at >= now {
            self.done = self.done.with_rate(now, old, rate);
        }
        self.rate = rate;
    }
}
