// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of one route to one destination.

use crate::{
    choice::Request,
    estimate::{Hop, completion_s},
    predictors::Predictor,
    series::{Expected, Interval, Series},
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Transfers from so many bytes on are of the next size class.
const CLASSES_FROM: [u64; 5] = [256 << 10, 2 << 20, 16 << 20, 128 << 20, 1 << 30];
/// How many size classes there are.
pub(crate) const CLASSES: usize = CLASSES_FROM.len() + 1;
/// The most transfers that are remembered.
const SEEN: usize = 64;
/// What a forecast's variance grows by in a second: a path that was good may not be any more.
const DRIFT_PER_S: f64 = 0.03 / 3600.0;
/// A path that was unlike itself is taken to be so for this time: the constant of an exponential, in seconds.
const PASSES_S: f64 = 1800.0;
/// After this many seconds nothing that was seen counts.
const FORGOTTEN_S: f64 = 30.0 * 86_400.0;
/// How long a route is left alone after it has failed, in seconds; longer each time.
const FIRST_AVOID_S: f64 = 60.0;
const LONGEST_AVOID_S: f64 = 3600.0;
const AVOID_FACTOR: f64 = 3.0;
/// The weight of a failure after one more transfer.
const FAILURE_DECAY: f64 = 0.9;
/// Ratios beyond these are no times.
const MOST_RATIO: f64 = 12.0;

/// The size class of a transfer.
pub(crate) fn class_of(bytes: u64) -> usize {
    CLASSES_FROM.iter().filter(|from| bytes >= **from).count()
}

/// How a transfer by a route ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// As a whole.
    Done,
    /// As a whole, as fast as its own ends or its rate limit allowed: the path may be faster.
    LimitedByEnds,
    /// It was left for another route, since it was far slower than its forecast. Its time is what it would have taken.
    Left,
    /// It failed.
    Failed,
}

/// A transfer that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// When it ended, in seconds since any moment that is the same for all.
    pub at_s: f64,
    /// What was to be moved.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How it ended.
    pub end: End,
}

/// What a forecast rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Closed forms alone.
    ClosedForm,
    /// Transfers of other sizes.
    OtherSizes(Predictor),
    /// Transfers of this size.
    Seen(Predictor),
}

/// The time of a transfer by a route.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Expected seconds: the mean, with what failures cost.
    pub seconds: f64,
    /// Nine of ten transfers that do not fail take between these, in seconds.
    pub low_s: f64,
    /// See above.
    pub high_s: f64,
    /// The variance of the logarithm of `seconds`: what is not known of the path.
    pub variance: f64,
    /// Transfers of this size that it rests on.
    pub seen: usize,
    /// And how.
    pub basis: Basis,
}

/// A route to a destination.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Remembered", into = "Remembered")]
pub struct Path {
    /// As it was told when it was first used.
    hops: Vec<Hop>,
    seen: VecDeque<Learnt>,
    /// Of all sizes.
    interval: Interval,
    sizes: [Series; CLASSES],
    /// Sums of weighted failures, and of weighted transfers.
    failures: (f64, f64),
    failed_in_a_row: i32,
    avoided_until_s: f64,
}

/// What is kept of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    hops: Vec<Hop>,
    seen: VecDeque<Learnt>,
}

/// A transfer, and by how much its forecast was wrong, as logarithm.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Learnt {
    #[serde(flatten)]
    seen: Seen,
    error: f64,
}

impl From<Path> for Remembered {
    fn from(path: Path) -> Self {
        Self { hops: path.hops, seen: path.seen }
    }
}

impl From<Remembered> for Path {
    fn from(Remembered { hops, seen }: Remembered) -> Self {
        let mut path = Self { hops, ..Self::default() };
        let first = seen.len().saturating_sub(SEEN);
        for learnt in seen.into_iter().skip(first).filter(Learnt::is_possible) {
            path.learn(learnt);
        }
        path
    }
}

impl Seen {
    /// Whether these are numbers of a transfer.
    fn is_possible(&self) -> bool {
        self.at_s.is_finite() && self.seconds.is_finite() && self.seconds >= 0.0
    }
}

impl Learnt {
    fn is_possible(&self) -> bool {
        self.seen.is_possible() && self.error.abs() <= 2.0 * MOST_RATIO
    }
}

/// What closed forms are wrong by on the way to a destination, by other routes to it: they share the ends, and what was assumed of
/// losses.
#[derive(Debug, Clone, PartialEq)]
pub struct Usual {
    /// For transfers of the size in question.
    expected: Expected,
    /// Routes that it is made of.
    routes: usize,
    /// By how much more that is than for each other size, by each route of which both were seen.
    differences: [Vec<f64>; CLASSES],
}

