// SPDX-License-Identifier: GPL-2.0-or-later
//! All metrics of all pairs of sides, where their runs have equal parameters.

use super::{
    cells::{Cell, Parameters, common_cells, text_of},
    compared_by::ComparedBy,
    compared_runs::{ComparedRun, ComparedRuns, refuse},
    difference::{Difference, Sample, decide},
};
use crate::{
    Error,
    metrics_table::long_table::{ColumnsOf, LongTable},
};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

/// Metrics of a run that are compared if none is asked for.
const USUAL: [&str; 8] = [
    "goodput_bps",
    "completion_mean_s",
    "file_completion_p50_s",
    "file_completion_p99_s",
    "utilisation",
    "queueing_delay_us",
    "retransmits",
    "jain_index",
];

/// What to compare.
#[derive(Debug, Clone, Default)]
pub struct ComparisonQuery {
    /// What tells the sides apart; if none is given, directories or what differs first.
    pub by: Option<ComparedBy>,
    /// Metrics of a run, or as `ENTITY/METRIC` of others; the usual ones if none is named.
    pub metrics: Vec<String>,
    /// Seconds at the start of each run that metrics leave out. Figures over time begin at 0.
    pub warm_up_s: f64,
}

/// A comparison of two sides or more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What tells the sides apart.
    pub by: ComparedBy,
    /// Their names.
    pub sides: Vec<String>,
    /// How many tests all probabilities are corrected for, by Holm.
    pub tests: usize,
    /// Runs that medians leave out.
    pub left_out: usize,
    /// Combinations of parameters that only one side has.
    pub uncommon: usize,
    /// Sides with flows that the time limit cut off.
    pub cut_off: Vec<CutOff>,
    /// The others.
    pub cells: Vec<ComparedCell>,
}

/// Flows of a side that the time limit cut off. Their goodput is of the time until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CutOff {
    /// The side.
    pub side: String,
    /// How many flows.
    pub flows: usize,
    /// Of how many.
    pub of: usize,
}

/// What is compared at equal parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedCell {
    /// Names and values.
    pub parameters: Parameters,
    /// Each metric of each pair of sides.
    pub differences: Vec<Difference>,
}

/// A metric: its entity and key.
type Name = (String, String);

impl Comparison {
    /// Compares the records at and below these directories.
    ///
    /// # Errors
    /// A record cannot be read, or the records cannot be compared.
    pub fn read(dirs: &[PathBuf], asked: &ComparisonQuery) -> Result<Self, Error> {
        Self::of(&ComparedRuns::read(dirs, asked.by, asked.warm_up_s)?, &asked.metrics)
    }

    pub(super) fn of(compared: &ComparedRuns, metrics: &[String]) -> Result<Self, Error> {
        let (cells, uncommon) = common_cells(compared)?;
        let asked = names(metrics);
        let mut found: Vec<ComparedCell> =
            cells.iter().map(|cell| compare(cell, &compared.sides, &asked)).collect();
        let all = || found.iter().flat_map(|cell| &cell.differences);
        for (entity, metric) in asked.iter().filter(|_| !metrics.is_empty()) {
            if !all().any(|one| one.entity == *entity && one.metric == *metric) {
                return refuse(format!(
                    "no two sides have a value of \"{metric}\" of {entity}. `longhaul lab export DIR --csv -` lists all \
                     entities and metrics; name ENTITY/METRIC, or METRIC of a run"
                ));
            }
        }
        if all().next().is_none() {
            return refuse(
                "the runs have none of the usual metrics in common. Name others with --metric"
                    .to_owned(),
            );
        }
        let tests = decide(found.iter_mut().flat_map(|cell| &mut cell.differences));
        let (by, sides, left_out) = (compared.by, compared.sides.clone(), compared.left_out);
        let cut_off = cut_off(&cells, &sides);
        Ok(Self { by, sides, tests, left_out, uncommon, cut_off, cells: found })
    }

    /// What to know of flows that were cut off, a sentence for each side that has some.
    pub fn cut_off_texts(&self) -> impl Iterator<Item = String> {
        self.cut_off.iter().map(|CutOff { side, flows, of }| {
            format!(
                "{flows} of {of} flows of {side} were cut off at the time limit: goodput is of the time until then, and \
                 completion times are not compared. A longer timeout lets them end"
            )
        })
    }

