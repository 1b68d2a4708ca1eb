// SPDX-License-Identifier: GPL-2.0-or-later
//! What real programs over the kernel's TCP and the emulator can't do of a scenario.

use crate::{pacing, pacing_gateways, servers::has_stock_client};
use congestion::Algorithm;
use experiment::{ExperimentError, Obstacle, Obstacles};
use scenario::{Action, Client, FlowPacing, Link, Profile, Run, Tcp};

/// How a refusal of a method begins.
const EMULATION: &str = "method emu can't do ";
const HOSTS: &str = "method field can't do ";

/// Whether the emulator and the kernel can be what a run's nodes and links ask for.
///
/// # Errors
/// They can't; each line of the text names one thing.
pub fn check_emulated_network(run: &Run) -> Result<(), ExperimentError> {
    let mut obstacles = Obstacles::default();
    obstacles.unsupported(run, kernels_parameters(run, EMULATION));
    obstacles.of_all(1)
}

/// What emulation can't do of a run.
pub fn unsupported(run: &Run) -> Vec<Obstacle> {
    let mut found = kernels_parameters(run, EMULATION);
    found.extend(without_program(run, EMULATION));
    for (subject, what) in pacing::lacking(run).into_iter().chain(pacing_gateways::lacking(run)) {
        found.push(lacks(EMULATION, subject, &what));
    }
    found
}

/// What can't be done of a run on real hosts, whose devices and links stay as they are.
pub fn unsupported_on_hosts(run: &Run) -> Vec<Obstacle> {
    let mut found = kernels_parameters(run, HOSTS);
    found.extend(without_program(run, HOSTS));
    let mut refuse = |subject: String, what: &str| found.push(lacks(HOSTS, subject, what));
    for node in run.nodes.iter().filter(|node| node.capture.is_some()) {
        let what = "capture: packets of other programs would be in it; run tcpdump there";
        refuse(format!("node {}", node.name), what);
    }
    for flow in &run.flows {
        if flow.site {
            refuse(format!("flow {}", flow.name), "site: clients have no name for it");
        }
        let sets_device = |pacing| !matches!(pacing, FlowPacing::None | FlowPacing::Tcp);
        if flow.hops().any(|hop| sets_device(hop.pacing)) {
            let what = "pacing other than tcp changes a host's device; pace it with longhaul pace before, and leave out pacing";
            refuse(format!("flow {}", flow.name), what);
        }
    }
    if run.pacing.classes && !run.bottlenecks.is_empty() {
        let what = "they change a host's routes; set pacing.classes=false";
        refuse("classes of bottlenecks".to_owned(), what);
    }
    let changes = |link: &Link| {
        let ways = [&link.forward, &link.backward];
        ways.iter().any(|way| way.rate_over_time.is_some() || !way.impairments.outages.is_empty())
    };
    for link in run.links.iter().filter(|link| changes(link)) {
        let what = "rates that change and outages: a real link is as it is";
        refuse(format!("link {}", link.name), what);
    }
    for event in &run.events {
        if matches!(event.action, Action::Change(_) | Action::Move(_)) {
            let what = "a real link is as it is, and real hosts stay where they are";
            refuse(format!("event {}", event.name), what);
        }
    }
    found
}

/// Parameters of congestion controls that take none.
fn kernels_parameters(run: &Run, before: &'static str) -> Vec<Obstacle> {
    let kernels = run.congestion.iter().filter(|entry| !entry.name.starts_with(Algorithm::PREFIX));
    let lacking = kernels.map(|entry| {
        let (name, prefix) = (&entry.name, Algorithm::PREFIX);
        let what = format!("the kernel's own takes no parameters; name longhaul's, {prefix}{name}");
        lacks(before, format!("congestion {name}"), &what)
    });
    lacking.collect()
}

/// What a run's flows ask for that real programs over the kernel's TCP can't do.
fn without_program(run: &Run, before: &'static str) -> Vec<Obstacle> {
    let mut lacking = Vec::new();
    for flow in &run.flows {
        let name = || format!("flow {}", flow.name);
        let is_aria2 = has_stock_client(flow) && flow.client == Some(Client::Aria2);
        if flow.app_rate.is_some() && is_aria2 {
            let what = "app_rate: aria2 opens several connections, and each would have the rate; \
                        use curl or wget";
            lacking.push(lacks(before, name(), what));
        }
    }
    if run.tcp != (Tcp { ecn: run.tcp.ecn, ..Tcp::of(Profile::Linux, run.family) }) {
        let what = "the ends are the kernel's own; set them by the nodes' sysctl and buffers";
        lacking.push(lacks(before, "[tcp] other than ecn".to_owned(), what));
    }
    lacking
}

fn lacks(before: &'static str, subject: String, what: &str) -> Obstacle {
    let after = format!(": {what}. Method sim may: longhaul sim FILE");
    Obstacle { before, subject, after }
}
