// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of the page.

use super::CapturedFile;
use crate::format;
use maud::{Markup, html};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};
use trace::{DirectionSummary, LargestDirection, LargestDirections};
use units::text::printable;

/// Letters of an error or a remark.
const LONGEST_REMARK: usize = 400;

fn name<'a>(names: &'a HashMap<&str, String>, file: &str) -> &'a str {
    names.get(file).map_or("", String::as_str)
}

/// What was read of each file.
pub fn files(files: &[CapturedFile], names: &HashMap<&str, String>) -> Markup {
    html! {
        div.scroll { table.captured {
            thead { tr {
                th scope="col" { "File" }
                @for head in ["Packets", "Of TCP", "Connections"] { th.number scope="col" { (head) } }
                th scope="col" { "Remarks" }
            } }
            tbody { @for file in files { tr {
                th.file scope="row" title=(printable(&file.name, LONGEST_REMARK)) { (name(names, &file.name)) }
                @for count in counts(file) { td.number { (count) } }
                td { @for remark in &file.remarks { small { (printable(remark, LONGEST_REMARK)) } } }
            } } }
        } }
    }
}

fn counts(file: &CapturedFile) -> [String; 3] {
    file.totals.as_ref().map_or([(); 3].map(|()| "–".to_owned()), |totals| {
        [totals.packets, totals.tcp_packets, totals.connections].map(|count| count.to_string())
    })
}

const HEADS: [&str; 9] = [
    "Began",
    "Data",
    "Goodput",
    "Round trip: shortest",
    "Mean",
    "Sent again",
    "Most under way",
    "Largest window",
    "Idle",
];

/// Directions that are seen at once.
const FIRST_ROWS: usize = 16;

/// The directions with most data, numbered from 1. Those after the first can be opened.
pub fn connections(largest: &LargestDirections, names: &HashMap<&str, String>) -> Markup {
    let count = largest.rows.len();
    let first = count.min(FIRST_ROWS);
    html! {
        @if count > 0 { (rows(largest, names, 0..first)) }
        @if count > first { details {
            summary { (count - first) " more directions" }
            (rows(largest, names, first..count))
        } }
    }
}

fn rows(largest: &LargestDirections, names: &HashMap<&str, String>, range: Range<usize>) -> Markup {
    let start_ns = largest.rows.iter().map(|row| row.start_unix_ns).min().unwrap_or(0);
    let files: HashSet<&str> = largest.rows.iter().map(|row| row.file.as_str()).collect();
    html! {
        div.scroll { table.captured {
            thead { tr {
                th.number scope="col" { "#" }
                th scope="col" { "From and to" }
                @for head in HEADS { th.number scope="col" { (head) } }
                th.number scope="col" { "Limited by the receiver’s window" }
            } }
            tbody { @for (n, row) in range.clone().zip(&largest.rows[range]) { tr {
                td.number { (n + 1) }
                th scope="row" {
                    (row.direction.from) " → " (row.direction.to)
                    @if files.len() > 1 { small { (name(names, &row.file)) } }
                    small { (origin(row)) }
                }
                @for cell in cells(row, start_ns) { td.number { (cell) } }
            } } }
        } }
    }
}

fn origin(row: &LargestDirection) -> String {
    let at = row.direction.capture_point.map(|point| match point {
        trace::CapturePoint::Middle => "captured between the ends, ".to_owned(),
        end => format!("captured at the {}, ", end.name()),
    });
    format!("{}{}", at.unwrap_or_default(), row.ending.name())
}

fn cells(row: &LargestDirection, start_ns: u64) -> [String; 10] {
    let one = &row.direction;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let trip = |us: Option<f64>| or_dash(us.map(|us| format::duration(us / 1e6)));
    let share = one.retransmitted_bytes as f64 / one.payload_bytes.max(1) as f64;
    let resent = match one.retransmitted_segments {
        0 => "0".to_owned(),
        segments => format!("{segments}, {}", format::percent(share)),
    };
    [
        format::seconds(row.start_unix_ns.saturating_sub(start_ns) as f64 / 1e9),
        format::size(one.unique_bytes as f64),
        or_dash(one.goodput_bps.map(format::rate)),
        trip(one.rtt_min_us),
        trip(one.rtt_mean_us),
        resent,
        format::size(one.outstanding_max_bytes as f64),
        or_dash(one.window_max_bytes.map(|bytes| format::size(bytes as f64))),
        format::seconds(one.idle_s),
        format::seconds(one.window_limited_s),
    ]
}

/// Causes of what directions sent again, and reordering.
pub fn causes<'a>(directions: impl Iterator<Item = (usize, &'a DirectionSummary)>) -> Markup {
    let heads = [
        "#",
        "Sent again",
        "Told by acknowledgements",
        "By timeout",
        "Timeouts",
        "Tail loss probes",
        "In vain",
        "Unknown cause",
        "Came twice",
        "Packets reordered",
        "Latest by",
    ];
    html! {
        div.scroll { table.captured {
            thead { tr { @for head in heads { th.number scope="col" { (head) } } } }
            tbody { @for (number, one) in directions { tr {
                th.number scope="row" { (number) }
                @for count in [
                    one.retransmitted_segments,
                    one.fast_segments,
                    one.timeout_segments,
                    one.timeouts,
                    one.tail_loss_probe_segments,
                    one.unneeded_segments,
                    one.unknown_cause_segments,
                    one.spurious_segments,
                    one.reordered_packets,
                ] { td.number { (count) } }
                td.number { (one.reordering_max_us.map_or("–".to_owned(), |us| format::duration(us / 1e6))) }
            } } }
        } }
    }
}
