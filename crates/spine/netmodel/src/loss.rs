// SPDX-License-Identifier: GPL-2.0-or-later
//! Loss on the wire, packet by packet, from a seed.
//!
//! Decisions compare 64 random bits with a threshold, so they are the same on every machine: no
//! logarithm, no rounding mode takes part.

use rand_core::Rng;
use rand_pcg::Pcg64;
use units::Probability;

/// How a wire loses packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossModel {
    /// It doesn't.
    None,
    /// Each packet with the same probability, independently.
    Uniform(Probability),
    /// Every n-th packet, the n-th first. Zero loses nothing.
    Periodic(u64),
    /// Two states, good and bad (Gilbert 1960, Elliott 1963), with the parameters of
    /// `tc netem loss gemodel`. The state moves before each packet.
    GilbertElliott {
        /// From good to bad.
        p: Probability,
        /// From bad to good.
        r: Probability,
        /// Loss in the bad state (netem's 1-h).
        loss_bad: Probability,
        /// Loss in the good state (netem's 1-k).
        loss_good: Probability,
    },
}

impl LossModel {
    /// The share of packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None | Self::Periodic(0) => 0.0,
            Self::Uniform(p) => p.get(),
            Self::Periodic(n) => 1.0 / n as f64,
            Self::GilbertElliott { p, r, loss_bad, loss_good } => {
                let moves = p.get() + r.get();
                let bad = if moves > 0.0 { p.get() / moves } else { 0.0 };
                bad * loss_bad.get() + (1.0 - bad) * loss_good.get()
            }
        }
    }
}

impl LossModel {
    /// Whether what has that probability happens.
    #[inline]
    pub(crate) fn happens(random: &mut Pcg64, p: Probability) -> bool {
        // 2^64 p is exact in a double, and needs 65 bits where p is 1.
        let threshold = (p.get() * 18_446_744_073_709_551_616.0) as u128;
        u128::from(random.next_u64()) < threshold
    }
}

/// A loss model at work, with its random numbers.
#[derive(Debug, Clone)]
pub struct Loss {
    process: Process,
    random: Pcg64,
}

/// A model with its state.
#[derive(Debug, Clone)]
enum Process {
    None,
    Uniform(Probability),
    Periodic {
        every: u64,
        /// Packets since the last loss.
        since: u64,
    },
    GilbertElliott {
        p: Probability,
        r: Probability,
        loss_bad: Probability,
        loss_good: Probability,
        is_bad: bool,
    },
}

impl Loss {
    /// The model's start. Equal seeds lose equal packets.
    pub fn new(model: LossModel, seed: u64) -> Self {
        let process = match model {
            LossModel::None | LossModel::Periodic(0) => Process::None,
            LossModel::Uniform(p) => Process::Uniform(p),
            LossModel::Periodic(every) => Process::Periodic { every, since: 0 },
            LossModel::GilbertElliott { p, r, loss_bad, loss_good } => {
                Process::GilbertElliott { p, r, loss_bad, loss_good, is_bad: false }
            }
        };
        // The stream is PCG's own default; the seed alone tells one link from another.
        Self { process, random: Pcg64::new(u128::from(seed), 0x0a02_bdbf_7bb3_c0a7) }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn next_is_lost(&mut self) -> bool {
        let random = &mut self.random;
        match &mut self.process {
            Process::None => false,
            Process::Uniform(p) => LossModel::happens(random, *p),
            Process::Periodic { every, since } => {
                *since = (*since + 1) % *every;
                *since == 0
            }
            Process::GilbertElliott { p, r, loss_bad, loss_good, is_bad } => {
                if LossModel::happens(random, if *is_bad { *r } else { *p }) {
                    *is_bad = !*is_bad;
                }
                LossModel::happens(random, if *is_bad { *loss_bad } else { *loss_good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> Probability {
        text.parse().unwrap()
    }

    fn losses(model: LossModel, seed: u64, packets: u64) -> u64 {
        let mut loss = Loss::new(model, seed);
        (0..packets).map(|_| u64::from(loss.next_is_lost())).sum()
    }

    /// Half the width of the 99.99 % interval of a binomial count, by the normal approximation.
    fn binomial_margin(packets: u64, p: f64) -> f64 {
        3.8906 * (packets as f64 * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn uniform_loss_is_binomial_and_repeatable() {
        let packets = 2_000_000;
        for (text, seed) in [("0.02%", 1), ("1%", 2), ("30%", 3)] {
            let model = LossModel::Uniform(p(text));
            let lost = losses(model, seed, packets);
            let expected = packets as f64 * model.mean();
            let margin = binomial_margin(packets, model.mean());
            assert!((lost as f64 - expected).abs() <= margin, "{text}, seed {seed}: {lost}");
            assert_eq!(lost, losses(model, seed, packets));
            assert_ne!(lost, losses(model, seed + 100, packets), "another seed, other losses");
        }
        assert_eq!(losses(LossModel::Uniform(p("0")), 1, 1000), 0);
        assert_eq!(losses(LossModel::Uniform(p("100%")), 1, 1000), 1000);
    }

    #[test]
    fn periodic_loss_takes_every_nth() {
        let mut loss = Loss::new(LossModel::Periodic(4), 9);
        let pattern: Vec<bool> = (0..9).map(|_| loss.next_is_lost()).collect();
        assert_eq!(pattern, [false, false, false, true, false, false, false, true, false]);
        assert_eq!(losses(LossModel::Periodic(1), 0, 10), 10);
        assert_eq!(losses(LossModel::Periodic(0), 0, 10), 0);
    }

    #[test]
    fn gilbert_elliott_has_its_mean_and_its_bursts() {
        let model = LossModel::GilbertElliott {
            p: p("1%"),
            r: p("10%"),
            loss_bad: p("100%"),
            loss_good: p("0"),
        };
        let packets = 1_000_000;
        let mut loss = Loss::new(model, 5);
        let outcomes: Vec<bool> = (0..packets).map(|_| loss.next_is_lost()).collect();
        let lost = outcomes.iter().filter(|l| **l).count() as f64;
        let bursts = outcomes.windows(2).filter(|w| w[1] && !w[0]).count() as f64;
        // Stationary share of bad p/(p+r) = 1/11; bursts end with probability r, so last 1/r = 10.
        assert!((lost / f64::from(packets) - 1.0 / 11.0).abs() < 0.003, "{lost}");
        assert!((lost / bursts - 10.0).abs() < 0.3, "{}", lost / bursts);
    }
}
