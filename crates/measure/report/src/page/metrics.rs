// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of each cell's runs, by the readers whom they tell something.

use super::labels::variant_label;
use crate::{
    format, headline,
    metric::{write, write_mean},
    scenario_runs::{Cell, ScenarioRuns},
};
use maud::{Markup, html};
use record::{
    metric::{Audience, METRICS, Metric},
    stats::{self, MeanEstimate, MedianRange},
};
use serde_json::Value;

/// A column: a cell, and the `metrics` of its runs.
type Column<'g> = (&'g Cell, Vec<Value>);

/// A table for each point of the sweep.
pub fn details(group: &ScenarioRuns) -> Markup {
    let columns: Vec<Column<'_>> =
        group.cells.iter().map(|cell| (cell, metrics_of(group, cell))).collect();
    let points: Vec<&[Column<'_>]> =
        columns.chunk_by(|(a, _), (b, _)| a.point == b.point).collect();
    html! {
        p.note {
            "Definitions and sources: docs/metrics.md. Medians over the valid runs, and below them \
             minimum and maximum; for metrics of single flows, over the flows of all these \
             runs. The last line is the mean over the runs with its 95 % confidence interval (Student’s t), where there are \
             two runs or more; for metrics of single flows, a run’s value is the mean over its flows. If no run \
             is valid, the first run is shown."
        }
        @if let [point] = points.as_slice() { (table(group, point)) }
        @else { @for point in points {
            details { summary { (headline::point(group, point[0].0)) } (table(group, point)) }
        } }
    }
}

/// Of the runs that count, or else of the first.
fn metrics_of(group: &ScenarioRuns, cell: &Cell) -> Vec<Value> {
    let counted = cell.included().map(|repeat| repeat.run);
    let first = cell.repeats.first().filter(|_| cell.included_runs() == 0).map(|repeat| repeat.run);
    let metrics = |run: usize| serde_json::to_value(&group.runs[run].summary.metrics);
    counted.chain(first).map(|run| metrics(run).expect("plain data")).collect()
}

fn table(group: &ScenarioRuns, columns: &[Column<'_>]) -> Markup {
    let known = |metric: &Metric| {
        columns.iter().any(|(_, runs)| runs.iter().any(|run| !metric.values(run).is_empty()))
    };
    let path =
        |metric: &Metric| format!("{}{}", if metric.of_flow { "flows." } else { "" }, metric.key);
    let unknown: Vec<String> = METRICS.iter().filter(|m| !known(m)).map(path).collect();
    html! {
        div.scroll { table.metrics {
            thead { tr {
                th scope="col" { "Metric" }
                @for (cell, _) in columns {
                    th.number scope="col" { (variant_label(group, cell)) small { (made_by(cell)) } }
                }
            } }
            @for reader in Audience::ALL { tbody {
                tr.reader { th scope="rowgroup" colspan=(columns.len() + 1) { (reader.name()) } }
                @let metrics: Vec<&Metric> = Metric::of(reader).filter(|m| known(m)).collect();
                @for (n, metric) in metrics.iter().enumerate() {
                    @let new_kind = n == 0 || metrics[n - 1].kind != metric.kind;
                    tr {
                        th scope="row" {
                            @if new_kind { small { (metric.kind) } }
                            (metric.name)
                        }
                        @for (_, runs) in columns { td.number { (value(metric, runs)) } }
                    }
                }
            } }
        } }
        @if !unknown.is_empty() {
            p.note { "Not known of these runs: " @for (n, key) in unknown.iter().enumerate() {
                @if n > 0 { ", " } code { (key) }
            } "." }
        }
    }
}

/// The method, and the client where one downloaded.
fn made_by(cell: &Cell) -> String {
    let client = Some(cell.client.as_str()).filter(|client| *client != crate::run::NO_CLIENT);
    [Some(cell.method.as_str()), client].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn value(metric: &Metric, runs: &[Value]) -> Markup {
    let values: Vec<f64> = runs.iter().flat_map(|run| metric.values(run)).collect();
    let Some(range) = MedianRange::of(&values) else { return html! { "–" } };
    let (least, most) = (write(metric, range.least), write(metric, range.most));
    html! {
        (write(metric, range.median))
        @if least != most { small { (format::range(&least, &most)) } }
        @if let Some(interval) = interval(metric, runs) { small.interval { (interval) } }
    }
}

/// The mean over the runs and half the width of its confidence interval; none of a single run, or of a count or share that
/// is the same in all.
fn interval(metric: &Metric, runs: &[Value]) -> Option<String> {
    let of_run = |run: &Value| stats::mean(&metric.values(run));
    let MeanEstimate { mean, half_width } =
        stats::mean_ci95(&runs.iter().filter_map(of_run).collect::<Vec<_>>())?;
    let half = half_width.filter(|half| *half > 0.0)?;
    Some(format::plus_minus(&write_mean(metric, mean), &write_mean(metric, half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_cell_shows_one_several_or_no_values() {
        let run = serde_json::json!({
            "jain_index": 0.5,
            "flows": [{"rtt_mean_us": 1000.0}, {"rtt_mean_us": 4000.0}, {"rtt_mean_us": 2000.0}],
        });
        let again = serde_json::json!({ "jain_index": 0.7, "flows": [{"rtt_mean_us": 8000.0}] });
        let of = |key: &str, runs: &[Value]| {
            let metric = METRICS.iter().find(|metric| metric.key == key).unwrap();
            value(metric, runs).into_string()
        };
        let shown = |key: &str| of(key, std::slice::from_ref(&run));
        assert_eq!(shown("jain_index"), "0.5");
        assert_eq!(shown("rtt_mean_us"), "2 ms<small>1 – 4 ms</small>");
        assert_eq!(shown("rtt_min_us"), "–");
        assert_eq!(shown("goodput_bps"), "–");
        let both = [run.clone(), again];
        // Of two values half the interval is 6.3531 times their distance: 0.2 and, of the means 2.333 and 8 ms, 5.667 ms.
        assert_eq!(
            of("jain_index", &both),
            "0.6<small>0.5 – 0.7</small><small class=\"interval\">0.6 ± 1.27</small>"
        );
        assert_eq!(
            of("rtt_mean_us", &both),
            "3 ms<small>1 – 8 ms</small><small class=\"interval\">5.17 ± 36 ms</small>"
        );
        let same = [run.clone(), run.clone()];
        assert_eq!(of("jain_index", &same), "0.5");
    }
}
