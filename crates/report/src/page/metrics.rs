// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of each cell's median run, by the readers whom they tell something.

use super::{point_label, settings::representatives, way_label};
use crate::{
    format,
    group::{Cell, Group},
    metric::{METRICS, Metric, Reader},
};
use maud::{Markup, html};
use record::stats;
use serde_json::Value;

/// A column: a cell, and its median run's `metrics`.
type Column<'g> = (&'g Cell, Value);

/// A table for each point of the sweep.
pub fn details(group: &Group) -> Markup {
    let columns: Vec<Column<'_>> = representatives(group)
        .map(|(cell, run)| {
            let metrics = serde_json::to_value(&run.summary.metrics).expect("plain data");
            (cell, metrics)
        })
        .collect();
    let points: Vec<&[Column<'_>]> =
        columns.chunk_by(|(a, _), (b, _)| a.point == b.point).collect();
    html! {
        p.note {
            "Definitions and sources: docs/metrics.md. Of metrics that each flow has, the median over \
             the run’s flows, and below it the smallest and the largest."
        }
        @if let [point] = points.as_slice() { (table(group, point)) }
        @else { @for point in points {
            details { summary { (point_label(group, point[0].0)) } (table(group, point)) }
        } }
    }
}

fn table(group: &Group, columns: &[Column<'_>]) -> Markup {
    let known = |metric: &Metric| columns.iter().any(|(_, run)| !metric.values(run).is_empty());
    let path =
        |metric: &Metric| format!("{}{}", if metric.of_flow { "flows." } else { "" }, metric.key);
    let unknown: Vec<String> = METRICS.iter().filter(|m| !known(m)).map(path).collect();
    html! {
        div.scroll { table.metrics {
            thead { tr {
                th scope="col" { "Metric" }
                @for (cell, _) in columns {
                    th.number scope="col" { (way_label(group, cell)) small { (made_by(cell)) } }
                }
            } }
            @for reader in Reader::ALL { tbody {
                tr.reader { th scope="rowgroup" colspan=(columns.len() + 1) { (reader.name()) } }
                @let metrics: Vec<&Metric> = Metric::of(reader).filter(|m| known(m)).collect();
                @for (n, metric) in metrics.iter().enumerate() {
                    @let new_kind = n == 0 || metrics[n - 1].kind != metric.kind;
                    tr {
                        th scope="row" {
                            @if new_kind { small { (metric.kind) } }
                            (metric.name)
                        }
                        @for (_, run) in columns { td.number { (value(metric, run)) } }
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

fn value(metric: &Metric, run: &Value) -> Markup {
    let values = metric.values(run);
    let Some(median) = stats::median(&values) else { return html! { "–" } };
    let least = metric.write(values.iter().copied().fold(median, f64::min));
    let most = metric.write(values.iter().copied().fold(median, f64::max));
    html! {
        (metric.write(median))
        @if least != most { small { (format::range(&least, &most)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_several_and_none() {
        let run = serde_json::json!({
            "jain_index": 0.5,
            "flows": [{"rtt_mean_us": 1000.0}, {"rtt_mean_us": 4000.0}, {"rtt_mean_us": 2000.0}],
        });
        let shown = |key: &str| {
            let metric = METRICS.iter().find(|metric| metric.key == key).unwrap();
            value(metric, &run).into_string()
        };
        assert_eq!(shown("jain_index"), "0.5");
        assert_eq!(shown("rtt_mean_us"), "2 ms<small>1 – 4 ms</small>");
        assert_eq!(shown("rtt_min_us"), "–");
        assert_eq!(shown("goodput_bps"), "–");
    }
}
