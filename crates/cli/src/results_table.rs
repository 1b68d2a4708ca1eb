// SPDX-License-Identifier: GPL-2.0-or-later
//! The result tables of `lab run`, `sim` and `demo`: medians over the repeats, with minimum and maximum.

use crate::{print::print_text, text_table::TextTable};
use ::report::format;
use record::{
    Limit, LimitedBy,
    results::{FlowMedians, MetricInterval, RunMedians, TrafficMedians},
    stats::MedianRange,
};

/// Prints medians flow by flow.
pub fn print_flows(medians: &[FlowMedians]) {
    let several = medians.iter().any(|cell| cell.flow != medians[0].flow);
    let mut table = TextTable::default();
    table.left("variant", 14);
    if several {
        table.left("flow", 12);
    }
    table.left("client", 6);
    table.left("point", 34);
    table.right("runs", 4);
    table.right("goodput", 13);
    table.right("seconds", 9);
    table.right("ratio", 8);
    table.left("limited by", 20);
    for cell in medians {
        let mut remark = String::new();
        if cell.timed_out > 0 {
            remark += &format!("  {} cut off at the time limit", cell.timed_out);
        }
        let mut row = vec![cell.variant.as_deref().unwrap_or("-").to_owned()];
        row.extend(several.then(|| cell.flow.clone()));
        row.extend([
            cell.client.as_deref().unwrap_or("-").to_owned(),
            point_text(&cell.point),
            cell.runs.to_string(),
            spread(cell.goodput_bps, 1e6, 1, " Mb/s"),
            spread(cell.seconds, 1.0, 2, ""),
            number(cell.ratio_to_baseline, 1.0, 2),
            cell.limited_by.map_or_else(|| "-".to_owned(), limited_by_text),
        ]);
        if let Some(setting) = cell.limited_by.and_then(|limit| limit.cause.setting()) {
            remark += &format!("  raise {setting}");
        }
        remark += &stalled_recovery_text(cell);
        table.row(row, remark + &without_result_text(cell));
    }
    print_text(&table.text());
}

/// The warning that recovery waited for the receive window: what follows is a burst, not the congestion control.
fn stalled_recovery_text(cell: &FlowMedians) -> String {
    let Some(share) = cell.window_in_recovery.filter(|share| *share > 0.0) else {
        return String::new();
    };
    let share = format::percent(share);
    let setting = Limit::WindowInRecovery.setting().expect("it is one of a buffer");
    format!("  warning: recovery waits for the receive window {share} of the time: raise {setting}")
}

/// Why some runs are not in the medians.
fn without_result_text(cell: &FlowMedians) -> String {
    match &cell.unpredicted {
        Some(why) => format!("  {why}"),
        None => left_out_text(cell.left_out),
    }
}

/// Prints medians of all flows together.
pub fn print_runs(medians: &[RunMedians]) {
    let mut table = TextTable::default();
    table.left("variant", 14);
    table.left("point", 34);
    table.right("runs", 4);
    table.right("flows", 6);
    table.right("goodput", 13);
    table.right("Jain", 8);
    table.right("utilisation", 12);
    table.right("resent", 8);
    table.right("ratio", 8);
    for total in medians {
        let row = vec![
            total.variant.as_deref().unwrap_or("-").to_owned(),
            point_text(&total.point),
            total.runs.to_string(),
            total.flows.to_string(),
            spread(total.goodput_bps, 1e6, 1, " Mb/s"),
            total.jain_index.map_or("-".to_owned(), |range| format::spread(&range, format::index)),
            spread(total.utilisation, 0.01, 1, " %"),
            spread(total.retransmits, 1.0, 0, ""),
            number(total.ratio_to_baseline, 1.0, 2),
        ];
        table.row(row, left_out_text(total.left_out));
    }
    print_text(&table.text());
}

/// Prints means and their confidence intervals.
pub fn print_intervals(intervals: &[MetricInterval]) {
    let mut table = TextTable::default();
    table.left("variant", 14);
    table.left("point", 34);
    table.left("flow", 12);
    table.left("metric", 24);
    table.right("runs", 4);
    table.right("mean", 12);
    table.right("95 % interval", 13);
    table.right("deviation", 12);
    table.left("unit", 6);
    for interval in intervals {
        let digits = |value: f64| format::significant(value, 5);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let row = vec![
            interval.variant.as_deref().unwrap_or("-").to_owned(),
            point_text(&interval.point),
            interval.flow.as_deref().unwrap_or("all").to_owned(),
            interval.metric.clone(),
            interval.runs.to_string(),
            digits(interval.mean),
            or_dash(interval.ci95_half_width.map(|width| format!("± {}", digits(width)))),
            or_dash(interval.standard_deviation.map(digits)),
            interval.unit.to_owned(),
        ];
        table.row(row, String::new());
    }
    print_text(&table.text());
}

/// Prints medians of traffic sources.
pub fn print_traffic(medians: &[TrafficMedians]) {
    let mut table = TextTable::default();
    table.left("variant", 14);
    table.left("point", 34);
    table.left("traffic", 12);
    table.right("runs", 4);
    table.right("files", 7);
    table.right("complete", 9);
    table.right("moved", 12);
    table.right("goodput", 13);
    table.right("median", 10);
    table.right("99 %", 10);
    for cell in medians {
        let together = format!("{} sources", cell.sources);
        let row = vec![
            cell.variant.as_deref().unwrap_or("-").to_owned(),
            point_text(&cell.point),
            cell.source.clone().unwrap_or(together),
            cell.runs.to_string(),
            spread(cell.files_offered, 1.0, 0, ""),
            spread(cell.files_completed, 1.0, 0, ""),
            spread(cell.bytes, 1e6, 1, " MB"),
            spread(cell.goodput_bps, 1e6, 1, " Mb/s"),
            spread(cell.completion_p50_s, 1.0, 3, " s"),
            spread(cell.completion_p99_s, 1.0, 3, " s"),
        ];
        table.row(row, left_out_text(cell.left_out));
    }
    print_text(&table.text());
}

fn limited_by_text(LimitedBy { cause, share }: LimitedBy) -> String {
    format!("{} {:.0} %", cause.words(), share * 100.0)
}

/// The median with its unit, and minimum and maximum.
fn spread(range: Option<MedianRange>, scale: f64, digits: usize, unit: &str) -> String {
    let write = |value: f64| number(Some(value), scale, digits);
    let Some(range) = range else { return "-".to_owned() };
    match format::spread(&range, write).split_once(' ') {
        Some((median, range)) => format!("{median}{unit} {range}"),
        None => write(range.median) + unit,
    }
}

fn number(value: Option<f64>, scale: f64, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{:.digits$}", v / scale))
}

/// The point without its client, which has a column of its own.
fn point_text(point: &[(String, String)]) -> String {
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
