// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::{noise::Noise, path::End};

const SIZE: u64 = 50 << 20;

fn candidate(key: &str, rtts_ms: &[f64]) -> Candidate {
    let hops = rtts_ms.iter().map(|rtt_ms| Hop::of_round_trip(rtt_ms / 1e3)).collect();
    Candidate { key: key.to_owned(), hops, claims: Vec::new() }
}

fn busy(transfers: u32) -> Claim {
    Claim { rate_bps: 1e9, highest_bps: 1e9, transfers }
}

/// A client that transfers by these candidates, whose times are given.
struct Client {
    memory: Memory,
    noise: Noise,
    now_s: f64,
    taken: Vec<usize>,
}

impl Client {
    fn of_seed(seed: u64) -> Self {
        println!("seed {seed}");
        let noise = Noise::of_seed(seed);
        Self { memory: Memory::default(), noise, now_s: 0.0, taken: Vec::new() }
    }

    fn transfer(&mut self, candidates: &[Candidate], seconds: impl Fn(usize) -> Option<f64>) {
        self.now_s += 20.0;
        let request = Request { bytes: SIZE, now_s: self.now_s, timeout_s: 5.0 };
        let random = self.noise.bits();
        let decision = self.memory.choose("there", &request, candidates, random);
        let at = decision.chosen.index;
        let (seconds, end) = seconds(at).map_or((5.0, End::Failed), |time| (time, End::Done));
        self.now_s += seconds;
        let seen = Seen { at_s: self.now_s, bytes: SIZE, seconds, end };
        self.memory.ended("there", &candidates[at], Some(&decision.chosen), seen);
        self.taken.push(at);
    }

    fn switches(&self) -> usize {
        self.taken.windows(2).filter(|two| two[0] != two[1]).count()
    }

    fn share(&self, of: usize) -> f64 {
        self.taken.iter().filter(|at| **at == of).count() as f64 / self.taken.len() as f64
    }
}

#[test]
fn better_route_is_found_and_kept() {
    for seed in 1..=20 {
        let mut client = Client::of_seed(seed);
        let candidates =
            [candidate("", &[90.0]), candidate("a", &[45.0, 45.0]), candidate("b", &[80.0, 80.0])];
        for _ in 0..200 {
            let noise = (0.2 * client.noise.normal()).exp();
            client.transfer(&candidates, |at| Some([20.0, 6.0, 12.0][at] * noise));
        }
        assert!(client.share(1) > 0.9, "{:?}", client.taken);
        assert!(client.switches() <= 20, "{:?}", client.taken);
    }
}

/// The ends are what they are: a client learns what the direct way takes before it settles for depots.
#[test]
fn direct_way_is_known_soon_and_kept_if_depots_do_not_help() {
    for seed in 1..=20 {
        let mut client = Client::of_seed(seed);
        let candidates = [candidate("", &[90.0]), candidate("a", &[45.0, 45.0])];
        for _ in 0..100 {
            let noise = (0.2 * client.noise.normal()).exp();
            client.transfer(&candidates, |at| Some([2.0, 3.0][at] * noise));
        }
        assert!(client.taken[..8].contains(&0), "{:?}", client.taken);
        assert!(client.share(0) > 0.85, "{:?}", client.taken);
    }
}

/// A depot that claims to be idle, fast and near the destination, and is ten times slower than the direct way.
#[test]
fn depot_that_lies_loses_its_traffic_within_ten_transfers() {
    for seed in 1..=50 {
        let mut client = Client::of_seed(seed);
        let liar = Claim { rate_bps: 0.0, highest_bps: 1e15, transfers: 0 };
        let lies = Candidate { claims: vec![liar], ..candidate("liar", &[5.0, 0.01]) };
        let candidates = [candidate("", &[90.0]), lies];
        for n in 0..200 {
            // It tells of ever shorter round trips.
            let mut candidates = candidates.clone();
            candidates[1].hops[1].rtt_s /= f64::from(n + 1);
            let noise = (0.2 * client.noise.normal()).exp();
            client.transfer(&candidates, |at| Some([5.0, 50.0][at] * noise));
        }
        let early = client.taken[..10].iter().filter(|at| **at == 1).count();
        let late = client.taken[10..].iter().filter(|at| **at == 1).count();
        assert!(early <= 4 && late <= 4, "{:?}", client.taken);
    }
}

#[test]
fn claims_make_no_route_faster() {
    let noise = &mut Noise::of_seed(9);
    println!("seed 9");
    let mut memory = Memory::default();
    for _ in 0..500 {
        let claim = Claim {
            rate_bps: 10_f64.powf(20.0 * noise.unit() - 5.0),
            highest_bps: 10_f64.powf(20.0 * noise.unit() - 5.0),
            transfers: noise.bits() as u32,
        };
        let silent = candidate("a", &[10.0, 10.0]);
        let claiming = Candidate { claims: vec![claim], ..silent.clone() };
        let request = Request { bytes: SIZE, now_s: 0.0, timeout_s: 5.0 };
        let of = |memory: &mut Memory, candidate: Candidate| {
            memory.choose("there", &request, &[candidate], 0).assessed[0].forecast.seconds
        };
        assert!(of(&mut memory, claiming) >= of(&mut memory, silent));
    }
}

