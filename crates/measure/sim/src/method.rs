// SPDX-License-Identifier: GPL-2.0-or-later
//! One run by the method `sim`: TCP endpoints and links in virtual time.
//!
//! The simulation knows no clock; that of the experiment says how fast it is, and when to write down intermediate results, so
//! that a user sees progress and a killed run leaves them.

use crate::{Outcome, Simulation, Unsupported};
use experiment::{
    ExperimentError, Method, Obstacle, Obstacles, Progress, RunContext, Step,
    capture::{CaptureFile, CaptureSource},
    congestion_controls, manifest,
};
use record::{
    Record,
    manifest::{CongestionControl, Manifest, SimulatorSpeed},
};
use scenario::{Node, Run};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// Events between two looks at the clock and at the signals: some 10 to 50 ms.
const STEP: u64 = 200_000;
/// Between two pieces of news.
const NEWS: Duration = Duration::from_millis(100);
/// Until the first partial record: what is done sooner needs none.
const FIRST_PARTIAL: Duration = Duration::from_secs(2);
/// Between two of them, at least.
const PARTIAL: Duration = Duration::from_secs(10);
/// A partial record may take this share of the time: summing up a long run is work.
const PARTIAL_SHARE: u32 = 20;

/// Scenarios in virtual time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl Method for Simulated {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn source_hash(&self) -> &'static str {
        env!("LONGHAUL_SOURCES")
    }

    fn runs_side_by_side(&self) -> bool {
        true
    }

    /// A flow's `client` is a program, which a simulation has none of; the transfer is the same.
    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        let has_client = |run: &Run| run.flows.iter().any(|flow| flow.client.is_some());
        let client = "client: no program takes part in a simulation; transfers are simulated, and runs \
                      that differ in their client alone come out the same";
        runs.iter().any(has_client).then(|| client.to_owned()).into_iter().collect()
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        let mut found = congestion_controls::unknown_names(run);
        found.extend(congestion_controls::unknown_in_simulation(run));
        if let Err(error) = Simulation::new(run) {
            found.extend(error.problems().iter().cloned());
        }
        obstacles.unsupported(run, found.into_iter().map(Obstacle::from));
        run.clone()
    }

    /// Congestion controls that are compiled from files: their names are in the scenario, their contents are not.
    fn has_same_inputs(&self, run: &Run, recorded: &Manifest) -> bool {
        let hashes = |controls: &BTreeMap<String, CongestionControl>| -> Vec<Option<String>> {
            controls.values().map(|control| Some(control.file.as_ref()?.sha256.clone())).collect()
        };
        // An unknown name is refused before.
        congestion_controls::simulated(run)
            .is_ok_and(|now| hashes(&now) == hashes(&recorded.congestion_controls))
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        context.step(Step::Configuration);
        let unsupported = |e: Unsupported| ExperimentError::Unsupported(e.to_string());
        let mut going = Going {
            manifest: Manifest {
                congestion_controls: congestion_controls::simulated(run)?,
                ..manifest::of(
                    run,
                    manifest::MadeBy::method(self),
                    context.command,
                    context.started,
                )
            },
            simulation: Simulation::new(run).map_err(unsupported)?,
            captures: captures(run, context.folder)?,
        };
        context.step(Step::Execution);
        let (mut next_news, mut next_partial) = (Duration::ZERO, FIRST_PARTIAL);
        // After a fault the simulation is half done, so it gives no partial record.
        let fault = |fault| ExperimentError::Fault { run: run.id.clone(), fault };
        while congestion::catch_fault(|| going.simulation.advance(STEP)).map_err(fault)? {
            going.write_captures();
            let progress = going.progress(context);
            if context.is_interrupted() {
                context.partial_record(&going.partial("stopped", &progress))?;
                return Err(ExperimentError::Interrupted);
            }
            if progress.wall >= next_news {
                context.progress(progress);
                next_news = progress.wall + NEWS;
            }
            if progress.wall >= next_partial {
                context.partial_record(&going.partial("not finished: written", &progress))?;
                let took = context.elapsed().saturating_sub(progress.wall);
                next_partial = context.elapsed() + PARTIAL.max(took * PARTIAL_SHARE);
            }
        }
        let progress = going.progress(context);
        context.progress(progress);
        context.step(Step::Analysis);
        let faults = going.simulation.faults();
        going.end_captures();
        Ok(going.record(faults, &progress))
    }
}

/// The files of captured nodes, in the order of the nodes. Their time 0 is the record's.
fn captures(run: &Run, folder: &Path) -> Result<Vec<CaptureFile>, ExperimentError> {
    let create = |node: &Node| {
        let source = CaptureSource {
            run,
            method: Simulated.name(),
            node: &node.name,
            capture: node.capture?,
            os: None,
            zero_unix_ns: 0,
        };
        Some(CaptureFile::create(folder, &source))
    };
    run.nodes.iter().filter_map(create).collect()
}

/// A run under way.
struct Going {
    manifest: Manifest,
    simulation: Simulation,
    captures: Vec<CaptureFile>,
}

impl Going {
    fn progress(&self, context: &RunContext<'_>) -> Progress {
        Progress {
            share: self.simulation.progress(),
            now: self.simulation.now(),
            ends: self.simulation.ends(),
            events: self.simulation.events(),
            wall: context.elapsed(),
        }
    }

    /// What was captured goes to the files of its nodes.
    fn write_captures(&mut self) {
        let Self { simulation, captures, .. } = self;
        simulation.take_captured(|node, packet| captures[node].packet(packet));
    }

    /// A simulation drops nothing for a capture.
    fn end_captures(&mut self) {
        self.write_captures();
        let ended = self.captures.drain(..).map(|capture| capture.finish(0));
        self.manifest.captures = ended.collect();
    }

    /// Record of the intermediate results, marked as invalid.
    fn partial(&mut self, how: &str, progress: &Progress) -> Record {
        let Progress { now, ends, .. } = progress;
        let at = format!("{how} at {:.1} s of {:.1} s", now.as_secs_f64(), ends.as_secs_f64());
        self.record(vec![at], progress)
    }

    fn record(&mut self, invalid_reasons: Vec<String>, progress: &Progress) -> Record {
        let Outcome { summary, series, files } = self.simulation.outcome();
        let manifest = Manifest {
            valid: invalid_reasons.is_empty(),
            invalid_reasons,
            simulator: Some(SimulatorSpeed {
                events: progress.events,
                wall_s: progress.wall.as_secs_f64(),
                events_per_s: progress.events_per_s(),
                simulated_s: progress.now.as_secs_f64(),
            }),
            ..self.manifest.clone()
        };
        Record { manifest, series, files, summary }
    }
}
