// SPDX-License-Identifier: GPL-2.0-or-later
//! The table for people: the directions that carried most data.

use super::destination::Destination;
use crate::{print::print_text, text_table::TextTable};
use ::report::format;
use ::trace::{ConnectionSummary, DirectionSummary, LargestDirections};
use std::io;

impl Destination for LargestDirections {
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.add(file, connection);
        Ok(())
    }
}

/// Prints the table.
pub fn print(directions: &LargestDirections) {
    if directions.rows.is_empty() {
        print_text("No connection has data.\n");
        return;
    }
    let mut table = TextTable::default();
    table.left("from", 20);
    table.left("to", 20);
    table.left("seen at", 8);
    table.right("data", 9);
    table.right("goodput", 11);
    table.right("rtt min", 9);
    table.right("mean", 9);
    table.right("resent", 7);
    table.right("fast", 5);
    table.right("timeout", 8);
    table.right("probe", 6);
    table.right("other", 6);
    table.right("spurious", 9);
    table.right("reordered", 10);
    table.right("idle", 8);
    table.right("window-limited", 15);
    for row in &directions.rows {
        table.row(cells(&row.direction), String::new());
    }
    let mut text = table.text();
    if directions.others > 0 {
        text += &format!(
            "{} more directions with {} and {} segments sent again: --json, --csv and --parquet have them\n",
            directions.others,
            format::size(directions.other_bytes as f64),
            directions.other_retransmitted_segments
        );
    }
    print_text(&text);
}

fn cells(direction: &DirectionSummary) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let trip = |us: Option<f64>| or_dash(us.map(|us| format::duration(us / 1e6)));
    let other = direction.unneeded_segments + direction.unknown_cause_segments;
    vec![
        direction.from.clone(),
        direction.to.clone(),
        or_dash(direction.capture_point.map(|point| point.name().to_owned())),
        format::size(direction.unique_bytes as f64),
        or_dash(direction.goodput_bps.map(format::rate)),
        trip(direction.rtt_min_us),
        trip(direction.rtt_mean_us),
        direction.retransmitted_segments.to_string(),
        direction.fast_segments.to_string(),
        direction.timeout_segments.to_string(),
        direction.tail_loss_probe_segments.to_string(),
        other.to_string(),
        direction.spurious_segments.to_string(),
        direction.reordered_packets.to_string(),
        format::seconds(direction.idle_s),
        format::seconds(direction.window_limited_s),
    ]
}
