// SPDX-License-Identifier: GPL-2.0-or-later
//! How transfers that share a rate divide it.
//!
//! ```text
//! fair   one part
//! high   two parts
//! low    its minimum while others that are not low share the rate, and otherwise an equal part of all
//! ```
//! As many parts as there are shares are made of what the minimums of low transfers leave. A minimum is never more than an equal
//! part, so the shares of all add up to at most the rate.
//!
//! Limits: this divides rates that are set. Where none is, TCP alone shares the network among transfers, and a policy changes
//! nothing.

use super::divided;
use units::Rate;

/// How a transfer shares rates with others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Twice the share of a fair one.
    High,
    /// An equal share.
    #[default]
    Fair,
    /// What others leave, and at least this.
    Low {
        /// At most an equal share.
        minimum: Rate,
    },
}

impl Policy {
    /// How many parts of a rate it has.
    pub(super) fn parts(self) -> u64 {
        match self {
            Self::High => 2,
            Self::Fair => 1,
            Self::Low { .. } => 0,
        }
    }

    pub(super) fn is_low(self) -> bool {
        matches!(self, Self::Low { .. })
    }
}

/// What those have that share a rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    rate: Rate,
    /// Parts of those that are not low.
    parts: u64,
    /// How many are low.
    low: u64,
    /// What these leave.
    rest: Rate,
}

impl Division {
    /// Divides a rate into `parts` parts, behind the minimums of the low ones among `policies`.
    pub(super) fn of(rate: Rate, parts: u64, policies: impl Iterator<Item = Policy>) -> Self {
        let minimums: Vec<_> = policies
            .filter_map(|policy| match policy {
                Policy::Low { minimum } => Some(minimum),
                _ => None,
            })
            .collect();
        let division = Self { rate, parts, low: minimums.len() as u64, rest: rate };
        let taken: u64 = minimums.into_iter().map(|minimum| division.floor(minimum).bps()).sum();
        Self { rest: Rate::bits_per_second(rate.bps().saturating_sub(taken)), ..division }
    }

    /// What a low one has while others share the rate.
    fn floor(&self, minimum: Rate) -> Rate {
        minimum.min(divided(self.rate, self.low.saturating_add(self.parts)))
    }

    /// The share of one with this policy.
    pub(super) fn share(&self, policy: Policy) -> Rate {
        match policy {
            Policy::Low { .. } if self.parts == 0 => divided(self.rate, self.low),
            Policy::Low { minimum } => self.floor(minimum),
            Policy::Fair => divided(self.rest, self.parts),
            Policy::High => {
                let part = divided(self.rest, self.parts);
                Rate::bits_per_second(part.bps().saturating_mul(2).min(self.rest.bps()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};

    fn bps(bps: u64) -> Rate {
        Rate::bits_per_second(bps)
    }

    /// Shares of all these, by rules that are written again: the rate in whole bits.
    fn expected(rate: u64, policies: &[Policy]) -> Vec<u64> {
        let weight = |policy: &Policy| match policy {
            Policy::High => 2,
            Policy::Fair => 1,
            Policy::Low { .. } => 0,
        };
        let parts: u64 = policies.iter().map(weight).sum();
        let low = policies.iter().filter(|policy| weight(policy) == 0).count() as u64;
        if parts == 0 {
            return policies.iter().map(|_| rate / low).collect();
        }
        let most = rate / (parts + low);
        let floor = |policy: &Policy| match policy {
            Policy::Low { minimum } => minimum.bps().min(most),
            _ => 0,
        };
        let left = rate - policies.iter().map(floor).sum::<u64>();
        policies
            .iter()
            .map(|policy| match weight(policy) {
                0 => floor(policy),
                weight => left / parts * weight,
            })
            .collect()
    }

    #[test]
    fn shares_follow_policies_and_fit_the_rate() {
        let seed = std::env::var("LONGHAUL_SEED").map_or(7, |seed| seed.parse().unwrap());
        println!("LONGHAUL_SEED={seed}");
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..5000 {
            let rate = 8_000 + random.next_u64() % 10_000_000_000;
            let policies: Vec<Policy> = (0..=random.next_u32() % 20)
                .map(|_| match random.next_u32() % 3 {
                    0 => Policy::High,
                    1 => Policy::Fair,
                    _ => Policy::Low { minimum: bps(random.next_u64() % 1_000_000_000) },
                })
                .collect();
            let parts = policies.iter().map(|policy| policy.parts()).sum();
            let division = Division::of(bps(rate), parts, policies.iter().copied());
            let shares: Vec<u64> =
                policies.iter().map(|policy| division.share(*policy).bps()).collect();
            assert_eq!(shares, expected(rate, &policies), "{rate} {policies:?}");
            assert!(shares.iter().sum::<u64>() <= rate, "{rate} {policies:?}");
        }
    }
}
