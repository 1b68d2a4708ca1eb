// SPDX-License-Identifier: GPL-2.0-or-later
//! Choices by a seed.

use rand_core::{Rng, SeedableRng};
use std::time::Duration;

/// Mixes numbers into one that looks like nothing in particular (splitmix64).
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A generator of choices.
pub struct Dice(rand_pcg::Pcg64Mcg);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(rand_pcg::Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// Whether something happens that does so often of a thousand times.
    pub fn often(&mut self, per_thousand: usize) -> bool {
        self.below(1000) < per_thousand
    }

    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// A length: mostly short, at times long, and often at a power of two or next to one.
    pub fn length(&mut self) -> usize {
        match self.below(100) {
            0..10 => 0,
            10..50 => self.below(200),
            50..80 => self.below(5000),
            80..90 => ((1 << (3 + self.below(14))) + 1 - self.below(3)).max(1),
            90..99 => self.below(100_000),
            _ => 900_000 + self.below(400_000),
        }
    }

    /// A random pause of up to this many milliseconds.
    pub fn pause(&mut self, milliseconds: usize) -> Duration {
        Duration::from_micros(self.below(milliseconds * 1000) as u64)
    }
}
