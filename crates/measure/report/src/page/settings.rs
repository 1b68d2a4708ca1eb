// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine and the settings: what another person needs in order to get, or doubt, the figures.

use super::{labels::variant_label, metrics};
use crate::{
    format::{self, milliseconds},
    run::Run,
    scenario_runs::{Cell, ScenarioRuns},
};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Everything about how a group's runs were made.
pub fn details(group: &ScenarioRuns) -> Markup {
    let manifests = || group.runs.iter().map(|run| &run.manifest);
    html! {
        h2 { "Machine and settings" }
        (machine(group))
        (command(group))
        @if manifests().any(|m| !m.sockets.is_empty()) {
            details {
                summary { "Sockets, as read back (median runs)" }
                div.scroll { (sockets(group)) }
            }
        }
        @if !group.cells.is_empty() {
            details { summary { "Links (median runs)" } div.scroll { (links(group)) } }
            details { summary { "Metrics" } (metrics::details(group)) }
        }
        @if manifests().any(|m| m.emulator.is_some()) {
            details { summary { "Emulator’s health" } div.scroll { (emulator(group)) } }
        }
        @if manifests().any(|m| m.simulator.is_some()) {
            details { summary { "Simulator’s speed" } div.scroll { (simulator(group)) } }
        }
        @if manifests().any(|m| m.nodes.values().any(|node| !node.sysctls.is_empty())) {
            details { summary { "Kernel settings of the nodes" } (sysctls(group)) }
        }
        @if manifests().any(|m| !m.offloads.is_empty()) {
            details { summary { "Offloads of the devices" } (offloads(group)) }
        }
        details { summary { "The scenario as run" } (scenarios(group)) }
    }
}

/// The run that stands for each cell.
pub fn representatives(group: &ScenarioRuns) -> impl Iterator<Item = (&Cell, &Run)> {
    group.cells.iter().filter_map(|cell| Some((cell, &group.runs[cell.representative()?])))
}

/// Distinct values in the order in which they come; most often there is one.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn machine(group: &ScenarioRuns) -> Markup {
    let manifests = || group.runs.iter().map(|run| &run.manifest);
    html! {
        dl.facts {
            @for machine in distinct(manifests().filter_map(|m| m.machine.as_ref())) {
                dt { "Machine" }
                dd {
                    "Linux " (machine.kernel) ", " (machine.cores) " × " (machine.cpu) ", "
                    (format::size(machine.memory_bytes as f64)) " of memory"
                }
            }
            dt { "Method" }
            dd { (distinct(manifests().map(|m| m.method.as_str())).join(", ")) }
            @for versions in distinct(manifests().map(|m| &m.versions)) {
                dt { "Versions" }
                dd {
                    @for (index, (name, version)) in versions.iter().enumerate() {
                        @if index > 0 { ", " } (name) " " (version)
                    }
                }
            }
        }
    }
}

fn command(group: &ScenarioRuns) -> Markup {
    let commands = distinct(group.runs.iter().map(|run| shell(&run.manifest.command)));
    html! {
        p { "To run it again:" }
        @for command in commands { pre.command { code { (command) } } }
    }
}

/// Words as a shell takes them.
fn shell(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn sockets(group: &ScenarioRuns) -> Markup {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "–".into(), |b| format::size(b as f64));
    html! {
        table { thead { tr {
            @for column in ["Run", "Variant", "Hop", "Node", "Local", "Peer", "Asked for", "In force"] {
                th scope="col" { (column) }
            }
            th.number scope="col" { "Send buffer" }
            th.number scope="col" { "Receive buffer" }
        } }
        tbody { @for (cell, run) in representatives(group) { @for socket in &run.manifest.sockets {
            tr {
                td { code { (run.manifest.id) } }
                td { (variant_label(group, cell)) }
                td { (socket.flow) " / " (socket.hop) }
                td { (socket.node) }
                td { code { (socket.local) } }
                td { code { (socket.peer) } }
                td { (socket.congestion_control_asked.as_deref().unwrap_or("default")) }
                td { strong { (socket.congestion_control) } }
                td.number { (bytes(socket.sndbuf_bytes)) }
                td.number { (bytes(socket.rcvbuf_bytes)) }
            }
        } } } }
    }
}

fn links(group: &ScenarioRuns) -> Markup {
    html! {
        table { thead { tr {
            @for column in ["Run", "Variant", "Link", "Direction"] { th scope="col" { (column) } }
            @for column in [
                "Rate", "Used", "Carried", "Segments",
            ] { th.number scope="col" { (column) } }
            th.number scope="col" { "Dropped by queue" small { "early ones among them" } }
            @for column in [
                "Marked", "Lost", "Longest queue", "Mean queueing delay",
            ] { th.number scope="col" { (column) } }
            th.number scope="col" { "Gap" small { "mean ± deviation" } }
            th.number scope="col" { "Burst" small { "mean – longest" } }
        } }
        tbody { @for (cell, run) in representatives(group) { @for link in &run.summary.links {
            tr {
                td { code { (run.manifest.id) } }
                td { (variant_label(group, cell)) }
                td { (link.name) }
                td { (link.direction) }
                td.number { (known(link.rate_bps, |bps| format::rate(bps as f64))) }
                td.number { (known(link.utilisation, format::percent)) }
                td.number { (format::size(link.bytes as f64)) }
                td.number { (link.segments) }
                td.number { (drops(link.queue_drops, link.early_drops)) }
                td.number { (link.marks) }
                td.number { (link.losses) }
                td.number { (known(link.queue_max_bytes, |bytes| format::size(bytes as f64))) }
                td.number { (known(link.queue_mean_delay_us, milliseconds)) }
                td.number { (known(link.gap_mean_us.zip(link.gap_deviation_us), gap)) }
                td.number { (known(link.burst_mean_segments.zip(link.burst_max_segments), burst)) }
            }
        } } } }
    }
}

