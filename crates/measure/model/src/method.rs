// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios by closed forms: the method `model` of an experiment.

use crate::{record_of, unsupported};
use experiment::{
    ExperimentError, Method, Obstacle, Obstacles, RunContext, Step, congestion_controls, manifest,
};
use record::Record;
use scenario::Run;

/// Scenarios by closed forms. Nothing is sent: a record has each flow's goodput, or why no form is for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modelled;

impl Method for Modelled {
    fn name(&self) -> &'static str {
        "model"
    }

    fn source_hash(&self) -> &'static str {
        env!("LONGHAUL_SOURCES")
    }

    fn runs_side_by_side(&self) -> bool {
        true
    }

    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        let has_client = |run: &Run| run.flows.iter().any(|flow| flow.client.is_some());
        let client = "client: no program takes part in a prediction; runs that differ in their client alone come out \
                      the same";
        runs.iter().any(has_client).then(|| client.to_owned()).into_iter().collect()
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        let mut found: Vec<Obstacle> =
            congestion_controls::unknown_names(run).into_iter().map(Obstacle::from).collect();
        found.extend(
            congestion_controls::unknown_in_simulation(run).into_iter().map(Obstacle::from),
        );
        found.extend(unsupported::of(run));
        obstacles.unsupported(run, found);
        run.clone()
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        if context.is_interrupted() {
            return Err(ExperimentError::Interrupted);
        }
        context.step(Step::Analysis);
        let manifest =
            manifest::of(run, manifest::MadeBy::method(self), context.command, context.started);
        Ok(record_of::record(run, manifest))
    }
}
