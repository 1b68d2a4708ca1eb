// SPDX-License-Identifier: GPL-2.0-or-later
//! What the closed forms predict of each flow of a run, or why there is no form for it.

use crate::{
    flow::{Chain, Transfer},
    timeline::{self, Participant},
    unsupported,
};
use record::manifest::Prediction;
use scenario::{Flow, Run};

/// A flow with its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowPrediction {
    /// The flow's place in the run.
    pub number: usize,
    /// When its client starts, in seconds of the run; none if that is when a flow ends that has no prediction.
    pub start_s: Option<f64>,
    /// What is delivered, or why no form is for it.
    pub transfer: Result<Transfer, String>,
}

/// The predictions of a run's flows, in their order.
pub fn predict(run: &Run) -> Vec<FlowPrediction> {
    let routes = run.routes();
    let chains: Vec<Result<Chain, String>> =
        run.flows.iter().map(|flow| Chain::new(run, &routes, flow)).collect();
    let mut found: Vec<Option<FlowPrediction>> = vec![None; run.flows.len()];
    let end_s = run.duration.unwrap_or(run.timeout).as_secs_f64();
    for group in groups(run, &chains) {
        // A flow comes after those whose end it waits for.
        let starts: Vec<Option<f64>> = group.iter().map(|n| start_s(run, &found, *n)).collect();
        let transfers = of_group(run, &chains, &group, &starts, end_s);
        for ((n, start_s), transfer) in group.iter().zip(starts).zip(transfers) {
            found[*n] = Some(FlowPrediction { number: *n, start_s, transfer });
        }
    }
    found.into_iter().map(|one| one.expect("each flow is in a group")).collect()
}

/// When a flow starts; none if the flow that it waits for has no prediction.
fn start_s(run: &Run, found: &[Option<FlowPrediction>], n: usize) -> Option<f64> {
    let flow = &run.flows[n];
    let own_s = flow.start.as_secs_f64();
    let Some(after) = &flow.after else { return Some(own_s) };
    let earlier = run.flows.iter().position(|other| other.name == *after)?;
    let before = found[earlier].as_ref()?;
    let (_, seconds) = before.transfer.as_ref().ok()?.mean();
    Some(before.start_s? + seconds + own_s)
}

fn of_group(
    run: &Run,
    chains: &[Result<Chain, String>],
    group: &[usize],
    starts: &[Option<f64>],
    end_s: f64,
) -> Vec<Result<Transfer, String>> {
    let bytes = |flow: &Flow| flow.bytes.map(|bytes| bytes.get() as f64);
    if let ([n], [start]) = (group, starts) {
        let flow = &run.flows[*n];
        let chain = chains[*n].clone();
        let alone = chain.and_then(|chain| {
            let start_s = start.ok_or_else(|| waits_for_unknown(flow))?;
            Ok(chain.alone(bytes(flow), end_s - start_s, *n))
        });
        return vec![alone];
    }
    let without = group.iter().find(|n| chains[**n].is_err());
    if let Some(without) = without {
        let of = |n: &usize| match &chains[*n] {
            Err(why) => Err(why.clone()),
            Ok(_) => Err(format!(
                "it shares a link with flow {}, for which there is no form",
                run.flows[*without].name
            )),
        };
        return group.iter().map(of).collect();
    }
    let participants: Result<Vec<Participant>, String> = group
        .iter()
        .zip(starts)
        .map(|(n, start_s)| {
            let flow = &run.flows[*n];
            let start_s = start_s.ok_or_else(|| waits_for_unknown(flow))?;
            Ok(Participant { chain: chains[*n].clone()?, start_s, bytes: bytes(flow) })
        })
        .collect();
    let shared = participants.and_then(|all| Ok((timeline::share(&all, end_s)?, all)));
    let of = |at: usize| {
        let (shares, all) = shared.as_ref().map_err(String::clone)?;
        let (bytes, ended_s) = shares[at];
        let seconds = ended_s - all[at].start_s;
        Ok(Transfer { runs: vec![(bytes, seconds)], bounds: None, source: SHARES.to_owned() })
    };
    (0..group.len()).map(of).collect()
}

/// The prediction of a run that compares one flow, to stand beside what is measured of it.
pub fn predicted(run: &Run) -> Option<Prediction> {
    let mut compared =
        run.flows.iter().enumerate().filter(|(_, flow)| !flow.prepares && !flow.reverse);
    let (Some((n, _)), None) = (compared.next(), compared.next()) else { return None };
    if !unsupported::of(run).is_empty() {
        return None;
    }
    let transfer = predict(run).swap_remove(n).transfer.ok()?;
    Some(Prediction { goodput_bps: transfer.mean_bps(), source: transfer.source })
}

const SHARES: &str = "max-min shares weighted by response functions";

fn waits_for_unknown(flow: &Flow) -> String {
    format!(
        "it waits for the end of flow {}, for which there is no form",
        flow.after.as_deref().unwrap_or_default()
    )
}

/// Flows that share a link that has a rate, in the order of the run. Flows that come after one another share their links in turn,
/// and do not count as sharing.
fn groups(run: &Run, chains: &[Result<Chain, String>]) -> Vec<Vec<usize>> {
    let mut group_of: Vec<usize> = (0..chains.len()).collect();
    for a in 0..chains.len() {
        for b in 0..a {
            if share_a_link(run, chains, a, b) {
                let (from, to) = (group_of[a].max(group_of[b]), group_of[a].min(group_of[b]));
                group_of.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    let of = |group: usize| (0..chains.len()).filter(|n| group_of[*n] == group).collect::<Vec<_>>();
    (0..chains.len()).map(of).filter(|group| !group.is_empty()).collect()
}

fn share_a_link(run: &Run, _chains: &[Result<Chain, String>], a: usize, b: usize) -> bool {
    let routes = run.routes();
    let in_turn = |a: usize, b: usize| run.flows[a].after.as_ref() == Some(&run.flows[b].name);
    let links = |n: usize| -> Vec<_> {
        let hops = run.flows[n].hops();
        let legs = hops.flat_map(|hop| routes.legs(hop.from, hop.to).unwrap_or_default());
        legs.filter(|leg| run.links[leg.link].direction(leg.heading).rate.is_some()).collect()
    };
    let of_b = links(b);
    !in_turn(a, b) && !in_turn(b, a) && links(a).iter().any(|leg| of_b.contains(leg))
}
