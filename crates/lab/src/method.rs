// SPDX-License-Identifier: GPL-2.0-or-later
//! The methods that run a scenario, and what each can't do. A run is looked at before anything
//! starts: what a method leaves out without a word would make a record of something else.

use crate::{classes, controls, emu, error::LabError, pacing};
use congestion::Algorithm;
use scenario::{Profile, Run, Tcp};
use sim::Simulation;
use std::path::{Path, PathBuf};

/// How a run takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Real kernel TCP and real programs over an emulated network, in real time.
    Emu,
    /// TCP endpoints and links in virtual time.
    Sim,
}

impl Method {
    /// As on record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emu => "emu",
            Self::Sim => "sim",
        }
    }

    /// Whether runs don't disturb each other when they take place at the same time.
    pub fn side_by_side(self) -> bool {
        self == Self::Sim
    }

    /// Where a run's record lies in a scenario's folder. Methods lie side by side in it, so that one
    /// page can show them.
    pub fn folder(self, out: &Path, run: &Run) -> PathBuf {
        match self {
            Self::Emu => out.join(&run.id),
            Self::Sim => out.join(self.name()).join(&run.id),
        }
    }

    /// The run as it will take place, which is what goes on record.
    ///
    /// # Errors
    /// The run asks for what the method can't do; the text names it and says what to do.
    pub fn prepare(self, run: &Run) -> Result<Run, LabError> {
        check_names(run)?;
        match self {
            Self::Emu => {
                check_emulated_network(run)?;
                check_emulated_ends(run)?;
                emu::as_run(run)
            }
            Self::Sim => {
                controls::simulated(run)?;
                Simulation::new(run).map_err(|error| {
                    LabError::Unsupported(format!("{}: method sim: {error}", run.id))
                })?;
                Ok(run.clone())
            }
        }
    }
}

/// Whether the emulator and the kernel can be what a run's nodes and links ask for.
///
/// # Errors
/// They can't; the text names what.
pub fn check_emulated_network(run: &Run) -> Result<(), LabError> {
    for entry in &run.congestion {
        if !entry.name.starts_with(Algorithm::PREFIX) {
            return Err(emu_lacks(&format!(
                "congestion {0}: the kernel's own takes no parameters; name longhaul's, {1}{0}",
                entry.name,
                Algorithm::PREFIX
            )));
        }
    }
    Ok(())
}

/// Whether real programs can move what a run's flows ask for, over the kernel's TCP.
fn check_emulated_ends(run: &Run) -> Result<(), LabError> {
    for flow in &run.flows {
        let name = &flow.name;
        if flow.bytes.is_none() {
            return Err(emu_lacks(&format!("flow {name}: a download needs an end; give it bytes")));
        }
        if flow.streams != 1 {
            return Err(emu_lacks(&format!(
                "flow {name}: streams: curl and wget open one connection"
            )));
        }
    }
    pacing::check(run).map_err(|what| emu_lacks(&what))?;
    classes::check(run).map_err(|what| emu_lacks(&what))?;
    if let Some(traffic) = run.traffic.first() {
        return Err(emu_lacks(&format!("traffic {}: there is no program for it", traffic.name)));
    }
    if run.duration.is_some() {
        return Err(emu_lacks("duration: a run ends with its downloads; timeout cuts them off"));
    }
    if run.tcp != (Tcp { ecn: run.tcp.ecn, ..Tcp::of(Profile::Linux, run.family) }) {
        return Err(emu_lacks(
            "[tcp] but for ecn: the ends are the kernel's own; set them by the nodes' sysctl and buffers",
        ));
    }
    Ok(())
}

fn emu_lacks(what: &str) -> LabError {
    LabError::Unsupported(format!("method emu can't do {what}. Method sim may: longhaul sim FILE"))
}

/// Whether every parameter set and parameter, and every algorithm with longhaul's prefix, exists.
fn check_names(run: &Run) -> Result<(), LabError> {
    let entries = run.congestion.iter().map(|entry| entry.name.as_str());
    entries.chain(controls::ours(run)).try_for_each(|name| controls::params(run, name).map(drop))
}
