// SPDX-License-Identifier: GPL-2.0-or-later
//! The page: one HTML document with everything in it.

mod data;
mod labels;
mod metrics;
mod results;
mod settings;
mod starts;
mod traffic;

use crate::{
    document::{Document, STYLE},
    format,
    headline::Headline,
    scenario_runs::{Cell, ScenarioRuns},
    sweep_chart::{self, Measure},
    traces,
};
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_LICENSE: &str = include_str!("../assets/uplot/LICENSE");

/// Nothing may be fetched, from anywhere; what is in the page may run.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Makes the page.
pub fn render(groups: &[ScenarioRuns]) -> String {
    let panels: Vec<_> = groups.iter().map(sweep_chart::panels).collect();
    let data = json_for_script(&data::Page::new(groups, &panels));
    let body = html! {
        (header(groups))
        main {
            @for (index, (group, panels)) in groups.iter().zip(&panels).enumerate() {
                (section(index, group, panels))
            }
        }
        (footer())
        script type="application/json" id="data" { (PreEscaped(data)) }
        // The library's licence goes wherever the library goes.
        script { "/*\n" (PreEscaped(UPLOT_LICENSE)) "*/\n" (PreEscaped(UPLOT_SCRIPT)) }
        script { (PreEscaped(SCRIPT)) }
    };
    let title = title(groups);
    Document { title: &title, policy: POLICY, styles: &[UPLOT_STYLE, STYLE], body }.into_string()
}

fn title(groups: &[ScenarioRuns]) -> String {
    match groups {
        [group] => group.title.clone(),
        _ => format!("{} scenarios", groups.len()),
    }
}

fn header(groups: &[ScenarioRuns]) -> Markup {
    let runs = || groups.iter().flat_map(|group| &group.runs);
    let started = runs().map(|run| run.manifest.started.as_str()).min().unwrap_or_default();
    let machine = runs().find_map(|run| run.manifest.machine.as_ref());
    html! {
        header.page {
            p.brand { "longhaul" }
            p.facts {
                (runs().count()) " runs, the first on " time datetime=(started) { (day(started)) }
                @if let Some(machine) = machine {
                    " · Linux " (machine.kernel) " · " (machine.cores) " × " (machine.cpu)
                }
            }
            @if groups.len() > 1 {
                nav aria-label="Scenarios" {
                    @for (index, group) in groups.iter().enumerate() {
                        a href={ "#group-" (index) } { (group.title) }
                    }
                }
            }
            p #errors role="alert" hidden {}
            noscript { p.notice { "The charts need JavaScript; the text and the tables do not." } }
        }
    }
}

/// The day of an RFC 3339 time, which begins with it.
fn day(started: &str) -> &str {
    started.split('T').next().unwrap_or(started)
}

fn section(index: usize, group: &ScenarioRuns, panels: &[sweep_chart::SweepChart]) -> Markup {
    let headline = Headline::new(group);
    html! {
        section.group id={ "group-" (index) } {
            h1 { (group.title) }
            @if let Some(source) = &group.source { p.source { (source) } }
            @for (n, finding) in headline.findings.iter().enumerate() {
                p.finding.lead[n == 0] { strong { (finding.name) } ": " (finding.text) }
            }
            @for caveat in &headline.caveats { p.caveat { (caveat) } }
            (left_out(group))
            // Traffic alone has no transfers to tell of, nor windows to draw.
            @if !group.cells.is_empty() {
                (results::table(group))
                (charts(index, group, panels))
                (starts::section(group))
                (results::comparison(group))
            }
            @if traffic::has_traffic(group) {
                @if !group.cells.is_empty() { h2 { "Background traffic" } }
                p.note { "Medians over the valid runs, and below them minimum and maximum. \
                          Completion times are of files that arrived whole." }
                (traffic::table(group))
            }
            (settings::details(group))
        }
    }
}

/// The runs that are left out, in a prominent place.
fn left_out(group: &ScenarioRuns) -> Markup {
    let runs: Vec<_> = group.left_out().collect();
    html! {
        @if !runs.is_empty() {
            div.invalid {
                p { strong { (runs.len()) " of " (group.runs.len()) " runs left out of all medians:" } }
                ul {
                    @for (run, reasons) in runs { li { code { (run.manifest.id) } " – " (reasons) } }
                }
            }
        }
    }
}

