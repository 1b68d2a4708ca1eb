// SPDX-License-Identifier: GPL-2.0-or-later
//! What real programs over the kernel's TCP and the emulator can't do of a scenario.

use crate::{pacing, pacing_gateways, servers::has_stock_client};
use congestion::Algorithm;
use experiment::{ExperimentError, Obstacle, Obstacles};
use scenario::{Client, Profile, Run, Tcp};

/// Whether the emulator and the kernel can be what a run's nodes and links ask for.
///
/// # Errors
/// They can't; each line of the text names one thing.
pub fn check_emulated_network(run: &Run) -> Result<(), ExperimentError> {
    let mut obstacles = Obstacles::default();
    obstacles.unsupported(run, kernels_parameters(run));
    obstacles.of_all(1)
}

/// What emulation can't do of a run.
pub fn unsupported(run: &Run) -> Vec<Obstacle> {
    let mut found = kernels_parameters(run);
    found.extend(without_program(run));
    found
}

/// Parameters of congestion controls that take none.
fn kernels_parameters(run: &Run) -> Vec<Obstacle> {
    let kernels = run.congestion.iter().filter(|entry| !entry.name.starts_with(Algorithm::PREFIX));
    let lacking = kernels.map(|entry| {
        let (name, prefix) = (&entry.name, Algorithm::PREFIX);
        let what = format!("the kernel's own takes no parameters; name longhaul's, {prefix}{name}");
        emu_lacks(format!("congestion {name}"), &what)
    });
    lacking.collect()
}

/// What a run's flows ask for that real programs over the kernel's TCP can't do.
fn without_program(run: &Run) -> Vec<Obstacle> {
    let mut lacking = Vec::new();
    for flow in &run.flows {
        let name = || format!("flow {}", flow.name);
        let is_aria2 = has_stock_client(flow) && flow.client == Some(Client::Aria2);
        if flow.app_rate.is_some() && is_aria2 {
            let what = "app_rate: aria2 opens several connections, and each would have the rate; \
                        use curl or wget";
            lacking.push(emu_lacks(name(), what));
        }
    }
    for (subject, what) in pacing::lacking(run).into_iter().chain(pacing_gateways::lacking(run)) {
        lacking.push(emu_lacks(subject, &what));
    }
    if run.tcp != (Tcp { ecn: run.tcp.ecn, ..Tcp::of(Profile::Linux, run.family) }) {
        let what = "the ends are the kernel's own; set them by the nodes' sysctl and buffers";
        lacking.push(emu_lacks("[tcp] other than ecn".to_owned(), what));
    }
    lacking
}

fn emu_lacks(subject: String, what: &str) -> Obstacle {
    let after = format!(": {what}. Method sim may: longhaul sim FILE");
    Obstacle { before: "method emu can't do ", subject, after }
}
