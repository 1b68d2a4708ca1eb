// SPDX-License-Identifier: GPL-2.0-or-later
//! Bounds of a binomial count, computed from the distribution itself: the normal approximation is
//! off by several counts where few are expected.

/// The central interval of a binomial count: as narrow as it can be with at most `outside / 2`
/// below it and at most `outside / 2` above it.
pub fn interval(trials: u64, probability: f64, outside: f64) -> [u64; 2] {
    let (first, weights) = weights(trials, probability);
    let allowed = weights.iter().sum::<f64>() * outside / 2.0;
    let last = first + weights.len() as u64 - 1;
    [first + fitting(weights.iter(), allowed), last - fitting(weights.iter().rev(), allowed)]
}

/// How many of the first weights are together no more than is allowed.
fn fitting<'a>(weights: impl Iterator<Item = &'a f64>, allowed: f64) -> u64 {
    let mut sum = 0.0;
    let fits = |weight: &&f64| {
        sum += **weight;
        sum <= allowed
    };
    weights.take_while(fits).count() as u64
}

/// The probabilities of neighbouring counts, up to a common factor, and the first of these counts.
/// Left out is what is too improbable to matter: 10^-25 of the most probable one and less.
///
/// Each follows from its neighbour, and the most probable one is set to 1, so that nothing
/// overflows and no factorial is needed.
fn weights(trials: u64, p: f64) -> (u64, Vec<f64>) {
    let negligible = |weight: &f64| *weight < 1e-25;
    let mode = (((trials + 1) as f64 * p) as u64).min(trials);
    let odds = p / (1.0 - p);
    // From k to k - 1 and from k to k + 1.
    let fewer = |k: u64| k as f64 / ((trials - k + 1) as f64 * odds);
    let more = |k: u64| (trials - k) as f64 * odds / (k + 1) as f64;
    let mut weights = vec![1.0];
    for k in (1..=mode).rev() {
        weights.push(weights[weights.len() - 1] * fewer(k));
        if weights.last().is_some_and(negligible) {
            break;
        }
    }
    let first = mode + 1 - weights.len() as u64;
    weights.reverse();
    for k in mode..trials {
        weights.push(weights[weights.len() - 1] * more(k));
        if weights.last().is_some_and(negligible) {
            break;
        }
    }
    (first, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_exact_arithmetic() {
        // Ten coins by hand: P(X < 2) = 11/1024 is at most 2.5 %, P(X < 3) = 56/1024 is not.
        assert_eq!(interval(10, 0.5, 0.05), [2, 8]);
        // The first three by rational arithmetic on whole binomial coefficients, the others from
        // (1-p)^n upwards in 60 decimal digits.
        for (trials, probability, bounds) in [
            (20, 0.3, [0, 14]),
            (500, 0.01, [0, 16]),
            (100, 0.9, [77, 99]),
            (40_000, 0.01, [325, 480]),
            (60_000, 0.001, [32, 92]),
            (200_000, 0.001, [147, 257]),
        ] {
            assert_eq!(interval(trials, probability, 1e-4), bounds, "{trials} at {probability}");
        }
        assert_eq!(interval(1000, 0.0, 1e-4), [0, 0]);
    }
}
