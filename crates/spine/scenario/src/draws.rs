// SPDX-License-Identifier: GPL-2.0-or-later
//! Draws of traffic, the same by every method and on every machine: logarithm and power are those of `libm`,
//! written in Rust, not the platform's.
//!
//! All draws of a source come in an order that does not depend on how its transfers fare, so that runs with other congestion
//! controls, or by another method, meet the same traffic.

use crate::{FileSize, fnv_1a};
use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Bytes, Duration};

/// Random numbers of one source.
#[derive(Debug, Clone)]
pub struct Random(Pcg64);

impl Random {
    /// Of a run's seed and the source's name. Equal ones draw the same.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(fnv_1a(0, name.bytes()))))
    }

    /// Above 0 and not above 1: 53 random bits.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // The upper half of a product: its bias is `end` in 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// An exponentially distributed time.
    pub fn time(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((self.exponential() * mean.as_nanos() as f64) as u64)
    }

    /// An exponentially distributed size, at least one byte.
    pub fn size(&mut self, mean: Bytes) -> Bytes {
        mean.scale(self.exponential()).max(Bytes::new(1))
    }

    /// A file's size.
    fn file(&mut self, sizes: &FileSizes) -> Bytes {
        match *sizes {
            FileSizes::Fixed(size) => size,
            FileSizes::Pareto { least, shape, most } => {
                let size = least * libm::pow(self.unit(), -1.0 / shape);
                Bytes::new((size.min(most) as u64).max(1))
            }
        }
    }
}

/// Files that arrive as a Poisson process.
#[derive(Debug, Clone)]
pub struct FileArrivals {
    random: Random,
    sizes: FileSizes,
    mean: Duration,
}

/// A file that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileArrival {
    /// Its size.
    pub size: Bytes,
    /// The time from its arrival to the next one's.
    pub until_next: Duration,
}

impl FileArrivals {
    /// Of a run's seed and the source's name. The first file arrives when the source starts.
    pub fn new(seed: u64, name: &str, per_second: f64, size: FileSize) -> Self {
        let mean = Duration::from_nanos((1e9 / per_second) as u64);
        Self { random: Random::new(seed, name), sizes: FileSizes::new(size), mean }
    }

    /// The next file to arrive; there is no last one.
    pub fn draw(&mut self) -> FileArrival {
        let until_next = self.random.time(self.mean);
        FileArrival { size: self.random.file(&self.sizes), until_next }
    }
}

/// Sizes of files, ready to draw from.
#[derive(Debug, Clone, Copy)]
enum FileSizes {
    Fixed(Bytes),
    Pareto { least: f64, shape: f64, most: f64 },
}

impl FileSizes {
    fn new(size: FileSize) -> Self {
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
    fn arrivals_are_of_seed_and_name() {
        let size =
            FileSize::Pareto { mean: Bytes::new(12_288), shape: 1.2, most: Bytes::new(1_000_000) };
        let draw = |seed, name| {
            let mut arrivals = FileArrivals::new(seed, name, 100.0, size);
            [(); 3].map(|()| arrivals.draw())
        };
        assert_eq!(draw(7, "web"), draw(7, "web"));
        assert!(draw(7, "web") != draw(8, "web") && draw(7, "web") != draw(7, "ftp"));
    }

    #[test]
    fn a_distribution_without_a_tail_is_constant() {
        // Cut at the mean, every file has that size. The mean is flat there, so rounding shows.
        let least = pareto_minimum(1000.0, 1.2, 1000.0);
        assert!((least - 1000.0).abs() < 1e-3, "{least}");
    }
}
