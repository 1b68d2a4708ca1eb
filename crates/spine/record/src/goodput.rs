// SPDX-License-Identifier: GPL-2.0-or-later
//! Goodput: content that arrived over the time it took. The one definition for flows, runs, streams and traffic.

/// Goodput in bit/s: `bytes * 8 / seconds`; 0 where no time passed.
pub fn goodput_bps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_bits_over_seconds() {
        assert_eq!(goodput_bps(3000, 10.0).to_bits(), 2400f64.to_bits());
        for seconds in [0.0, -1.0, f64::NAN] {
            assert_eq!(goodput_bps(3000, seconds).to_bits(), 0f64.to_bits(), "{seconds}");
        }
    }
}
