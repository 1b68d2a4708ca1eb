// SPDX-License-Identifier: GPL-2.0-or-later
//! How a wire serialises whose rate changes, or that does not carry anything for some time.
//!
//! Work is counted in bits times nanoseconds per second: `bytes · 8 · 10⁹`. A rate of `r` bit/s does `r` of it in
//! a nanosecond, so all sums are exact, and no rounding accumulates over a busy period.

use crate::{Outage, RateOverTime};
use units::{Duration, Rate, Timestamp};

/// Bytes of one delivery opportunity of a mahimahi trace: a packet of the usual MTU.
pub const OPPORTUNITY_BYTES: u64 = 1500;
const MILLISECOND: u64 = 1_000_000;

/// A wire with a rate over time, or with outages in which packets wait.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    rate: RateOverTime,
    /// Those in which packets wait.
    pauses: Vec<Outage>,
    /// Work that was begun within the last nanosecond of the packet before.
    rest: u128,
    /// When the schedule begins. Nothing is asked of times before.
    begun: Timestamp,
    /// Of delivery opportunities: the one that was used last, and what is left of it.
    opportunity: u64,
    left: u64,
}

impl Service {
    /// None where the rate is constant and nothing pauses it: such a wire needs no schedule.
    pub(crate) fn new(rate: &RateOverTime, outages: &[Outage]) -> Option<Self> {
        let pauses: Vec<_> = outages.iter().copied().filter(|outage| outage.packets_wait).collect();
        let is_constant = matches!(rate, RateOverTime::Constant(_));
        (!is_constant || !pauses.is_empty()).then(|| Self {
            rate: rate.clone(),
            pauses,
            rest: 0,
            begun: Timestamp::ZERO,
            opportunity: 0,
            left: OPPORTUNITY_BYTES,
        })
    }

    /// Has the schedule begin now, whatever it was before.
    pub(crate) fn begin_schedule(&mut self, now: Timestamp) {
        self.begun = now;
        (self.rest, self.opportunity, self.left) = (0, 0, OPPORTUNITY_BYTES);
    }

    /// Has another constant rate from now on.
    pub(crate) fn change_rate(&mut self, rate: Rate) {
        self.rate = rate.into();
        self.rest = 0;
    }

    /// When a wire that is free at that time can begin: at once, or when a pause is over.
    pub(crate) fn begins(&self, at: Timestamp) -> Timestamp {
        at.max(self.absolute(self.resumes(self.relative(at))))
    }

    /// A time in the schedule.
    fn relative(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO + at.since(self.begun)
    }

    fn absolute(&self, at: Timestamp) -> Timestamp {
        self.begun + at.since(Timestamp::ZERO)
    }

    /// At once, or when a pause is over.
    fn resumes(&self, mut at: Timestamp) -> Timestamp {
        // Pauses may overlap, or follow each other.
        while let Some(end) = self.pauses.iter().filter_map(|pause| pause.end_at(at)).max() {
            at = end;
        }
        at
    }

    /// Forgets what a busy period has left over: the wire was idle.
    pub(crate) fn was_idle(&mut self) {
        self.rest = 0;
    }

    /// The rate at that time, as far as disciplines ask for it.
    pub(crate) fn rate_at(&self, at: Timestamp) -> Rate {
        match &self.rate {
            RateOverTime::Constant(rate) => *rate,
            RateOverTime::Steps(steps) => steps.at(self.relative(at)).0,
            RateOverTime::Opportunities(trace) => trace.mean(),
        }
    }

    /// When that many bytes have left that begin then.
    pub(crate) fn ends(&mut self, begins: Timestamp, bytes: u64) -> Timestamp {
        let begins = self.relative(begins);
        let ends = match self.rate {
            RateOverTime::Opportunities(_) => self.ends_by_opportunities(begins, bytes),
            _ => self.ends_by_rates(begins, bytes),
        };
        self.absolute(ends)
    }

    fn ends_by_rates(&mut self, begins: Timestamp, bytes: u64) -> Timestamp {
        let mut work = u128::from(bytes) * 8_000_000_000 + self.rest;
        let mut at = self.resumes(begins);
        loop {
            let (rate, until) = match &self.rate {
                RateOverTime::Steps(steps) => steps.at(at),
                RateOverTime::Constant(rate) => (*rate, None),
                RateOverTime::Opportunities(_) => unreachable!("asked before"),
            };
            let pause = self.pauses.iter().filter_map(|pause| pause.next_after(at)).min();
            let until = until.into_iter().chain(pause).min();
            let per_nano = u128::from(rate.bps());
            let possible = until.map(|until| per_nano * u128::from(until.since(at).as_nanos()));
            if let (Some(until), Some(possible)) = (until, possible)
                && possible < work
            {
                work -= possible;
                at = self.resumes(until);
                continue;
            }
            let nanos = work / per_nano;
            self.rest = work % per_nano;
            return at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
    }

    fn ends_by_opportunities(&mut self, begins: Timestamp, mut bytes: u64) -> Timestamp {
        let RateOverTime::Opportunities(trace) = &self.rate else { unreachable!("asked before") };
        if trace.time(self.opportunity) < begins {
            // Those that passed while nothing waited are gone.
            (self.opportunity, self.left) = (trace.first_from(begins), OPPORTUNITY_BYTES);
        }
        loop {
            let at = trace.time(self.opportunity);
            if self.resumes(at) > at {
                // The link was down.
                self.left = 0;
            }
            if bytes <= self.left {
                self.left -= bytes;
                return at;
            }
            bytes -= self.left;
            (self.opportunity, self.left) = (self.opportunity + 1, OPPORTUNITY_BYTES);
        }
    }
}

/// Milliseconds, as traces have them.
pub(crate) fn millis(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms.saturating_mul(MILLISECOND))
}

