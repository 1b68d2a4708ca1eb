// SPDX-License-Identifier: GPL-2.0-or-later
//! When the next bytes of a stream are taken, if its rate is limited. Its sender is then slowed by a full window.

use std::time::Duration;
use tokio::time::Instant;
use units::{Bytes, Rate};

/// Of a limited stream, so much of its time is taken at once at most.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A stream whose bytes are taken at a rate that may change. What it does not use it does not save up.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes whose time is not over at `at`.
    owed: u64,
    at: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { owed: 0, at: Instant::now() }
    }

    /// How many bytes to take at once at this rate, at least one.
    pub(super) fn most_at_once(rate: Option<Rate>) -> usize {
        let most = rate.map_or(u64::MAX, |rate| rate.times(AT_ONCE.into()).get());
        usize::try_from(most.max(1)).unwrap_or(usize::MAX)
    }

    pub(super) fn took(&mut self, bytes: usize) {
        self.owed = self.owed.saturating_add(bytes as u64);
    }

    /// How long the next bytes have to wait at this rate.
    pub(super) fn pause(&mut self, rate: Option<Rate>) -> Duration {
        let (now, before) = (Instant::now(), self.at);
        let Some(rate) = rate else {
            *self = Self { owed: 0, at: now };
            return Duration::ZERO;
        };
        let paid = rate.times((now - before).into()).get();
        if paid >= self.owed {
            *self = Self { owed: 0, at: now };
            return Duration::ZERO;
        }
        // Time that was too short for a byte goes on counting.
        if paid > 0 {
            *self = Self { owed: self.owed - paid, at: now };
        }
        rate.time_for(Bytes::new(self.owed)).map_or(Duration::MAX, Duration::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const RATE: Option<Rate> = Some(Rate::bits_per_second(8_000_000));

    #[tokio::test(start_paused = true)]
    async fn bytes_take_their_time_at_the_rate_of_the_moment() {
        let mut pace = Pace::new();
        assert_eq!(pace.pause(RATE), Duration::ZERO);
        pace.took(1_000_000);
        assert_eq!(pace.pause(RATE), Duration::from_secs(1));
        advance(Duration::from_millis(250)).await;
        assert_eq!(pace.pause(RATE), Duration::from_millis(750));
        // Ten times as fast from now on.
        let faster = Some(Rate::bits_per_second(80_000_000));
        assert_eq!(pace.pause(faster), Duration::from_millis(75));
        advance(Duration::from_millis(75)).await;
        assert_eq!(pace.pause(faster), Duration::ZERO);
        pace.took(1 << 30);
        assert_eq!(pace.pause(None), Duration::ZERO, "it is not limited any more");
        assert_eq!(pace.pause(RATE), Duration::ZERO, "and owes nothing of that time");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_is_not_saved_up() {
        let mut pace = Pace::new();
        advance(Duration::from_secs(3600)).await;
        assert_eq!(pace.pause(RATE), Duration::ZERO);
        pace.took(8_000);
        assert_eq!(pace.pause(RATE), Duration::from_millis(8));
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_short_intervals_lose_no_time() {
        let (mut pace, slow) = (Pace::new(), Some(Rate::bits_per_second(1_000)));
        pace.took(125);
        let mut looks = 0;
        while pace.pause(slow) > Duration::ZERO {
            advance(Duration::from_millis(1)).await;
            looks += 1;
        }
        assert!((1_000..1_010).contains(&looks), "{looks} ms for 1 s");
    }

    #[test]
    fn slow_streams_are_taken_in_small_parts() {
        assert_eq!(Pace::most_at_once(None), usize::MAX);
        assert_eq!(Pace::most_at_once(RATE), 50_000);
        assert_eq!(Pace::most_at_once(Some(Rate::bits_per_second(1))), 1);
    }
}
