// SPDX-License-Identifier: GPL-2.0-or-later
//! Random numbers from a seed.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub struct Random(Pcg64Mcg);

impl Random {
    pub fn of_seed(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0, below 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}
