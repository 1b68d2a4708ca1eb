// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates that change over time: by steps, or by the delivery opportunities of a mahimahi trace.

use crate::service::{OPPORTUNITY_BYTES, millis, millis_up};
use std::sync::Arc;
use units::{Duration, Rate, Timestamp};

/// The rate of a link over time.
#[derive(Debug, Clone, PartialEq)]
pub enum RateOverTime {
    /// The same all the time.
    Constant(Rate),
    /// One rate after another.
    Steps(RateSteps),
    /// At certain milliseconds, 1500 bytes may leave.
    Opportunities(DeliveryOpportunities),
}

impl From<Rate> for RateOverTime {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

/// Why a rate over time makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RateOverTimeError {
    /// There is nothing.
    #[error("it is empty: give at least one time and rate")]
    Empty,
    /// The first step.
    #[error("it does not begin at 0 s, so that there would be no rate before")]
    NoBeginning,
    /// A step.
    #[error("the time of entry {0} is not after the one before")]
    Backwards(usize),
    /// A step.
    #[error("the rate of entry {0} is 0: an outage says when nothing passes")]
    NoRate(usize),
    /// Its period.
    #[error("it repeats before its last entry")]
    ShortPeriod,
    /// Of opportunities.
    #[error("it ends at 0 ms, and so would repeat infinitely often")]
    NoTime,
}

/// Rates, each from a time on.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSteps {
    steps: Arc<[(Duration, Rate)]>,
    repeats: Option<Duration>,
}

impl RateSteps {
    /// From their times on; the whole begins again after `repeats`, or the last one stays.
    ///
    /// # Errors
    /// The first is not at zero, times do not increase, a rate is zero, or it repeats before the last step.
    pub fn new(
        steps: Vec<(Duration, Rate)>,
        repeats: Option<Duration>,
    ) -> Result<Self, RateOverTimeError> {
        let (first, last) = (steps.first(), steps.last());
        let (Some(first), Some(last)) = (first, last) else { return Err(RateOverTimeError::Empty) };
        if first.0 > Duration::ZERO {
            return Err(RateOverTimeError::NoBeginning);
        }
        if let Some(at) = steps.windows(2).position(|pair| pair[1].0 <= pair[0].0) {
            return Err(RateOverTimeError::Backwards(at + 2));
        }
        if let Some(at) = steps.iter().position(|(_, rate)| rate.bps() == 0) {
            return Err(RateOverTimeError::NoRate(at + 1));
        }
        if repeats.is_some_and(|repeats| repeats <= last.0) {
            return Err(RateOverTimeError::ShortPeriod);
        }
        Ok(Self { steps: steps.into(), repeats })
    }

    /// The steps.
    pub fn steps(&self) -> &[(Duration, Rate)] {
        &self.steps
    }

    /// After what time it begins again.
    pub fn repeats(&self) -> Option<Duration> {
        self.repeats
    }

    /// The rate at that time, and when it changes.
    pub fn at(&self, at: Timestamp) -> (Rate, Option<Timestamp>) {
        let since = at.since(Timestamp::ZERO).as_nanos();
        let period = self.repeats.map_or(u64::MAX, Duration::as_nanos);
        let (round, within) = (since / period, Duration::from_nanos(since % period));
        let next = self.steps.partition_point(|(from, _)| *from <= within);
        let changes = self.steps.get(next).map(|(from, _)| *from).or(self.repeats);
        let begun = Duration::from_nanos(round * period);
        (self.steps[next - 1].1, changes.map(|changes| Timestamp::ZERO + begun + changes))
    }
}

/// The milliseconds at which 1500 bytes may leave, as mahimahi records them. It begins again after the last.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryOpportunities(Arc<[u32]>);

impl DeliveryOpportunities {
    /// In milliseconds, which may repeat.
    ///
    /// # Errors
    /// There are none, they go backwards, or the last is at zero.
    pub fn new(millis: Vec<u32>) -> Result<Self, RateOverTimeError> {
        if millis.is_empty() {
            return Err(RateOverTimeError::Empty);
        }
        if let Some(at) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(RateOverTimeError::Backwards(at + 2));
        }
        if millis.last() == Some(&0) {
            return Err(RateOverTimeError::NoTime);
        }
        Ok(Self(millis.into()))
    }

    /// In milliseconds.
    pub fn millis(&self) -> &[u32] {
        &self.0
    }

    /// The mean rate over the whole.
    pub fn mean(&self) -> Rate {
        let bits = self.0.len() as u64 * OPPORTUNITY_BYTES * 8;
        Rate::bits_per_second((bits * 1000 / self.period()).max(1))
    }

    fn period(&self) -> u64 {
        u64::from(self.0[self.0.len() - 1])
    }

    /// When the opportunity of that number is, also after the trace has begun again.
    pub(crate) fn time(&self, number: u64) -> Timestamp {
        let length = self.0.len() as u64;
        let within = u64::from(self.0[(number % length) as usize]);
        millis(number / length * self.period() + within)
    }

    /// The number of the first opportunity that is not before.
    pub(crate) fn first_from(&self, at: Timestamp) -> u64 {
        let (ms, period) = (millis_up(at), self.period());
        // What is at the end of one round comes before what is at 0 of the next.
        let round = ms.saturating_sub(1) / period;
        let within = ms - round * period;
        let next = self.0.partition_point(|opportunity| u64::from(*opportunity) < within);
        round * self.0.len() as u64 + next as u64
    }
}

impl RateOverTime {
    /// What a link is taken for where one rate is asked for, as for the bandwidth-delay product: the mean of
    /// opportunities, and the first of several steps.
    pub fn nominal(&self) -> Rate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Steps(steps) => steps.steps[0].1,
            Self::Opportunities(trace) => trace.mean(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_rates_are_refused() {
        let step = |at: u64, bps| (Duration::from_nanos(at), Rate::bits_per_second(bps));
        for (steps, repeats, error) in [
            (vec![], None, RateOverTimeError::Empty),
            (vec![step(1, 1)], None, RateOverTimeError::NoBeginning),
            (vec![step(0, 1), step(5, 1), step(5, 2)], None, RateOverTimeError::Backwards(3)),
            (vec![step(0, 1), step(5, 0)], None, RateOverTimeError::NoRate(2)),
            (vec![step(0, 1), step(5, 2)], Some(5), RateOverTimeError::ShortPeriod),
        ] {
            assert_eq!(RateSteps::new(steps, repeats.map(Duration::from_nanos)), Err(error));
        }
        for (millis, error) in [
            (vec![], RateOverTimeError::Empty),
            (vec![0, 0], RateOverTimeError::NoTime),
            (vec![0, 3, 2], RateOverTimeError::Backwards(3)),
        ] {
            assert_eq!(DeliveryOpportunities::new(millis), Err(error));
        }
    }

    #[test]
    fn opportunities_are_found_by_time() {
        let trace = DeliveryOpportunities::new(vec![0, 2, 2, 5]).unwrap();
        for (number, at) in [(0, 0), (1, 2), (3, 5), (4, 5), (5, 7), (7, 10), (8, 10)] {
            assert_eq!(trace.time(number), millis(at), "{number}");
        }
        for (at, number) in [(0, 0), (1, 1), (2, 1), (3, 3), (5, 3), (6, 5), (10, 7)] {
            assert_eq!(trace.first_from(millis(at)), number, "from {at} ms");
        }
        assert_eq!(trace.mean(), Rate::bits_per_second(4 * 12_000 * 1000 / 5));
    }
}
