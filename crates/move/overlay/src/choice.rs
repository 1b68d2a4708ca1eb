// SPDX-License-Identifier: GPL-2.0-or-later
//! One of several routes for a transfer.
//!
//! - The route in use for transfers of this size stays in use while no other is better beyond noise, for some transfers at least.
//! - Then the one that may be the best is taken, if what it costs at most by its forecast is within an allowance: a share of all
//!   seconds of transfers so far.
//! - Among near equals chance decides, or all clients would come to the same depot at once. A depot that claims to be busy is
//!   taken less often, and not never: claims are seconds old, and all clients have heard the same.
//! - A route that has failed is left alone for a while.

use crate::{
    estimate::Hop,
    memory::{Memory, Place, chain_of},
    path::{CLASSES, Forecast, Path, Seen, class_of},
};
use serde::{Deserialize, Serialize};

/// Logarithms of times that differ by less are near.
const NEAR: f64 = 0.04;
/// So many deviations are noise.
const NOISE: f64 = 2.0;
/// The variance of a route that is known.
const KNOWN: f64 = 0.03;
/// What a claim adds to the variance: it is seconds old.
const CLAIM_VARIANCE: f64 = 0.25;
/// A route that takes so many times more by what depots claim is left by all.
const CLAIM_TIMES: f64 = 4.0;
/// The same for what is expected of a route that was never seen, which all clients expect at the same time.
const UNSEEN_TIMES: f64 = 1.0;
/// A route is tried if it may be better by so much.
const GAIN: f64 = 0.08;
/// How much better than its forecast a route may be, in deviations.
const HOPE: f64 = 1.5;
/// A route that is tried, or new, is kept for so many further transfers.
const TRIAL: u32 = 2;
/// For so many transfers no other route is looked for, at first and at most.
const FIRST_PATIENCE: u32 = 3;
const MOST_PATIENCE: u32 = 64;
/// The share of all transfers that trying other routes may cost, and what it may cost at first, in transfers.
const ALLOWANCE: f64 = 0.02;
const FIRST_ALLOWANCE: f64 = 2.0;
/// The most that is saved up, in transfers.
const MOST_ALLOWANCE: f64 = 4.0;
/// A depot that claims to be busy has at least this weight among near equals of which none was seen.
const LEAST_WEIGHT: f64 = 0.4;
/// From this share of its highest rate on, a depot is taken to be busy.
const BUSY: f64 = 0.7;
/// Nothing that a depot claims makes a transfer longer than this, in seconds.
const MOST_CLAIMED_S: f64 = 86_400.0;

/// What a depot claims of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// What it moves now, in bit/s.
    pub rate_bps: f64,
    /// The most that it has moved of late, in bit/s.
    pub highest_bps: f64,
    /// Transfers that are under way.
    pub transfers: u32,
}

/// A route that may be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Unique among the candidates: its chain as text, empty for the direct one; then, if this host does not send as usual, a
    /// semicolon and how.
    pub key: String,
    /// Its connections, from the client.
    pub hops: Vec<Hop>,
    /// What its depots claim.
    pub claims: Vec<Claim>,
}

/// A transfer that is to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// How much is to be moved.
    pub bytes: u64,
    /// The time, in seconds since any moment that is the same for all.
    pub now_s: f64,
    /// What an attempt that fails costs, in seconds.
    pub timeout_s: f64,
}

/// Why a route was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no other.
    OnlyOne,
    /// Its forecast is the best.
    Best,
    /// Chance has decided among near equals.
    Chance,
    /// It is in use, and no other is better beyond noise.
    InUse,
    /// It may be better than its forecast, and trying it is within the allowance.
    Tried,
    /// All have failed lately; this one the longest ago.
    AllFailed,
}

/// A candidate, and what was known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessed {
    /// Its key.
    pub key: String,
    /// The time by it, with what its depots claim.
    pub forecast: Forecast,
    /// Seconds that its depots' claims add.
    pub claimed_s: f64,
    /// Until when it is left alone, since it has failed; in seconds.
    pub avoided_until_s: Option<f64>,
}