/// The first whole millisecond that is not before.
pub(crate) fn millis_up(at: Timestamp) -> u64 {
    at.since(Timestamp::ZERO).as_nanos().div_ceil(MILLISECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeliveryOpportunities, RateSteps};

    fn ms(ms: u64) -> Duration {
        Duration::from_nanos(ms * MILLISECOND)
    }

    fn steps(of: &[(u64, u64)], repeats: Option<u64>) -> RateOverTime {
        let steps = of.iter().map(|(at, bps)| (ms(*at), Rate::bits_per_second(*bps))).collect();
        RateOverTime::Steps(RateSteps::new(steps, repeats.map(ms)).unwrap())
    }

    fn pause(from: u64, lasts: u64, every: Option<u64>) -> Outage {
        Outage { from: ms(from), lasts: ms(lasts), every: every.map(ms), packets_wait: true }
    }

    #[test]
    fn steady_wire_needs_no_schedule() {
        let rate = RateOverTime::Constant(Rate::bits_per_second(8));
        assert!(Service::new(&rate, &[]).is_none());
        let lost = Outage { packets_wait: false, ..pause(0, 1, None) };
        assert!(Service::new(&rate, &[lost]).is_none());
    }

    #[test]
    fn packet_over_a_step_takes_part_of_its_time_at_each_rate() {
        // A byte a millisecond, then four.
        let rate = steps(&[(0, 8000), (10, 32_000)], Some(20));
        let mut service = Service::new(&rate, &[]).unwrap();
        assert_eq!(service.ends(millis(0), 10), millis(10));
        assert_eq!(service.ends(millis(5), 9), millis(11), "five, then four in one");
        // Ten in the rest of the period, then the first rate again.
        assert_eq!(service.ends(millis(15), 22), millis(22));
        assert_eq!(service.ends(millis(45), 5), millis(50), "of a later period");
    }

    #[test]
    fn thirds_of_nanoseconds_do_not_accumulate() {
        let rate = steps(&[(0, 3_000_000_000), (1_000_000, 1)], None);
        let mut service = Service::new(&rate, &[]).unwrap();
        let mut at = millis(0);
        for _ in 0..3_000_000 {
            at = service.ends(at, 1);
        }
        assert_eq!(at, millis(8), "24 million bits at 3 Gb/s");
    }

    #[test]
    fn nothing_moves_in_a_pause() {
        let rate = RateOverTime::Constant(Rate::bits_per_second(8000));
        let pauses = [pause(10, 5, Some(100)), pause(14, 3, None)];
        let mut service = Service::new(&rate, &pauses).unwrap();
        assert_eq!(service.ends(millis(8), 3), millis(18), "two before, one after both");
        assert_eq!(service.begins(millis(12)), millis(17));
        assert_eq!(service.begins(millis(17)), millis(17));
        assert_eq!(service.ends(millis(109), 2), millis(116));
        assert_eq!(service.ends(millis(12), 1), millis(18));
    }

    #[test]
    fn opportunities_pass_whether_used_or_not() {
        let trace = DeliveryOpportunities::new(vec![1, 1, 4, 10]).unwrap();
        let mut service = Service::new(&RateOverTime::Opportunities(trace), &[]).unwrap();
        assert_eq!(service.ends(millis(0), 1500), millis(1));
        assert_eq!(service.ends(millis(1), 700), millis(1));
        assert_eq!(service.ends(millis(1), 801), millis(4), "one byte more than that one had");
        assert_eq!(service.ends(millis(5), 1500), millis(10), "the one at 4 is gone");
        assert_eq!(service.ends(millis(10), 3000), millis(11), "it begins again: 11 and 11");
        assert_eq!(service.ends(millis(95), 1500), millis(100));
    }

    #[test]
    fn opportunities_in_a_pause_are_lost() {
        let trace = DeliveryOpportunities::new((1..=10).collect()).unwrap();
        let rate = RateOverTime::Opportunities(trace);
        let mut service = Service::new(&rate, &[pause(3, 4, None)]).unwrap();
        assert_eq!(service.ends(millis(2), 4500), millis(8), "those at 2, 7 and 8");
    }
}
