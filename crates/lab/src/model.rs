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
    Some(Prediction {
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
