// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables of results.

use super::labels::{colour_class, variant_label};
use crate::{
    format, headline,
    run::{NO_CLIENT, Transfer},
    scenario_runs::{Cell, Repeat, ScenarioRuns},
};
use maud::{Markup, html};
use record::{
    LimitedBy, RunVerdict,
    stats::{self, MedianRange},
};

/// The size of a dot strip, in CSS pixels.
const STRIP: (f64, f64) = (150.0, 18.0);

/// A row for each point, variant, method and client, with every run as a dot; every run in full below it. On narrow
/// pages, rows become blocks, in which each value has its column's name (`data-label`).
pub fn table(group: &ScenarioRuns) -> Markup {
    let columns = Column::of(group);
    let transfers = || group.cells.iter().flat_map(|cell| &cell.repeats).map(|r| &r.transfer);
    let capacities = transfers().filter_map(|transfer| Some(transfer.capacity?.bps));
    let goodputs = transfers().filter_map(|transfer| transfer.goodput_bps);
    let fastest = capacities.chain(goodputs).fold(0.0, f64::max);
    html! {
        div.scroll {
            table.results {
                thead { tr {
                    th scope="col" { "Variant" small { "congestion control in force, hop by hop" } }
                    @if columns.contains(&Column::Method) { th scope="col" { "Method" } }
                    @if columns.contains(&Column::Client) { th scope="col" { "Client" } }
                    th.number scope="col" { "Goodput" small { "median, slowest – fastest" } }
                    @if columns.contains(&Column::SentAgain) {
                        th.number scope="col" { "Sent again" small { "segments, median" } }
                    }
                    th scope="col" { "Every run" small { "0 to " (format::rate(fastest)) } }
                    th.number scope="col" { "Runs" }
                    @if columns.contains(&Column::Time) { th.number scope="col" { "Time" small { "median" } } }
                    th.number scope="col" { "Share" small { "of the paths’ rate" } }
                    @if columns.contains(&Column::Gain) { th.number scope="col" { "Gain" small { "over baseline" } } }
                    @if columns.contains(&Column::Content) { th scope="col" { "Content" small { "SHA-256" } } }
                    @if columns.contains(&Column::Limit) { th scope="col" { "Limited by" small { "mean share of the time" } } }
                } }
                @for cells in group.cells.chunk_by(|a, b| a.point == b.point) {
                    tbody {
                        @if group.points.len() > 1 {
                            tr.point {
                                th colspan=(MOST_COLUMNS) scope="rowgroup" { (headline::point(group, &cells[0])) }
                            }
                        }
                        @for cell in cells { tr { (row(group, cell, &columns, fastest)) } }
                    }
                }
            }
        }
        details {
            summary { "Every run in numbers" }
            div.scroll { (all_runs(group)) }
        }
    }
}

/// The number of columns if none is left out.
const MOST_COLUMNS: usize = 12;

/// A column that is left out where no row has anything to say in it.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Method,
    Client,
    SentAgain,
    Time,
    Gain,
    Content,
    Limit,
}

impl Column {
    fn says_something(self, group: &ScenarioRuns, cell: &Cell) -> bool {
        match self {
            Self::Method => group.several_methods(),
            Self::Client => cell.client != NO_CLIENT,
            Self::SentAgain => !cell.retransmits().is_empty(),
            Self::Time => !cell.is_endless(),
            Self::Gain => cell.gain.is_some(),
            Self::Content => cell.repeats.iter().any(|r| r.transfer.sha256_ok.is_some()),
            Self::Limit => cell.limited_by().is_some(),
        }
    }

    fn of(group: &ScenarioRuns) -> Vec<Self> {
        let all = [
            Self::Method,
            Self::Client,
            Self::SentAgain,
            Self::Time,
            Self::Gain,
            Self::Content,
            Self::Limit,
        ];
        let needed =
            |column: &Self| group.cells.iter().any(|cell| column.says_something(group, cell));
        all.into_iter().filter(needed).collect()
    }
}

