// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that an agent or an interceptor passes on, as a table.

use crate::depot::cells::{age, shorten, size};
use entry::connections::{Entry, Status};

/// Totals, and a line for each open connection.
pub fn table(status: &Status) -> String {
    let Status { connections, through, direct, fell_back, failed, up_bytes, down_bytes } = status;
    let mut text = format!(
        "{through} connections through depots, {direct} directly, {fell_back} directly since depots failed, {failed} failed\n\
         {} sent, {} received\n",
        size(*up_bytes),
        size(*down_bytes),
    );
    if connections.is_empty() {
        return text + "\nno connection under way\n";
    }
    text += &format!(
        "\n{:<8} {:<32} {:>10} {:>10} {:>7} {}\n",
        "by", "destination", "sent", "received", "age", "through"
    );
    for entry in connections {
        let Entry { protocol, destination, up_bytes, down_bytes, seconds, .. } = entry;
        text += &format!(
            "{protocol:<8} {:<32} {:>10} {:>10} {:>7} {}\n",
            shorten(destination, 32),
            size(*up_bytes),
            size(*down_bytes),
            age(*seconds),
            route(entry),
        );
    }
    text
}

fn route(entry: &Entry) -> String {
    match &entry.direct_because {
        Some(why) => format!("directly: {why}"),
        None if entry.through.is_empty() => "directly".to_owned(),
        None => entry.through.join(", "),
    }
}
