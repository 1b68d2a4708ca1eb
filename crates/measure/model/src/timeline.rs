// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows that share links, from event to event: between the start or end of one flow and the next all have constant
//! rates, their weighted max-min shares ([`crate::shares`]).
//!
//! A flow's weight is what its response function gives at the losses at which the flows fill their links together. A link that flows with windows fill by their own losses carries what the saw of their windows leaves
//! ([`crate::sawtooth`]): taildrop makes their losses fall together. Slow start is a later begin: the time in
//! which the window doubles, less what it delivers meanwhile (Cardwell et al. 2000).
//!
//! Domain: all flows of a link find their windows by loss, or all are BBR's; their round trips are alike.

use crate::{
    flow::Chain,
    hop::{Connection, Law},
    rounds::{self, Losses, Path, Until},
    sawtooth,
    shares::{self, Demand},
};
use congestion::response;
use std::collections::BTreeMap;
use units::{Duration, Probability};

/// Queues that flows fill themselves stand at this share of their limit on average: the middle of a saw.
const MEAN_QUEUE: f64 = 0.5;
/// Seconds over which a rate of the long run is taken.
const LONG_RUN_S: f64 = 300.0;

/// A flow among others.
#[derive(Debug, Clone)]
pub struct Participant {
    /// Its connections.
    pub chain: Chain,
    /// When its client starts, in seconds of the run.
    pub start_s: f64,
    /// Size of its file; none if it has no end.
    pub bytes: Option<f64>,
}

/// A direction of a link, as an index into the run's links and whether it is crossed forward.
type LinkKey = (usize, bool);

/// A shared link.
struct SharedLink {
    /// Bits of the link a second.
    bps: f64,
    /// The flows on it.
    flows: Vec<usize>,
}

/// Bytes that each flow has delivered, and when it ended: at `end_s` at the latest.
///
/// # Errors
/// No form is for these flows together.
pub fn share(flows: &[Participant], end_s: f64) -> Result<Vec<(f64, f64)>, String> {
    let links = shared_links(flows);
    check_laws(flows, &links)?;
    let demands: Vec<f64> = flows.iter().enumerate().map(|(n, flow)| most_bps(flow, n)).collect();
    let weights = weights(flows, &links, &demands)?;
    let mut state = State {
        flows,
        links: &links,
        weights,
        demands,
        sent: vec![0.0; flows.len()],
        ended: vec![None; flows.len()],
    };
    state.run(end_s);
    let until = |n: usize| state.ended[n].unwrap_or(end_s);
    Ok((0..flows.len()).map(|n| (state.sent[n], until(n))).collect())
}

struct State<'f> {
    flows: &'f [Participant],
    links: &'f BTreeMap<LinkKey, SharedLink>,
    weights: Vec<f64>,
    demands: Vec<f64>,
    sent: Vec<f64>,
    ended: Vec<Option<f64>>,
}

