// SPDX-License-Identifier: GPL-2.0-or-later
//! The methods that run a scenario, and what each can't do. A run is looked at before anything
//! starts, and all that is in the way is said at once: what a method leaves out without a word would make a
//! record of something else. A flow's `client` is a program, which a simulation has none of; the transfer
//! is the same, so it is simulated, and said once ([`Method::ignored`]).

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
    /// As [`prepare_all`](Self::prepare_all).
    pub fn prepare(self, run: &Run) -> Result<Run, LabError> {
        let mut problems = Problems::default();
        let prepared = self.look_at(run, &mut problems);
        problems.of_all([&run.id]).map(|()| prepared)
    }

    /// The runs as they will take place.
    ///
    /// # Errors
    /// Some ask for what the method can't do or the machine lacks; each line of the text names one
    /// thing and says what to do.
    pub fn prepare_all(self, runs: &[Run]) -> Result<Vec<Run>, LabError> {
        let mut problems = Problems::default();
        let prepared = runs.iter().map(|run| self.look_at(run, &mut problems)).collect();
        problems.of_all(runs.iter().map(|run| &run.id)).map(|()| prepared)
    }

    /// What the method takes from these runs without doing anything with it, one line for each key.
    pub fn ignored(self, runs: &[Run]) -> Vec<String> {
        let client = |run: &Run| run.flows.iter().any(|flow| flow.client.is_some());
        let mut ignored = Vec::new();
        if self == Self::Sim && runs.iter().any(client) {
            ignored.push(
                "client: no program takes part in a simulation; transfers are simulated, and runs \
                 that differ in their client alone come out the same"
                    .to_owned(),
            );
        }
        ignored
    }

    fn look_at(self, run: &Run, problems: &mut Problems) -> Run {
        let mut unsupported = unknown_names(run);
        let prepared = match self {
            Self::Emu => {
                let (prepared, differing) = emu::as_run(run);
                unsupported.extend(kernels_parameters(run).iter().map(|what| emu_lacks(what)));
                unsupported.extend(without_program(run).iter().map(|what| emu_lacks(what)));
                unsupported.extend(differing);
                // Longhaul's own are loaded for the run.
                match wan::lacking(&prepared, |name| name.starts_with(Algorithm::PREFIX)) {
                    Ok(lacking) => problems.lacks.add(&run.id, lacking),
                    Err(error) => problems.lacks.add(&run.id, [error.to_string()]),
                }
                prepared
            }
            Self::Sim => {
                unsupported.extend(controls::unknown_in_simulation(run));
                if let Err(error) = Simulation::new(run) {
                    unsupported.extend_from_slice(error.problems());
                }
                run.clone()
            }
        };
        problems.unsupported.add(&run.id, unsupported);
        prepared
    }
}

/// What is in the way of a scenario's runs.
#[derive(Default)]
struct Problems {
    unsupported: Lines,
    lacks: Lines,
}

impl Problems {
    /// Nothing, or an error that says all of it.
    fn of_all<'r>(self, ids: impl IntoIterator<Item = &'r String>) -> Result<(), LabError> {
        let runs = ids.into_iter().count();
        let (unsupported, lacks) = (self.unsupported.text(runs), self.lacks.text(runs));
        match (unsupported.is_empty(), lacks.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(LabError::Lacks(lacks)),
            (false, true) => Err(LabError::Unsupported(unsupported)),
            (false, false) => Err(LabError::Unsupported(format!("{unsupported}\n{lacks}"))),
        }
    }
}

/// Lines in the order in which they were first said, each with the runs that it is about.
#[derive(Default)]
struct Lines(Vec<(String, Vec<String>)>);

impl Lines {
    fn add(&mut self, run: &str, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            let of_line = match self.0.iter().position(|(known, _)| *known == line) {
                Some(at) => &mut self.0[at].1,
                None => {
                    self.0.push((line, Vec::new()));
                    &mut self.0.last_mut().expect("it was just added").1
                }
            };
            if of_line.last().is_none_or(|last| last != run) {
                of_line.push(run.to_owned());
            }
        }
    }

    /// Names a run where it is not all of them.
    fn text(&self, runs: usize) -> String {
        let lines = self.0.iter().map(|(line, of_line)| match of_line.as_slice() {
            some if some.len() == runs => line.clone(),
            [only] => format!("{only}: {line}"),
            [first, more @ ..] => format!("{first} and {} more: {line}", more.len()),
            [] => unreachable!("a line is about a run"),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Whether the emulator and the kernel can be what a run's nodes and links ask for.
///
/// # Errors
/// They can't; each line of the text names one thing.
pub fn check_emulated_network(run: &Run) -> Result<(), LabError> {
    let mut problems = Problems::default();
    problems.unsupported.add(&run.id, kernels_parameters(run).iter().map(|what| emu_lacks(what)));
    problems.of_all([&run.id])
}

/// Parameters of congestion controls that take none.
fn kernels_parameters(run: &Run) -> Vec<String> {
    let kernels = run.congestion.iter().filter(|entry| !entry.name.starts_with(Algorithm::PREFIX));
    let lacking = kernels.map(|entry| {
        format!(
            "congestion {0}: the kernel's own takes no parameters; name longhaul's, {1}{0}",
            entry.name,
            Algorithm::PREFIX
        )
    });
    lacking.collect()
}

/// What a run's flows and traffic ask for that real programs over the kernel's TCP can't move.
fn without_program(run: &Run) -> Vec<String> {
    let mut lacking = Vec::new();
    for flow in &run.flows {
        let name = &flow.name;
        if flow.bytes.is_none() {
            lacking.push(format!("flow {name}: a download needs an end; give it bytes"));
        }
        if flow.streams != 1 {
            lacking.push(format!("flow {name}: streams: curl and wget open one connection"));
        }
    }
    lacking.extend(pacing::lacking(run));
    lacking.extend(classes::lacking(run));
    for traffic in &run.traffic {
        lacking.push(format!("traffic {}: there is no program for it", traffic.name));
    }
    if run.duration.is_some() {
        lacking.push("duration: a run ends with its downloads; timeout cuts them off".to_owned());
    }
    if run.tcp != (Tcp { ecn: run.tcp.ecn, ..Tcp::of(Profile::Linux, run.family) }) {
        lacking.push(
            "[tcp] but for ecn: the ends are the kernel's own; set them by the nodes' sysctl and buffers"
                .to_owned(),
        );
    }
    lacking
}

fn emu_lacks(what: &str) -> String {
    format!("method emu can't do {what}. Method sim may: longhaul sim FILE")
}

/// The parameter sets, parameters and algorithms with longhaul's prefix that there are not.
fn unknown_names(run: &Run) -> Vec<String> {
    let entries = run.congestion.iter().map(|entry| entry.name.as_str());
    let unknown = |name| controls::params(run, name).err().map(|error| error.to_string());
    entries.chain(controls::ours(run)).filter_map(unknown).collect()
}
