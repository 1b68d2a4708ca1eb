// SPDX-License-Identifier: GPL-2.0-or-later
//! How evenly flows share: 1 when all get the same, less the less even.
//!
//! Max-min, proportional and alpha-fairness are conditions on an allocation; as figures they are
//! the utility that the condition maximises. Those utilities have units that depend on alpha and
//! grow with the total, so they are given here as the rate which, were every flow to get it,
//! would have the same utility, divided by the flows' mean rate: for a given total and number of
//! flows that orders allocations as the utility does.

/// Jain's index: `(sum x)^2 / (n sum x^2)` (RFC 5166, section 2.3.1). `None` without flows or when
/// none of them got anything.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Fairness by the utility `x^(1 - alpha) / (1 - alpha)`, or `ln x` at alpha 1 (Mo and Walrand).
///
/// `alpha` is above 0: 1 is proportional fairness, 2 minimum potential delay, and with growing
/// alpha it becomes [`max_min`]. `None` without flows or when none of them got anything.
pub fn alpha_fair(rates: &[f64], alpha: f64) -> Option<f64> {
    let n = rates.len() as f64;
    let mean = positive_mean(rates)?;
    let shares = rates.iter().map(|x| x / mean);
    // Near 1 the power mean loses its digits long before it differs from its limit.
    Some(if (alpha - 1.0).abs() < 1e-9 {
        (shares.map(f64::ln).sum::<f64>() / n).exp()
    } else {
        let power = 1.0 - alpha;
        (shares.map(|share| share.powf(power)).sum::<f64>() / n).powf(1.0 / power)
    })
}

/// Max-min fairness: the smallest rate over the mean. `None` as in [`alpha_fair`].
pub fn max_min(rates: &[f64]) -> Option<f64> {
    let smallest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    Some(smallest / positive_mean(rates)?)
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
        close(jain(&UNEVEN), 16.0 / 20.0);
        // Geometric mean sqrt 3, harmonic mean 3/2, smallest 1, each over the mean 2.
        close(alpha_fair(&UNEVEN, 1.0), 3f64.sqrt() / 2.0);
        close(alpha_fair(&UNEVEN, 2.0), 0.75);
        close(max_min(&UNEVEN), 0.5);
        assert!((alpha_fair(&UNEVEN, 400.0).unwrap() - 0.5).abs() < 2e-3);
    }

    #[test]
    fn limits() {
        for fairness in
            [jain, max_min, |x: &[f64]| alpha_fair(x, 1.0), |x: &[f64]| alpha_fair(x, 2.0)]
        {
            close(fairness(&[7.0; 5]), 1.0);
            assert_eq!(fairness(&[]), None);
            assert_eq!(fairness(&[0.0, 0.0]), None);
        }
        // One of n gets all: Jain gives 1/n, the others 0.
        close(jain(&[0.0, 0.0, 0.0, 8.0]), 0.25);
        close(alpha_fair(&[0.0, 8.0], 1.0), 0.0);
        close(alpha_fair(&[0.0, 8.0], 2.0), 0.0);
        close(max_min(&[0.0, 8.0]), 0.0);
    }
}
