// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot status`: a running depot's transfers, hops and refusals as a table.

use super::cells::{age, rate, shorten, shorten_front, size, time};
use crate::{
    failure::Failure,
    print::{draw, is_output_closed, print_json_text, print_text},
};
use ::depot::{
    fetch_status,
    status::{Field, HopStatistics, Memory, Statistic, Status, Sum, Tcp, Transfer},
};
use clap::Args;
use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

/// How often the table is drawn.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of clients, and of tickets, with totals.
const MOST_SUMS: usize = 10;
/// Moves to the terminal's upper left corner.
const CURSOR_HOME: &str = "\x1b[H";
/// Erases to the end of the line.
const ERASE_TO_LINE_END: &str = "\x1b[K";
/// Erases to the end of the screen.
const ERASE_BELOW: &str = "\x1b[J";

const EXAMPLES: &str = "\
Examples:
  longhaul depot status http://127.0.0.1:3881
  longhaul depot status http://127.0.0.1:3881 --json | jq '.hops[] | {hop, down_bps, rtt_us}'";

/// Show a running depot's transfers, hops and refusals, updated every second.
///
/// Reads them from the depot's admin listener (`admin.listen` in its configuration).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Address of the depot's admin listener, as in 127.0.0.1:3881
    url: String,
    /// Print one table and end
    #[arg(long)]
    once: bool,
    /// Print the depot's own status.json and end
    #[arg(long)]
    json: bool,
}

/// Prints the status once, or every second until the process is ended.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let (status, text) = fetch_status(&args.url)?;
    if args.json {
        print_json_text(&text);
        return Ok(());
    }
    if args.once {
        print_text(&table(&status));
        return Ok(());
    }
    let mut status = Ok(status);
    loop {
        // An error does not end the display: a depot that restarts is shown again.
        let text = match &status {
            Ok(status) => table(status),
            Err(error) => format!("{error}\n"),
        };
        if stdout().is_terminal() {
            // Overwrites the last table: an empty screen between two would flicker.
            draw(CURSOR_HOME, &text, ERASE_TO_LINE_END, ERASE_BELOW);
        } else {
            print_text(&format!("{text}\n"));
        }
        if is_output_closed() {
            return Ok(());
        }
        std::thread::sleep(REFRESH_INTERVAL);
        status = fetch_status(&args.url).map(|(status, _)| status);
    }
}

/// A status as text.
fn table(status: &Status) -> String {
    let mut text = head(status);
    text += &hops(&status.hops);
    text += &transfers(status);
    text += &sums("client", &status.clients);
    text += &sums("ticket", &status.ticket_transfers);
    text += &refusals(status);
    text
}

fn head(status: &Status) -> String {
    let Status { connections, memory, totals, .. } = status;
    let ended: u64 = totals.requests.values().sum();
    let complete = totals.requests.get("complete").copied().unwrap_or_default();
    let mut text = format!(
        "{}: {} for {}, longhaul {}\n",
        shorten(&status.id, 64),
        format!("{:?}", status.state).to_lowercase(),
        age(status.uptime_s),
        shorten(&status.version, 32)
    );
    text += &format!(
        "{} of {} client connections, {} held by depots, {} idle to next hops; sockets {} and pipes {} of {}, process {}, {} files\n",
        connections.open,
        connections.limit,
        connections.held,
        connections.idle_upstream,
        size(memory.sockets_held_bytes),
        size(memory.pipes_held_bytes),
        size(memory.limit_bytes),
        size(memory.resident_bytes),
        memory.open_files
    );
    text += &reserved(memory);
    text += &format!(
        "{ended} requests ended, {complete} complete; {} down, {} up\n",
        size(totals.down_bytes),
        size(totals.up_bytes)
    );
    if status.access_log.dropped_lines > 0 {
        let log = &status.access_log;
        text +=
            &format!("{} lines of the log ({}) lost\n", log.dropped_lines, shorten(&log.to, 200));
    }
    for certificate in &status.certificates {
        let mut problems = certificate.problems.clone();
        problems.extend(certificate.refused.clone());
        for problem in problems {
            let (of, problem) = (shorten(&certificate.of, 64), shorten(&problem, 400));
            text += &format!("certificate {of}: {problem}\n");
        }
    }
    for draining in &status.draining {
        let (process, transfers) = (draining.process, draining.live_transfers);
        let left = age(draining.seconds_left);
        text += &format!(
            "process {process}, from before the takeover, finishes {transfers} transfers within {left}\n"
        );
    }
    for paced in &status.paced {
        let so = if paced.in_force { "are" } else { "should be, and are NOT," };
        let (peer, pacing) = (shorten(&paced.peer, 48), shorten(&paced.pacing, 8));
        text += &format!("packets to {peer} {so} paced by {pacing}\n");
    }
    for detour in status.detours.iter().filter(|detour| !detour.up) {
        text += &format!("depot {} of a detour is down\n", shorten(&detour.depot, 64));
    }
    text
}

