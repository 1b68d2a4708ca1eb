// SPDX-License-Identifier: GPL-2.0-or-later
//! Effect of disturbances: performability, and the distance between two distributions.

use crate::{FlowSummary, stats};
use serde::{Deserialize, Serialize};

/// The share of the capacity that is full performance, as in the convergence speed.
const LEVEL: f64 = 0.8;
/// Times sqrt((n + m) / (n m)), the distance of two samples of n and m values of one distribution
/// that chance exceeds in 5 % of cases (Smirnov's limit for large samples).
const CHANCE_5_PERCENT: f64 = 1.36;

/// The Kolmogorov-Smirnov statistic of two samples: the greatest distance between their empirical
/// distribution functions, between 0 and 1. `None` when one of them is empty.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (sorted(a)?, sorted(b)?);
    let share =
        |sample: &[f64], at: f64| sample.partition_point(|v| *v <= at) as f64 / sample.len() as f64;
    // The functions only change at values, so the greatest distance is at one of them.
    let distance = |at: &f64| (share(&a, *at) - share(&b, *at)).abs();
    a.iter().chain(&b).map(distance).reduce(f64::max)
}

fn sorted(sample: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then_some(sorted)
}

/// How long the flows that completed took, in seconds. A flow without a size has no such time.
pub fn completion_times_s(flows: &[FlowSummary]) -> Vec<f64> {
    flows.iter().filter(|flow| complete(flow)).filter_map(|flow| flow.seconds).collect()
}

/// Whether the flow moved all that it should, rightly.
fn complete(flow: &FlowSummary) -> bool {
    let whole = flow.bytes_expected.is_some_and(|expected| expected == flow.bytes);
    whole && !flow.timed_out && flow.sha256_ok != Some(false)
}

/// The Kolmogorov-Smirnov statistic of the completion times of two runs' flows: one as the network should be,
/// one disturbed (or one variant of moving the data and another). `None` when in one of them no flow
/// completed; flows that were cut off are left out, so look at their number too.
pub fn completion_distance(a: &[FlowSummary], b: &[FlowSummary]) -> Option<f64> {
    kolmogorov_smirnov(&completion_times_s(a), &completion_times_s(b))
}

/// Performability as one figure: the expected performance, over the states that a system degrades
/// to (Meyer 1980).
///
/// Each state is its probability and the performance in it. With performance 1 where a level is
/// reached and 0 where not, it is Meyer's p(B): the probability that the system performs at a
/// level in B. `None` when the probabilities do not sum to 1 (within 1e-9).
pub fn performability(states: &[(f64, f64)]) -> Option<f64> {
    let whole: f64 = states.iter().map(|(probability, _)| probability).sum();
    ((whole - 1.0).abs() < 1e-9)
        .then(|| states.iter().map(|(probability, performance)| probability * performance).sum())
}

/// A state in which the path was seen, and how the flows fared in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathState {
    /// `undisturbed` or `disturbed`: a sender sent something again.
    pub name: String,
    /// How many bins of one second.
    pub bins: u64,
    /// Their share of all bins: the state's probability.
    pub share: f64,
    /// The mean of all flows' goodput over the capacity in the state; null when it never was, or
    /// the capacity is not known.
    pub performance: Option<f64>,
    /// The share of the state's bins in which goodput was at least 80 % of the capacity; null as
    /// above.
    pub performing: Option<f64>,
}

/// The states of a run, bin by bin.
pub struct PathBins {
    undisturbed: Vec<f64>,
    disturbed: Vec<f64>,
}

impl PathBins {
    /// From each bin's goodput, and whether the bin was disturbed.
    pub fn new(goodput_bps: &[f64], disturbed: &[bool]) -> Self {
        let of = |state: bool| {
            let bins = goodput_bps.iter().zip(disturbed);
            bins.filter(|(_, disturbed)| **disturbed == state).map(|(bps, _)| *bps).collect()
        };
        Self { undisturbed: of(false), disturbed: of(true) }
    }

    /// The states, with the capacity in bits a second where it is known.
    pub fn states(&self, capacity_bps: Option<f64>) -> Vec<PathState> {
        let all = self.undisturbed.len() + self.disturbed.len();
        if all == 0 {
            return Vec::new();
        }
        let state = |name: &str, bins: &[f64]| PathState {
            name: name.to_owned(),
            bins: bins.len() as u64,
            share: bins.len() as f64 / all as f64,
            performance: capacity_bps.and_then(|capacity| Some(stats::mean(bins)? / capacity)),
            performing: capacity_bps.filter(|_| !bins.is_empty()).map(|capacity| {
                let performing = bins.iter().filter(|bps| **bps >= LEVEL * capacity).count();
                performing as f64 / bins.len() as f64
            }),
        };
        vec![state("undisturbed", &self.undisturbed), state("disturbed", &self.disturbed)]
    }

    /// The distance between goodput when undisturbed and when disturbed; `None` with so few bins
    /// that chance alone gives every distance up to 1 in more than one of twenty cases.
    pub fn distance(&self) -> Option<f64> {
        let (n, m) = (self.undisturbed.len() as f64, self.disturbed.len() as f64);
        let telling = CHANCE_5_PERCENT * CHANCE_5_PERCENT * (n + m) < n * m;
        telling.then(|| kolmogorov_smirnov(&self.undisturbed, &self.disturbed))?
    }
}

