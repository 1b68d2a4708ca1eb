// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers in virtual time by the routes that crate `overlay` chooses, beside each route alone. `bench/route` shows the figures.
//!
//! The truth is followed round by round with random losses, apart from the closed forms that forecasts begin with. Each transfer
//! has the same losses and loads whichever route is compared. Prints one JSON document.

#[path = "chosen/crowd.rs"]
mod crowd;
#[path = "chosen/random.rs"]
mod random;
#[path = "chosen/world.rs"]
mod world;

use longhaul_overlay::{Chosen, Decision, End, Memory, Request, Seen};
use random::Random;
use serde::Serialize;
use world::{Kind, TIMEOUT_S, World};

/// Transfers of a cell, and those that are not counted: nothing is known yet.
const TRANSFERS: usize = 400;
const FIRST: usize = 20;
/// Clients of a cell, one after the other, unless asked for others.
const CLIENTS: u64 = 5;
/// The mean pause between two transfers, in seconds.
const PAUSE_S: f64 = 30.0;
const SIZES: [u64; 3] = [1 << 20, 10 << 20, 100 << 20];
/// A transfer that takes so many times its forecast, and so many times what another route would for the rest, is moved there.
const MOVED_FOR: f64 = 2.0;

/// What came out of a cell.
#[derive(Debug, Serialize)]
struct Cell {
    kind: &'static str,
    rtt_ms: f64,
    loss: f64,
    load: f64,
    /// Mean completion time by that of the best fixed route in hindsight, after the first transfers.
    regret: f64,
    /// By that of the direct route, all transfers.
    versus_direct: f64,
    /// Changes of the route for a size, per ten transfers.
    switches: f64,
    /// The share of completion times within their 90 % intervals.
    covered: f64,
    /// The best fixed route.
    best: String,
}

#[derive(Debug, Serialize)]
struct Report {
    seed: u64,
    cells: Vec<Cell>,
    crowd: crowd::Crowd,
}

#[derive(Default)]
struct Sums {
    own_s: f64,
    direct_s: f64,
    own_late_s: f64,
    fixed_late_s: Vec<f64>,
    switches: usize,
    within: usize,
    timed: usize,
    used: [Option<usize>; SIZES.len()],
}

fn main() {
    let number = |at: usize, otherwise: u64| {
        let given = std::env::args().nth(at);
        given.map_or(otherwise, |text| text.parse().expect("seed and clients are numbers"))
    };
    let (seed, clients) = (number(1, 1), number(2, CLIENTS));
    let mut cells = Vec::new();
    for kind in Kind::ALL {
        for rtt_s in [0.02, 0.08, 0.2] {
            for loss in [0.0, 1e-4, 1e-3] {
                for load in [0.0, 0.5, 0.9] {
                    cells.push(run(&World::new(kind, rtt_s, loss, load), seed, clients));
                }
            }
        }
    }
    let report = Report { seed, cells, crowd: crowd::run(seed) };
    println!("{}", serde_json::to_string_pretty(&report).expect("numbers are JSON"));
}

fn run(cell: &World, seed: u64, clients: u64) -> Cell {
    let mut sums = Sums { fixed_late_s: vec![0.0; cell.routes()], ..Sums::default() };
    for client in 0..clients {
        let world = World::new(cell.kind, cell.rtt_s, cell.loss, cell.load);
        transfers(world, &mut Random::of_seed(seed * 1000 + client), &mut sums);
    }
    let best = (0..cell.routes())
        .min_by(|a, b| sums.fixed_late_s[*a].total_cmp(&sums.fixed_late_s[*b]))
        .expect("there are routes");
    Cell {
        kind: cell.kind.name(),
        rtt_ms: cell.rtt_s * 1e3,
        loss: cell.loss,
        load: cell.load,
        regret: sums.own_late_s / sums.fixed_late_s[best],
        versus_direct: sums.own_s / sums.direct_s,
        switches: sums.switches as f64 * 10.0 / (TRANSFERS as f64 * clients as f64),
        covered: sums.within as f64 / sums.timed.max(1) as f64,
        best: cell.candidates()[best].key.clone(),
    }
}

/// The transfers of a client that knows nothing at first.
fn transfers(mut world: World, random: &mut Random, sums: &mut Sums) {
    let (mut memory, mut now_s) = (Memory::default(), 0.0);
    sums.used = Default::default();
    for n in 0..TRANSFERS {
        now_s += PAUSE_S * -(1.0 - random.unit()).ln();
        let size = random.below(SIZES.len());
        let bytes = SIZES[size];
        world.advance(n, random);
        let times = world.times(bytes, random);
        let request = Request { bytes, now_s, timeout_s: TIMEOUT_S };
        let decision = memory.choose("origin", &request, &world.candidates(), random.bits());
        let own_s = carry(&mut memory, &world, &decision, &request, &times, sums, n);
        now_s += own_s;
        sums.own_s += own_s;
        sums.direct_s += times[0];
        let index = decision.chosen.index;
        if sums.used[size].replace(index).is_some_and(|before| before != index) {
            sums.switches += 1;
        }
        if n >= FIRST {
            sums.own_late_s += own_s;
            for (at, sum) in sums.fixed_late_s.iter_mut().enumerate() {
                *sum += if world.is_dead(at) { TIMEOUT_S + times[0] } else { times[at] };
            }
        }
    }
}

/// Carries a transfer out: by the routes in their order until one works, and by another if it is far slower than forecast. Its
/// seconds.
fn carry(
    memory: &mut Memory,
    world: &World,
    decision: &Decision,
    request: &Request,
    times: &[f64],
    sums: &mut Sums,
    n: usize,
) -> f64 {
    let candidates = world.candidates();
    let mut spent_s = 0.0;
    let mut chosen: Option<&Chosen> = Some(&decision.chosen);
    for at in &decision.order {
        let ended = |memory: &mut Memory, chosen: Option<&Chosen>, seconds, end| {
            let at_s = request.now_s + spent_s + seconds;
            let seen = Seen { at_s, bytes: request.bytes, seconds, end };
            memory.ended("origin", &candidates[*at], chosen, seen);
        };
        if world.is_dead(*at) {
            ended(memory, chosen.take(), TIMEOUT_S, End::Failed);
            spent_s += TIMEOUT_S;
            continue;
        }
        let (seconds, forecast) = (times[*at], decision.assessed[*at].forecast);
        if n >= FIRST && *at == decision.chosen.index {
            sums.timed += 1;
            sums.within += usize::from(seconds >= forecast.low_s && seconds <= forecast.high_s);
        }
        let next =
            decision.order.iter().copied().find(|other| other != at && !world.is_dead(*other));
        if let Some(next) = next {
            let left = 1.0 - forecast.seconds / seconds;
            let elsewhere_s = left * decision.assessed[next].forecast.seconds + world.rtt_s;
            if seconds > MOVED_FOR * forecast.seconds && left * seconds > MOVED_FOR * elsewhere_s {
                ended(memory, chosen.take(), seconds, End::Left);
                return spent_s + forecast.seconds + left * times[next] + world.rtt_s;
            }
        }
        ended(memory, chosen.take(), seconds, End::Done);
        return spent_s + seconds;
    }
    spent_s
}
