// SPDX-License-Identifier: GPL-2.0-or-later
//! Four routes to a server: what they are like, and what a transfer takes by each.

use crate::random::Random;
use longhaul_overlay::{Candidate, Claim, Hop};

/// What an attempt at a dead depot costs, in seconds.
pub const TIMEOUT_S: f64 = 5.0;
/// The server's link and that of a depot, in bit/s.
const SERVER_BPS: f64 = 1e9;
const DEPOT_BPS: f64 = 2e9;
/// What a depot adds before it passes a request on, in seconds.
const DEPOT_S: f64 = 0.001;
const SEGMENT_BITS: f64 = 1448.0 * 8.0;
/// What losses leave of CUBIC's window, and how fast it grows again, in segments a cubic second.
const KEPT: f64 = 0.7;
const GROWTH: f64 = 0.4;
/// Transfers from one failure or overload to the next, and for which it lasts.
const PERIOD: usize = 70;
const LASTS: usize = 15;

/// How the routes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stationary,
    Drifting,
    Shifting,
    Failing,
    Overloaded,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Stationary, Self::Drifting, Self::Shifting, Self::Failing, Self::Overloaded];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stationary => "stationary",
            Self::Drifting => "drifting",
            Self::Shifting => "level shifts",
            Self::Failing => "failing depot",
            Self::Overloaded => "overloaded depot",
        }
    }
}

struct Route {
    name: &'static str,
    /// Of each hop, the share of the direct round trip and of its losses.
    hops: Vec<(f64, f64)>,
    /// What changes leave of its rate.
    factor: f64,
}

pub struct World {
    pub kind: Kind,
    pub rtt_s: f64,
    pub loss: f64,
    pub load: f64,
    routes: Vec<Route>,
    n: usize,
}

impl World {
    pub fn new(kind: Kind, rtt_s: f64, loss: f64, load: f64) -> Self {
        let route = |name, hops: &[(f64, f64)]| Route { name, hops: hops.to_vec(), factor: 1.0 };
        let routes = vec![
            route("", &[(1.0, 1.0)]),
            route("middle", &[(0.5, 0.5), (0.55, 0.5)]),
            route("detour", &[(0.8, 0.8), (0.7, 0.7)]),
            route("near,far", &[(0.2, 0.2), (0.5, 0.5), (0.4, 0.3)]),
        ];
        Self { kind, rtt_s, loss, load, routes, n: 0 }
    }

    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    fn is_in_trouble(&self) -> bool {
        self.n % PERIOD >= PERIOD - LASTS
    }

    /// Whether nothing goes by a route.
    pub fn is_dead(&self, route: usize) -> bool {
        self.kind == Kind::Failing && route == 1 && self.is_in_trouble()
    }

    /// Before the transfer of this number.
    pub fn advance(&mut self, n: usize, random: &mut Random) {
        self.n = n;
        let (kind, is_in_trouble) = (self.kind, self.is_in_trouble());
        for (at, route) in self.routes.iter_mut().enumerate() {
            match kind {
                Kind::Drifting => {
                    let angle = std::f64::consts::TAU * (n as f64 / 150.0 + at as f64 / 3.0);
                    route.factor = (0.5 * angle.sin()).exp();
                }
                Kind::Shifting if random.unit() < 1.0 / 80.0 => {
                    route.factor = if route.factor < 1.0 { 1.0 } else { 0.4 };
                }
                Kind::Overloaded if at == 1 => route.factor = if is_in_trouble { 0.1 } else { 1.0 },
                _ => {}
            }
        }
    }

    /// The routes as a client knows them: round trips, and what depots claim.
    pub fn candidates(&self) -> Vec<Candidate> {
        let of = |(at, route): (usize, &Route)| {
            let hops = route.hops.iter().map(|(share, _)| Hop::of_round_trip(share * self.rtt_s));
            let is_busy = self.kind == Kind::Overloaded && at == 1 && self.is_in_trouble();
            let transfers = if is_busy { 20 } else { 2 };
            let rate_bps = if is_busy { DEPOT_BPS } else { self.load * DEPOT_BPS };
            let claim = Claim { rate_bps, highest_bps: DEPOT_BPS, transfers };
            let claims = if at == 0 { Vec::new() } else { vec![claim] };
            Candidate { key: route.name.to_owned(), hops: hops.collect(), claims }
        };
        self.routes.iter().enumerate().map(of).collect()
    }

    /// What a transfer takes by each route, in seconds.
    pub fn times(&self, bytes: u64, random: &mut Random) -> Vec<f64> {
        let used = self.load * (0.95 + 0.1 * random.unit());
        let at_server = SERVER_BPS * (0.7 + 0.3 * random.unit());
        let of = |(at, route): (usize, &Route)| {
            let at_depot = if at == 0 { f64::INFINITY } else { DEPOT_BPS * (1.0 - used) };
            let rate_bps = at_server.min(at_depot) * route.factor;
            let setup_s: f64 =
                route.hops.iter().map(|(share, _)| 2.0 * share * self.rtt_s + DEPOT_S).sum();
            let hop = |(share, of_loss): &(f64, f64)| {
                sending_s(bytes, share * self.rtt_s, of_loss * self.loss, rate_bps, random)
            };
            let hops_s: Vec<f64> = route.hops.iter().map(hop).collect();
            setup_s + hops_s.into_iter().fold(0.0, f64::max)
        };
        self.routes.iter().enumerate().map(of).collect()
    }
}

/// How long CUBIC sends so many bytes, round by round with independent losses, in seconds.
fn sending_s(bytes: u64, rtt_s: f64, loss: f64, rate_bps: f64, random: &mut Random) -> f64 {
    let mut left = (bytes as f64 * 8.0 / SEGMENT_BITS).ceil();
    let per_s = rate_bps / SEGMENT_BITS;
    // The path's product and a queue of as much.
    let most = (2.0 * per_s * rtt_s).max(4.0);
    let (mut window, mut seconds) = (10.0_f64, 0.0);
    let mut before_loss: Option<(f64, f64)> = None;
    while left > 0.0 {
        let sent = window.min(left);
        let round_s = rtt_s.max(sent / per_s);
        left -= sent;
        seconds += if left > 0.0 { round_s } else { sent / per_s };
        let is_lost = window >= most || random.unit() < 1.0 - (1.0 - loss).powf(sent);
        if is_lost {
            before_loss = Some((window, seconds));
            window = (window * KEPT).max(2.0);
            continue;
        }
        window = match before_loss {
            None => (2.0 * window).min(most),
            Some((highest, at_s)) => {
                let back_s = (highest * (1.0 - KEPT) / GROWTH).cbrt();
                let cubic = GROWTH * (seconds - at_s - back_s).powi(3) + highest;
                let reno = highest * KEPT + 0.53 * (seconds - at_s) / rtt_s;
                cubic.max(reno).clamp(2.0, most)
            }
        };
    }
    seconds
}
