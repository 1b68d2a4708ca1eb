// SPDX-License-Identifier: GPL-2.0-or-later
//! A record, reduced to what the page shows of it.

use crate::{
    capacity::{Capacity, Paths},
    start::{self, Start},
    traces::Traces,
};
use record::{
    FlowSummary, LimitShares, Manifest, RunResults, RunVerdict, Series, Summary, goodput_bps,
    manifest::short_key,
};
use std::collections::BTreeMap;

/// What stands where no program downloaded: a simulated flow has none.
pub const NO_CLIENT: &str = "–";

/// The program that downloaded a flow.
fn client_of(flow: &FlowSummary) -> &str {
    flow.client.as_deref().unwrap_or(NO_CLIENT)
}

/// One run.
#[derive(Debug)]
pub struct Run {
    pub manifest: Manifest,
    pub summary: Summary,
    pub traces: Traces,
    pub starts: Vec<Start>,
    paths: Paths,
}

/// What one client program got in one run, over all its flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    pub client: String,
    pub bytes: u64,
    /// None, like its goodput, where a flow has no prediction.
    pub seconds: Option<f64>,
    pub goodput_bps: Option<f64>,
    /// What the paths of its flows can carry together, where that is known.
    pub capacity: Option<Capacity>,
    /// Whether it goes on as long as the run does, so that its time says nothing.
    pub endless: bool,
    pub sha256_ok: Option<bool>,
    pub retransmits: Option<u64>,
    pub timeouts: Option<u64>,
    /// What held the slowest connection of each of its flows back.
    pub limited: Vec<LimitShares>,
    pub outcome: String,
    pub verdict: RunVerdict,
}

impl Run {
    /// Reads a run, with at most `most_bins` bins of its series.
    pub fn new(results: RunResults, series: &Series, most_bins: usize) -> Self {
        let RunResults { mut manifest, summary } = results;
        // The client has a column of its own, whether it was swept over or not; and the
        // prefix of a scenario's variables tells a reader nothing.
        manifest.point.retain(|(key, _)| !(key.starts_with("flow.") && key.ends_with(".client")));
        for (key, _) in &mut manifest.point {
            *key = short_key(key).to_owned();
        }
        let (traces, paths) = (Traces::new(&summary, series, most_bins), Paths::of(&manifest));
        let starts = start::starts(&summary, series);
        Self { manifest, summary, traces, starts, paths }
    }

    /// The verdict on the whole run.
    pub fn verdict(&self) -> RunVerdict {
        RunVerdict::of(self.manifest.valid, &self.summary.flows)
    }

    pub fn variant(&self) -> &str {
        self.manifest.variant.as_ref().map_or("all", |variant| &variant.name)
    }

    pub fn variant_label(&self) -> &str {
        self.manifest.variant.as_ref().map_or("all runs", |variant| &variant.label)
    }

    /// What the one flow of a run can have at most; of several, each one's share is not known.
    pub fn limit_bps(&self) -> Option<f64> {
        let [flow] = self.summary.flows.as_slice() else { return None };
        self.paths.capacity([flow.name.as_str()]).map(|capacity| capacity.bps)
    }

    /// What each client program got by the flows that are compared.
    pub fn transfers(&self) -> Vec<Transfer> {
        let mut by_client: BTreeMap<&str, Vec<&FlowSummary>> = BTreeMap::new();
        for flow in self.summary.compared_flows() {
            by_client.entry(client_of(flow)).or_default().push(flow);
        }
        by_client.into_iter().map(|(client, flows)| self.transfer(client, &flows)).collect()
    }

    fn transfer(&self, client: &str, flows: &[&FlowSummary]) -> Transfer {
        let start_s = flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
        let end_s = flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
        let bytes = flows.iter().map(|flow| flow.bytes).sum();
        let is_known = flows.iter().all(|flow| !flow.is_unpredicted());
        let seconds = is_known.then_some(end_s - start_s);
        let verdict = RunVerdict::of(self.manifest.valid, flows.iter().copied());
        let mut outcomes: Vec<&str> = flows.iter().map(|flow| flow.outcome.as_str()).collect();
        outcomes.dedup();
        Transfer {
            client: client.to_owned(),
            bytes,
            seconds,
            goodput_bps: seconds.map(|seconds| goodput_bps(bytes, seconds)),
            capacity: self.paths.capacity(flows.iter().map(|flow| flow.name.as_str())),
            endless: flows.iter().any(|flow| flow.bytes_expected.is_none()),
            sha256_ok: all_ok(flows),
            retransmits: flows.iter().map(|flow| flow.retransmits).sum(),
            timeouts: flows.iter().map(|flow| flow.timeouts).sum(),
            limited: flows
                .iter()
                .filter_map(|flow| Some(record::slowest_hop(&flow.hops)?.1))
                .collect(),
            outcome: outcomes.join("; "),
            verdict,
        }
    }

    /// The congestion controls that a client's data met, hop by hop: "cubic → bbr".
    pub fn congestion_controls(&self, client: &str) -> String {
        let of_client = self.summary.flows.iter().find(|flow| client_of(flow) == client);
        let names = of_client
            .iter()
            .flat_map(|flow| flow.hops.iter().filter(|hop| hop.stream == 0))
            .map(|hop| hop.congestion_control.as_deref().unwrap_or("not read"));
        names.collect::<Vec<_>>().join(" → ")
    }
}

/// True when all were right, false when one was wrong, unknown when one was not compared.
fn all_ok(flows: &[&FlowSummary]) -> Option<bool> {
    if flows.iter().any(|flow| flow.sha256_ok == Some(false)) {
        return Some(false);
    }
    flows.iter().all(|flow| flow.sha256_ok == Some(true)).then_some(true)
}
