// SPDX-License-Identifier: GPL-2.0-or-later
//! Draws from distributions, the same on every machine: logarithm and power are those of `libm`,
//! written in Rust, not the platform's.

use rand_core::Rng;
use rand_pcg::Pcg64;
use scenario::{FileSize, fnv_1a};
use units::{Bytes, Duration};

/// Random numbers of one source.
#[derive(Debug, Clone)]
pub(crate) struct Random(Pcg64);

impl Random {
    /// Of a run's seed and the source's name. Equal ones draw the same.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(fnv_1a(0, name.bytes()))))
    }

    /// Above 0 and not above 1: 53 random bits.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
    }

    /// A whole number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The upper half of a product: its bias is `end` in 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// An exponentially distributed time.
    pub(crate) fn time(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((self.exponential() * mean.as_nanos() as f64) as u64)
    }

    /// An exponentially distributed size, at least one byte.
    pub(crate) fn size(&mut self, mean: Bytes) -> Bytes {
        mean.scale(self.exponential()).max(Bytes::new(1))
    }

    /// A file's size.
    pub(crate) fn file(&mut self, sizes: &FileSizes) -> Bytes {
        match *sizes {
            FileSizes::Fixed(size) => size,
            FileSizes::Pareto { least, shape, most } => {
                let size = least * libm::pow(self.unit(), -1.0 / shape);
                Bytes::new((size.min(most) as u64).max(1))
            }
        }
    }
}

/// Sizes of files, ready to draw from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileSizes {
    Fixed(Bytes),
    Pareto { least: f64, shape: f64, most: f64 },
}

impl FileSizes {
    pub(crate) fn new(size: FileSize) -> Self {
        match size {
            FileSize::Fixed(bytes) => Self::Fixed(bytes),
            FileSize::Pareto { mean, shape, most } => {
                let most = most.get() as f64;
                let least = pareto_minimum(mean.get() as f64, shape, most);
                Self::Pareto { least, shape, most }
            }
        }
    }
}

/// The least size of a Pareto distribution that, cut at `most`, has that mean. The mean grows with the
/// least size, so bisection finds it.
fn pareto_minimum(mean: f64, shape: f64, most: f64) -> f64 {
    let mean_of =
        |least: f64| (shape * least - libm::pow(least / most, shape) * most) / (shape - 1.0);
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if mean_of(middle) < mean { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_asked_for() {
        let mut random = Random::new(7, "test");
        let n = 400_000;
        let mean = Bytes::new(12_288);
        let sizes =
            FileSizes::new(FileSize::Pareto { mean, shape: 1.5, most: Bytes::new(1_000_000) });
        let sum: u64 = (0..n).map(|_| random.file(&sizes).get()).sum();
        assert!((sum as f64 / n as f64 / 12_288.0 - 1.0).abs() < 0.02, "{}", sum / n);
        let sum: u64 = (0..n).map(|_| random.time(Duration::from_millis(3)).as_nanos()).sum();
        assert!((sum as f64 / n as f64 / 3e6 - 1.0).abs() < 0.01, "{}", sum / n);
        let sum: u64 = (0..n).map(|_| random.size(Bytes::new(5000)).get()).sum();
        assert!((sum as f64 / n as f64 / 5000.0 - 1.0).abs() < 0.01, "{}", sum / n);
    }

    #[test]
    fn a_distribution_without_a_tail_is_constant() {
        // Cut at the mean, every file has that size. The mean is flat there, so rounding shows.
        let least = pareto_minimum(1000.0, 1.2, 1000.0);
        assert!((least - 1000.0).abs() < 1e-3, "{least}");
    }
}