fn row(group: &ScenarioRuns, cell: &Cell, columns: &[Column], fastest: f64) -> Markup {
    let median = cell.median_bps();
    let share = median.zip(cell.capacity()).map(|(bps, capacity)| bps / capacity.bps);
    let text = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    html! {
        th scope="row" {
            (variant_label(group, cell))
            small { code { (congestion_controls(group, cell)) } }
        }
        @if columns.contains(&Column::Method) { td data-label="Method" { (cell.method) } }
        @if columns.contains(&Column::Client) { td data-label="Client" { (cell.client) } }
        td.number data-label="Goodput" {
            span.main { (text(median.map(format::rate))) }
            @if let Some(bps) = cell.range_bps().filter(|_| cell.included_runs() > 1) { small { (range(bps)) } }
        }
        @if columns.contains(&Column::SentAgain) { td.number data-label="Sent again" { (sent_again(cell)) } }
        td data-label="Every run" { (strip(group, cell, fastest)) }
        td.number data-label="Runs" {
            (cell.included_runs())
            @let left_out = cell.repeats.len() - cell.included_runs();
            @if left_out > 0 { small.bad { (left_out) " left out" } }
        }
        @if columns.contains(&Column::Time) { td.number data-label="Time" { (median_seconds(cell)) } }
        td.number data-label="Share" { (text(share.map(format::percent))) }
        @if columns.contains(&Column::Gain) { td.number data-label="Gain" { (gain(group, cell)) } }
        @if columns.contains(&Column::Content) { td data-label="Content" { (content(cell)) } }
        @if columns.contains(&Column::Limit) { td data-label="Limited by" { (limit(cell)) } }
    }
}

/// What held a cell's flows up most. Where that is a socket buffer, no congestion control is compared.
fn limit(cell: &Cell) -> Markup {
    let Some(LimitedBy { cause, share }) = cell.limited_by() else { return html! { "–" } };
    html! {
        (cause.words()) " " (format::percent(share))
        @if let Some(setting) = cause.setting() { small.bad { "raise " (setting) } }
        @if let Some(share) = cell.window_in_recovery() {
            small.bad { "recovery waits for the receive window " (format::percent(share)) " of the time" }
        }
    }
}

fn range((slowest, fastest): (f64, f64)) -> String {
    format::range(&format::rate(slowest), &format::rate(fastest))
}

/// The median number of segments sent again, with minimum and maximum where they differ: what a goodput cost the path.
fn sent_again(cell: &Cell) -> Markup {
    let Some(MedianRange { median, least, most }) = MedianRange::of(&cell.retransmits()) else {
        return html! { "–" };
    };
    html! {
        (format!("{median:.0}"))
        @if least < most { small { (format!("{least:.0} – {most:.0}")) } }
    }
}

/// The median time; a bound when the run in the middle may have been cut. Without an end there is
/// none.
fn median_seconds(cell: &Cell) -> Markup {
    let seconds = stats::median(&cell.seconds()).filter(|_| !cell.is_endless());
    let Some(median) = seconds else { return html! { "–" } };
    html! {
        // A cut transfer lasts as long as the limit, so cut ones are the longest.
        @if cell.cut_runs() * 2 >= cell.included_runs() && cell.cut_runs() > 0 { "> " }
        (format::seconds(median))
        @if let Some(range) = seconds_range(cell) { small { (range) } }
        @if cell.cut_runs() > 0 { " " small.cut { (cell.cut_runs()) " cut" } }
    }
}

/// The shortest and the longest time, where they differ as written; the longest is a bound where a
/// transfer was cut.
fn seconds_range(cell: &Cell) -> Option<String> {
    let range = MedianRange::of(&cell.seconds())?;
    let (least, most) = (format::seconds(range.least), format::seconds(range.most));
    (least != most).then(|| format::range(&least, &most))
}

fn gain(group: &ScenarioRuns, cell: &Cell) -> Markup {
    match &cell.gain {
        Some(gain) => {
            let base = &group.cells[gain.over];
            html! {
                (format::times(gain.factor)) " ×"
                @if gain.overlap { small { "ranges overlap" } }
                @if base.client != cell.client { small { "over " (base.client) } }
            }
        }
        None if group.is_baseline(cell) => html! { small { "baseline" } },
        None => html! { "–" },
    }
}