    /// A row for each difference, for other programs.
    pub fn table(&self) -> LongTable<'_> {
        let rows =
            self.cells.iter().flat_map(|cell| cell.differences.iter().map(move |d| (cell, d)));
        let of = ColumnsOf::rows(rows.collect());
        let count = |runs: usize| i64::try_from(runs).unwrap_or(i64::MAX);
        let what = vec![
            of.texts("point", |(cell, _)| text_of(&cell.parameters).into()),
            of.texts("entity", |(_, one)| (&one.entity).into()),
            of.texts("metric", |(_, one)| (&one.metric).into()),
            of.texts("unit", |(_, one)| one.unit.into()),
        ];
        let means = vec![
            of.texts("a", |(_, one)| (&one.a.side).into()),
            of.integers("a_n", move |(_, one)| count(one.a.runs)),
            of.doubles("a_mean", |(_, one)| one.a.mean),
            of.optional("a_half_width", |(_, one)| one.a.ci95_half_width),
            of.texts("b", |(_, one)| (&one.b.side).into()),
            of.integers("b_n", move |(_, one)| count(one.b.runs)),
            of.doubles("b_mean", |(_, one)| one.b.mean),
            of.optional("b_half_width", |(_, one)| one.b.ci95_half_width),
        ];
        let tests = vec![
            of.doubles("difference", |(_, one)| one.difference),
            of.optional("difference_half_width", |(_, one)| one.difference_half_width),
            of.optional("hedges_g", |(_, one)| one.hedges_g),
            of.optional("welch_t", |(_, one)| Some(one.welch.as_ref()?.statistic)),
            of.optional("welch_p", |(_, one)| Some(one.welch.as_ref()?.p)),
            of.optional("welch_p_corrected", |(_, one)| Some(one.welch.as_ref()?.p_corrected)),
            of.optional("mann_whitney_u", |(_, one)| Some(one.mann_whitney.as_ref()?.statistic)),
            of.optional("mann_whitney_p", |(_, one)| Some(one.mann_whitney.as_ref()?.p)),
            of.optional("mann_whitney_p_corrected", |(_, one)| {
                Some(one.mann_whitney.as_ref()?.p_corrected)
            }),
            of.texts("verdict", |(_, one)| one.verdict.name().into()),
        ];
        of.table("comparison", [what, means, tests])
    }

    /// What each cell is called: the parameters that are not the same in all.
    pub fn labels(&self) -> Vec<String> {
        let parameters = || self.cells.iter().map(|cell| &cell.parameters);
        let varies = |pair: &&(String, String)| !parameters().all(|other| other.contains(pair));
        let label = |of: &Parameters| {
            let varying: Vec<_> = of.iter().filter(varies).cloned().collect();
            text_of(&varying)
        };
        parameters().map(label).collect()
    }

    /// The parameters that are the same in all cells.
    pub fn common_parameters(&self) -> String {
        let same =
            |pair: &&(String, String)| self.cells.iter().all(|cell| cell.parameters.contains(pair));
        let first = self.cells.iter().take(1).flat_map(|cell| &cell.parameters);
        text_of(&first.filter(same).cloned().collect::<Vec<_>>())
    }
}

/// The metrics that are asked for.
fn names(metrics: &[String]) -> Vec<Name> {
    if metrics.is_empty() {
        return USUAL.iter().map(|key| ("run".to_owned(), (*key).to_owned())).collect();
    }
    let name = |text: &String| {
        let (entity, metric) = text.rsplit_once('/').unwrap_or(("run", text));
        (entity.to_owned(), metric.to_owned())
    };
    metrics.iter().map(name).collect()
}

/// Flows that the time limit cut off, by side.
fn cut_off(cells: &[Cell<'_>], sides: &[String]) -> Vec<CutOff> {
    let of_side = |(n, side): (usize, &String)| {
        let runs = || cells.iter().flat_map(|cell| &cell.sides[n]);
        let flows = runs().map(|run| cut_off_flows(run)).sum();
        let of = runs().map(|run| run.results.summary.flows.len()).sum();
        (flows > 0).then(|| CutOff { side: side.clone(), flows, of })
    };
    sides.iter().enumerate().filter_map(of_side).collect()
}

fn cut_off_flows(run: &ComparedRun) -> usize {
    run.results.summary.flows.iter().filter(|flow| flow.is_cut_off()).count()
}

/// Whether a metric is of flows that have ended alone.
fn is_of_ends((entity, metric): &Name) -> bool {
    metric.starts_with("completion_") || (entity != "run" && metric == "seconds")
}

fn compare(cell: &Cell<'_>, sides: &[String], asked: &[Name]) -> ComparedCell {
    let values: Vec<BTreeMap<Name, (&'static str, Vec<f64>)>> =
        cell.sides.iter().map(|runs| values(runs)).collect();
    let mut differences = Vec::new();
    for name in asked {
        let sample = |side: usize| {
            let (unit, values) = values[side].get(name)?;
            let is_cut =
                is_of_ends(name) && cell.sides[side].iter().any(|run| cut_off_flows(run) > 0);
            Some((*unit, is_cut, Sample { side: sides[side].clone(), values: values.clone() }))
        };
        let samples: Vec<_> = (0..sides.len()).filter_map(sample).collect();
        for (n, (unit, a_is_cut, a)) in samples.iter().enumerate() {
            for (_, b_is_cut, b) in &samples[n + 1..] {
                let difference = Difference::new(&name.0, &name.1, unit, a, b);
                let is_cut = *a_is_cut || *b_is_cut;
                differences.extend(difference.map(|it| if is_cut { it.of_cut_off() } else { it }));
            }
        }
    }
    ComparedCell { parameters: cell.parameters.clone(), differences }
}

/// All metrics of some runs, with their units.
pub(super) fn values(runs: &[&ComparedRun]) -> BTreeMap<Name, (&'static str, Vec<f64>)> {
    let mut found = BTreeMap::<Name, (&'static str, Vec<f64>)>::new();
    for run in runs {
        for row in &run.rows {
            let name = (row.entity.clone(), row.metric.name.clone());
            let values = found.entry(name).or_insert((row.metric.unit, Vec::new()));
            values.1.push(row.metric.value);
        }
    }
    found
}