impl State<'_> {
    fn run(&mut self, end_s: f64) {
        let mut now_s = 0.0;
        // Each turn begins or ends a flow.
        for _ in 0..=2 * self.flows.len() {
            let bps = self.rates(now_s);
            let ends = (0..self.flows.len()).filter_map(|n| self.would_end(n, now_s, bps[n]));
            let begins =
                (0..self.flows.len()).map(|n| self.begin_s(n)).filter(|begin| *begin > now_s);
            let next_s = ends.chain(begins).fold(end_s, f64::min);
            for (n, bps) in bps.iter().enumerate() {
                self.sent[n] += bps * (next_s - now_s) / 8.0;
                if self.flows[n]
                    .bytes
                    .is_some_and(|bytes| self.ended[n].is_none() && self.sent[n] >= bytes * ALMOST)
                {
                    self.ended[n] = Some(next_s + self.flows[n].chain.way_s);
                }
            }
            now_s = next_s;
            if now_s >= end_s {
                return;
            }
        }
    }

    /// When its full rate begins.
    fn begin_s(&self, n: usize) -> f64 {
        let Participant { chain, start_s, .. } = &self.flows[n];
        let slow_start_s = chain.connections.iter().map(|connection| {
            let share = self.demands[n].min(self.even_share(n)) / f64::from(chain.streams);
            slow_start_s(connection, share)
        });
        start_s + chain.setup_s + slow_start_s.fold(0.0, f64::max)
    }

    /// Its fullest link's rate, divided evenly.
    fn even_share(&self, n: usize) -> f64 {
        let links = self.links.values().filter(|link| link.flows.contains(&n));
        links.map(|link| link.bps / link.flows.len() as f64).fold(f64::INFINITY, f64::min)
    }

    fn is_active(&self, n: usize, now_s: f64) -> bool {
        self.ended[n].is_none() && self.begin_s(n) <= now_s
    }

    fn would_end(&self, n: usize, now_s: f64, bps: f64) -> Option<f64> {
        let left = self.flows[n].bytes? - self.sent[n];
        (self.ended[n].is_none() && bps > 0.0).then(|| now_s + left * 8.0 / bps)
    }

    /// Goodputs at a time.
    fn rates(&self, now_s: f64) -> Vec<f64> {
        let active: Vec<usize> =
            (0..self.flows.len()).filter(|n| self.is_active(*n, now_s)).collect();
        let keys: Vec<&LinkKey> = self.links.keys().collect();
        let on_link = |link: &SharedLink| -> Vec<usize> {
            link.flows.iter().copied().filter(|n| active.contains(n)).collect()
        };
        let capacities: Vec<f64> =
            self.links.values().map(|link| link.bps * self.used_share(&on_link(link))).collect();
        let demand = |n: usize| Demand {
            most_bps: self.demands[n],
            weight: self.weights[n],
            links: (0..keys.len()).filter(|at| self.links[keys[*at]].flows.contains(&n)).collect(),
        };
        let demands: Vec<Demand> = active.iter().map(|n| demand(*n)).collect();
        let mut rates = vec![0.0; self.flows.len()];
        for (n, bps) in active.iter().zip(shares::max_min(&capacities, &demands)) {
            rates[*n] = bps * payload_share(&self.flows[*n].chain);
        }
        rates
    }

    /// What these flows use of a link that they fill.
    fn used_share(&self, on_link: &[usize]) -> f64 {
        let windows = on_link.iter().flat_map(|n| {
            let chain = &self.flows[*n].chain;
            chain.connections.iter().map(move |connection| (connection, chain.streams))
        });
        let of_windows = windows.filter_map(|(connection, streams)| match connection.law {
            Law::Window(rule) => Some((rule, connection, streams)),
            _ => None,
        });
        let shares = of_windows.map(|(rule, connection, streams)| {
            let product = connection.path.product();
            let streams_together = streams * on_link.len() as u32;
            let kept = rule.kept(product / f64::from(streams_together));
            let queue = connection.path.queue / product;
            sawtooth::used_share(streams_together, kept, queue, sawtooth::Losses::Synchronised)
        });
        shares.fold(1.0, f64::min)
    }
}

/// A file is whole, but for rounding.
const ALMOST: f64 = 1.0 - 1e-9;

/// Payload over all that a segment takes of the slowest link.
fn payload_share(chain: &Chain) -> f64 {
    let shares =
        chain.connections.iter().map(|connection| connection.payload_bits / connection.link_bits);
    shares.fold(1.0, f64::min)
}

fn shared_links(flows: &[Participant]) -> BTreeMap<LinkKey, SharedLink> {
    let mut links: BTreeMap<LinkKey, SharedLink> = BTreeMap::new();
    for (n, flow) in flows.iter().enumerate() {
        for connection in &flow.chain.connections {
            for (leg, bps) in &connection.rates {
                let key = (leg.link, leg.heading == scenario::Heading::Forward);
                let link =
                    links.entry(key).or_insert_with(|| SharedLink { bps: *bps, flows: Vec::new() });
                if !link.flows.contains(&n) {
                    link.flows.push(n);
                }
            }
        }
    }
    links
}

fn check_laws(flows: &[Participant], links: &BTreeMap<LinkKey, SharedLink>) -> Result<(), String> {
    for link in links.values().filter(|link| link.flows.len() > 1) {
        let laws = || {
            link.flows
                .iter()
                .flat_map(|n| &flows[*n].chain.connections)
                .map(|connection| connection.law)
        };
        if laws().any(|law| law == Law::Bbr) && laws().any(|law| law != Law::Bbr) {
            return Err("BBR and a congestion control that answers to loss share a link; no form has their shares. Use \
                 --method sim"
                .to_owned());
        }
        check_round_trips(flows, link)?;
    }
    Ok(())
}

