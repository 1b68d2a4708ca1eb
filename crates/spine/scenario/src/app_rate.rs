// SPDX-License-Identifier: GPL-2.0-or-later
//! A program that produces its data at a rate (`app_rate` of a flow), by every method: it writes every [`INTERVAL`] what the rate
//! brings in that time, as `iperf3 -b` does. A program that could not write in time, because its socket's buffer was full, catches up.

use units::{Duration, Rate};

/// Between two writes.
pub const INTERVAL: Duration = Duration::from_millis(1);

/// Bits and nanoseconds of a second in one byte.
const BYTE: u128 = 8 * 1_000_000_000;

/// Bytes that have been produced this long after the first write, which comes at zero.
pub fn produced(rate: Rate, elapsed: Duration) -> u64 {
    let writes = u128::from(elapsed.as_nanos() / INTERVAL.as_nanos()) + 1;
    let nanos = writes * u128::from(INTERVAL.as_nanos());
    let bytes = nanos.saturating_mul(u128::from(rate.bps())) / BYTE;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How long after the first write the write comes that completes `bytes`.
pub fn time_of(rate: Rate, bytes: u64) -> Duration {
    let a_write = u128::from(INTERVAL.as_nanos()) * u128::from(rate.bps());
    let writes = (u128::from(bytes) * BYTE).div_ceil(a_write.max(1)).max(1) - 1;
    Duration::from_nanos(u64::try_from(writes).unwrap_or(u64::MAX))
        .saturating_mul(INTERVAL.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12 Mb/s are 1500 bytes a millisecond, and 1 Mb/s 125.
    #[test]
    fn writes_come_each_millisecond() {
        let of = |mbps: u64| Rate::bits_per_second(mbps * 1_000_000);
        let micros = Duration::from_micros;
        let after = [0, 999, 1000, 10_500].map(|us| produced(of(12), micros(us)));
        assert_eq!(after, [1500, 1500, 3000, 11 * 1500]);
        let times = [1, 125, 126, 1448, 1500].map(|bytes| time_of(of(1), bytes));
        assert_eq!(times, [0, 0, 1, 11, 11].map(Duration::from_millis));
        for bytes in [1, 700, 12_345, u64::from(u32::MAX)] {
            for rate in [of(1), Rate::bits_per_second(7), of(10_007)] {
                let at = time_of(rate, bytes);
                assert!(produced(rate, at) >= bytes, "{bytes} bytes at {rate}");
                let is_first = at < INTERVAL || produced(rate, at.saturating_sub(INTERVAL)) < bytes;
                assert!(is_first, "{bytes} bytes at {rate} earlier");
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let (slow, fast) = (Rate::bits_per_second(1), Rate::bits_per_second(u64::MAX));
        assert_eq!(produced(fast, Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(produced(slow, Duration::ZERO), 0);
        assert_eq!(time_of(slow, u64::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(time_of(fast, 1), Duration::ZERO);
    }
}
