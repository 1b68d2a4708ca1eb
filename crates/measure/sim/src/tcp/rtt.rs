// SPDX-License-Identifier: GPL-2.0-or-later
//! Round-trip times and the retransmission timeout: RFC 6298.
//!
//! Linux adds at least the least timeout to the smoothed RTT; RFC 6298 and ns-2 bound their sum from
//! below. The smallest RTT is that of the last five minutes, as in Linux, and expires all at once.

use scenario::Profile;
use units::{Duration, Timestamp};

/// Before there is a sample (RFC 6298 section 2).
const INITIAL_RTO: Duration = Duration::from_millis(1000);
/// Linux's `TCP_RTO_MAX`.
const MAX_RTO: Duration = Duration::from_millis(120_000);
/// How long a smallest RTT is remembered: Linux's `tcp_min_rtt_wlen`.
const MIN_RTT_WINDOW: Duration = Duration::from_millis(300_000);

#[derive(Debug, Clone)]
pub(crate) struct RttEstimator {
    /// 8 times the smoothed RTT, 4 times its deviation, in ns: so the gains of 1/8 and 1/4 lose nothing
    /// by rounding.
    smoothed8: u64,
    deviation4: u64,
    min: Duration,
    min_since: Timestamp,
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn new() -> Self {
        let min = Duration::from_nanos(u64::MAX);
        Self { smoothed8: 0, deviation4: 0, min, min_since: Timestamp::ZERO, backoff: 0 }
    }

    /// A sample for the timeout.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_nanos();
        if self.smoothed8 == 0 {
            (self.smoothed8, self.deviation4) = (8 * rtt, 2 * rtt);
        } else {
            let error = rtt.abs_diff(self.smoothed8 / 8);
            self.deviation4 = self.deviation4 - self.deviation4 / 4 + error;
            self.smoothed8 = self.smoothed8 - self.smoothed8 / 8 + rtt;
        }
        self.backoff = 0;
    }

    /// A sample for the smallest.
    pub(crate) fn sample_min(&mut self, now: Timestamp, rtt: Duration) {
        if rtt <= self.min || now.since(self.min_since) > MIN_RTT_WINDOW {
            (self.min, self.min_since) = (rtt, now);
        }
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed8 > 0).then(|| Duration::from_nanos(self.smoothed8 / 8))
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        (self.min < Duration::from_nanos(u64::MAX)).then_some(self.min)
    }

    /// The timeout in force.
    pub(crate) fn timeout(&self, tcp: &scenario::Tcp) -> Duration {
        let Some(smoothed) = self.smoothed() else {
            return INITIAL_RTO.saturating_mul(1 << self.backoff.min(16)).min(MAX_RTO);
        };
        let deviation = Duration::from_nanos(self.deviation4);
        let timeout = match tcp.profile {
            Profile::Linux => smoothed + deviation.max(tcp.min_rto),
            Profile::Ns2 => (smoothed + deviation).max(tcp.min_rto),
        };
        timeout.saturating_mul(1 << self.backoff.min(16)).min(MAX_RTO)
    }

    /// The timeouts since the last sample were spurious.
    pub(crate) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// A timeout has passed: the next is twice as long.
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = RttEstimator::new();
        let ms = Duration::from_millis;
        let (mut srtt, mut rttvar) = (None::<f64>, 0.0_f64);
        for sample in [100, 120, 80, 300, 100, 100] {
            rtt.sample(ms(sample));
            let r = sample as f64;
            srtt = Some(match srtt {
                None => {
                    rttvar = r / 2.0;
                    r
                }
                Some(s) => {
                    rttvar = 0.75 * rttvar + 0.25 * (s - r).abs();
                    0.875 * s + 0.125 * r
                }
            });
            let found = rtt.smoothed().unwrap().as_nanos() as f64 / 1e6;
            assert!((found - srtt.unwrap()).abs() < 1e-3, "{found} {srtt:?}");
            assert!((rtt.deviation4 as f64 / 1e6 - 4.0 * rttvar).abs() < 1e-3);
        }
    }
}
