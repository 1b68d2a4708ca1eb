// SPDX-License-Identifier: GPL-2.0-or-later
//! All scores of a benchmark as one document.

use crate::{
    Better, Extent, Plan, REFERENCE, TASKS, Task, Unit, VERSION,
    measures::kept,
    outcomes::Outcomes,
    score::{CandidateScore, Estimate, MeasureScores, advantages},
    suite::{BESIDE, COMMON},
};
use record::stats;
use serde::{Deserialize, Serialize};

/// The cell that paper 004 shows as a graph: 19.8 ms, congestion level and reverse traffic level 1.
const PAPERS_CELL: &str = "vars.sources=10,vars.reverse=10";

/// The scores of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The suite's version.
    pub suite: u32,
    /// Version of longhaul that ran it.
    pub longhaul: String,
    /// `sim`, `emu` or `field`.
    pub method: String,
    /// How much was run.
    pub extent: Extent,
    /// The scenarios' first seed.
    pub first_seed: u64,
    /// How many repeats, each with a seed of its own.
    pub seeds: u32,
    /// What the others are compared with.
    pub reference: String,
    /// First the reference.
    pub candidates: Vec<String>,
    /// Relative scores over the tasks.
    pub whole: Vec<Whole>,
    /// The tasks.
    pub tasks: Vec<TaskScores>,
    /// The scores of task `sources` in the cell of paper 004's graph.
    pub radar: Vec<MeasureScores>,
    /// What each keeps beside each.
    pub grid: Vec<Meeting>,
}

/// A candidate's relative score over tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// The candidate.
    pub candidate: String,
    /// Over all groups of tasks, which weigh equally; none if it lacks a group.
    pub relative: Option<Estimate>,
    /// Over the tasks of each group, which weigh equally.
    pub groups: Vec<GroupScore>,
}

/// A candidate's relative score over the tasks of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupScore {
    /// The group.
    pub group: String,
    /// Over its tasks.
    pub relative: Option<Estimate>,
}

/// A task's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskScores {
    /// For the command line and files.
    pub name: String,
    /// For people.
    pub title: String,
    /// Its group.
    pub group: String,
    /// The first one counts for the whole.
    pub measures: Vec<MeasureScores>,
}

/// Two candidates on one link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meeting {
    /// The one.
    pub own: String,
    /// The other.
    pub other: String,
    /// What the other keeps of its goodput alone: the mean over cells and seeds.
    pub other_keeps: f64,
}

impl Card {
    /// Scores what was run.
    pub fn new(plan: &Plan, method: &str, longhaul: &str, outcomes: &Outcomes) -> Self {
        let (candidates, seeds) = (plan.candidates(), plan.seeds());
        let of_task = |task: &&'static Task| TaskScores {
            name: task.name.to_owned(),
            title: task.title.to_owned(),
            group: task.group.to_owned(),
            measures: measures(task, (candidates, seeds), outcomes, None),
        };
        let tasks: Vec<TaskScores> = plan.tasks().iter().map(of_task).collect();
        let papers = TASKS.iter().find(|task| task.name == "sources");
        let papers = papers.filter(|task| plan.tasks().iter().any(|it| it.name == task.name));
        let radar =
            papers.map(|task| measures(task, (candidates, seeds), outcomes, Some(PAPERS_CELL)));
        Self {
            suite: VERSION,
            longhaul: longhaul.to_owned(),
            method: method.to_owned(),
            extent: plan.extent(),
            first_seed: plan.first_seed(),
            seeds,
            reference: REFERENCE.to_owned(),
            candidates: candidates.to_vec(),
            whole: whole(candidates, seeds, &tasks),
            grid: grid(candidates, seeds, outcomes),
            tasks,
            radar: radar.unwrap_or_default(),
        }
    }

    /// One row for each candidate in each measure, with a heading, as CSV.
    pub fn csv(&self) -> String {
        let mut rows = csv::Writer::from_writer(Vec::new());
        for task in &self.tasks {
            for measure in &task.measures {
                for score in &measure.scores {
                    let row = Row::new(self, task, measure, score);
                    rows.serialize(row).expect("plain values, to memory");
                }
            }
        }
        let bytes = rows.into_inner().expect("it is in memory");
        String::from_utf8(bytes).expect("names are text")
    }
}

/// A row of the CSV.
#[derive(Serialize)]
struct Row<'c> {
    suite: u32,
    method: &'c str,
    task: &'c str,
    measure: &'c str,
    unit: Unit,
    better: Better,
    candidate: &'c str,
    mean: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    relative: Option<f64>,
    relative_low: Option<f64>,
    relative_high: Option<f64>,
    seeds: usize,
}

