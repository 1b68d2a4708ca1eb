// SPDX-License-Identifier: GPL-2.0-or-later
//! What all transfers of a depot move together: now, and at most of late.

use std::time::Duration;

/// After this time without as much again, half of the highest rate counts.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// Rates of both directions together, in bit/s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Throughput {
    /// Over the last second.
    pub now_bps: u64,
    highest_bps: f64,
}

impl Throughput {
    /// It is this now, so long after the last look.
    pub(super) fn look(&mut self, now_bps: u64, elapsed: Duration) {
        let halves = elapsed.as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.now_bps = now_bps;
        self.highest_bps = (self.highest_bps * 0.5_f64.powf(halves)).max(now_bps as f64);
    }

    /// The highest of late.
    pub(crate) fn highest_bps(self) -> u64 {
        self.highest_bps as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_rate_fades() {
        let mut throughput = Throughput::default();
        throughput.look(1000, Duration::from_secs(1));
        throughput.look(100, HALF_LIFE);
        assert_eq!((throughput.now_bps, throughput.highest_bps()), (100, 500));
        throughput.look(100, HALF_LIFE * 10);
        assert_eq!(throughput.highest_bps(), 100);
    }
}
