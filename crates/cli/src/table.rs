// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables of results that `lab run`, `sim` and `demo` print: medians over the repeats.

use crate::results::{RunResult, print_text};
use lab::Recorded;
use record::{Metrics, Standing, stats};
use serde::Serialize;
use std::{collections::HashMap, hash::Hash};

/// The point of a sweep, as on record.
type Point = Vec<(String, String)>;

/// The runs that differ only in their repeat, and one flow of theirs.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The flow.
    pub flow: String,
    /// The client.
    pub client: Option<String>,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Of those that count, the ones that the time limit cut off; they take part with what they
    /// moved.
    pub timed_out: usize,
    /// Median over the runs that count.
    pub median_goodput_bps: Option<f64>,
    /// Median over the runs that count.
    pub median_seconds: Option<f64>,
    /// The median over that of the baseline way at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// The runs that differ only in their repeat, and what all their flows did together.
#[derive(Debug, Serialize)]
pub struct Total {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// Flows of a run.
    pub flows: usize,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Median over the runs that count, of all flows' goodput together.
    pub median_goodput_bps: Option<f64>,
    /// Median of Jain's index of the flows' goodputs.
    pub median_jain_index: Option<f64>,
    /// Median of the used share of the most used link.
    pub median_utilisation: Option<f64>,
    /// The median goodput over that of the baseline way at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// Things of the same key put together, in the order in which the keys come.
fn grouped<T, K: Hash + Eq + Clone>(all: &[T], key: impl Fn(&T) -> K) -> Vec<(K, Vec<&T>)> {
    let (mut groups, mut places) = (Vec::<(K, Vec<&T>)>::new(), HashMap::new());
    for one in all {
        let place = *places.entry(key(one)).or_insert_with(|| {
            groups.push((key(one), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(one);
    }
    groups
}

/// Medians of the repeats, flow by flow, and ratios to the baseline.
pub fn cells(results: &[RunResult], baseline: Option<&str>) -> Vec<Cell> {
    let groups = grouped(results, |r| (r.way.clone(), r.point.clone(), r.flow.clone()));
    let mut cells: Vec<Cell> = groups
        .into_iter()
        .map(|((way, point, flow), all)| {
            let counted = || all.iter().filter(|r| r.standing.counts());
            Cell {
                way,
                point,
                flow,
                client: all[0].client.clone(),
                runs: counted().count(),
                left_out: all.len() - counted().count(),
                timed_out: counted().filter(|r| r.timed_out).count(),
                median_goodput_bps: median(counted().map(|r| r.goodput_bps)),
                median_seconds: median(counted().map(|r| r.seconds)),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = cells
        .iter()
        .filter(|cell| cell.way.as_deref() == baseline)
        .filter_map(|cell| {
            Some(((cell.point.clone(), cell.flow.clone()), cell.median_goodput_bps?))
        })
        .collect();
    for cell in cells.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&(cell.point.clone(), cell.flow.clone()));
        cell.ratio_to_baseline = cell.median_goodput_bps.zip(base).map(|(own, base)| own / base);
    }
    cells
}

/// Medians of the repeats of what all flows did together, and ratios to the baseline.
pub fn totals(records: &[Recorded], baseline: Option<&str>) -> Vec<Total> {
    let way = |record: &Recorded| record.manifest.way.as_ref().map(|way| way.name.clone());
    let groups = grouped(records, |record| (way(record), record.manifest.point.clone()));
    let mut totals: Vec<Total> = groups
        .into_iter()
        .map(|((way, point), all)| {
            let counted: Vec<&Metrics> = all
                .iter()
                .filter(|r| Standing::of(r.manifest.valid, &r.summary.flows).counts())
                .map(|record| &record.summary.metrics)
                .collect();
            let median_of = |of: fn(&Metrics) -> Option<f64>| {
                median(counted.iter().filter_map(|metrics| of(metrics)))
            };
            Total {
                way,
                point,
                flows: all[0].summary.flows.len(),
                runs: counted.len(),
                left_out: all.len() - counted.len(),
                median_goodput_bps: median_of(|metrics| metrics.goodput_bps),
                median_jain_index: median_of(|metrics| metrics.jain_index),
                median_utilisation: median_of(|metrics| metrics.utilisation),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = totals
        .iter()
        .filter(|total| total.way.as_deref() == baseline)
        .filter_map(|total| Some((total.point.clone(), total.median_goodput_bps?)))
        .collect();
    for total in totals.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&total.point);
        total.ratio_to_baseline = total.median_goodput_bps.zip(base).map(|(own, base)| own / base);
    }
    totals
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::median(&values.collect::<Vec<_>>())
}

/// Prints what each flow did.
pub fn print_cells(cells: &[Cell]) {
    let several = cells.iter().any(|cell| cell.flow != cells[0].flow);
    let flow = |name: &str| if several { format!("{name:<12} ") } else { String::new() };
    let mut text = format!(
        "{:<14} {}{:<6} {:<34} {:>4}  {:>12} {:>9} {:>8}\n",
        "way",
        flow("flow"),
        "client",
        "point",
        "runs",
        "goodput",
        "seconds",
        "ratio"
    );
    for cell in cells {
        let mut remark = String::new();
        if cell.timed_out > 0 {
            remark += &format!("  {} cut off at the time limit", cell.timed_out);
        }
        text += &format!(
            "{:<14} {}{:<6} {:<34} {:>4}  {:>7} Mb/s {:>9} {:>8}{remark}{}\n",
            cell.way.as_deref().unwrap_or("-"),
            flow(&cell.flow),
            cell.client.as_deref().unwrap_or("-"),
            point_text(&cell.point),
            cell.runs,
            number(cell.median_goodput_bps, 1e6, 1),
            number(cell.median_seconds, 1.0, 2),
            number(cell.ratio_to_baseline, 1.0, 2),
            left_out_text(cell.left_out),
        );
    }
    print_text(&text);
}

/// Prints what all flows did together.
pub fn print_totals(totals: &[Total]) {
    let mut text = format!(
        "{:<14} {:<34} {:>4} {:>6}  {:>12} {:>8} {:>12} {:>8}\n",
        "way", "point", "runs", "flows", "goodput", "Jain", "utilisation", "ratio"
    );
    for total in totals {
        text += &format!(
            "{:<14} {:<34} {:>4} {:>6}  {:>7} Mb/s {:>8} {:>10} % {:>8}{}\n",
            total.way.as_deref().unwrap_or("-"),
            point_text(&total.point),
            total.runs,
            total.flows,
            number(total.median_goodput_bps, 1e6, 1),
            number(total.median_jain_index, 1.0, 3),
            number(total.median_utilisation, 0.01, 1),
            number(total.ratio_to_baseline, 1.0, 2),
            left_out_text(total.left_out),
        );
    }
    print_text(&text);
}

fn number(value: Option<f64>, scale: f64, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{:.digits$}", v / scale))
}

/// The client has a column of its own.
fn point_text(point: &Point) -> String {
    let shown = point.iter().filter(|(key, _)| !key.ends_with(".client"));
    let shown =
        shown.map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key)));
    shown.collect::<Vec<_>>().join(" ")
}

fn left_out_text(left_out: usize) -> String {
    if left_out == 0 {
        return String::new();
    }
    format!("  {left_out} invalid or failed, left out")
}