/// Whether the contents that arrived were the right ones.
fn content(cell: &Cell) -> Markup {
    let wrong = cell.repeats.iter().filter(|r| r.transfer.sha256_ok == Some(false)).count();
    let right = cell.repeats.iter().filter(|r| r.transfer.sha256_ok == Some(true)).count();
    html! {
        @if wrong > 0 { span.bad { (wrong) " differ" } }
        @else if right == cell.repeats.len() { span.good { "✓ same" } }
        @else if right > 0 { (right) " of " (cell.repeats.len()) " same" }
        @else { "not compared" }
    }
}

/// The congestion controls of a cell's runs; more than one line when they were not the same.
fn congestion_controls(group: &ScenarioRuns, cell: &Cell) -> String {
    let runs = cell.repeats.iter().map(|repeat| &group.runs[repeat.run]);
    let mut seen: Vec<String> = runs.map(|run| run.congestion_controls(&cell.client)).collect();
    seen.dedup();
    seen.join("; ")
}

/// Every run of a cell as a dot on a common scale from 0 to `fastest`, the median as a tick.
fn strip(group: &ScenarioRuns, cell: &Cell, fastest: f64) -> Markup {
    let (width, height) = STRIP;
    let at = |bps: f64| format!("{:.1}", 6.0 + (width - 12.0) * bps / fastest.max(1.0));
    let middle = height / 2.0;
    html! {
        svg.strip.(colour_class(group, cell)) width=(width) height=(height)
            viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(strip_text(cell)) {
            line.scale x1=(at(0.0)) x2=(at(fastest)) y1=(middle) y2=(middle) {}
            @for repeat in &cell.repeats {
                @if let Some(bps) = repeat.transfer.goodput_bps {
                    circle.(dot_class(&repeat.transfer)) cx=(at(bps)) cy=(middle) r="4" {
                        title { (repeat_text(group, repeat)) }
                    }
                }
            }
            @if let Some(median) = cell.median_bps() {
                line.median x1=(at(median)) x2=(at(median)) y1="1" y2=(height - 1.0) {}
            }
        }
    }
}

fn strip_text(cell: &Cell) -> String {
    let rates =
        cell.repeats.iter().map(|repeat| or_dash(repeat.transfer.goodput_bps, format::rate));
    rates.collect::<Vec<_>>().join(", ")
}

fn or_dash(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".into(), write)
}

fn dot_class(transfer: &Transfer) -> &'static str {
    match transfer.verdict {
        RunVerdict::Complete => "dot",
        RunVerdict::Cut => "dot hollow",
        RunVerdict::Unpredicted | RunVerdict::Failed | RunVerdict::Invalid => "dot out",
    }
}

fn repeat_text(group: &ScenarioRuns, repeat: &Repeat) -> String {
    let transfer = &repeat.transfer;
    format!(
        "{}: {}, {}, {}",
        group.runs[repeat.run].manifest.id,
        or_dash(transfer.goodput_bps, format::rate),
        or_dash(transfer.seconds, format::seconds),
        transfer.outcome
    )
}

fn all_runs(group: &ScenarioRuns) -> Markup {
    html! {
        table.runs {
            thead { tr {
                @for column in ["Run", "Variant", "Method", "Client", "Outcome", "SHA-256"] {
                    th scope="col" { (column) }
                }
                @for column in ["Goodput", "Time", "Bytes", "Sent again", "Timeouts"] {
                    th.number scope="col" { (column) }
                }
            } }
            tbody {
                @for cell in &group.cells {
                    @for repeat in &cell.repeats { (run_row(group, cell, repeat)) }
                }
            }
        }
    }
}