/// Taildrop makes losses fall together, and then flows of shorter round trips get more than their response functions
/// say: between the first and the second power of the round trips' ratio (Lakshman, Madhow 1997).
fn check_round_trips(flows: &[Participant], link: &SharedLink) -> Result<(), String> {
    let round_trips = || {
        let connections = link.flows.iter().flat_map(|n| &flows[*n].chain.connections);
        connections.map(|connection| connection.path.rtt_s)
    };
    let (least, most) =
        (round_trips().fold(f64::INFINITY, f64::min), round_trips().fold(0.0, f64::max));
    if most > MOST_RTT_RATIO * least {
        return Err(format!(
            "flows with round trips of {:.1} and {:.1} ms share a link; at a taildrop queue their losses fall together, \
             and no form has their shares. Use --method sim",
            least * 1e3,
            most * 1e3
        ));
    }
    Ok(())
}

/// Round trips of flows that share a link differ at most by this factor.
const MOST_RTT_RATIO: f64 = 1.5;

/// What each flow takes in proportion to the others: its response function at the losses at which all of them fill
/// their links.
fn weights(
    flows: &[Participant],
    links: &BTreeMap<LinkKey, SharedLink>,
    demands: &[f64],
) -> Result<Vec<f64>, String> {
    let capacities: Vec<f64> = links.values().map(|link| link.bps).collect();
    let crossed = |n: usize| {
        let on = links.values().enumerate().filter(|(_, link)| link.flows.contains(&n));
        on.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let crossed: Vec<Vec<usize>> = (0..flows.len()).map(crossed).collect();
    let rate = |n: usize, loss: f64| response_bps(&flows[n].chain, loss);
    let losses =
        shares::link_losses(&capacities, &crossed, |n, loss| rate(n, loss).min(demands[n]));
    let full = |n: usize| crossed[n].iter().filter(|link| losses[**link] > FULL).count();
    if (0..flows.len()).any(|n| full(n) > 1) {
        return Err("a flow crosses several full links; at taildrop queues it loses more than the sum of their losses \
             says, and no form has its share. Use --method sim"
            .to_owned());
    }
    let weight = |n: usize| rate(n, crossed[n].iter().map(|link| losses[*link]).sum());
    Ok((0..flows.len()).map(weight).collect())
}

/// A link that loses more than this by its flows is full.
const FULL: f64 = 1e-9;

/// What the response function of a flow's slowest hop gives at a loss; of BBR, the same for all.
fn response_bps(chain: &Chain, loss: f64) -> f64 {
    let of_hop = |connection: &Connection| {
        let Path { rtt_s, segments_per_s, queue, .. } = connection.path;
        let waits_s = if queue.is_finite() { MEAN_QUEUE * queue / segments_per_s } else { 0.0 };
        let rtt_s = rtt_s + waits_s;
        let (Some(loss), rtt) =
            (Probability::new(loss), Duration::from_nanos((rtt_s * 1e9).round() as u64))
        else {
            return 1.0;
        };
        let window = response::average_window(&connection.algorithm, loss, rtt);
        window.map_or(1.0, |window| window / rtt_s * connection.link_bits)
    };
    let slowest = chain.connections.iter().map(of_hop).fold(f64::INFINITY, f64::min);
    slowest * f64::from(chain.streams)
}

/// What a flow takes at most, were it alone: by buffers, losses on the way, its program; in bits of the link.
fn most_bps(flow: &Participant, number: usize) -> f64 {
    let of_hop = |connection: &Connection| {
        let streams = f64::from(flow.chain.streams);
        let by_window = connection.path.limit / connection.path.rtt_s * streams;
        let by_loss = match (connection.law, connection.losses) {
            (Law::Window(rule), losses @ (Losses::Random(_) | Losses::Periodic(_))) => {
                let until = Until::Seconds(LONG_RUN_S);
                let runs = rounds::follow(
                    rule,
                    &connection.path,
                    connection.start,
                    losses,
                    until,
                    number as u64,
                );
                let mean = runs.iter().map(|run| run.segments).sum::<f64>() / runs.len() as f64;
                mean / LONG_RUN_S * streams
            }
            _ => f64::INFINITY,
        };
        by_window.min(by_loss) * connection.link_bits
    };
    let by_hops = flow.chain.connections.iter().map(of_hop).fold(f64::INFINITY, f64::min);
    by_hops.min(flow.chain.program_bps / payload_share(&flow.chain))
}

/// The time that slow start to that rate costs.
fn slow_start_s(connection: &Connection, link_bps: f64) -> f64 {
    let window = link_bps / connection.link_bits * connection.path.rtt_s;
    let first = connection.start.window;
    if window <= first || !window.is_finite() {
        return 0.0;
    }
    connection.path.rtt_s * ((window / first).log2() - 1.0 + first / window)
}