/// The route that was taken for a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Its place among the candidates.
    pub index: usize,
    /// Why.
    pub why: Why,
    bytes: u64,
    /// The best forecast, in seconds.
    best_s: f64,
}

/// A decision, with all that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The route to take.
    pub chosen: Chosen,
    /// All routes in the order in which to try them, the chosen one first.
    pub order: Vec<usize>,
    /// In the order of the candidates.
    pub assessed: Vec<Assessed>,
}

/// A route that stays in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InUse {
    key: String,
    /// For so many transfers no other is looked for.
    left: u32,
    /// For how many no other is looked for after the next look.
    patience: u32,
    /// Whether it is only tried.
    is_trial: bool,
}

/// Of each size class, in transfers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Allowance([f64; CLASSES]);

impl Default for Allowance {
    fn default() -> Self {
        Self([FIRST_ALLOWANCE; CLASSES])
    }
}

impl Assessed {
    fn of(candidate: &Candidate, place: &Place, request: &Request) -> Self {
        let Request { bytes, now_s, .. } = *request;
        let unknown = Path::default();
        let path = place.path(&candidate.key).unwrap_or(&unknown);
        let usual = place.usual_without(&candidate.key, class_of(bytes));
        let forecast = path.forecast(&candidate.hops, &usual, request);
        let by_claims = candidate.claims.iter().map(|claim| claim.seconds(bytes));
        let claimed_s = (by_claims.fold(0.0, f64::max) - forecast.seconds).max(0.0);
        let later = claimed_s / forecast.seconds;
        let forecast = Forecast {
            seconds: forecast.seconds + claimed_s,
            high_s: forecast.high_s * (1.0 + later),
            ..forecast
        };
        let avoided_until_s = Some(path.avoided_until_s()).filter(|until_s| *until_s > now_s);
        Self { key: candidate.key.clone(), forecast, claimed_s, avoided_until_s }
    }

    fn is_direct(&self) -> bool {
        self.key.is_empty()
    }

    /// Whether it leads by the same depots.
    fn has_chain_of(&self, other: &Self) -> bool {
        chain_of(&self.key) == chain_of(&other.key)
    }

    fn log(&self) -> f64 {
        self.forecast.seconds.ln()
    }

    /// What it takes apart from claims.
    fn unclaimed_log(&self) -> f64 {
        (self.forecast.seconds - self.claimed_s).ln()
    }

    /// As good as it may be.
    fn hoped(&self) -> f64 {
        self.log() - HOPE * self.forecast.variance.sqrt()
    }

    /// The mean of a time whose logarithm deviates by so much.
    fn mean_s(&self) -> f64 {
        self.forecast.seconds * (self.forecast.variance / 2.0).exp()
    }

    /// Whether this takes longer than another beyond noise. That little is known of the other one is no reason to stay.
    fn is_clearly_behind(&self, other: &Self, random: u64) -> bool {
        let by_claims = self.claimed_s > 0.0 || other.claimed_s > 0.0;
        let of_claims = if by_claims { CLAIM_VARIANCE } else { 0.0 };
        let noise = self.forecast.variance + other.forecast.variance.min(KNOWN) + of_claims;
        let behind = self.log() - other.log();
        behind > NEAR.max(NOISE * noise.sqrt()) && goes(self, other, random)
    }
}

impl Claim {
    /// The claim of a depot's load; `None` if the depot does not report its highest rate.
    pub fn of_load(rate_bps: u64, highest_bps: u64, transfers: usize) -> Option<Self> {
        (highest_bps > 0).then(|| Self {
            rate_bps: rate_bps as f64,
            highest_bps: highest_bps as f64,
            transfers: u32::try_from(transfers).unwrap_or(u32::MAX),
        })
    }

    /// How long it takes to get so many bytes through it as one more among its transfers; 0 if it is not busy.
    fn seconds(&self, bytes: u64) -> f64 {
        let is_number = self.rate_bps.is_finite() && self.highest_bps.is_finite();
        if !is_number || self.highest_bps <= 0.0 || self.rate_bps < BUSY * self.highest_bps {
            return 0.0;
        }
        let share = self.highest_bps / (f64::from(self.transfers) + 1.0);
        (bytes as f64 * 8.0 / share.max(1.0)).min(MOST_CLAIMED_S)
    }
}

