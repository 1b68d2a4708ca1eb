// SPDX-License-Identifier: GPL-2.0-or-later
//! A sender's round trips and window over time.

use crate::{Curve, stats};

/// The distribution of a sender's smoothed round trips, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_field_names, reason = "names carry their unit")]
pub struct RoundTrips {
    /// Mean over the samples.
    pub mean_us: f64,
    /// The value in the middle.
    pub median_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

impl RoundTrips {
    /// The distribution over the samples, which stand for equal times; `None` without samples.
    pub fn of(srtt_us: &Curve) -> Option<Self> {
        Some(Self {
            mean_us: stats::mean(&srtt_us.value)?,
            median_us: stats::median(&srtt_us.value)?,
            p99_us: stats::quantile(&srtt_us.value, 0.99)?,
        })
    }
}

/// The 99th percentile of a queue's delay over its samples, in microseconds: what it held over the
/// rate at which it empties. `None` without samples or rate.
pub fn queueing_delay_p99_us(queue_bytes: &[f64], rate_bps: u64) -> Option<f64> {
    let bytes = stats::quantile(queue_bytes, 0.99)?;
    (rate_bps > 0).then(|| bytes * 8e6 / rate_bps as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let srtt = Curve { time_s: vec![0.0, 0.1, 0.2, 0.3], value: vec![10.0, 40.0, 20.0, 30.0] };
        let by_hand = RoundTrips { mean_us: 25.0, median_us: 25.0, p99_us: 40.0 };
        assert_eq!(RoundTrips::of(&srtt), Some(by_hand));
        assert_eq!(RoundTrips::of(&Curve::default()), None);
        // 1250 bytes at 1 Mbit/s are 10 ms; one sample of a hundred is above.
        let queue: Vec<f64> = (0..100).map(|n| if n == 50 { 9e9 } else { 1250.0 }).collect();
        assert_eq!(queueing_delay_p99_us(&queue, 1_000_000), Some(10_000.0));
        assert_eq!(queueing_delay_p99_us(&queue, 0), None);
        assert_eq!(queueing_delay_p99_us(&[], 1_000_000), None);
    }
}
