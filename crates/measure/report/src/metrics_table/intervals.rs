// SPDX-License-Identifier: GPL-2.0-or-later
//! The repeats of each run put together: mean, standard deviation and 95 % confidence interval of every metric, a row for each entity
//! and metric. Runs and flows that medians leave out are left out, and the time of a transfer that the time limit cut off: it is only
//! a lower bound.

use super::{ColumnsOf, LongTable, MetricsTable, Row, Run};
use record::{repeats, stats};
use std::path::Path;

struct Interval<'t> {
    /// One of the repeats.
    run: &'t Run,
    /// Of one of them.
    row: &'t Row,
    n: usize,
    mean: f64,
    /// Standard deviation (n - 1) and half the width of the confidence interval; none of a single run.
    spread: Option<(f64, f64)>,
}

impl MetricsTable {
    /// Its runs with their repeats put together. Repeats lie in one folder; a run that lies in two of them is two measurements.
    pub fn intervals(&self) -> LongTable<'_> {
        let key = |run: &&Run| {
            let folder = run.folder.parent().map(Path::to_owned);
            (run.manifest.title.clone(), folder, run.manifest.repeat_key())
        };
        let mut rows = Vec::new();
        for (_, runs) in repeats::group(&self.runs, key) {
            let all = runs.iter().flat_map(|run| run.rows.iter().map(move |row| (*run, row)));
            let counted = all.filter(|(_, row)| row.is_counted());
            let name = |(_, row): &(&Run, &Row)| (row.entity.clone(), row.metric.name.clone());
            for (_, values) in repeats::group(counted, name) {
                let sample: Vec<f64> = values.iter().map(|(_, row)| row.metric.value).collect();
                let Some(estimate) = stats::mean_ci95(&sample) else { continue };
                let (run, row) = values[0];
                let spread = stats::sample_deviation(&sample).zip(estimate.half_width);
                rows.push(Interval { run, row, n: sample.len(), mean: estimate.mean, spread });
            }
        }
        let of = ColumnsOf::rows(rows);
        let before = vec![
            of.texts("scenario", |one| (&one.run.manifest.title).into()),
            of.texts("method", |one| (&one.run.manifest.method).into()),
            of.texts("variant", |one| one.run.variant().into()),
            of.texts("point", |one| one.run.manifest.point_text().into()),
            of.texts("records", |one| {
                one.run.folder.parent().unwrap_or(&one.run.folder).to_string_lossy()
            }),
        ];
        let after = vec![
            of.texts("entity", |one| (&one.row.entity).into()),
            of.texts("metric", |one| (&one.row.metric.name).into()),
            of.texts("unit", |one| one.row.metric.unit.into()),
            of.integers("n", |one| i64::try_from(one.n).unwrap_or(i64::MAX)),
            of.doubles("mean", |one| one.mean),
            of.optional("sd", |one| one.spread.map(|(deviation, _)| deviation)),
            of.optional("ci_low", |one| one.spread.map(|(_, half)| one.mean - half)),
            of.optional("ci_high", |one| one.spread.map(|(_, half)| one.mean + half)),
        ];
        let swept = self.swept(&of, |one| one.run, &[&before, &after]);
        of.table("intervals", [before, swept, after])
    }
}