impl Memory {
    /// Chooses one of these routes to a destination; at least one. `random` decides among near equals.
    ///
    /// # Panics
    /// There is no candidate.
    pub fn choose(
        &mut self,
        to: &str,
        request: &Request,
        candidates: &[Candidate],
        random: u64,
    ) -> Decision {
        assert!(!candidates.is_empty(), "there is a route to choose");
        let place = self.place_mut(to);
        let of = |candidate: &Candidate| Assessed::of(candidate, place, request);
        let assessed: Vec<Assessed> = candidates.iter().map(of).collect();
        let (index, why) = place.pick(&assessed, class_of(request.bytes), random);
        let mut order: Vec<usize> = (0..assessed.len()).collect();
        // One that is left alone comes after all others, whatever its forecast.
        let rank = |at: &usize| {
            let of = &assessed[*at];
            (*at != index, of.avoided_until_s.is_some(), of.forecast.seconds)
        };
        order.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
        let best_s = assessed.iter().map(|of| of.forecast.seconds).fold(f64::INFINITY, f64::min);
        Decision { chosen: Chosen { index, why, bytes: request.bytes, best_s }, order, assessed }
    }

    /// What would be chosen, without that anything changes.
    pub fn explain(
        &self,
        to: &str,
        request: &Request,
        candidates: &[Candidate],
        random: u64,
    ) -> Decision {
        let mut copy = Self::default();
        if let Some(place) = self.place(to) {
            *copy.place_mut(to) = place.clone();
        }
        copy.choose(to, request, candidates, random)
    }

    /// A transfer by one of the routes has ended; `chosen` says why that was taken, if it was.
    pub fn ended(&mut self, to: &str, candidate: &Candidate, chosen: Option<&Chosen>, seen: Seen) {
        let place = self.place_mut(to);
        if let Some(chosen) = chosen {
            let cost = match chosen.why {
                Why::Tried => (seen.seconds / chosen.best_s - 1.0).max(0.0),
                _ => 0.0,
            };
            let allowance = &mut place.allowance.0[class_of(chosen.bytes)];
            *allowance = (*allowance + ALLOWANCE - cost).min(MOST_ALLOWANCE);
        }
        let usual = place.usual_without(&candidate.key, class_of(seen.bytes));
        place.path_mut(&candidate.key).ended(&candidate.hops, &usual, seen);
    }
}

impl Place {
    fn pick(&mut self, assessed: &[Assessed], class: usize, random: u64) -> (usize, Why) {
        if assessed.len() == 1 {
            return (0, Why::OnlyOne);
        }
        let usable: Vec<usize> =
            (0..assessed.len()).filter(|at| assessed[*at].avoided_until_s.is_none()).collect();
        let Some(best) = least(assessed, &usable, Assessed::log) else {
            let all: Vec<usize> = (0..assessed.len()).collect();
            let until_s = |of: &Assessed| of.avoided_until_s.unwrap_or(0.0);
            return (least(assessed, &all, until_s).unwrap_or(0), Why::AllFailed);
        };
        let allowance_s = self.allowance.0[class] * assessed[best].forecast.seconds;
        let current = self.in_use[class].take().and_then(|in_use| {
            let at = usable.iter().copied().find(|at| assessed[*at].key == in_use.key)?;
            Some((at, in_use)).filter(|_| !assessed[at].is_clearly_behind(&assessed[best], random))
        });
        let Some((at, mut in_use)) = current else {
            let index = drawn(assessed, &usable, best, random);
            self.in_use[class] = Some(InUse::new(&assessed[index].key));
            return (index, if index == best { Why::Best } else { Why::Chance });
        };
        let mut taken = (at, Why::InUse);
        if in_use.left > 0 {
            in_use.left -= 1;
        } else if let Some(tried) = to_try(assessed, &usable, (best, at), allowance_s, random) {
            in_use = in_use.trying(&assessed[tried]);
            taken = (tried, Why::Tried);
        } else if at != best && in_use.is_trial {
            in_use = InUse { patience: in_use.patience, ..InUse::new(&assessed[best].key) };
            taken = (best, Why::Best);
        } else {
            in_use.is_trial = false;
            in_use.left = in_use.patience;
        }
        self.in_use[class] = Some(in_use);
        taken
    }
}