/// What is reserved of the memory, and for whom most.
fn reserved(memory: &Memory) -> String {
    let (reserved, share) = (size(memory.reserved_bytes), size(memory.client_share_bytes));
    let largest = memory.largest_client.as_ref().map_or_else(String::new, |largest| {
        format!(", {} of it for {}", size(largest.reserved_bytes), shorten(&largest.client, 48))
    });
    format!("memory reserved for transfers {reserved}{largest}; a client's share {share}\n")
}

fn hops(hops: &[HopStatistics]) -> String {
    let titles = HopStatistics::columns().map(|Field { statistic, .. }| {
        format!(" {:>1$}", statistic.cli.unwrap_or_default(), width(statistic))
    });
    let titles: String = titles.collect();
    let mut text = format!("\n{:<8} {:<34}{titles} connections\n", "side", "hop");
    for hop in hops {
        let mut connections: Vec<_> =
            hop.connections.iter().map(|(name, n)| format!("{n} {}", shorten(name, 16))).collect();
        if hop.streams > hop.connections.values().sum::<usize>() as u64 {
            connections.push(format!("{} streams", hop.streams));
        }
        let cells: String = HopStatistics::columns().map(|column| cell(column, hop)).collect();
        let (name, connections) = (shorten(&hop.hop, 34), connections.join(", "));
        let line = format!("{:<8} {name:<34}{cells} {connections}", hop.side);
        text += &format!("{}\n", line.trim_end());
    }
    text
}

/// The width of a column.
fn width(statistic: &Statistic) -> usize {
    match statistic.unit() {
        "bps" => 12,
        "us" => 10,
        _ => 7,
    }
}

fn cell(column: &Field<HopStatistics>, hop: &HopStatistics) -> String {
    let value = column.value(hop);
    let text = match column.statistic.unit() {
        "us" => time(value.map(|us| us as u32)),
        "bps" => rate(value.unwrap_or_default() as u64),
        _ => value.unwrap_or_default().to_string(),
    };
    format!(" {text:>0$}", width(&column.statistic))
}

fn transfers(status: &Status) -> String {
    let drained = || status.draining.iter().flat_map(|draining| &draining.transfers);
    let all: Vec<_> = status.transfers.iter().chain(drained()).collect();
    if all.is_empty() {
        return "\nno open transfers\n".to_owned();
    }
    // The column appears only for transfers over several connections.
    let striped = all.iter().any(|transfer| !streams_text(transfer).is_empty());
    let mut text = format!(
        "\n{:<24} {:<34} {:>22} {:>12} {:>9} {:>10} {:>10}{}\n",
        "client",
        "asks for",
        "so far",
        "rate",
        "age",
        "RTT",
        "RTT next",
        if striped { " streams" } else { "" }
    );
    for transfer in &all {
        let rtt = |tcp: &Option<Tcp>| time(tcp.as_ref().map(|tcp| tcp.rtt_us));
        let line = format!(
            "{:<24} {:<34} {:>22} {:>12} {:>9} {:>10} {:>10} {}",
            shorten(&transfer.client, 24),
            shorten_front(transfer.url.as_deref().unwrap_or(&transfer.target), 34),
            progress_text(transfer),
            rate(transfer.down_bps + transfer.up_bps),
            age(transfer.age_s),
            rtt(&transfer.client_tcp),
            rtt(&transfer.upstream_tcp),
            streams_text(transfer),
        );
        text += &format!("{}\n", line.trim_end());
    }
    let drained =
        status.draining.iter().fold(0, |sum: usize, it| sum.saturating_add(it.live_transfers));
    let more = status.live_transfers.saturating_add(drained).saturating_sub(all.len());
    if more > 0 {
        text += &format!("and {more} slower ones\n");
    }
    text
}

