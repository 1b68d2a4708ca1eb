// SPDX-License-Identifier: GPL-2.0-or-later
//! How a sender's rate moves: up, down, towards its share.
//!
//! A rate at a time is the growth of a running total over the round trip before it. Where the
//! total was sampled less often than once a round trip, the rate's moves within one are not
//! visible, and the answer is `None`.

use crate::{Curve, stats};

/// The greatest rise of the rate within one round trip, in bits a second: Guillier's
/// `A = max { x(t + RTT) - x(t) }`; RFC 5166, section 2.2.1.
pub fn aggressiveness_bps(total_bytes: &Curve, rtt_s: f64) -> Option<f64> {
    steps_bps(total_bytes, rtt_s)?.reduce(f64::max)
}

/// The greatest fall of the rate within one round trip, in bits a second: Guillier's
/// `S = max x(t) - x(t + dt)` with dt of one round trip, as RFC 5166, section 2.2.2, has it.
/// Smaller is smoother.
pub fn smoothness_bps(total_bytes: &Curve, rtt_s: f64) -> Option<f64> {
    steps_bps(total_bytes, rtt_s)?.map(|step| -step).reduce(f64::max)
}

/// Every change of the rate from one round trip to the next, taken at each sample's time.
fn steps_bps(total_bytes: &Curve, rtt_s: f64) -> Option<impl Iterator<Item = f64>> {
    let (first, last) = total_bytes.span_s()?;
    let gaps: Vec<f64> = total_bytes.time_s.windows(2).map(|t| t[1] - t[0]).collect();
    if rtt_s.is_nan() || stats::median(&gaps)? > rtt_s {
        return None;
    }
    let rate = move |t: f64| (total_bytes.at(t) - total_bytes.at(t - rtt_s)) * 8.0 / rtt_s;
    let steps = total_bytes
        .time_s
        .iter()
        .filter(move |t| **t - rtt_s >= first && **t + rtt_s <= last)
        .map(move |t| rate(t + rtt_s) - rate(*t));
    Some(steps)
}

/// The round trips of lasting congestion until the rate has halved: Guillier's
/// `R = min_u { x(t + u RTT) <= x(t) / 2 }`; RFC 5166, section 2.2.1.
///
/// `rates` holds one rate for each round trip, the first being that of the congestion's onset.
/// `None` when the rate never halves.
pub fn responsiveness_rtts(rates: &[f64]) -> Option<usize> {
    let start = rates.first()?;
    rates.iter().position(|rate| *rate <= start / 2.0)
}

/// The round trips from the start until the window reaches 80 % of the bandwidth-delay product.
///
/// Guillier's table has `cwnd <= 0.8 BDP`, which a starting window meets at once; read as `>=`.
/// `windows` holds one window for each round trip, in the product's unit. `None` when the window
/// never gets there.
pub fn convergence_rtts(windows: &[f64], bandwidth_delay_product: f64) -> Option<usize> {
    windows.iter().position(|window| *window >= 0.8 * bandwidth_delay_product)
}

/// How long two flows take to a nearly fair share, in bins: RFC 5166, section 2.3.
///
/// `rates` holds the two flows' rates for each bin, the first being that in which the later flow
/// starts. Found is the first bin in which the smaller share is at least `(1 - delta) / 2`.
pub fn delta_fair_convergence_bins(rates: &[(f64, f64)], delta: f64) -> Option<usize> {
    rates.iter().position(|(a, b)| a + b > 0.0 && a.min(*b) >= (a + b) * (1.0 - delta) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Totals sampled every 0.1 s that grow by the given bytes from sample to sample.
    fn total(growth: &[f64]) -> Curve {
        let mut curve = Curve::default();
        let mut sum = 0.0;
        curve.push(0.0, sum);
        for (i, bytes) in growth.iter().enumerate() {
            sum += bytes;
            curve.push((i + 1) as f64 * 0.1, sum);
        }
        curve
    }

    #[test]
    fn greatest_rise_and_fall() {
        // 0.8, 1.6, 4.8, 2.4 kbit/s with a round trip of one sampling interval.
        let curve = total(&[10.0, 20.0, 60.0, 30.0]);
        let rise = aggressiveness_bps(&curve, 0.1).unwrap();
        let fall = smoothness_bps(&curve, 0.1).unwrap();
        assert!((rise - 3200.0).abs() < 1e-6, "{rise}");
        assert!((fall - 2400.0).abs() < 1e-6, "{fall}");
    }

    #[test]
    fn sampled_too_seldom_or_too_short_gives_nothing() {
        let curve = total(&[10.0, 20.0, 60.0]);
        assert_eq!(aggressiveness_bps(&curve, 0.09), None);
        assert_eq!(smoothness_bps(&curve, f64::NAN), None);
        assert_eq!(smoothness_bps(&total(&[10.0]), 0.1), None);
        assert_eq!(smoothness_bps(&Curve::default(), 0.1), None);
    }

    #[test]
    fn round_trips_are_counted_from_the_first() {
        assert_eq!(responsiveness_rtts(&[10.0, 9.0, 6.0, 5.0, 1.0]), Some(3));
        assert_eq!(responsiveness_rtts(&[10.0, 6.0]), None);
        assert_eq!(convergence_rtts(&[1.0, 2.0, 4.0, 8.0, 16.0], 10.0), Some(3));
        assert_eq!(convergence_rtts(&[], 10.0), None);
    }

    #[test]
    fn shares_within_delta_are_fair() {
        // Smaller shares: 1/101, 0.4, 0.45, 0.5; a delta of 0.1 asks for 0.45.
        let rates = [(100.0, 1.0), (60.0, 40.0), (45.0, 55.0), (50.0, 50.0)];
        assert_eq!(delta_fair_convergence_bins(&rates, 0.1), Some(2));
        assert_eq!(delta_fair_convergence_bins(&rates[..2], 0.1), None);
        assert_eq!(delta_fair_convergence_bins(&[(0.0, 0.0)], 0.1), None);
    }
}
