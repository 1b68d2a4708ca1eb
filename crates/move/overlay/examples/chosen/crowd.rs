// SPDX-License-Identifier: GPL-2.0-or-later
//! Many clients that choose among equal depots at the same time, by load information that is seconds old.

use crate::random::Random;
use longhaul_overlay::{Candidate, Chosen, Claim, End, Hop, Memory, Request, Seen};
use serde::Serialize;
use std::collections::VecDeque;

const CLIENTS: usize = 1000;
const DEPOTS: usize = 5;
/// How long they go on, in seconds; the length of their transfers, and what a depot carries.
const LASTS_S: f64 = 120.0;
const BYTES: u64 = 50 << 20;
const DEPOT_BPS: f64 = 10e9;
/// How old load information is at most, in seconds.
const OLD_S: f64 = 5.0;
const STEP_S: f64 = 0.1;
/// Over so long the transfers under way at a depot are averaged, in seconds: about one transfer.
const WINDOW_S: f64 = 8.0;
const DIRECT_S: f64 = 600.0;

/// How a crowd has spread.
#[derive(Debug, Serialize)]
pub struct Crowd {
    clients: usize,
    depots: usize,
    /// The largest share of all transfers under way that a depot had, by its fair share, over any 8 s with half of the clients.
    worst_share: f64,
    /// The same of all transfers together.
    worst_share_of_all: f64,
    /// Changes of the depot per ten transfers.
    switches: f64,
}

struct Client {
    memory: Memory,
    under_way: Option<(usize, Chosen, f64, f64)>,
    last: Option<usize>,
    begins_s: f64,
}

pub fn run(seed: u64) -> Crowd {
    let mut random = Random::of_seed(seed ^ 0xc0);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client {
            memory: Memory::default(),
            under_way: None,
            last: None,
            begins_s: random.unit(),
        })
        .collect();
    let (mut told, mut counts, mut totals) = ([0_u32; DEPOTS], [0_u32; DEPOTS], [0_usize; DEPOTS]);
    let (mut worst, mut switches) = (0.0_f64, 0);
    let (mut now_s, mut next_told_s, mut window) = (0.0, 0.0, VecDeque::new());
    while now_s < LASTS_S {
        if now_s >= next_told_s {
            (told, next_told_s) = (counts, now_s + OLD_S);
        }
        let candidates = candidates(&told);
        for client in &mut clients {
            if client.under_way.is_none() && client.begins_s <= now_s {
                let request = Request { bytes: BYTES, now_s, timeout_s: 5.0 };
                let decision = client.memory.choose("origin", &request, &candidates, random.bits());
                let at = decision.chosen.index;
                if at > 0 {
                    counts[at - 1] += 1;
                    totals[at - 1] += 1;
                }
                switches += usize::from(client.last.replace(at).is_some_and(|last| last != at));
                client.under_way = Some((at, decision.chosen, now_s, BYTES as f64));
            }
        }
        window.push_back(counts);
        if window.len() > (WINDOW_S / STEP_S) as usize {
            window.pop_front();
            let of: Vec<u32> = (0..DEPOTS).map(|at| window.iter().map(|it| it[at]).sum()).collect();
            let all: u32 = of.iter().sum();
            if all as usize >= CLIENTS / 2 * window.len() {
                let most = f64::from(*of.iter().max().expect("there are depots"));
                worst = worst.max(most * DEPOTS as f64 / f64::from(all));
            }
        }
        now_s += STEP_S;
        let rate = |at: usize| match at {
            0 => BYTES as f64 / DIRECT_S,
            _ => (DEPOT_BPS / 8.0 / f64::from(counts[at - 1])).min(125e6),
        };
        let rates: Vec<f64> = (0..=DEPOTS).map(rate).collect();
        for client in &mut clients {
            let Some((at, _, _, left)) = &mut client.under_way else { continue };
            *left -= rates[*at] * STEP_S;
            if *left > 0.0 {
                continue;
            }
            let (at, chosen, begun_s, _) = client.under_way.take().expect("it was under way");
            if at > 0 {
                counts[at - 1] -= 1;
            }
            let seen = Seen { at_s: now_s, bytes: BYTES, seconds: now_s - begun_s, end: End::Done };
            client.memory.ended("origin", &candidates[at], Some(&chosen), seen);
            client.begins_s = now_s + 2.0 * random.unit();
        }
    }
    let all: usize = totals.iter().sum();
    let most = *totals.iter().max().expect("there are depots") as f64;
    Crowd {
        clients: CLIENTS,
        depots: DEPOTS,
        worst_share: worst,
        worst_share_of_all: most * DEPOTS as f64 / all as f64,
        switches: switches as f64 * 10.0 / all as f64,
    }
}

/// Depots that are near, and a direct way that losses make slow: a client knows its round trip alone, and has seen nothing.
fn candidates(told: &[u32; DEPOTS]) -> Vec<Candidate> {
    let direct = Candidate {
        key: String::new(),
        hops: vec![Hop { loss: 0.02, ..Hop::of_round_trip(0.2) }],
        claims: Vec::new(),
    };
    let depot = |(at, transfers): (usize, &u32)| {
        let rate_bps = (f64::from(*transfers) * 1e9).min(DEPOT_BPS);
        let claim = Claim { rate_bps, highest_bps: DEPOT_BPS, transfers: *transfers };
        Candidate {
            key: format!("d{at}"),
            hops: vec![Hop::of_round_trip(0.1); 2],
            claims: vec![claim],
        }
    };
    std::iter::once(direct).chain(told.iter().enumerate().map(depot)).collect()
}
