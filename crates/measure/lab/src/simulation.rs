// SPDX-License-Identifier: GPL-2.0-or-later
//! One run by the method `sim`: TCP endpoints and links in virtual time.
//!
//! The simulation knows no clock; here is the one that says how fast it is, and when to write down
//! intermediate results, so that a user sees progress and a killed run leaves them.

use crate::{congestion_controls, error::LabError, manifest, method::Method};
use record::{
    Record,
    manifest::{Manifest, SimulatorSpeed},
};
use scenario::Run;
use sim::Simulation;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};
use units::Timestamp;

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

/// How far a simulation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The share that is done, between 0 and 1.
    pub share: f64,
    /// Virtual time.
    pub now: Timestamp,
    /// When it ends at the latest.
    pub ends: Timestamp,
    /// Events so far.
    pub events: u64,
    /// Their duration.
    pub wall: Duration,
}

impl Progress {
    /// Events in a second of real time.
    pub fn events_per_s(&self) -> f64 {
        let wall_s = self.wall.as_secs_f64();
        if wall_s > 0.0 { self.events as f64 / wall_s } else { 0.0 }
    }

    /// What the rest takes if it is as the part that is done; none before there is such a part.
    pub fn left(&self) -> Option<Duration> {
        let left_s = self.wall.as_secs_f64() * (1.0 / self.share - 1.0);
        Duration::try_from_secs_f64(left_s).ok()
    }
}

/// Parameters of a run other than the scenario.
pub struct SimContext<'a> {
    /// The command line to put on record.
    pub command: &'a [String],
    /// Set when the run shall end early.
    pub interrupted: &'a AtomicBool,
    /// Told how far the run is.
    pub on_progress: &'a mut dyn FnMut(Progress),
    /// Given what there is so far: the record of a run that does not count.
    pub on_partial_record: &'a mut dyn FnMut(&Record) -> Result<(), LabError>,
}

/// Takes one run from its start to a record.
pub fn run(run: &Run, context: &mut SimContext<'_>) -> Result<Record, LabError> {
    let unsupported = |e: sim::Unsupported| LabError::Unsupported(e.to_string());
    let mut going = Going {
        manifest: Manifest {
            congestion_controls: congestion_controls::simulated(run)?,
            ..manifest::of(run, Method::Sim, context.command, SystemTime::now())
        },
        start: Instant::now(),
        simulation: Simulation::new(run).map_err(unsupported)?,
    };
    let (mut next_news, mut next_partial) = (Duration::ZERO, FIRST_PARTIAL);
    // After a fault the simulation is half done, so it gives no partial record.
    let fault = |fault| LabError::Fault { run: run.id.clone(), fault };
    while congestion::catch_fault(|| going.simulation.advance(STEP)).map_err(fault)? {
        if context.interrupted.load(Ordering::Relaxed) {
            (context.on_partial_record)(&going.partial("stopped"))?;
            return Err(LabError::Interrupted);
        }
        let progress = going.progress();
        if progress.wall >= next_news {
            (context.on_progress)(progress);
            next_news = progress.wall + NEWS;
        }
        if progress.wall >= next_partial {
            (context.on_partial_record)(&going.partial("not finished: written"))?;
            let took = going.start.elapsed().saturating_sub(progress.wall);
            next_partial = going.start.elapsed() + PARTIAL.max(took * PARTIAL_SHARE);
        }
    }
    (context.on_progress)(going.progress());
    let faults = going.simulation.faults();
    Ok(going.record(faults))
}

/// A run under way.
struct Going {
    manifest: Manifest,
    start: Instant,
    simulation: Simulation,
}

impl Going {
    fn progress(&self) -> Progress {
        Progress {
            share: self.simulation.progress(),
            now: self.simulation.now(),
            ends: self.simulation.ends(),
            events: self.simulation.events(),
            wall: self.start.elapsed(),
        }
    }

    /// Record of the intermediate results, marked as invalid.
    fn partial(&mut self, how: &str) -> Record {
        let Progress { now, ends, .. } = self.progress();
        let at = format!("{how} at {:.1} s of {:.1} s", now.as_secs_f64(), ends.as_secs_f64());
        self.record(vec![at])
    }

    fn record(&mut self, invalid_reasons: Vec<String>) -> Record {
        let progress = self.progress();
        let sim::Outcome { summary, series, files } = self.simulation.outcome();
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