impl Usual {
    /// Of these routes, for a size class.
    pub(crate) fn of<'p>(routes: impl Iterator<Item = &'p Path>, class: usize) -> Self {
        let (mut biases, mut differences) = (Vec::new(), <[Vec<f64>; CLASSES]>::default());
        for (path, bias) in routes.filter_map(|path| Some((path, path.bias(class)?))) {
            biases.push(bias);
            for (other, differences) in differences.iter_mut().enumerate() {
                differences.extend(path.bias(other).map(|of_other| bias - of_other));
            }
        }
        Self { expected: Expected::by_others(&biases), routes: biases.len(), differences }
    }

    /// Whether another route was seen with transfers of this size.
    pub(crate) fn is_known(&self) -> bool {
        self.routes > 0
    }

    /// Where no other route was seen.
    pub fn unknown() -> Self {
        Self::of(std::iter::empty(), 0)
    }
}

impl Path {
    /// When it was last used; none if it was not.
    pub fn last_s(&self) -> Option<f64> {
        self.seen.back().map(|learnt| learnt.seen.at_s)
    }

    /// How many transfers are remembered.
    pub fn transfers(&self) -> usize {
        self.seen.len()
    }

    /// The time of a transfer that begins now, by what was seen of this route alone; none if nothing was.
    pub fn known(&self, bytes: u64, now_s: f64) -> Option<Forecast> {
        let request = Request { bytes, now_s, timeout_s: 0.0 };
        let is_known = self.sizes.iter().any(|size| !size.is_empty());
        is_known.then(|| self.forecast(&self.hops, &Usual::unknown(), &request))
    }

    /// Until when it is left alone, since it has failed.
    pub fn avoided_until_s(&self) -> f64 {
        self.avoided_until_s
    }

    /// Seconds by the closed form: with the hops of its first use, or with `told`.
    fn closed_form_s(&self, told: &[Hop], bytes: u64) -> f64 {
        completion_s(if self.hops.is_empty() { told } else { &self.hops }, bytes)
    }

    /// Takes in a transfer over these hops; `usual` is what closed forms are usually wrong by.
    pub fn ended(&mut self, hops: &[Hop], usual: &Usual, seen: Seen) {
        if !seen.is_possible() {
            return;
        }
        if self.last_s().is_some_and(|last_s| seen.at_s - last_s > FORGOTTEN_S) {
            *self = Self::default();
        }
        if self.hops.is_empty() {
            self.hops = hops.to_vec();
        }
        let error = if self.hops.is_empty() {
            0.0
        } else {
            let begun_s = seen.at_s - seen.seconds;
            self.ratio(&seen) - self.expected_at(class_of(seen.bytes), usual, begun_s).0.center
        };
        self.learn(Learnt { seen, error });
    }

    /// The logarithm of a transfer's time by the closed form's.
    fn ratio(&self, seen: &Seen) -> f64 {
        let ratio = (seen.seconds.max(1e-6) / self.closed_form_s(&[], seen.bytes)).ln();
        ratio.clamp(-MOST_RATIO, MOST_RATIO)
    }

