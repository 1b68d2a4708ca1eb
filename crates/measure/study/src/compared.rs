// SPDX-License-Identifier: GPL-2.0-or-later
//! The numbers that a paper prints, beside ours.

use crate::{Number, Row};
use record::{RunResults, metric::Metric, stats};
use serde::Serialize;
use std::collections::BTreeMap;

/// A number of a paper and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Of what.
    pub what: String,
    /// The metric, whose suffix is the unit.
    pub metric: String,
    /// The paper's.
    pub paper: f64,
    /// The median over our runs; none where there are none.
    pub ours: Option<f64>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
}

/// All numbers of a row, and the gains that its scenario says the paper reports.
pub fn compared(row: &Row, results: &[RunResults]) -> Vec<Compared> {
    let valid: Vec<&RunResults> = results.iter().filter(|it| it.manifest.valid).collect();
    let number = |number: &Number| {
        let at = |point| value(&valid, number, point);
        let ours = match &number.less {
            None => at(&number.at),
            Some(less) => at(&number.at).zip(at(less)).map(|(one, other)| one - other),
        };
        of(number.what.clone(), number.metric.clone(), number.value, ours)
    };
    let printed = row.numbers.iter().map(number);
    printed.chain(gains(&valid)).collect()
}

fn of(what: String, metric: String, paper: f64, ours: Option<f64>) -> Compared {
    Compared { what, metric, paper, ours, ratio: ours.map(|ours| ours / paper) }
}

/// The median over repeats.
fn value(results: &[&RunResults], number: &Number, at: &BTreeMap<String, String>) -> Option<f64> {
    let is_it = |results: &&&RunResults| {
        let manifest = &results.manifest;
        let variant = manifest.variant.as_ref().map(|variant| variant.name.as_str());
        let has = |(key, value): (&String, &String)| {
            manifest.point.iter().any(|(known, other)| known == key && other == value)
        };
        // A key that is not swept has one value alone.
        let is_swept = |key: &String| manifest.point.iter().any(|(known, _)| known == key);
        number.variant.as_deref().is_none_or(|wanted| variant == Some(wanted))
            && at.iter().all(|pair| !is_swept(pair.0) || has(pair))
    };
    let values: Vec<f64> = results
        .iter()
        .filter(is_it)
        .filter_map(|results| metric(results, &number.metric))
        .collect();
    stats::median(&values).map(|value| value * number.scale)
}

/// A run's metric; of flows the mean.
fn metric(results: &RunResults, key: &str) -> Option<f64> {
    let metrics = serde_json::to_value(&results.summary.metrics).ok()?;
    let known = Metric::all().find(|metric| metric.key == key)?;
    stats::mean(&known.values(&metrics))
}

/// Gains over the baseline, of variants and points for which the scenario has the paper's.
fn gains(results: &[&RunResults]) -> Vec<Compared> {
    let goodput = |variant: &str, of: &RunResults| {
        let same = results.iter().filter(|other| {
            let name = other.manifest.variant.as_ref().map(|it| it.name.as_str());
            name == Some(variant) && other.manifest.point == of.manifest.point
        });
        let values: Vec<f64> = same.filter_map(|it| it.summary.metrics.goodput_bps).collect();
        stats::median(&values)
    };
    let mut all: Vec<Compared> = Vec::new();
    for results in results {
        let manifest = &results.manifest;
        let (Some(variant), Some(baseline)) = (&manifest.variant, &manifest.baseline) else {
            continue;
        };
        for reference in &manifest.references {
            let point = manifest.point.iter().map(|(key, value)| format!("{key}={value}"));
            let what =
                [variant.label.clone()].into_iter().chain(point).collect::<Vec<_>>().join(", ");
            if all.iter().any(|known| known.what == what) {
                continue;
            }
            let own = goodput(&variant.name, results);
            let gain = own.zip(goodput(baseline, results)).map(|(own, base)| own / base);
            all.push(of(what, "gain".to_owned(), reference.gain, gain));
        }
    }
    all
}