fn run_row(group: &ScenarioRuns, cell: &Cell, repeat: &Repeat) -> Markup {
    let Transfer { verdict, sha256_ok, .. } = &repeat.transfer;
    let transfer = &repeat.transfer;
    let count = |count: Option<u64>| count.map_or_else(|| "–".into(), |n| n.to_string());
    html! {
        tr.out[!verdict.in_medians()] {
            td { code { (group.runs[repeat.run].manifest.id) } }
            td { (variant_label(group, cell)) }
            td { (cell.method) }
            td { (cell.client) }
            td {
                (transfer.outcome)
                @if *verdict == RunVerdict::Invalid { " " span.bad { "invalid run" } }
                @if *verdict == RunVerdict::Failed { " " span.bad { "failed" } }
            }
            td { (match sha256_ok { Some(true) => "same", Some(false) => "differs", None => "–" }) }
            td.number { (or_dash(transfer.goodput_bps, format::rate)) }
            td.number { @if *verdict == RunVerdict::Cut { "> " } (or_dash(transfer.seconds, format::seconds)) }
            td.number { (transfer.bytes) }
            td.number { (count(transfer.retransmits)) }
            td.number { (count(transfer.timeouts)) }
        }
    }
}

/// What was measured, what the equations predict and what the source reports, as gains over the
/// baseline.
pub fn comparison(group: &ScenarioRuns) -> Markup {
    let cells: Vec<&Cell> = group.cells.iter().filter(|cell| !group.is_baseline(cell)).collect();
    html! {
        @if cells.iter().any(|cell| predicted(group, cell).is_some() || reported(group, cell).is_some()) {
            h2 { "Gain over the baseline: measured, predicted, reported" }
            div.scroll { table.results.comparison {
                thead { tr {
                    th scope="col" { "Point" }
                    th scope="col" { "Variant" }
                    th scope="col" { "Method" }
                    th scope="col" { "Client" }
                    th.number scope="col" { "Measured" small { "ratio of medians" } }
                    th.number scope="col" { "Predicted" small { "closed form" } }
                    th.number scope="col" { "Reported" small { "by the source" } }
                    th scope="col" { "Note" }
                } }
                tbody { @for cell in cells {
                    tr {
                        td data-label="Point" { (headline::point(group, cell)) }
                        th scope="row" { (variant_label(group, cell)) }
                        td data-label="Method" { (cell.method) }
                        td data-label="Client" { (cell.client) }
                        td.number.main data-label="Measured" { (factor(cell.gain.as_ref().map(|gain| gain.factor))) }
                        td.number data-label="Predicted" { (factor(predicted(group, cell))) }
                        td.number data-label="Reported" { (factor(reported(group, cell).map(|(gain, _)| gain))) }
                        td.note data-label="Note" { (reported(group, cell).map(|(_, note)| note).unwrap_or_default()) }
                    }
                } }
            } }
            @if let Some(source) = prediction_source(group) { p.note { "Predicted by " (source) "." } }
        }
    }
}

fn factor(factor: Option<f64>) -> String {
    factor.map_or_else(|| "–".into(), |factor| format!("{} ×", format::times(factor)))
}

/// The ratio of a cell's predicted goodput to the baseline's at the same point.
fn predicted(group: &ScenarioRuns, cell: &Cell) -> Option<f64> {
    let of = |cell: &Cell| {
        let run = &group.runs[cell.repeats.first()?.run];
        run.manifest.predicted.as_ref().map(|prediction| prediction.goodput_bps)
    };
    let same_point = |base: &&Cell| group.is_baseline(base) && base.point == cell.point;
    Some(of(cell)? / of(group.cells.iter().find(same_point)?)?)
}

fn reported<'a>(group: &'a ScenarioRuns, cell: &Cell) -> Option<(f64, &'a str)> {
    let run = &group.runs[cell.repeats.first()?.run];
    run.manifest.references.first().map(|reference| (reference.gain, reference.note.as_str()))
}

fn prediction_source(group: &ScenarioRuns) -> Option<&str> {
    let predicted = group.runs.iter().find_map(|run| run.manifest.predicted.as_ref());
    predicted.map(|prediction| prediction.source.as_str())
}
