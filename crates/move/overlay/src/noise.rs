// SPDX-License-Identifier: GPL-2.0-or-later
//! What tests of this crate share: random numbers from a seed, and numbers that are equal but for rounding.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Fails unless these are equal but for rounding.
#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

/// A generator.
pub(crate) struct Noise(Pcg64Mcg);

impl Noise {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 0 and deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.unit(), self.unit());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}
