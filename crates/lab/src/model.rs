// SPDX-License-Identifier: GPL-2.0-or-later
//! What the closed forms of Augusto et al. (2008), section 3, predict for a flow.
//!
//! - Equation 2 (Mathis et al. 1997): one connection carries `s sqrt(3/2) / (r sqrt(p))`, with the
//!   payload `s` of a segment, the round trip `r` and the loss probability `p`.
//! - Equations 1 and 3: a chain carries what the worst of its connections carries.
//! - Equation 4: losses of links in series, `p = 1 - prod(1 - p_i)`.
//!
//! Two limits that the paper's measurements meet and its equations leave out are added, or a path
//! without loss would be infinitely fast: the smallest rate on a connection's path, and one window
//! (the smaller of the sender's and the receiver's buffer maximum, where the scenario sets them) a
//! round trip. The kernel keeps part of a buffer for its own book-keeping, so the window's limit is
//! an upper bound; ratios between ways with equal buffers are not touched by that.
//!
//! The equations are Reno's. For a chain with a BBR connection there is no prediction.

use record::manifest::Prediction;
use scenario::{Hop, Loss, Routes, Run};
use units::Probability;

/// IPv4 and TCP with time stamps; IPv6 takes 20 more.
const HEADERS: u32 = 52;

/// The goodput of the run's first flow, if the equations speak of it.
pub fn predict(run: &Run) -> Option<Prediction> {
    let flow = run.flows.first()?;
    let routes = run.routes();
    let hops: Vec<f64> =
        flow.hops().map(|hop| connection_bps(run, &routes, &hop)).collect::<Option<_>>()?;
    let goodput_bps = hops.into_iter().fold(f64::INFINITY, f64::min);
    // Without rate, loss and windows the equations bound nothing.
    goodput_bps.is_finite().then(|| Prediction {
        goodput_bps,
        source: "Augusto et al. 2008, equations 3 and 4, bounded by rate and window".to_owned(),
    })
}

fn connection_bps(run: &Run, routes: &Routes, hop: &Hop<'_>) -> Option<f64> {
    if hop.cc == "bbr" {
        return None;
    }
    let path = routes.path(hop.from, hop.to)?;
    let round_trip_s = routes.rtt(hop.from, hop.to)?.as_secs_f64();
    let mut at = hop.from.to_owned();
    let (mut loss, mut carries_bps, mut payload) = (Probability::ZERO, f64::INFINITY, u32::MAX);
    for link in path {
        let link = &run.links[link];
        let (direction, next) =
            if link.a == at { (&link.forward, &link.b) } else { (&link.backward, &link.a) };
        loss = loss.or(mean_loss(&direction.loss));
        payload = payload.min(direction.mtu.saturating_sub(HEADERS));
        if let Some(rate) = direction.rate {
            let share = f64::from(payload) / f64::from(direction.mtu + direction.overhead);
            carries_bps = carries_bps.min(rate.bps() as f64 * share);
        }
        at.clone_from(next);
    }
    let bits = f64::from(payload) * 8.0;
    let mathis_bps = bits * 1.5_f64.sqrt() / (round_trip_s * loss.get().sqrt());
    let buffers = [run.node(hop.from)?.tcp_wmem_max, run.node(hop.to)?.tcp_rmem_max];
    let window = buffers.into_iter().flatten().min();
    let window_bps = window.map_or(f64::INFINITY, |w| w.get() as f64 * 8.0 / round_trip_s);
    Some(carries_bps.min(mathis_bps).min(window_bps))
}

fn mean_loss(loss: &Loss) -> Probability {
    Probability::new(wan::loss_model(loss).mean()).expect("a mean of probabilities is one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;

    /// Predictions of a scenario's runs by way, of the first repeat.
    fn predictions(file: &str, overrides: &[&str]) -> Vec<(String, Option<f64>)> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let scenario: Scenario = scenario::load(&path.join(file), overrides).unwrap();
        let first = scenario.runs.iter().filter(|run| run.repeat == 1);
        first
            .map(|run| {
                let way = run.way.clone().unwrap().name;
                (way, predict(run).map(|prediction| prediction.goodput_bps))
            })
            .collect()
    }

    #[test]
    fn equations_3_and_4_give_the_gains_of_figure_10() {
        let found = predictions("000-figure-10.toml", &[r#"sweep.vars.loss=["0.1%"]"#]);
        let bps: Vec<f64> = found.iter().map(|(_, bps)| bps.unwrap()).collect();
        // Equation 2 by hand: 1448 bytes x 8 x sqrt(1.5) / (10 ms x sqrt(0.001)).
        assert!((bps[0] / 44.865e6 - 1.0).abs() < 1e-4, "{found:?}");
        // Half and a third of the round trip, and of the loss: 2 sqrt 2 and 3 sqrt 3.
        assert!((bps[1] / bps[0] - 2.828).abs() < 0.002, "{found:?}");
        assert!((bps[2] / bps[0] - 5.196).abs() < 0.004, "{found:?}");
    }

    #[test]
    fn without_loss_rate_and_window_bound() {
        let wide = predictions("000-figure-08.toml", &[r#"sweep.vars.rtt=["90ms"]"#]);
        let window_bps = 4_194_304.0 * 8.0 / 0.09;
        assert!((wide[0].1.unwrap() / window_bps - 1.0).abs() < 1e-9, "{wide:?}");
        assert!((wide[1].1.unwrap() / window_bps - 2.0).abs() < 1e-6, "{wide:?}");
        let near = predictions("000-figure-08.toml", &[r#"sweep.vars.rtt=["10ms"]"#]);
        let link_bps = 1e9 * 1448.0 / 1514.0;
        assert!(
            near.iter().all(|(_, bps)| (bps.unwrap() / link_bps - 1.0).abs() < 1e-9),
            "{near:?}"
        );
    }

    #[test]
    fn of_bbr_the_equations_say_nothing() {
        let found = predictions("demo.toml", &["flow.transfer.client=curl"]);
        for (way, bps) in found {
            assert_eq!(bps.is_none(), way.ends_with("-bbr"), "{way}");
        }
    }
}
