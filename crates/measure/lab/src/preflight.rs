// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits of each method. A run is checked before anything starts, and all obstacles are
//! reported at once: what a method leaves out without a word would make a record of something else. A flow's
//! `client` is a program, which a simulation has none of; the transfer is the same, so it is simulated, and
//! reported once ([`Method::ignored`]).

use crate::{
    congestion_controls, emulation, error::LabError, method::Method, pacing, pacing_gateways,
};
use congestion::Algorithm;
use host::Lack;
use scenario::{Client, Profile, Run, Tcp};
use sim::Simulation;

impl Method {
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
        let mut unsupported: Vec<Problem> =
            unknown_names(run).into_iter().map(Problem::from).collect();
        let prepared = match self {
            Self::Emu => {
                let (prepared, differing) = emulation::effective_run(run);
                unsupported.extend(kernels_parameters(run));
                unsupported.extend(without_program(run));
                unsupported.extend(differing.into_iter().map(Problem::from));
                // Longhaul's own are loaded for the run.
                match wan::lacking(&prepared, |name| name.starts_with(Algorithm::PREFIX)) {
                    Ok(lacking) => {
                        problems
                            .lacks
                            .add(&run.id, lacking.into_iter().map(|lack| lack.to_string().into()));
                    }
                    Err(error) => problems.lacks.add(&run.id, [error.to_string().into()]),
                }
                prepared
            }
            Self::Sim => {
                unsupported.extend(
                    congestion_controls::unknown_in_simulation(run).into_iter().map(Problem::from),
                );
                if let Err(error) = Simulation::new(run) {
                    unsupported.extend(error.problems().iter().cloned().map(Problem::from));
                }
                run.clone()
            }
        };
        problems.unsupported.add(&run.id, unsupported);
        prepared
    }
}

/// Whether each congestion control of these runs is longhaul's, or one that this kernel has now, or one of
/// `allowed`, which another machine's kernel has.
///
/// # Errors
/// One is none of these, or its parameter set or a parameter does not exist; each line of the text
/// names one.
pub fn check_congestion_controls(runs: &[Run], allowed: &[String]) -> Result<(), LabError> {
    // A kernel that does not tell has none for certain.
    let available = host::sysctl::available_congestion_controls().unwrap_or_default();
    let mut problems = Problems::default();
    for run in runs {
        let unknown = congestion_controls::unknown_everywhere(run, &available, allowed);
        problems.unsupported.add(&run.id, unknown.into_iter().map(Problem::from));
    }
    problems.of_all(runs.iter().map(|run| &run.id))
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
            (true, false) => Err(LabError::Lacks(Lack::from_text(lacks))),
            (false, true) => Err(LabError::Unsupported(unsupported)),
            (false, false) => Err(LabError::Unsupported(format!("{unsupported}\n{lacks}"))),
        }
    }
}

/// One obstacle. Obstacles that differ only in their subject are reported in one line.
struct Problem {
    before: &'static str,
    /// What it is about, as "flow transfer"; empty where the rest says it.
    subject: String,
    after: String,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { before: "", subject: String::new(), after: text }
    }
}

/// Problems in the order in which they were first said.
#[derive(Default)]
struct Lines(Vec<Line>);

/// A problem, with all that it is about and the runs that have it.
struct Line {
    before: &'static str,
    after: String,
    subjects: Vec<String>,
    runs: Vec<String>,
}

impl Lines {
    fn add(&mut self, run: &str, problems: impl IntoIterator<Item = Problem>) {
        for Problem { before, subject, after } in problems {
            let known =
                self.0.iter().position(|line| (line.before, &line.after) == (before, &after));
            let at = known.unwrap_or_else(|| {
                self.0.push(Line { before, after, subjects: Vec::new(), runs: Vec::new() });
                self.0.len() - 1
            });
            let line = &mut self.0[at];
            if !line.subjects.contains(&subject) {
                line.subjects.push(subject);
            }
            if line.runs.last().is_none_or(|last| last != run) {
                line.runs.push(run.to_owned());
            }
        }
    }

    /// Names a run where it is not all of them.
    fn text(&self, runs: usize) -> String {
        let lines = self.0.iter().map(|line| {
            let of_run = match first_of(&line.runs) {
                _ if line.runs.len() == runs => String::new(),
                some => format!("{some}: "),
            };
            format!("{of_run}{}{}{}", line.before, first_of(&line.subjects), line.after)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The first, and how many more there are.
fn first_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
    }
}

/// Whether the emulator and the kernel can be what a run's nodes and links ask for.
///
/// # Errors
/// They can't; each line of the text names one thing.
pub fn check_emulated_network(run: &Run) -> Result<(), LabError> {
    let mut problems = Problems::default();
    problems.unsupported.add(&run.id, kernels_parameters(run));
    problems.of_all([&run.id])
}

/// Parameters of congestion controls that take none.
fn kernels_parameters(run: &Run) -> Vec<Problem> {
    let kernels = run.congestion.iter().filter(|entry| !entry.name.starts_with(Algorithm::PREFIX));
    let lacking = kernels.map(|entry| {
        let (name, prefix) = (&entry.name, Algorithm::PREFIX);
        let what = format!("the kernel's own takes no parameters; name longhaul's, {prefix}{name}");
        emu_lacks(format!("congestion {name}"), &what)
    });
    lacking.collect()
}

/// What a run's flows and traffic ask for that real programs over the kernel's TCP can't move.
fn without_program(run: &Run) -> Vec<Problem> {
    let mut lacking = Vec::new();
    for flow in &run.flows {
        let name = || format!("flow {}", flow.name);
        if flow.bytes.is_none() {
            lacking.push(emu_lacks(name(), "a download needs an end; give it bytes"));
        }
        if flow.app_rate.is_some() && flow.client == Some(Client::Aria2) {
            let what = "app_rate: aria2 opens several connections, and each would have the rate; \
                        use curl or wget";
            lacking.push(emu_lacks(name(), what));
        }
        if flow.streams != 1 {
            lacking.push(emu_lacks(
                name(),
                "streams: curl and wget open one connection, aria2 as many as it likes",
            ));
        }
    }
    for (subject, what) in pacing::lacking(run).into_iter().chain(pacing_gateways::lacking(run)) {
        lacking.push(emu_lacks(subject, &what));
    }
    for traffic in &run.traffic {
        let name = format!("traffic {}", traffic.name);
        lacking.push(emu_lacks(name, "there is no program for it"));
    }
    if run.duration.is_some() {
        let what = "a run ends with its downloads; timeout cuts them off";
        lacking.push(emu_lacks("duration".to_owned(), what));
    }
    if run.tcp != (Tcp { ecn: run.tcp.ecn, ..Tcp::of(Profile::Linux, run.family) }) {
        let what = "the ends are the kernel's own; set them by the nodes' sysctl and buffers";
        lacking.push(emu_lacks("[tcp] other than ecn".to_owned(), what));
    }
    lacking
}

fn emu_lacks(subject: String, what: &str) -> Problem {
    let after = format!(": {what}. Method sim may: longhaul sim FILE");
    Problem { before: "method emu can't do ", subject, after }
}

/// The parameter sets, parameters and algorithms with longhaul's prefix that there are not.
fn unknown_names(run: &Run) -> Vec<String> {
    let entries = run.congestion.iter().map(|entry| entry.name.as_str());
    let unknown =
        |name| congestion_controls::params(run, name).err().map(|error| error.to_string());
    entries.chain(congestion_controls::ours(run)).filter_map(unknown).collect()
}