    fn learn(&mut self, learnt: Learnt) {
        let seen = learnt.seen;
        let has_failed = seen.end == End::Failed;
        self.failures.0 = self.failures.0 * FAILURE_DECAY + f64::from(u8::from(has_failed));
        self.failures.1 = self.failures.1 * FAILURE_DECAY + 1.0;
        if matches!(seen.end, End::Failed | End::Left) {
            let avoid_s = FIRST_AVOID_S * AVOID_FACTOR.powi(self.failed_in_a_row.min(20));
            self.avoided_until_s = seen.at_s + avoid_s.min(LONGEST_AVOID_S);
            self.failed_in_a_row += 1;
        } else {
            self.failed_in_a_row = 0;
        }
        if !has_failed && !self.hops.is_empty() {
            self.learn_time(&learnt);
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(learnt);
    }

    fn learn_time(&mut self, Learnt { seen, error }: &Learnt) {
        // It could have been faster, so one that was slower says nothing.
        if seen.end == End::LimitedByEnds && *error > 0.0 {
            return;
        }
        let (ratio, size) = (self.ratio(seen), &mut self.sizes[class_of(seen.bytes)]);
        self.interval.missed_by(*error);
        size.missed_by(*error);
        size.add(ratio);
    }

    /// The next ratio of a time to the closed form's, as logarithm.
    fn expected(&self, class: usize, usual: &Usual) -> (Expected, Basis) {
        let (mut expected, mut basis) = (usual.expected, Basis::ClosedForm);
        let others = (0..CLASSES).filter(|at| *at != class && !self.sizes[*at].is_empty());
        if let Some(nearest) = others.min_by_key(|at| at.abs_diff(class)) {
            let series = &self.sizes[nearest];
            let of_nearest = series.forecast(Expected::CLOSED_FORM);
            let distance = nearest.abs_diff(class);
            expected = of_nearest.for_other_size(distance, &usual.differences[nearest]);
            basis = series.prediction().map_or(basis, |it| Basis::OtherSizes(it.by));
        }
        let own = &self.sizes[class];
        basis = own.prediction().map_or(basis, |it| Basis::Seen(it.by));
        (own.forecast(expected), basis)
    }

    /// The same for a transfer that begins at this time.
    fn expected_at(&self, class: usize, usual: &Usual, now_s: f64) -> (Expected, Basis) {
        let age_s = self.last_s().map_or(0.0, |last_s| (now_s - last_s).max(0.0));
        if age_s > FORGOTTEN_S {
            return (usual.expected, Basis::ClosedForm);
        }
        let (expected, basis) = self.expected(class, usual);
        let variance = expected.variance + age_s * DRIFT_PER_S;
        let variance = variance.min(usual.expected.variance.max(expected.variance));
        // What was unusual passes.
        let long_run = self.sizes[class].long_run().unwrap_or(expected.center);
        let passed = 1.0 - (-age_s / PASSES_S).exp();
        let center = expected.center + passed * (long_run - expected.center);
        (Expected { center, variance }, basis)
    }

    /// What the closed form is wrong by for transfers of a size, as logarithm; none where none was seen.
    fn bias(&self, class: usize) -> Option<f64> {
        let size = &self.sizes[class];
        (!size.is_empty()).then(|| size.forecast(Expected::CLOSED_FORM).center)
    }

    /// The time of a transfer that begins now, over these hops if it is the first one; `usual` is what closed forms are usually wrong
    /// by.
    pub fn forecast(&self, told: &[Hop], usual: &Usual, request: &Request) -> Forecast {
        let Request { bytes, now_s, timeout_s } = *request;
        let class = class_of(bytes);
        let closed_form_s = self.closed_form_s(told, bytes);
        let (expected, basis) = self.expected_at(class, usual, now_s);
        let own = &self.sizes[class];
        let interval = if own.interval().is_known() { own.interval() } else { &self.interval };
        let (low, high) = interval.ends();
        let at = |offset: f64| closed_form_s * (expected.center + offset).exp();
        let (failed, all) = self.failures;
        // As if one more had not failed.
        let failure_share = failed / (all + 1.0);
        Forecast {
            seconds: at(0.0) * interval.mean_ratio() + failure_share * timeout_s,
            low_s: at(low),
            high_s: at(high),
            variance: expected.variance,
            seen: own.len(),
            basis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const HOPS: [Hop; 1] = [Hop {
        rtt_s: 0.1,
        loss: 1e-5,
        rate_bps: 1e9,
        is_warm: false,
        connections: 1,
        bears_loss: false,
    }];
    const SIZE: u64 = 50 << 20;

    fn forecast(path: &Path, told: &[Hop], bytes: u64, now_s: f64, timeout_s: f64) -> Forecast {
        path.forecast(told, &Usual::unknown(), &Request { bytes, now_s, timeout_s })
    }

    fn seen(at_s: f64, seconds: f64, end: End) -> Seen {
        Seen { at_s, bytes: SIZE, seconds, end }
    }

    #[test]
    fn forecast_goes_from_the_closed_form_to_what_was_seen() {
        let (mut path, form_s) = (Path::default(), completion_s(&HOPS, SIZE));
        let of = |path: &Path| forecast(path, &HOPS, SIZE, 1000.0, 5.0);
        let first = of(&path);
        let ratio = first.seconds / form_s;
        assert!((1.0..1.1).contains(&ratio) && first.basis == Basis::ClosedForm, "{first:?}");
        assert!(first.low_s < form_s / 2.0 && first.high_s > form_s * 2.0, "{first:?}");
        for n in 0..30 {
            path.ended(
                &HOPS,
                &Usual::unknown(),
                seen(970.0 + f64::from(n), 3.0 * form_s, End::Done),
            );
        }
        let later = of(&path);
        assert!((later.seconds / form_s / 3.0 - 1.0).abs() < 0.1, "{later:?}");
        assert!(matches!(later.basis, Basis::Seen(_)) && later.variance < first.variance / 20.0);
        // What another size takes follows.
        let other = forecast(&path, &HOPS, 1 << 20, 1000.0, 5.0);
        let ratio = other.seconds / completion_s(&HOPS, 1 << 20);
        assert!((2.7..3.3).contains(&ratio) && matches!(other.basis, Basis::OtherSizes(_)));
        // Long ago is unknown again.
        let forgotten = forecast(&path, &HOPS, SIZE, 1000.0 + 2.0 * FORGOTTEN_S, 5.0);
        assert_eq!(forgotten.basis, Basis::ClosedForm);
    }

    #[test]
    fn failures_cost_their_timeout_and_are_avoided_ever_longer() {
        let mut path = Path::default();
        path.ended(&HOPS, &Usual::unknown(), seen(0.0, 1.0, End::Done));
        let before = forecast(&path, &HOPS, SIZE, 0.0, 30.0).seconds;
        path.ended(&HOPS, &Usual::unknown(), seen(10.0, 30.0, End::Failed));
        assert!((path.avoided_until_s() - 70.0).abs() < 1e-9);
        let after = forecast(&path, &HOPS, SIZE, 10.0, 30.0).seconds;
        assert!(after > before + 5.0, "{after}, after {before}");
        path.ended(&HOPS, &Usual::unknown(), seen(100.0, 30.0, End::Failed));
        assert!((path.avoided_until_s() - 280.0).abs() < 1e-9);
        path.ended(&HOPS, &Usual::unknown(), seen(300.0, 1.0, End::Done));
        path.ended(&HOPS, &Usual::unknown(), seen(310.0, 30.0, End::Failed));
        assert!((path.avoided_until_s() - 370.0).abs() < 1e-9, "it had worked in between");
    }

    #[test]
    fn transfer_that_its_ends_held_back_makes_no_path_slow() {
        let mut path = Path::default();
        (0..10)
            .for_each(|n| path.ended(&HOPS, &Usual::unknown(), seen(f64::from(n), 2.0, End::Done)));
        let before = forecast(&path, &HOPS, SIZE, 10.0, 5.0).seconds;
        (10..20).for_each(|n| {
            path.ended(&HOPS, &Usual::unknown(), seen(f64::from(n), 60.0, End::LimitedByEnds));
        });
        let after = forecast(&path, &HOPS, SIZE, 20.0, 5.0).seconds;
        assert!((after / before - 1.0).abs() < 0.01, "{after}, after {before}");
        (20..40).for_each(|n| {
            path.ended(&HOPS, &Usual::unknown(), seen(f64::from(n), 1.0, End::LimitedByEnds));
        });
        assert!(forecast(&path, &HOPS, SIZE, 40.0, 5.0).seconds < 1.1, "it is at least that fast");
    }

    /// A depot that tells of ever shorter round trips to what is behind it.
    #[test]
    fn what_is_told_later_changes_nothing() {
        let mut path = Path::default();
        (0..5)
            .for_each(|n| path.ended(&HOPS, &Usual::unknown(), seen(f64::from(n), 2.0, End::Done)));
        let near = [Hop { rtt_s: 1e-4, ..HOPS[0] }];
        let [one, other] = [&HOPS, &near].map(|told| forecast(&path, told, SIZE, 5.0, 5.0));
        assert_eq!(one, other);
    }

    #[test]
    fn what_is_kept_gives_the_same_forecast() {
        let seed = 3;
        println!("seed {seed}");
        let (mut noise, mut path) = (Noise::of_seed(seed), Path::default());
        for n in 0..40 {
            let end = [End::Done, End::Done, End::Failed, End::LimitedByEnds, End::Left];
            let end = end[noise.bits() as usize % end.len()];
            let seconds = 2.0 * (0.3 * noise.normal()).exp();
            let bytes = 1 << (noise.bits() % 34);
            path.ended(&HOPS, &Usual::unknown(), Seen { at_s: f64::from(n), bytes, seconds, end });
        }
        let kept: Path = serde_json::from_str(&serde_json::to_string(&path).unwrap()).unwrap();
        for bytes in [1000, 1 << 20, 1 << 30] {
            let of = |path: &Path| forecast(path, &HOPS, bytes, 40.0, 5.0);
            assert_eq!(of(&path), of(&kept));
        }
        assert!((path.avoided_until_s() - kept.avoided_until_s()).abs() < 1e-9);
        for text in [
            r#"{"hops": [], "seen": [{"at_s": 1e999, "bytes": 1, "seconds": 1, "end": "done", "error": 0}]}"#,
            r#"{"hops": [], "seen": [{"at_s": 1, "bytes": 1, "seconds": -1, "end": "done", "error": 0}]}"#,
        ] {
            if let Ok(path) = serde_json::from_str::<Path>(text) {
                assert!(path.last_s().is_none(), "{text}");
            }
        }
    }
}