impl InUse {
    fn new(key: &str) -> Self {
        Self { key: key.to_owned(), left: TRIAL, patience: FIRST_PATIENCE, is_trial: false }
    }

    /// Another route is tried in its place. After one that was known the next one is later.
    fn trying(self, tried: &Assessed) -> Self {
        let patience = if tried.forecast.seen == 0 { self.patience } else { 2 * self.patience };
        let patience = patience.min(MOST_PATIENCE);
        Self { key: tried.key.clone(), left: TRIAL, patience, is_trial: true }
    }
}

/// Of some candidates the one of which this is least.
fn least(assessed: &[Assessed], among: &[usize], of: impl Fn(&Assessed) -> f64) -> Option<usize> {
    let by = |a: &&usize, b: &&usize| of(&assessed[**a]).total_cmp(&of(&assessed[**b]));
    among.iter().min_by(by).copied()
}

/// A route to try: one that may be better than the one in use, at a cost within the allowance.
fn to_try(
    assessed: &[Assessed],
    usable: &[usize],
    (best, in_use): (usize, usize),
    allowance_s: f64,
    random: u64,
) -> Option<usize> {
    // Nothing may be slower than the direct way, so that is known first.
    let is_unknown_direct = |at: &usize| {
        let of = &assessed[*at];
        let may_be_better = of.log() - 2.0 * of.forecast.variance.sqrt() < assessed[in_use].log();
        of.is_direct() && of.forecast.seen == 0 && may_be_better
    };
    if let Some(direct) = usable.iter().copied().find(is_unknown_direct) {
        return Some(direct).filter(|direct| *direct != in_use);
    }
    let is_within = |at: &usize| {
        *at == best || assessed[*at].mean_s() - assessed[best].forecast.seconds <= allowance_s
    };
    let within: Vec<usize> = usable.iter().copied().filter(is_within).collect();
    let hoped = least(assessed, &within, Assessed::hoped)?;
    let (from, to) = (&assessed[in_use], &assessed[hoped]);
    if hoped == in_use || from.log() - to.hoped() <= GAIN || !goes(from, to, random) {
        return None;
    }
    Some(drawn(assessed, &within, hoped, random))
}

/// What depots claim all clients hear at the same time. Of those who would leave a route for that alone, a part does: the larger,
/// the more there is to gain. To send in another way by the same depots harms none.
fn goes(from: &Assessed, to: &Assessed, random: u64) -> bool {
    if from.has_chain_of(to) {
        return true;
    }
    let all_go_at = match to.forecast.seen {
        _ if from.claimed_s > 0.0 || to.claimed_s > 0.0 => CLAIM_TIMES,
        0 => UNSEEN_TIMES,
        _ => return true,
    };
    unit(random.rotate_left(32)) * all_go_at < (from.log() - to.log()).exp() - 1.0
}

/// Between 0 and 1.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// The best, or one of those that are near it.
fn drawn(assessed: &[Assessed], among: &[usize], best: usize, random: u64) -> usize {
    let of_best = &assessed[best];
    let is_near = |at: &usize| {
        let of = &assessed[*at];
        let is_as_sure = of.forecast.variance <= of_best.forecast.variance * 1.5 + 0.01;
        is_as_sure && of.unclaimed_log() - of_best.unclaimed_log() <= NEAR
    };
    let near: Vec<usize> = among.iter().copied().filter(is_near).collect();
    // By the square root, so that loads that all clients know do not swing to and fro.
    let least = if of_best.forecast.seen == 0 { LEAST_WEIGHT } else { 0.0 };
    let weight = |at: &usize| ((of_best.log() - assessed[*at].log()) / 2.0).exp().max(least);
    let mut left = unit(random) * near.iter().map(weight).sum::<f64>();
    for at in near {
        left -= weight(&at);
        if left < 0.0 {
            return at;
        }
    }
    best
}

#[cfg(test)]
mod tests;
