// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that read or send less than `limits.least_rate` while the depot waits for them alone.
//!
//! One byte per idle timeout would otherwise hold a connection slot, a next hop's connection and the buffers
//! of both. Only the client is measured: only the time in which the depot waits for it, and all bytes that it
//! acknowledges or sends. A slow origin does not count against it.

use crate::tcp::info::TcpInfo;
use std::time::{Duration, Instant};
use units::Rate;

/// How often is looked within the time for which a client may be slow.
const LOOKS: u32 = 10;

/// What a client has to move.
#[derive(Debug, Clone, Copy)]
pub struct MinimumRate {
    rate: Rate,
    time: Duration,
}

impl MinimumRate {
    /// `rate`, measured over `time`.
    pub fn new(rate: Rate, time: Duration) -> Self {
        Self { rate, time }
    }

    /// The same rate, measured over a time longer by `more`.
    #[must_use]
    pub fn over_longer(self, more: Duration) -> Self {
        Self { time: self.time + more, ..self }
    }

    /// How long from one look to the next.
    pub fn pause(self) -> Duration {
        self.time / LOOKS
    }

    /// The same of a client that the depot itself holds to a rate, which TCP may not quite reach.
    #[must_use]
    pub fn of_held(self, to: Option<Rate>) -> Self {
        let held = to.map(|held| Rate::bits_per_second(held.bps() / 2));
        Self { rate: held.map_or(self.rate, |held| held.min(self.rate)), ..self }
    }

    /// Whether `bytes` in `time` are below the minimum.
    fn is_missed(self, bytes: u64, time: Duration) -> bool {
        bytes as f64 * 8.0 < self.rate.bps() as f64 * time.as_secs_f64()
    }
}

/// What one direction of a client has moved, as often as it is looked at.
#[derive(Debug)]
pub struct Meter {
    waited: u32,
    before: [u64; 2],
}

impl Meter {
    /// Of a client that has moved `moved` so far: as the kernel counts it, and as the relay does.
    pub fn new(moved: [u64; 2]) -> Self {
        Self { waited: 0, before: moved }
    }

    /// Looks again, after a pause. Returns whether the client was too slow while the depot waited for it. The
    /// kernel's counter covers one of several connections, and the relay's counts whole buffers: the larger
    /// wins.
    pub fn look(&mut self, minimum: MinimumRate, is_waited_for: bool, moved: [u64; 2]) -> bool {
        self.waited += u32::from(is_waited_for);
        if self.waited < LOOKS {
            return false;
        }
        let [kernel, relay] = [0, 1].map(|n| moved[n].saturating_sub(self.before[n]));
        *self = Self::new(moved);
        minimum.is_missed(kernel.max(relay), minimum.time)
    }
}

/// A client that has everything but what waits in the kernel, and takes that.
#[derive(Debug)]
pub struct Rest {
    queued: usize,
    since: Instant,
}

impl Rest {
    /// `queued` bytes wait.
    pub fn new(queued: usize) -> Self {
        Self { queued, since: Instant::now() }
    }

    /// Looks again; says whether it was too slow. `client` is asked only once its time is over: most are gone before.
    pub fn look(
        &mut self,
        minimum: MinimumRate,
        queued: usize,
        client: impl FnOnce() -> TcpInfo,
    ) -> bool {
        let time = self.since.elapsed();
        if time < minimum.time {
            return false;
        }
        let taken = self.queued.saturating_sub(queued);
        *self = Self::new(queued);
        queued > 0 && minimum.of_held(client().spacing.rate()).is_missed(taken as u64, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMUM: MinimumRate =
        MinimumRate { rate: Rate::bits_per_second(8_000), time: Duration::from_secs(10) };

    #[test]
    fn minimum_rate_counts_only_waiting_for_client() {
        let mut meter = Meter::new([0, 0]);
        for _ in 0..100 {
            assert!(!meter.look(MINIMUM, false, [0, 0]), "the depot does not wait for it");
        }
        for _ in 1..LOOKS {
            assert!(!meter.look(MINIMUM, true, [9_999, 0]));
        }
        // A thousand bytes a second for ten seconds, or one byte less.
        assert!(meter.look(MINIMUM, true, [9_999, 0]));
        for _ in 1..LOOKS {
            assert!(!meter.look(MINIMUM, true, [9_999, 0]));
        }
        assert!(!meter.look(MINIMUM, true, [9_999, 10_000]), "either count will do");
    }

    #[test]
    fn rate_limited_client_is_not_too_slow() {
        let held = |bps| MINIMUM.of_held(Some(Rate::bits_per_second(bps))).rate.bps();
        assert_eq!(MINIMUM.of_held(None).rate.bps(), 8_000);
        assert_eq!([held(100_000), held(8_000)], [8_000, 4_000]);
    }
}