/// Clients or tickets with several transfers, the fastest first.
fn sums(title: &str, sums: &[Sum]) -> String {
    let several: Vec<_> = sums.iter().filter(|sum| sum.transfers > 1).take(MOST_SUMS).collect();
    if several.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title:<40} {:>9} {:>10} {:>12}\n", "transfers", "so far", "rate");
    for sum in several {
        text += &format!(
            "{:<40} {:>9} {:>10} {:>12}\n",
            shorten(&sum.of, 40),
            sum.transfers,
            size(sum.up_bytes + sum.down_bytes),
            rate(sum.up_bps + sum.down_bps),
        );
    }
    text
}

fn refusals(status: &Status) -> String {
    let mut text = String::new();
    for refusals in &status.refusals {
        let (status, n) = (refusals.status, refusals.requests);
        let error = shorten(&refusals.error, 64);
        let title = if text.is_empty() { "\nrefusals\n" } else { "" };
        text += &format!("{title}{n:>8} x {status} {error}\n");
    }
    text
}

fn progress_text(transfer: &Transfer) -> String {
    let moved = size(transfer.down_bytes + transfer.up_bytes);
    match transfer.expected_bytes {
        Some(expected) if transfer.up_bytes == 0 => format!("{moved} of {}", size(expected)),
        _ => moved,
    }
}

/// The number of connections on each side that uses, or should have used, more than one.
fn streams_text(transfer: &Transfer) -> String {
    let several = |(side, tcp): (&str, &Option<Tcp>)| {
        let Tcp { streams, streams_asked, .. } = tcp.as_ref()?;
        match streams_asked {
            Some(asked) if *asked > 1 && u32::from(*asked) != *streams => {
                Some(format!("{side} {streams} of {asked}"))
            }
            _ => (*streams > 1).then(|| format!("{side} {streams}")),
        }
    };
    let sides = [("client", &transfer.client_tcp), ("next", &transfer.upstream_tcp)];
    sides.into_iter().filter_map(several).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_text_names_sides_with_several_connections() {
        let tcp = |streams: u32, asked: Option<u8>| {
            serde_json::json!({
                "congestion": "reno", "rtt_us": 1, "min_rtt_us": 1, "cwnd_bytes": 1,
                "delivery_rate_bps": null, "retransmitted_segments": 0, "sndbuf_bytes": 1,
                "rcvbuf_bytes": 1, "pacing_bps": null, "notsent_lowat_bytes": null,
                "mptcp": false, "streams": streams, "streams_asked": asked,
            })
        };
        let said = |client: u32, next: u32, asked: Option<u8>| {
            let transfer = serde_json::json!({
                "number": 1, "client": "192.0.2.1:5", "upstream": "d2:3880", "method": "GET",
                "target": "/", "status": 200, "expected_bytes": null, "up_bytes": 0,
                "down_bytes": 0, "up_bps": 0, "down_bps": 0, "age_s": 1.0,
                "client_tcp": tcp(client, None), "upstream_tcp": tcp(next, asked),
            });
            streams_text(&serde_json::from_value(transfer).unwrap())
        };
        assert_eq!(said(1, 1, None), "");
        assert_eq!(said(1, 4, Some(4)), "next 4");
        assert_eq!(said(8, 2, Some(4)), "client 8, next 2 of 4");
        assert_eq!(said(1, 1, Some(4)), "next 1 of 4");
    }
}
