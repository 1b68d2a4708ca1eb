// SPDX-License-Identifier: GPL-2.0-or-later
//! How far a host's clock is off from this one's.

use std::time::Duration;

/// An exchange: when it was asked and answered here, and the time there. In nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    pub asked: i64,
    pub there: i64,
    pub answered: i64,
}

/// This host's monotonic clock, in nanoseconds.
pub fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// How far a clock is ahead of this host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// In nanoseconds; negative if it is behind.
    pub ahead_ns: i64,
    /// It is wrong by this at most: half the round trip of the exchange that it is from.
    pub error: Duration,
}

/// How far a host's clocks are ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// That of the calendar.
    pub realtime: ClockOffset,
    /// The monotonic one, which is never set.
    pub monotonic: ClockOffset,
}

impl ClockOffset {
    /// By the exchange with the shortest round trip (Cristian 1989); none without one.
    pub(crate) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let best = exchanges.iter().min_by_key(|it| it.answered - it.asked)?;
        let round_trip_ns = (best.answered - best.asked).max(0);
        let middle_ns = best.asked + round_trip_ns / 2;
        let error = Duration::from_nanos(u64::try_from(round_trip_ns).unwrap_or(0).div_ceil(2));
        Some(Self { ahead_ns: best.there - middle_ns, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_round_trip_bounds_the_error() {
        const MS: i64 = 1_000_000;
        // Ten minutes ahead; ways of 1 and 3 ms, then of 40 and 2 ms.
        let ahead_ns = 600_000 * MS;
        let of = |asked: i64, there: i64, back: i64| Exchange {
            asked,
            there: asked + there + ahead_ns,
            answered: asked + there + back,
        };
        let offset = ClockOffset::of(&[of(0, 40 * MS, 2 * MS), of(100 * MS, MS, 3 * MS)]).unwrap();
        assert_eq!(offset.error, Duration::from_millis(2));
        assert!((offset.ahead_ns - ahead_ns).unsigned_abs() <= offset.error.as_nanos() as u64);
        assert_eq!(ClockOffset::of(&[]), None);
    }
}
