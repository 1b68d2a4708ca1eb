// SPDX-License-Identifier: GPL-2.0-or-later
//! How evenly flows share: 1 when all get the same, less the less even.
//!
//! Max-min, proportional and alpha-fairness are conditions on an allocation; as figures they are
//! the utility that the condition maximises. Those utilities have units that depend on alpha and
//! grow with the total, so they are given here as the rate which, were every flow to get it,
//! would have the same utility, divided by the flows' mean rate: for a given total and number of
//! flows that orders allocations as the utility does.
//!
//! Powers and logarithms are libm's in Rust: those of the systems' libraries differ in the last bit.

use crate::{FlowSummary, HopSummary, goodput_bps};
use std::collections::BTreeMap;

/// Jain's index: `(sum x)^2 / (n sum x^2)` (RFC 5166, section 2.3.1). `None` without flows or when
/// none of them got anything.
pub fn jain_index(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Fairness by the utility `x^(1 - alpha) / (1 - alpha)`, or `ln x` at alpha 1 (Mo and Walrand).
///
/// `alpha` is above 0: 1 is proportional fairness, 2 minimum potential delay, and with growing
/// alpha it becomes [`max_min_fairness`]. `None` without flows or when none of them got anything.
pub fn alpha_fairness(rates: &[f64], alpha: f64) -> Option<f64> {
    let n = rates.len() as f64;
    let mean = positive_mean(rates)?;
    let shares = rates.iter().map(|x| x / mean);
    // Near 1 the power mean loses its digits long before it differs from its limit.
    Some(if (alpha - 1.0).abs() < 1e-9 {
        libm::exp(shares.map(libm::log).sum::<f64>() / n)
    } else {
        let power = 1.0 - alpha;
        let mean = shares.map(|share| libm::pow(share, power)).sum::<f64>() / n;
        libm::pow(mean, 1.0 / power)
    })
}

/// Max-min fairness: the smallest rate over the mean. `None` as in [`alpha_fairness`].
pub fn max_min_fairness(rates: &[f64]) -> Option<f64> {
    let smallest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    Some(smallest / positive_mean(rates)?)
}

/// The rate of each of a flow's parallel streams: what its last hop acknowledged, over the flow's
/// time; the flow's goodput where it has one stream. `None` when one of them is not known.
pub fn stream_rates_bps(flow: &FlowSummary) -> Option<Vec<f64>> {
    let mut last: BTreeMap<u32, &HopSummary> = BTreeMap::new();
    for hop in &flow.hops {
        let known = last.entry(hop.stream).or_insert(hop);
        if hop.index > known.index {
            *known = hop;
        }
    }
    if last.len() < 2 {
        return flow.goodput_bps.map(|bps| vec![bps]);
    }
    let rate = |hop: &&HopSummary| Some(goodput_bps(hop.bytes?, flow.seconds?));
    last.values().map(rate).collect::<Option<_>>().filter(|_| flow.seconds > Some(0.0))
}

fn positive_mean(rates: &[f64]) -> Option<f64> {
    crate::stats::mean(rates).filter(|mean| *mean > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNEVEN: [f64; 2] = [1e6, 3e6];

    fn close(a: Option<f64>, b: f64) {
        assert!((a.unwrap() - b).abs() < 1e-9, "{a:?} {b}");
    }

    #[test]
    fn by_hand() {
        close(jain_index(&UNEVEN), 16.0 / 20.0);
        // Geometric mean sqrt 3, harmonic mean 3/2, smallest 1, each over the mean 2.
        close(alpha_fairness(&UNEVEN, 1.0), 3f64.sqrt() / 2.0);
        close(alpha_fairness(&UNEVEN, 2.0), 0.75);
        close(max_min_fairness(&UNEVEN), 0.5);
        assert!((alpha_fairness(&UNEVEN, 400.0).unwrap() - 0.5).abs() < 2e-3);
    }

    #[test]
    fn streams_are_computed_separately() {
        let hop =
            |index, stream, bytes| HopSummary { index, stream, bytes, ..HopSummary::default() };
        let flow = |hops| FlowSummary {
            hops,
            seconds: Some(2.0),
            goodput_bps: Some(7.0),
            ..FlowSummary::default()
        };
        // Two streams of two hops: 12 and 4 bytes arrived.
        let two =
            vec![hop(0, 0, Some(90)), hop(1, 0, Some(12)), hop(2, 1, Some(90)), hop(3, 1, Some(4))];
        assert_eq!(stream_rates_bps(&flow(two)), Some(vec![48.0, 16.0]));
        assert_eq!(stream_rates_bps(&flow(vec![hop(0, 0, Some(9)), hop(1, 1, None)])), None);
        for one in [Vec::new(), vec![hop(0, 0, None), hop(1, 0, Some(1))]] {
            assert_eq!(stream_rates_bps(&flow(one)), Some(vec![7.0]));
        }
    }

    /// Rates between 0 and 1000, and how many, drawn from a seed that is printed.
    #[test]
    fn bounds_of_any_allocation() {
        use rand_core::{Rng, SeedableRng};
        let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        eprintln!("LONGHAUL_SEED={seed}");
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        for _ in 0..2000 {
            let n = 1 + random.next_u32() % 40;
            let rates: Vec<f64> =
                (0..n).map(|_| f64::from(random.next_u32() % 100_001) / 100.0 + 1e-3).collect();
            let jain = jain_index(&rates).unwrap();
            assert!(jain <= 1.0 + 1e-12 && jain >= 1.0 / f64::from(n) - 1e-12, "{jain} {rates:?}");
            // Power means fall with growing alpha, from 1 down to the smallest.
            let falling =
                [0.0, 0.5, 1.0, 2.0, 8.0].map(|alpha| alpha_fairness(&rates, alpha).unwrap());
            assert!((falling[0] - 1.0).abs() < 1e-9, "{rates:?}");
            let falling = [&falling[..], &[max_min_fairness(&rates).unwrap()]].concat();
            assert!(falling.windows(2).all(|two| two[1] <= two[0] + 1e-9), "{falling:?} {rates:?}");
        }
    }

    #[test]
    fn limits() {
        for fairness in [
            jain_index,
            max_min_fairness,
            |x: &[f64]| alpha_fairness(x, 1.0),
            |x: &[f64]| alpha_fairness(x, 2.0),
        ] {
            close(fairness(&[7.0; 5]), 1.0);
            assert_eq!(fairness(&[]), None);
            assert_eq!(fairness(&[0.0, 0.0]), None);
        }
        // One of n gets all: Jain gives 1/n, the others 0.
        close(jain_index(&[0.0, 0.0, 0.0, 8.0]), 0.25);
        close(alpha_fairness(&[0.0, 8.0], 1.0), 0.0);
        close(alpha_fairness(&[0.0, 8.0], 2.0), 0.0);
        close(max_min_fairness(&[0.0, 8.0]), 0.0);
    }
}