impl<'c> Row<'c> {
    fn new(
        card: &'c Card,
        task: &'c TaskScores,
        measure: &'c MeasureScores,
        score: &'c CandidateScore,
    ) -> Self {
        let (absolute, relative) = (score.absolute, score.relative);
        Self {
            suite: card.suite,
            method: &card.method,
            task: &task.name,
            measure: &measure.key,
            unit: measure.unit,
            better: measure.better,
            candidate: &score.candidate,
            mean: absolute.map(|it| it.mean),
            low: absolute.and_then(|it| it.low),
            high: absolute.and_then(|it| it.high),
            relative: relative.map(|it| it.mean),
            relative_low: relative.and_then(|it| it.low),
            relative_high: relative.and_then(|it| it.high),
            seeds: score.by_seed.len(),
        }
    }
}

fn measures(
    task: &'static Task,
    of: (&[String], u32),
    outcomes: &Outcomes,
    only: Option<&str>,
) -> Vec<MeasureScores> {
    let all = task.measures.iter().map(|it| MeasureScores::of(task, it, of, outcomes, only));
    // Some are of one method only. The whole is made of the first ones, also where these lack runs.
    all.enumerate().filter(|(n, it)| *n == 0 || !it.cells.is_empty()).map(|(_, it)| it).collect()
}

/// Of each candidate, seed by seed, so that intervals are of the whole.
fn whole(candidates: &[String], seeds: u32, tasks: &[TaskScores]) -> Vec<Whole> {
    let mut groups: Vec<&str> = Vec::new();
    for task in tasks {
        if !groups.contains(&task.group.as_str()) {
            groups.push(&task.group);
        }
    }
    let of_candidate = |(n, candidate): (usize, &String)| {
        // By group, the logarithms by seed; none where the candidate lacks runs.
        let logarithms: Vec<Option<Vec<f64>>> =
            groups.iter().map(|group| group_logarithms(n, group, seeds, tasks)).collect();
        let of_group = |(group, by_seed): (&&str, &Option<Vec<f64>>)| GroupScore {
            group: (*group).to_owned(),
            relative: by_seed.as_ref().and_then(|it| Estimate::of(it)),
        };
        let all: Option<Vec<&Vec<f64>>> = logarithms.iter().map(Option::as_ref).collect();
        let of_seed = |seed: usize| {
            let of_groups: Vec<f64> = all.as_ref()?.iter().map(|it| it[seed]).collect();
            stats::mean(&of_groups)
        };
        let together: Option<Vec<f64>> = (0..seeds as usize).map(of_seed).collect();
        Whole {
            candidate: candidate.clone(),
            relative: together.and_then(|it| Estimate::of(&it)),
            groups: groups.iter().zip(&logarithms).map(of_group).collect(),
        }
    };
    candidates.iter().enumerate().map(of_candidate).collect()
}

/// The n-th candidate's advantage over the reference in a group, by seed.
fn group_logarithms(n: usize, group: &str, seeds: u32, tasks: &[TaskScores]) -> Option<Vec<f64>> {
    let first = tasks.iter().filter(|task| task.group == group).map(|task| &task.measures[0]);
    let by_task: Vec<Vec<f64>> = first
        .map(|measure| {
            let (own, reference) = (&measure.scores[n], &measure.scores[0]);
            advantages(&own.logarithms(), &reference.logarithms(), measure.better)
        })
        .collect();
    if by_task.is_empty() || by_task.iter().any(|it| it.len() != seeds as usize) {
        return None;
    }
    (0..seeds as usize)
        .map(|seed| stats::mean(&by_task.iter().map(|it| it[seed]).collect::<Vec<_>>()))
        .collect()
}

fn grid(candidates: &[String], seeds: u32, outcomes: &Outcomes) -> Vec<Meeting> {
    let mut all = Vec::new();
    let mut others: Vec<&str> = candidates.iter().map(String::as_str).collect();
    if !others.contains(&COMMON) {
        others.push(COMMON);
    }
    for own in candidates {
        for other in &others {
            let of_seed = |seed| kept(outcomes.of(own, BESIDE, seed), other).into_values();
            let shares: Vec<f64> = (1..=seeds).flat_map(of_seed).collect();
            let Some(other_keeps) = stats::mean(&shares) else { continue };
            let (own, other) = (own.clone(), (*other).to_owned());
            all.push(Meeting { own, other, other_keeps });
        }
    }
    all
}
