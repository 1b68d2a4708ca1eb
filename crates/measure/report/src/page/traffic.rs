// SPDX-License-Identifier: GPL-2.0-or-later
//! What traffic did: a row for each point, variant, method and source.

use crate::{format, run::Run, scenario_runs::ScenarioRuns};
use maud::{Markup, html};
use record::{TrafficSummary, repeats, stats::MedianRange};

/// The repeats of one variant by one method at one point, of one source or of all together.
struct Row<'g> {
    first: &'g Run,
    source: String,
    repeats: Vec<TrafficSummary>,
    /// Runs that medians do not include.
    left_out: usize,
}

/// Whether there is anything to tell.
pub fn has_traffic(group: &ScenarioRuns) -> bool {
    group.runs.iter().any(|run| !run.summary.traffic.is_empty())
}

/// Medians, with minimum and maximum if there are several runs.
pub fn table(group: &ScenarioRuns) -> Markup {
    let rows = rows(group);
    let sweep = group.points.len() > 1;
    let variants = group.variants.len() > 1;
    let methods = rows.iter().any(|row| row.first.manifest.method != rows[0].first.manifest.method);
    html! {
        div.scroll { table.results {
            thead { tr {
                @if sweep { th scope="col" { "Point" } }
                @if variants { th scope="col" { "Variant" } }
                @if methods { th scope="col" { "Method" } }
                th scope="col" { "Traffic" }
                th.number scope="col" { "Runs" }
                th.number scope="col" { "Files" small { "offered" } }
                th.number scope="col" { "Complete" }
                th.number scope="col" { "Moved" }
                th.number scope="col" { "Goodput" }
                th.number scope="col" { "Completion time" small { "median" } }
                th.number scope="col" { "Completion time" small { "99 %" } }
            } }
            tbody { @for row in &rows { tr {
                @if sweep { td data-label="Point" { (point(row.first)) } }
                @if variants { td data-label="Variant" { (row.first.variant_label()) } }
                @if methods { td data-label="Method" { (row.first.manifest.method) } }
                th scope="row" { (row.source) }
                td.number data-label="Runs" {
                    (row.repeats.len())
                    @if row.left_out > 0 { " " span.bad { "(" (row.left_out) " left out)" } }
                }
                td.number data-label="Files" { (row.value(|of| Some(of.files_offered? as f64), format::digits)) }
                td.number data-label="Complete" { (row.value(|of| Some(of.files_completed? as f64), format::digits)) }
                td.number data-label="Moved" { (row.value(|of| Some(of.bytes as f64), format::size)) }
                td.number data-label="Goodput" { (row.value(|of| Some(of.goodput_bps), format::rate)) }
                td.number data-label="Completion time, median" { (row.value(|of| of.completion_p50_s, format::duration)) }
                td.number data-label="Completion time, 99 %" { (row.value(|of| of.completion_p99_s, format::duration)) }
            } } }
        } }
    }
}

impl<'g> Row<'g> {
    fn of(source: String, all: Vec<(&'g Run, TrafficSummary)>) -> Self {
        let (first, runs) = (all[0].0, all.len());
        let included = all.into_iter().filter(|(run, _)| run.verdict().in_medians());
        let repeats: Vec<_> = included.map(|(_, summary)| summary).collect();
        Self { first, source, left_out: runs - repeats.len(), repeats }
    }

    fn value(&self, of: fn(&TrafficSummary) -> Option<f64>, write: fn(f64) -> String) -> Markup {
        let values: Vec<f64> = self.repeats.iter().filter_map(of).collect();
        let Some(range) = MedianRange::of(&values) else { return html! { "–" } };
        let (least, most) = (write(range.least), write(range.most));
        html! {
            (write(range.median))
            @if least != most { small { (format::range(&least, &most)) } }
        }
    }
}

fn point(run: &Run) -> String {
    let settings = run.manifest.point.iter().map(|(key, value)| format!("{key} {value}"));
    settings.collect::<Vec<_>>().join(", ")
}

fn rows(group: &ScenarioRuns) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for point in &group.points {
        for variant in &group.variants {
            let here = |run: &&Run| run.manifest.point == *point && run.variant() == variant.name;
            let sources = group.runs.iter().filter(here).flat_map(|run| {
                run.summary.listed_traffic().into_iter().map(move |source| (run, source))
            });
            let groups = repeats::group(sources, |(run, source)| {
                (source.name.clone(), run.manifest.method.clone())
            });
            rows.extend(groups.into_iter().map(|((source, _), all)| Row::of(source, all)));
        }
    }
    rows
}
