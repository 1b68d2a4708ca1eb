// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates of flows that share links: weighted max-min fairness with demands (Bertsekas, Gallager, "Data networks", 1992,
//! section 6.5.2), by progressive filling.
//!
//! All flows grow in proportion to their weights on the link at hand; a flow stops at its demand or when a link on its
//! way is full. Weights of flows that find their windows by loss are what their response functions give at the one
//! loss at which they fill the link together. Rates in bits of the link a second.

/// A flow that asks for a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// More it does not take; infinite where nothing else bounds it.
    pub most_bps: f64,
    /// What it gets in proportion to others.
    pub weight: f64,
    /// The links that it crosses.
    pub links: Vec<usize>,
}

/// The rate of each flow over links of these capacities.
pub fn max_min(capacities_bps: &[f64], flows: &[Demand]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    let mut left = capacities_bps.to_vec();
    // Each turn settles the flow that is stopped first: the one with the least for its weight.
    for _ in 0..flows.len() {
        let weights = open_weights(capacities_bps.len(), flows, &rates);
        let level = |flow: &Demand| {
            let by_links = flow.links.iter().map(|link| left[*link].max(0.0) / weights[*link]);
            by_links.fold(flow.most_bps / flow.weight, f64::min)
        };
        let open = flows.iter().enumerate().filter(|(n, _)| rates[*n].is_none());
        let first = open.map(|(n, flow)| (n, level(flow))).min_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((n, level)) = first else { break };
        let rate = level * flows[n].weight;
        rates[n] = Some(rate);
        for link in &flows[n].links {
            left[*link] -= rate;
        }
    }
    rates.into_iter().map(|rate| rate.unwrap_or(0.0)).collect()
}

/// The weights of the flows that are not settled, by link.
fn open_weights(links: usize, flows: &[Demand], rates: &[Option<f64>]) -> Vec<f64> {
    let mut weights = vec![0.0; links];
    for (flow, _) in flows.iter().zip(rates).filter(|(_, rate)| rate.is_none()) {
        for link in &flow.links {
            weights[*link] += flow.weight;
        }
    }
    weights
}

/// The losses at which flows fill the links that they would overload: on each link the one at which what its flows send, each
/// at the loss of all its links together, is what the link carries. `rate_at` is a flow's rate at a loss, which falls
/// with it. Links that are not full lose nothing.
pub fn link_losses(
    capacities_bps: &[f64],
    flows: &[Vec<usize>],
    rate_at: impl Fn(usize, f64) -> f64,
) -> Vec<f64> {
    let mut losses = vec![FIRST_LOSS; capacities_bps.len()];
    for _ in 0..TURNS {
        let of_flow = |n: usize| flows[n].iter().map(|link| losses[*link]).sum::<f64>();
        let rates: Vec<f64> = (0..flows.len()).map(|n| rate_at(n, of_flow(n))).collect();
        let load = |link: usize| {
            let on = flows.iter().zip(&rates).filter(|(links, _)| links.contains(&link));
            on.map(|(_, rate)| *rate).sum::<f64>()
        };
        let step = |(link, capacity): (usize, &f64)| {
            (losses[link] * load(link) / capacity).clamp(LEAST_LOSS, MOST_LOSS)
        };
        losses = capacities_bps.iter().enumerate().map(step).collect();
    }
    losses
}