/// Places for the charts, which the script fills.
fn charts(index: usize, group: &ScenarioRuns, panels: &[sweep_chart::SweepChart]) -> Markup {
    let chart = |kind: &str| html! { div.chart data-chart=(kind) data-group=(index) {} };
    html! {
        @if !panels.is_empty() {
            h2 {
                @match Measure::of(group) {
                    Measure::Goodput => "Goodput over the sweep",
                    Measure::Seconds => "Completion times over the sweep",
                }
            }
            p.note { "Lines join the means; bars are their 95 % confidence intervals (Student’s t), \
                      dots the single runs." }
            (chart("sweep"))
        }
        @if group.cells.iter().any(|cell| !cell.is_endless()) {
            h2 { "Completion times" }
            p.note { "Every run is a dot, hollow when it was cut at the time limit. The tick is the \
                      mean, the bar its 95 % confidence interval (Student’s t; none where a run was \
                      cut)." }
            (chart("times"))
        }
        // Over a sweep, the chart above has shown it.
        @if panels.is_empty() && group.cells.iter().any(Cell::is_endless) {
            h2 { "Goodput" }
            p.note { "Of flows that go on to the end of the run, so that they have no completion time. \
                      Every run is a dot; the tick is the mean, the bar its 95 % confidence interval \
                      (Student’s t)." }
            (chart("goodputs"))
        }
        h2 { "Throughput over time" }
        p.note {
            "Bytes delivered on each hop (acknowledged, also selectively), in the direction of the data, averaged over "
            (bin_note(group)) ". For a run with more than " (traces::MOST_HOPS)
            " connections: the bytes that the busiest links carried."
        }
        form.controls data-controls=(index) {}
        (chart("throughput"))
        @if group.several_methods() {
            h2 { "Methods side by side" }
            p.note {
                "Bytes delivered on each hop by each method, in the same bins, over the time since the flow’s own start: \
                 programs start later than simulated senders. As a vector picture: "
                code { "longhaul figure RUN RUN --over-time rate --together --since-start --output methods.svg" } "."
            }
            (chart("methods"))
        }
        h2 { "Congestion windows" }
        p.note {
            "The window of each hop, at the end of each of the same bins."
            @if group.several_methods() { " All methods in one picture, over the time since the flow’s own start." }
        }
        (chart("window"))
        h2 { "Sequence growth" }
        p.note {
            "Bytes acknowledged since the start on each hop. A gap between two lines is data that the \
             depot between them holds, or that is on its way from it and not yet acknowledged."
        }
        (chart("sequence"))
    }
}

fn bin_note(group: &ScenarioRuns) -> String {
    let widths = || group.runs.iter().map(|run| run.traces.bin_s * 1000.0);
    let least = widths().fold(f64::INFINITY, f64::min);
    let most = widths().fold(0.0, f64::max);
    if most - least < 1.0 {
        format!("{} ms", format::digits(most))
    } else {
        format!(
            "{} to {} ms (the longer the run, the wider)",
            format::digits(least),
            format::digits(most)
        )
    }
}

fn footer() -> Markup {
    html! {
        footer.page {
            p { "Made by longhaul " (env!("CARGO_PKG_VERSION")) ". This page holds everything it \
                 shows and asks nothing of the network. Drag across a chart to zoom in, double-click to \
                 zoom out. Series are averaged into bins here; the records have the full samples." }
        }
    }
}

/// JSON that stays data inside a `script` element, whatever its texts are: no `<` can end the
/// element, no `&` can start an entity, and no line separator is left that scripts take for one.
fn json_for_script(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("the page's data has only text keys");
    ['<', '>', '&', '\u{2028}', '\u{2029}']
        .into_iter()
        .fold(json, |json, c| json.replace(c, &format!("\\u{:04x}", u32::from(c))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_a_script_stays_data_and_reads_back() {
        let evil = "</script><script>alert(1)</script> & \u{2028} \" \\";
        let json = json_for_script(&[evil]);
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [evil]);
    }
}