/// Those that the discipline dropped are named where there are any.
fn drops(all: u64, early: u64) -> String {
    if early == 0 { all.to_string() } else { format!("{all} ({early} early)") }
}

fn gap((mean, deviation): (f64, f64)) -> String {
    format!("{} ± {} µs", format::digits(mean), format::digits(deviation))
}

fn burst((mean, longest): (f64, u64)) -> String {
    format!("{} – {longest}", format::digits(mean))
}

fn known<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".into(), text)
}

fn emulator(group: &ScenarioRuns) -> Markup {
    let runs = || group.runs.iter();
    html! {
        table { thead { tr {
            th scope="col" { "Run" }
            @for column in [
                "Late, median", "Late, 99 %", "Latest", "Late frames", "Frames", "Dropped by devices",
            ] { th.number scope="col" { (column) } }
            th scope="col" { "Verdict" }
        } }
        tbody { @for run in runs() { @if let Some(emulator) = &run.manifest.emulator {
            tr.out[!run.manifest.valid] {
                td { code { (run.manifest.id) } }
                td.number { (milliseconds(emulator.lateness_p50_us)) }
                td.number { (milliseconds(emulator.lateness_p99_us)) }
                td.number { (milliseconds(emulator.lateness_max_us)) }
                td.number { (emulator.late) }
                td.number { (emulator.deliveries) }
                td.number { (emulator.device_drops) }
                td {
                    @if run.manifest.valid { "valid" }
                    @else { span.bad { "invalid: " (run.manifest.invalid_reasons.join("; ")) } }
                }
            }
        } } } }
    }
}

fn simulator(group: &ScenarioRuns) -> Markup {
    let simulated =
        || group.runs.iter().filter_map(|run| Some((run, run.manifest.simulator.as_ref()?)));
    html! {
        table { thead { tr {
            th scope="col" { "Run" }
            @for column in ["Simulated", "Real time", "Events", "Events per second"] {
                th.number scope="col" { (column) }
            }
        } }
        tbody { @for (run, simulator) in simulated() { tr {
            td { code { (run.manifest.id) } }
            td.number { (format::seconds(simulator.simulated_s)) }
            td.number { (format::seconds(simulator.wall_s)) }
            td.number { (simulator.events) }
            td.number { (format::digits(simulator.events_per_s)) }
        } } } }
    }
}

/// The nodes' settings; runs with the same ones are told together.
fn sysctls(group: &ScenarioRuns) -> Markup {
    let settings = |run: &Run| {
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, settings) in &run.manifest.nodes {
            for (key, value) in &settings.sysctls {
                lines.entry(format!("{key} = {value}")).or_default().push(node.clone());
            }
        }
        lines
    };
    by_run(group, settings, |lines| {
        html! {
            @if lines.is_empty() { p { "None was recorded." } }
            @else { div.scroll { table { tbody { @for (setting, nodes) in lines {
                tr { td { code { (setting) } } td { (nodes.join(", ")) } }
            } } } } }
        }
    })
}

fn offloads(group: &ScenarioRuns) -> Markup {
    by_run(
        group,
        |run| run.manifest.offloads.clone(),
        |offloads| {
            html! {
                @if offloads.is_empty() { p { "None was recorded." } }
                @else { dl.facts { @for (device, on) in offloads {
                    dt { (device) } dd { (if on.is_empty() { "none".to_owned() } else { on.join(", ") }) }
                } } }
            }
        },
    )
}

/// The scenario of each cell's median run; repeats differ in their seed only.
fn scenarios(group: &ScenarioRuns) -> Markup {
    html! {
        @for run in distinct_runs(group) {
            details {
                summary { code { (run.manifest.id) } }
                pre { code { (serde_json::to_string_pretty(&run.manifest.scenario).unwrap_or_default()) } }
            }
        }
    }
}

/// The cells' median runs, each once even where it stands for several clients.
fn distinct_runs(group: &ScenarioRuns) -> Vec<&Run> {
    let indices = distinct(group.cells.iter().filter_map(Cell::representative));
    indices.into_iter().map(|index| &group.runs[index]).collect()
}

/// Shows each distinct value once, naming the runs it belongs to when there is more than one.
fn by_run<T: PartialEq>(
    group: &ScenarioRuns,
    of: impl Fn(&Run) -> T,
    show: impl Fn(&T) -> Markup,
) -> Markup {
    let values = distinct(group.runs.iter().map(&of));
    html! {
        @for value in &values {
            @if values.len() > 1 {
                p.note { @for run in group.runs.iter().filter(|run| of(run) == *value) {
                    code { (run.manifest.id) } " "
                } }
            }
            (show(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let words = ["longhaul", "lab", "it's", "--set", "loss=0.1% over 3", ""];
        let words: Vec<String> = words.map(str::to_owned).into();
        assert_eq!(shell(&words), r"longhaul lab 'it'\''s' --set 'loss=0.1% over 3' ''");
    }
}