/// The probability of performing at the level, over the states that were seen.
pub fn states_performability(states: &[PathState]) -> Option<f64> {
    let seen: Vec<(f64, f64)> =
        states.iter().filter_map(|state| Some((state.share, state.performing?))).collect();
    performability(&seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        // After 2.0: all of a, a third of b.
        assert_eq!(kolmogorov_smirnov(&[2.0, 1.0], &[2.0, 3.0, 4.0]), Some(1.0 - 1.0 / 3.0));
        assert_eq!(kolmogorov_smirnov(&[1.0, 2.0], &[2.0, 1.0]), Some(0.0));
        assert_eq!(kolmogorov_smirnov(&[1.0], &[5.0, 6.0]), Some(1.0));
        assert_eq!(kolmogorov_smirnov(&[], &[5.0]), None);
    }

    /// Two samples drawn from a seed that is printed, against every value looked at in turn.
    #[test]
    fn distances_of_any_samples() {
        use rand_core::{Rng, SeedableRng};
        let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        eprintln!("LONGHAUL_SEED={seed}");
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        for _ in 0..1000 {
            let mut sample = || -> Vec<f64> {
                let n = 1 + random.next_u32() % 30;
                (0..n).map(|_| f64::from(random.next_u32() % 20)).collect()
            };
            let (a, b) = (sample(), sample());
            let distance = kolmogorov_smirnov(&a, &b).unwrap();
            assert_eq!(kolmogorov_smirnov(&b, &a), Some(distance), "{a:?} {b:?}");
            assert_eq!(kolmogorov_smirnov(&a, &a), Some(0.0), "{a:?}");
            let counted = |sample: &[f64], at| {
                sample.iter().filter(|v| **v <= f64::from(at)).count() as f64 / sample.len() as f64
            };
            let looked_up = (0..20).map(|at| (counted(&a, at) - counted(&b, at)).abs());
            assert_eq!(looked_up.reduce(f64::max), Some(distance), "{a:?} {b:?}");
        }
    }

    #[test]
    fn two_runs_are_compared_by_what_completed() {
        let flow = |seconds, bytes_expected| FlowSummary {
            seconds: Some(seconds),
            bytes: 10,
            bytes_expected,
            ..FlowSummary::default()
        };
        let whole = Some(10);
        // Without size, and cut off: in no distribution.
        let a = [flow(1.0, whole), flow(3.0, whole), flow(9.0, None), flow(9.0, Some(11))];
        let b = [flow(2.0, whole), flow(4.0, whole)];
        assert_eq!(completion_times_s(&a), [1.0, 3.0]);
        assert_eq!(completion_distance(&a, &b), Some(0.5));
        assert_eq!(completion_distance(&a, &[]), None);
    }

    #[test]
    fn performability_by_hand() {
        assert_eq!(performability(&[(0.75, 1.0), (0.25, 0.5)]), Some(0.875));
        assert_eq!(performability(&[(0.75, 1.0)]), None);
        assert_eq!(performability(&[]), None);
    }

    #[test]
    fn distance_of_bins_by_hand() {
        // Four undisturbed, five disturbed: 20 / 9 > 1.36^2. Up to 30: none, and four of five.
        let goodput = [40.0, 90.0, 80.0, 100.0, 40.0, 30.0, 20.0, 10.0, 15.0];
        let disturbed: Vec<bool> = (0..9).map(|bin| bin > 3).collect();
        assert_eq!(PathBins::new(&goodput, &disturbed).distance(), Some(0.8));
        // Three of each are too few for any distance: 9 / 6 < 1.36^2.
        let few = PathBins::new(&goodput[1..7], &disturbed[1..7]);
        assert_eq!((few.undisturbed.len(), few.disturbed.len()), (3, 3));
        assert_eq!(few.distance(), None);
    }

    #[test]
    fn states_by_hand() {
        let goodput = [10.0, 90.0, 80.0, 100.0, 40.0];
        let bins = PathBins::new(&goodput, &[false, false, true, false, true]);
        let states = bins.states(Some(100.0));
        let state = |name: &str, bins, share, performance, performing| PathState {
            name: name.into(),
            bins,
            share,
            performance: Some(performance),
            performing: Some(performing),
        };
        assert_eq!(
            states,
            [
                state("undisturbed", 3, 0.6, 200.0 / 3.0 / 100.0, 2.0 / 3.0),
                state("disturbed", 2, 0.4, 0.6, 0.5)
            ]
        );
        // Three of five bins are at 80 or more.
        assert!((states_performability(&states).unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(bins.distance(), None, "3 and 2 bins tell nothing");

        let calm = PathBins::new(&goodput, &[false; 5]);
        assert_eq!(calm.distance(), None);
        assert_eq!(states_performability(&calm.states(Some(100.0))), Some(0.6));
        assert_eq!(states_performability(&calm.states(None)), None);
        assert!(PathBins::new(&[], &[]).states(Some(100.0)).is_empty());
    }
}
