// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul session`: shows the sessions of a depot, and those that it keeps.

mod kept;

use crate::{
    depot::cells::{age, rate, shorten, shorten_front, size, time},
    failure::Failure,
    print::{print_json, print_text},
};
use ::depot::{
    fetch_status,
    status::{Sessions, Status, Tcp, Transfer},
};
use clap::Args;
use serde::Serialize;

#[derive(clap::Subcommand)]
pub enum Command {
    Status(StatusArgs),
    List(kept::ListArgs),
    Extend(kept::ExtendArgs),
    Drop(kept::DropArgs),
}

const STATUS_EXAMPLES: &str = "\
Examples:
  longhaul session status
  longhaul session status 192.0.2.1:3881 --json";

/// Show the open sessions of a depot.
///
/// Reads them from the depot's admin listener (`admin.listen` in its configuration). If the depot has more than 256
/// transfers, it lists the fastest.
#[derive(Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Address of the depot's admin listener
    #[arg(default_value = "127.0.0.1:3881")]
    address: String,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. Keys are those of the depot's `status.json`.
#[derive(Serialize)]
struct Listing<'s> {
    id: &'s str,
    sessions: &'s Sessions,
    under_way: &'s [&'s Transfer],
}

pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Status(args) => show(args),
        Command::List(args) => kept::list(args),
        Command::Extend(args) => kept::extend(args),
        Command::Drop(args) => kept::remove(args),
    }
}

fn show(args: &StatusArgs) -> Result<(), Failure> {
    let (status, _) = fetch_status(&args.address)?;
    let under_way: Vec<_> =
        status.transfers.iter().filter(|transfer| transfer.session.is_some()).collect();
    if args.json {
        let Status { id, sessions, .. } = &status;
        print_json(&Listing { id, sessions, under_way: &under_way });
    } else {
        print_text(&table(&status, &under_way));
    }
    Ok(())
}

fn table(status: &Status, under_way: &[&Transfer]) -> String {
    let Sessions { open, meetings_waiting, ended } = &status.sessions;
    let of = |outcome: &str| -> u64 {
        ended.iter().filter(|of| of.outcome == outcome).map(|of| of.sessions).sum()
    };
    let all: u64 = ended.iter().map(|of| of.sessions).sum();
    let (whole, refused) = (of("ended"), of("refused"));
    let mut text = format!(
        "{}: {open} sessions open, {meetings_waiting} connections wait for their other end\n\
         {all} sessions over: {whole} ended, {refused} refused, {} failed\n",
        shorten(&status.id, 64),
        all - whole - refused
    );
    if under_way.is_empty() {
        return text + "\nno open sessions\n";
    }
    text += &format!(
        "\n{:<32} {:<22} {:<22} {:<28} {:>10} {:>10} {:>12} {:>7} {:<18} {}\n",
        "session",
        "client",
        "next hop",
        "target",
        "sent",
        "received",
        "rate",
        "age",
        "client TCP",
        "next TCP"
    );
    for transfer in under_way {
        let line = format!(
            "{:<32} {:<22} {:<22} {:<28} {:>10} {:>10} {:>12} {:>7} {:<18} {}",
            shorten(transfer.session.as_deref().unwrap_or("-"), 32),
            shorten(&transfer.client, 22),
            shorten_front(&transfer.upstream, 22),
            shorten_front(&transfer.target, 28),
            size(transfer.up_bytes),
            size(transfer.down_bytes),
            rate(transfer.up_bps + transfer.down_bps),
            age(transfer.age_s),
            connection(transfer.client_tcp.as_ref()),
            connection(transfer.upstream_tcp.as_ref()),
        );
        text += &format!("{}\n", line.trim_end());
    }
    text
}

/// The congestion control and the round trip of a connection.
fn connection(tcp: Option<&Tcp>) -> String {
    let Some(tcp) = tcp else { return "-".to_owned() };
    let streams = if tcp.streams > 1 { format!("{} x ", tcp.streams) } else { String::new() };
    format!("{streams}{} {}", shorten(&tcp.congestion, 15), time(Some(tcp.rtt_us)))
}