/// Where the search for losses begins, and its bounds.
const FIRST_LOSS: f64 = 1e-4;
const LEAST_LOSS: f64 = 1e-12;
const MOST_LOSS: f64 = 0.3;
/// Steps of the search: rates fall at most in proportion to losses, so a step never overshoots.
const TURNS: u32 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(most_bps: f64, weight: f64, links: &[usize]) -> Demand {
        Demand { most_bps, weight, links: links.to_vec() }
    }

    fn assert_rates(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close && found.len() == expected.len(), "{found:?}, not {expected:?}");
    }

    const FREE: f64 = f64::INFINITY;

    #[test]
    fn one_link_is_shared_by_weight_and_demand() {
        let of = |weight, most_bps| flow(most_bps, weight, &[0]);
        assert_rates(&max_min(&[10.0], &[of(1.0, FREE), of(1.0, FREE)]), &[5.0, 5.0]);
        assert_rates(&max_min(&[10.0], &[of(1.0, FREE), of(3.0, FREE)]), &[2.5, 7.5]);
        let modest = [of(1.0, 1.0), of(1.0, FREE), of(1.0, FREE)];
        assert_rates(&max_min(&[10.0], &modest), &[1.0, 4.5, 4.5]);
    }

    /// A parking lot, by hand: the second link settles its three first.
    #[test]
    fn the_fullest_link_settles_first() {
        let flows = [&[0, 1][..], &[0], &[1], &[1]].map(|links| flow(FREE, 1.0, links));
        assert_rates(&max_min(&[10.0, 6.0], &flows), &[2.0, 8.0, 2.0, 2.0]);
    }

    /// The definition, on random networks: no link carries more than it can, and each flow has its demand or crosses a
    /// full link on which no flow has more for its weight.
    #[test]
    fn random_networks_are_fair_by_the_definition() {
        let mut state = 7_u64;
        println!("seed {state}");
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..500 {
            let links = 1 + draw(5);
            let capacities: Vec<f64> = (0..links).map(|_| 1.0 + draw(20) as f64).collect();
            let flows: Vec<Demand> = (0..=draw(6))
                .map(|_| {
                    let mut on: Vec<usize> = (0..=draw(links)).map(|_| draw(links)).collect();
                    on.sort_unstable();
                    on.dedup();
                    let most = if draw(3) == 0 { 1.0 + draw(8) as f64 } else { FREE };
                    flow(most, 1.0 + draw(4) as f64, &on)
                })
                .collect();
            assert_fair(&capacities, &flows);
        }
    }

    fn assert_fair(capacities: &[f64], flows: &[Demand]) {
        let rates = max_min(capacities, flows);
        let on = |link: usize| {
            flows.iter().zip(&rates).filter(move |(flow, _)| flow.links.contains(&link))
        };
        let used = |link: usize| on(link).map(|(_, rate)| rate).sum::<f64>();
        for (link, capacity) in capacities.iter().enumerate() {
            assert!(used(link) <= capacity + 1e-9, "{capacities:?} {flows:?} {rates:?}");
        }
        for (flow, rate) in flows.iter().zip(&rates) {
            let stops = |link: &usize| {
                let full = used(*link) > capacities[*link] - 1e-9;
                full && on(*link)
                    .all(|(other, bps)| bps / other.weight <= rate / flow.weight + 1e-9)
            };
            let has_all = *rate >= flow.most_bps - 1e-9;
            assert!(has_all || flow.links.iter().any(stops), "{capacities:?} {flows:?} {rates:?}");
        }
    }

    /// Two Reno flows at 1/sqrt(p) each fill 20 at p = 0.01.
    #[test]
    fn losses_fill_a_link() {
        let losses = link_losses(&[20.0], &[vec![0], vec![0]], |_, p| 1.0 / p.sqrt());
        assert!((losses[0] / 0.01 - 1.0).abs() < 1e-6, "{losses:?}");
    }

    /// A flow over two equal links beside one on each: both losses are p, so it has 1/sqrt(2) of the others' rates.
    #[test]
    fn losses_of_links_add_up() {
        let flows = [vec![0, 1], vec![0], vec![1]];
        let losses = link_losses(&[10.0, 10.0], &flows, |_, p| 1.0 / p.sqrt());
        let [long, short] = [(losses[0] + losses[1]).sqrt().recip(), losses[0].sqrt().recip()];
        assert!(
            (long + short - 10.0).abs() < 1e-6 && (short / long - 2.0_f64.sqrt()).abs() < 1e-6,
            "{losses:?}"
        );
        // A link that is never full loses nothing.
        let idle = link_losses(&[10.0, 1e9], &flows, |_, p| (1.0 / p.sqrt()).min(100.0));
        assert!(idle[1] < 1e-9, "{idle:?}");
    }
}
