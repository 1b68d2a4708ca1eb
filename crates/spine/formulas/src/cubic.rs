// SPDX-License-Identifier: GPL-2.0-or-later
//! CUBIC's average window: RFC 9438, section 5.1, equation 5. Domain: rare losses at regular intervals, `0 < p < 0.01`. Units:
//! segments, seconds.

/// The constant `C` of RFC 9438, in segments a cubic second.
const C: f64 = 0.4;
/// What a loss leaves of the window.
const KEPT: f64 = 0.7;

/// The average window with losses alone, without the region in which CUBIC follows Reno.
pub fn average_window(p: f64, rtt_s: f64) -> f64 {
    (C * (3.0 + KEPT) / (4.0 * (1.0 - KEPT))).powf(0.25) * rtt_s.powf(0.75) / p.powf(0.75)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of RFC 9438 (C = 0.4, round trip 0.1 s), from where Reno's window is smaller.
    #[test]
    fn table_of_the_rfc() {
        for (p, window) in
            [(1e-4, 187.0), (1e-5, 1054.0), (1e-6, 5926.0), (1e-7, 33_325.0), (1e-8, 187_400.0)]
        {
            let found = average_window(p, 0.1);
            assert!((found / window - 1.0).abs() < 0.01, "{p}: {found}, not {window}");
        }
    }
}