#[test]
fn depot_that_claims_to_be_busy_is_left_for_another() {
    let mut client = Client::of_seed(4);
    let idle = [candidate("a", &[20.0, 20.0]), candidate("b", &[20.0, 20.0])];
    (0..30).for_each(|_| client.transfer(&idle, |_| Some(1.0)));
    let used = *client.taken.last().unwrap();
    let mut candidates = idle.clone();
    candidates[used].claims = vec![busy(100)];
    (0..10)
        .for_each(|_| client.transfer(&candidates, |at| Some(if at == used { 40.0 } else { 1.0 })));
    assert!(client.taken[30..].iter().all(|at| *at != used), "{:?}", client.taken);
}

/// Of many clients that hear the same at the same time, none of the depots gets more than 1.5 times its part.
#[test]
fn clients_that_hear_the_same_spread() {
    let noise = &mut Noise::of_seed(5);
    println!("seed 5");
    let mut candidates: Vec<Candidate> =
        (0..5).map(|n| candidate(&n.to_string(), &[20.0, 20.0])).collect();
    for loads in [[0; 5], [100; 5], [0, 100, 100, 100, 100], [200, 100, 100, 100, 100]] {
        for (candidate, load) in candidates.iter_mut().zip(loads) {
            candidate.claims = if load > 0 { vec![busy(load)] } else { Vec::new() };
        }
        let mut counts = loads.map(f64::from);
        for _ in 0..1000 {
            let request = Request { bytes: SIZE, now_s: 0.0, timeout_s: 5.0 };
            let decision = Memory::default().choose("there", &request, &candidates, noise.bits());
            counts[decision.chosen.index] += 1.0;
        }
        let fair = counts.iter().sum::<f64>() / 5.0;
        let most = counts.iter().copied().fold(0.0, f64::max);
        assert!(most <= 1.5 * fair, "{loads:?}: {counts:?}");
    }
}

#[test]
fn route_that_fails_is_left_alone_and_comes_back() {
    let mut client = Client::of_seed(6);
    let candidates = [candidate("", &[90.0]), candidate("a", &[45.0, 45.0])];
    (0..40).for_each(|_| client.transfer(&candidates, |at| Some([20.0, 2.0][at])));
    let before = client.taken.len();
    (0..20).for_each(|_| client.transfer(&candidates, |at| Some(20.0).filter(|_| at == 0)));
    let tried = client.taken[before..].iter().filter(|at| **at == 1).count();
    assert!((1..=3).contains(&tried), "{:?}", &client.taken[before..]);
    let again = client.taken.len();
    (0..100).for_each(|_| client.transfer(&candidates, |at| Some([20.0, 2.0][at])));
    assert_eq!(client.taken[again + 90..], [1; 10], "{:?}", &client.taken[again..]);
    // All have failed: the one that is left alone for the shortest time yet.
    for _ in 0..2 {
        client.transfer(&candidates, |_| None);
    }
    let request = Request { bytes: SIZE, now_s: client.now_s, timeout_s: 5.0 };
    let decision = client.memory.explain("there", &request, &candidates, 0);
    assert_eq!(decision.chosen.why, Why::AllFailed);
    assert_eq!(decision.order.len(), 2);
}

#[test]
fn explanation_changes_nothing_and_memory_is_kept_as_text() {
    let mut client = Client::of_seed(7);
    let candidates = [candidate("", &[90.0]), candidate("a", &[45.0, 45.0])];
    (0..40).for_each(|_| client.transfer(&candidates, |at| Some([4.0, 3.5][at])));
    let text = serde_json::to_string(&client.memory).unwrap();
    let mut kept: Memory = serde_json::from_str(&text).unwrap();
    kept.bound();
    let request = Request { bytes: SIZE, now_s: client.now_s + 5.0, timeout_s: 5.0 };
    for random in 0..20 {
        let explained = client.memory.explain("there", &request, &candidates, random << 50);
        assert_eq!(explained, kept.explain("there", &request, &candidates, random << 50));
    }
    assert_eq!(text, serde_json::to_string(&client.memory).unwrap());
}

#[test]
fn nonsense_is_survived() {
    let numbers = [0.0, -1.0, 1.0, 1e-300, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for seed in 1..=20 {
        println!("seed {seed}");
        let noise = &mut Noise::of_seed(seed);
        let mut memory = Memory::default();
        for _ in 0..200 {
            let mut any = || numbers[noise.bits() as usize % numbers.len()];
            let is_warm = any() > 0.0;
            let hop = Hop {
                rtt_s: any(),
                loss: any(),
                rate_bps: any(),
                is_warm,
                ..Hop::of_round_trip(1.0)
            };
            let claim = Claim { rate_bps: any(), highest_bps: any(), transfers: u32::MAX };
            let request = Request { bytes: any() as u64, now_s: any(), timeout_s: 5.0 };
            let candidates = ["", "a", "b"].map(|key| Candidate {
                key: key.to_owned(),
                hops: vec![hop; 2],
                claims: vec![claim],
            });
            let seen = Seen { at_s: any(), bytes: any() as u64, seconds: any(), end: End::Done };
            let end = [End::Done, End::LimitedByEnds, End::Left, End::Failed];
            let seen = Seen { end: end[noise.bits() as usize % 4], ..seen };
            let decision = memory.choose("there", &request, &candidates, noise.bits());
            let mut order = decision.order.clone();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
            let at = decision.chosen.index;
            memory.ended("there", &candidates[at], Some(&decision.chosen), seen);
        }
    }
}
