// SPDX-License-Identifier: GPL-2.0-or-later
//! The tests are those of `SciPy`, and call equal things different as rarely as they promise.

use super::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::json;
use std::{
    io::Write,
    process::{Command, Stdio},
};

fn seeded() -> Pcg64 {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    eprintln!("LONGHAUL_SEED={seed}");
    Pcg64::seed_from_u64(seed)
}

/// Uniform between 0 and 1, without either.
fn uniform(random: &mut Pcg64) -> f64 {
    (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0
}

/// Normal by Box and Muller.
fn normal(random: &mut Pcg64) -> f64 {
    let angle = 2.0 * std::f64::consts::PI * uniform(random);
    (-2.0 * uniform(random).ln()).sqrt() * angle.cos()
}

fn below(random: &mut Pcg64, bound: u32) -> u32 {
    random.next_u32() % bound
}

const SCIPY: &str = r#"
import json, math, sys, scipy.stats, scipy.special
found = []
for a, b in json.load(sys.stdin):
    t, p = scipy.stats.ttest_ind(b, a, equal_var=False)
    u, q = scipy.stats.mannwhitneyu(a, b, alternative="two-sided", method="auto")
    n = len(a) + len(b) - 2
    square = sum((x - sum(s) / len(s)) ** 2 for s in (a, b) for x in s) / n
    j = math.exp(scipy.special.gammaln(n / 2) - scipy.special.gammaln((n - 1) / 2)) / math.sqrt(n / 2)
    va, vb = (scipy.stats.sem(s) ** 2 for s in (a, b))
    free = (va + vb) ** 2 / (va ** 2 / (len(a) - 1) + vb ** 2 / (len(b) - 1))
    half = scipy.stats.t.ppf(0.975, free) * math.sqrt(va + vb)
    found.append([t, p, u, q, j * (sum(b) / len(b) - sum(a) / len(a)) / math.sqrt(square), half, free])
json.dump(found, sys.stdout)
"#;

/// Of samples of 2 to 20 values: normal, skewed, with many ties, and of unlike variances.
fn samples(random: &mut Pcg64, round: u32) -> [Vec<f64>; 2] {
    let shift = f64::from(below(random, 5)) / 2.0;
    let scale = 1.0 + f64::from(below(random, 4));
    let mut sample = |shift: f64, scale: f64| -> Vec<f64> {
        let n = 2 + below(random, 19);
        let value = |random: &mut Pcg64| match round % 3 {
            0 => shift + scale * normal(random),
            1 => shift - scale * uniform(random).ln(),
            _ => (shift + scale * normal(random)).round(),
        };
        let mut values: Vec<f64> = (0..n).map(|_| value(random)).collect();
        // Without any variance there is no test.
        values[0] += 5.0;
        values
    };
    [sample(1.0, 1.0), sample(1.0 + shift, scale)]
}

#[test]
fn tests_of_two_samples_are_those_of_scipy() {
    let mut random = seeded();
    let pairs: Vec<[Vec<f64>; 2]> = (0..300).map(|round| samples(&mut random, round)).collect();
    // The one that Debian's packages are for.
    let python = Command::new("/usr/bin/python3")
        .args(["-W", "error", "-c", SCIPY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut python = python.expect("python3 is needed: apt install python3 python3-scipy");
    let input = json!(pairs).to_string();
    python.stdin.take().unwrap().write_all(input.as_bytes()).expect("apt install python3-scipy");
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "apt install python3-scipy");
    let theirs: Vec<[f64; 7]> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(theirs.len(), pairs.len());
    let mut exact = 0;
    for ([a, b], expected) in pairs.iter().zip(theirs) {
        let (welch, ranks) = (welch(a, b).unwrap(), mann_whitney(a, b).unwrap());
        exact += usize::from(ranks.is_exact);
        let g = hedges_g(a, b).unwrap();
        let ours = [welch.t, welch.p, ranks.u, ranks.p, g, welch.half_width, welch.freedom];
        for (n, (found, expected)) in ours.iter().zip(expected).enumerate() {
            // SciPy finds quantiles of t (value 5) to fewer digits than probabilities.
            let exactness = if n == 5 { 1e-8 } else { 1e-9 };
            let near = (found - expected).abs() <= exactness * expected.abs().max(1e-3);
            assert!(near, "value {n}: {found}, by SciPy {expected}, of {a:?} and {b:?}");
        }
    }
    assert!((60..240).contains(&exact), "both forms of the U test: {exact} exact");
}

/// Every order of the values, counted one by one.
#[test]
fn exact_u_counts_all_orders() {
    for (m, n) in [(1, 1), (2, 3), (3, 4), (5, 2), (4, 6)] {
        let mut counts = vec![0.0; m * n + 1];
        let mut orders = 0.0;
        for chosen in (0_u32..1 << (m + n)).filter(|bits| bits.count_ones() as usize == m) {
            let is_first = |at: usize| chosen >> at & 1 == 1;
            let pairs = (0..m + n).flat_map(|one| (0..one).map(move |other| (one, other)));
            let u = pairs.filter(|(one, other)| is_first(*one) && !is_first(*other)).count();
            counts[u] += 1.0;
            orders += 1.0;
        }
        for (u, p) in probabilities_of_u(m, n).into_iter().enumerate() {
            assert!((p - counts[u] / orders).abs() < 1e-14, "{m}, {n}, {u}: {p}");
        }
    }
}

/// By hand: 0.01, 0.02, 0.03 and 0.04 times 4, 3, 2 and 1, and none below the one before.
#[test]
fn holm_corrects_by_the_tests_that_are_left() {
    let corrected = holm(&[0.03, 0.01, 0.04, 0.02, 0.9]);
    let by_hand = [0.09, 0.05, 0.09, 0.08, 0.9];
    for (found, expected) in corrected.iter().zip(by_hand) {
        assert!((found - expected).abs() < 1e-12, "{corrected:?}");
    }
    assert_eq!(holm(&[0.5, 0.7]), [1.0, 1.0]);
    assert_eq!(holm(&[]), [0.0; 0]);
}

/// Each alone, without a correction: about 5 % by definition, and at most 7 %.
#[test]
fn equal_things_are_rarely_called_different() {
    let mut random = seeded();
    let (mut by_welch, mut by_ranks, comparisons) = (0, 0, 2000);
    for _ in 0..comparisons {
        let n = 4 + below(&mut random, 12);
        let mut sample = || (0..n).map(|_| 900.0 + 40.0 * normal(&mut random)).collect::<Vec<_>>();
        let (a, b) = (sample(), sample());
        by_welch += u32::from(welch(&a, &b).unwrap().p < 0.05);
        by_ranks += u32::from(mann_whitney(&a, &b).unwrap().p < 0.05);
    }
    for (name, called) in [("Welch", by_welch), ("Mann-Whitney", by_ranks)] {
        // And a test that never calls anything different is none.
        let bounds = comparisons / 50..=comparisons * 7 / 100;
        assert!(bounds.contains(&called), "{name}: {called} of {comparisons}");
    }
}

#[test]
fn few_or_equal_values_are_not_tested() {
    assert_eq!((welch(&[1.0], &[2.0, 3.0]), hedges_g(&[1.0], &[2.0, 3.0])), (None, None));
    assert_eq!((welch(&[1.0, 1.0], &[2.0, 2.0]), hedges_g(&[1.0; 2], &[2.0; 2])), (None, None));
    assert_eq!(mann_whitney(&[], &[1.0]), None);
    // All tied: no order, so no evidence.
    let tied = mann_whitney(&[3.0; 9], &[3.0; 9]).unwrap();
    assert_eq!((tied.u, tied.p, tied.is_exact), (40.5, 1.0, false));
    // One sample without variance is compared as a constant: 3 degrees of freedom.
    let constant = welch(&[5.0; 6], &[4.0, 6.0, 8.0, 10.0]).unwrap();
    assert!((constant.freedom - 3.0).abs() < 1e-12, "{constant:?}");
    assert!((constant.difference - 2.0).abs() < 1e-12, "{constant:?}");
}
