// SPDX-License-Identifier: GPL-2.0-or-later
//! What the closed forms of [`congestion::response`] predict for a flow of a scenario.
//!
//! Augusto et al. (2008), section 3: a chain carries what the worst of its connections carries
//! (equations 1 and 3), and losses of links in series add up (equation 4). A connection carries what
//! the response function of its own congestion control gives. For Reno that is equation 2 (Mathis et
//! al. 1997), and for CUBIC too where its Reno-friendly window is the larger one, as at every point of
//! the paper's figures 8 and 10; there the prediction is the paper's, and is called so. For a chain
//! with a connection that has no such function (BBR, FAST, Libra) there is none.
//!
//! Limits that the paper's measurements meet and its equations leave out are added, or a path
//! without loss would be infinitely fast: the smallest rate on a connection's path, the rate of the
//! flow's program (`app_rate`), and one window (the smaller of the sender's and the receiver's buffer
//! maximum, where the scenario sets them) a round trip. The kernel keeps part of a buffer for its own book-keeping, so the window's limit is
//! an upper bound; ratios between variants with equal buffers are not touched by that.
//!
//! Loss is that of the wire. A queue discipline other than taildrop drops packets by the delay or the length
//! of the queue, of which no equation here knows: over such a link there is no prediction.

use congestion::response;
use record::manifest::Prediction;
use scenario::{Discipline, Hop, Loss, Routes, Run};
use units::{Bytes, Probability};

/// What a connection is predicted to carry.
struct Connection {
    bps: f64,
    /// Its response function is Reno's here, which is equation 2.
    as_reno: bool,
}

/// The goodput of the run's flow, if the equations speak of it: of one file over one connection a
/// hop, alone in the network, by algorithms with their default parameters.
pub fn predict(run: &Run) -> Option<Prediction> {
    let [flow] = run.flows.as_slice() else { return None };
    let changed = |cc: &String| run.congestion.iter().any(|entry| entry.name == *cc);
    let alone = run.traffic.is_empty() && flow.streams == 1;
    if flow.bytes.is_none() || !alone || flow.cc.iter().any(changed) {
        return None;
    }
    let routes = run.routes();
    let chain: Vec<Connection> =
        flow.hops().map(|hop| connection(run, &routes, &hop)).collect::<Option<_>>()?;
    let program_bps = flow.app_rate.map_or(f64::INFINITY, |rate| rate.bps() as f64);
    let goodput_bps =
        response::chain_bps(chain.iter().map(|connection| connection.bps)).min(program_bps);
    let forms = if chain.iter().all(|connection| connection.as_reno) {
        "equations 3 and 4"
    } else {
        "equations 1 and 4 with each congestion control's response function"
    };
    // Without rate, loss and windows the equations bound nothing.
    goodput_bps.is_finite().then(|| Prediction {
        goodput_bps,
        source: format!("Augusto et al. 2008, {forms}, bounded by rate and window"),
    })
}

fn connection(run: &Run, routes: &Routes, hop: &Hop<'_>) -> Option<Connection> {
    let path = routes.path(hop.from, hop.to)?;
    let round_trip = routes.rtt(hop.from, hop.to)?;
    let mut at = hop.from.to_owned();
    let (mut losses, mut carries_bps, mut payload) = (Vec::new(), f64::INFINITY, u32::MAX);
    for link in path {
        let link = &run.links[link];
        let (direction, next) =
            if link.a == at { (&link.forward, &link.b) } else { (&link.backward, &link.a) };
        if direction.discipline != Discipline::Taildrop {
            return None;
        }
        losses.push(mean_loss(&direction.loss));
        payload = payload.min(direction.mtu.saturating_sub(run.tcp.header));
        if let Some(rate) = direction.rate {
            let share = f64::from(payload) / f64::from(direction.mtu + direction.overhead);
            carries_bps = carries_bps.min(rate.bps() as f64 * share);
        }
        at.clone_from(next);
    }
    let loss = response::in_series(losses);
    let segments = response::average_window(hop.cc, loss, round_trip)?;
    let loss_bps = response::goodput_bps(segments, Bytes::new(payload.into()), round_trip);
    let buffers = [run.node(hop.from)?.tcp_wmem_max, run.node(hop.to)?.tcp_rmem_max];
    let buffer = buffers.into_iter().flatten().min();
    let buffer_bps =
        buffer.map_or(f64::INFINITY, |w| w.get() as f64 * 8.0 / round_trip.as_secs_f64());
    Some(Connection {
        bps: carries_bps.min(loss_bps).min(buffer_bps),
        as_reno: segments <= response::reno(loss),
    })
}

fn mean_loss(loss: &Loss) -> Probability {
    Probability::new(loss.model().mean()).expect("a mean of probabilities is one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;

    /// Predictions of a scenario's runs by variant, of the first repeat.
    fn predictions(file: &str, overrides: &[&str]) -> Vec<(String, Option<f64>)> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
        let scenario: Scenario = scenario::load(&path.join(file), overrides).unwrap();
        let first = scenario.runs.iter().filter(|run| run.repeat == 1);
        first
            .map(|run| {
                let variant = run.variant.clone().unwrap().name;
                (variant, predict(run).map(|prediction| prediction.goodput_bps))
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
    fn equations_are_omitted_for_bbr() {
        let found = predictions("demo.toml", &["vars.size=100MB"]);
        for (variant, bps) in found {
            let by_cubic = ["direct", "aria2"].contains(&variant.as_str());
            assert_eq!(bps.is_some(), by_cubic, "{variant}");
        }
    }

    #[test]
    fn equations_are_omitted_for_early_drop_queues() {
        let of = |discipline: &str| {
            let set = format!("link.client-depot1.discipline={discipline}");
            predictions("000-figure-10.toml", &[&set, r#"sweep.vars.loss=["0.1%"]"#])
        };
        assert!(of("taildrop").iter().all(|(_, bps)| bps.is_some()));
        assert!(of("codel").iter().all(|(_, bps)| bps.is_none()));
    }

    /// 1448 bytes x 8 x W / RTT with the W of RFC 3649's and RFC 9438's tables: 1e-6, 100 ms.
    #[test]
    fn each_connection_has_its_own_response_function() {
        let runs = |cc: &str| {
            let wide = [
                r#"sweep.vars.loss=["0.0001%"]"#,
                r#"vars.rtt="100ms""#,
                r#"vars.rate="100gbit""#,
                r#"vars.window="1GB""#,
                &format!(r#"flow.transfer.cc="{cc}""#),
            ];
            predictions("000-figure-10.toml", &wide)[0].1
        };
        for (cc, window) in [("reno", 1225.0), ("cubic", 5926.0), ("lh_highspeed", 12_280.0)] {
            let bps = runs(cc).unwrap();
            let table = 1448.0 * 8.0 * window / 0.1;
            assert!((bps / table - 1.0).abs() < 0.01, "{cc}: {bps} {table}");
        }
        assert_eq!(runs("lh_fast"), None);
    }
}
