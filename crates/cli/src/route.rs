// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul route`: what is known of routes, which one would be chosen, and what probes of depots find.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
    text_table::TextTable,
    via::{Registered, Via},
};
use ::register::AsOf;
use ::route::{
    Assessed, Auto, AutoSettings, Basis, Candidate, Claim, Decision, Destination, Found, Memory,
    PROBE_TIME, SendOptions, Why, read_key,
};
use clap::Args;
use protocol::{Authority, DepotAddress, ticket::UnixTime};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use units::Bytes;

/// What a failed attempt costs unless a command says otherwise.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Of this size forecasts are shown where none is asked for.
const SHOWN: Bytes = Bytes::new(64 << 20);

#[derive(clap::Subcommand)]
pub enum Command {
    Explain(ExplainArgs),
    Probe(ProbeArgs),
    Status(StatusArgs),
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  longhaul route explain https://data.example.org/set.tar --size 2GB
  longhaul route explain data.example.org:3881 --via auto:depots.toml --json";

/// Show which route --via auto would take, and why. See docs/routes.md.
///
/// Probes the depots and the destination first, for at most a second. Nothing is transferred, and nothing learnt.
#[derive(Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// URL (http or https), or address HOST:PORT
    to: String,
    /// The register of depots
    #[arg(long, value_name = "auto[:FILE]", default_value = "auto")]
    via: String,
    /// How much is to be transferred, as in 200MB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: Bytes,
    /// Also the other ways to send that longhaul send tries: congestion controls, pacing, several connections
    #[arg(long)]
    send: bool,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

const PROBE_EXAMPLES: &str = "\
Examples:
  longhaul route probe
  longhaul route probe --via auto:depots.toml --json";

/// Probe the depots of a register: round trips, and what they say of their load.
#[derive(Args)]
#[command(after_help = PROBE_EXAMPLES)]
pub struct ProbeArgs {
    /// The register of depots
    #[arg(long, value_name = "auto[:FILE]", default_value = "auto")]
    via: String,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  longhaul route status
  longhaul route status --json";

/// Show what earlier transfers have taught about routes.
#[derive(Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Explain(args) => explain(args),
        Command::Probe(args) => probe(args),
        Command::Status(args) => {
            status(args);
            Ok(())
        }
    }
}

fn registered(via: &str, ca: Option<&Path>) -> Result<Registered, Failure> {
    match Via::read(&[via.to_owned()], ca)? {
        Via::Auto(registered) => Ok(registered),
        Via::Written(_) => {
            Err(Failure::usage("--via: expected auto or auto:FILE, the register of depots"))
        }
    }
}

/// The destination of a URL or address.
fn destination(text: &str) -> Result<Destination, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format_args!("{text}: {why}"));
    let (rest, port) = match text.split_once("://") {
        Some(("http", rest)) => (rest, Some(80)),
        Some(("https", rest)) => (rest, Some(443)),
        Some(_) => return Err(wrong(&"expected an http or https URL, or HOST:PORT")),
        None => (text, None),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let server = Authority::parse(authority, port).map_err(|error| wrong(&error))?;
    Ok(Destination::Named(server))
}

fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let (to, ca) = (destination(&args.to)?, args.ca.as_deref());
    let registered = registered(&args.via, ca)?;
    let chains = [registered.chains(), vec![Vec::new()]].concat();
    let chains: Vec<&[DepotAddress]> = chains.iter().map(Vec::as_slice).collect();
    let alternatives = if args.send { SendOptions::alternatives() } else { Vec::new() };
    let auto = registered.auto(ca, TIMEOUT, alternatives);
    auto.prepare_blocking(&to, &chains).map_err(Failure::failed)?;
    let (candidates, decision) = auto.explain(&to, Some(args.size), &chains);
    if args.json {
        let rtts_us = |candidate: &Candidate| {
            let of_hops = candidate.hops.iter().map(|hop| (hop.rtt_s * 1e6).round() as u64);
            of_hops.collect::<Vec<_>>()
        };
        let routes: Vec<Value> = decision
            .order
            .iter()
            .map(|at| {
                let mut of = assessed(&decision.assessed[*at]);
                of["rtts_us"] = json!(rtts_us(&candidates[*at]));
                of
            })
            .collect();
        let (chosen, reason) = taken(&decision);
        print_json(&json!({
            "to": to.server().to_string(),
            "bytes": args.size.get(),
            "chosen": depots(chosen),
            "send_options": sent(chosen),
            "why": reason,
            "register": as_of(registered.register.as_of()),
            "probes": auto.probes(),
            "routes": routes,
        }));
        return Ok(());
    }
    let is_unreached = |key: &str| {
        let found = |depot: &str| depot.parse().ok().and_then(|depot| auto.found(&depot));
        depots(key).into_iter().filter_map(found).any(|found| found.rtt_s.is_none())
    };
    let probes = format!("{} probes of at most {} s\n", auto.probes(), PROBE_TIME.as_secs());
    print_text(&(explanation(&decision, args.size, is_unreached) + &probes));
    Ok(())
}

/// Source and age of a register.
fn as_of(as_of: &AsOf) -> Value {
    match as_of {
        AsOf::File => json!({ "from": "file" }),
        AsOf::Announced { at } => json!({ "from": "announcements", "unix_s": at.seconds() }),
        AsOf::Stale { at, why } => {
            let unix_s = at.map(UnixTime::seconds);
            json!({ "from": "cache", "unix_s": unix_s, "why": why })
        }
    }
}

fn explanation(decision: &Decision, size: Bytes, is_unreached: impl Fn(&str) -> bool) -> String {
    let mut table = TextTable::default();
    table.left("route", 20);
    table.right("forecast", 9);
    table.right("9 of 10", 14);
    table.right("seen", 4);
    table.left("  by", 12);
    for at in &decision.order {
        let of = &decision.assessed[*at];
        let forecast = &of.forecast;
        let mut remarks = Vec::new();
        if of.claimed_s > 0.0 {
            remarks.push(format!("busy, it claims: +{}", seconds(of.claimed_s)));
        }
        if is_unreached(&of.key) {
            remarks.push("a depot is not reached".to_owned());
        }
        if of.avoided_until_s.is_some() {
            remarks.push("failed lately".to_owned());
        }
        let range = format!("{} to {}", seconds(forecast.low_s), seconds(forecast.high_s));
        let cells = vec![
            name(&of.key),
            seconds(forecast.seconds),
            range,
            forecast.seen.to_string(),
            format!("  {}", basis(forecast.basis)),
        ];
        table.row(cells, remarks.join("; "));
    }
    let (first, reason) = taken(decision);
    format!("{}\n{} for {}: {reason}\n", table.text(), name(first), size.rounded())
}

/// The key of the first route, and why it is that.
fn taken(decision: &Decision) -> (&str, &'static str) {
    let first = decision.order[0];
    let is_chosen = first == decision.chosen.index;
    let reason = if is_chosen {
        why(decision.chosen.why)
    } else {
        "the best forecast of those that are reached"
    };
    (&decision.assessed[first].key, reason)
}

fn probe(args: &ProbeArgs) -> Result<(), Failure> {
    let ca = args.ca.as_deref();
    let registered = registered(&args.via, ca)?;
    let auto = registered.auto(ca, TIMEOUT, Vec::new());
    let depots = &registered.depots;
    let chains: Vec<&[DepotAddress]> = depots.iter().map(std::slice::from_ref).collect();
    // Where the depots lead does not matter, so the first one stands for it.
    let first = depots.first().ok_or_else(|| Failure::failed("the register has no depots"))?;
    let to = Destination::Named(first.authority.clone());
    auto.prepare_blocking(&to, &chains).map_err(Failure::failed)?;
    let found: Vec<(String, Option<Found>)> =
        depots.iter().map(|depot| (depot.to_string(), auto.found(depot))).collect();
    let is_reached =
        found.iter().any(|(_, found)| found.is_some_and(|found| found.rtt_s.is_some()));
    if args.json {
        let all: Vec<Value> = found.iter().map(|(depot, found)| {
            let rtt_us = found.and_then(|it| it.rtt_s).map(|rtt_s| (rtt_s * 1e6).round() as u64);
            let claim = found.and_then(|it| it.claim);
            json!({
                "depot": depot, "rtt_us": rtt_us, "transfers": claim.map(|claim| claim.transfers),
                "rate_bps": claim.map(|claim| claim.rate_bps as u64), "highest_rate_bps": claim.map(|claim| claim.highest_bps as u64),
            })
        }).collect();
        print_json(
            &json!({ "register": as_of(registered.register.as_of()), "depots": all, "all": registered.register.depots().len() }),
        );
    } else {
        let mut table = TextTable::default();
        table.left("depot", 20);
        table.right("round trip", 10);
        table.right("transfers", 9);
        table.right("rate", 10);
        table.right("highest", 10);
        for (depot, found) in found {
            let claim = found.and_then(|it| it.claim);
            let rate = |bps: f64| format!("{:.0} Mb/s", bps / 1e6);
            let rtt = found
                .and_then(|it| it.rtt_s)
                .map_or("-".to_owned(), |rtt_s| format!("{:.1} ms", rtt_s * 1e3));
            let remark = if found.is_none_or(|it| it.rtt_s.is_none()) {
                "not reached within 1 s"
            } else {
                ""
            };
            let of_claim =
                |text: &dyn Fn(&Claim) -> String| claim.as_ref().map_or("-".to_owned(), text);
            table.row(
                vec![
                    depot,
                    rtt,
                    of_claim(&|claim| claim.transfers.to_string()),
                    of_claim(&|claim| rate(claim.rate_bps)),
                    of_claim(&|claim| rate(claim.highest_bps)),
                ],
                remark.to_owned(),
            );
        }
        print_text(&table.text());
    }
    if is_reached { Ok(()) } else { Err(Failure::failed("no depot of the register is reached")) }
}

fn status(args: &StatusArgs) {
    let memory = Auto::new(AutoSettings::default()).memory();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    if args.json {
        let all: Vec<Value> = memory.destinations().map(|to| {
            let routes: Vec<Value> = memory.paths(to).map(|(key, path)| {
                let last_s = path.last_s().unwrap_or(now_s);
                json!({
                    "via": depots(key), "send_options": sent(key), "transfers": path.transfers(), "last_ago_s": (now_s - last_s).max(0.0).round(),
                    "forecast_s": path.known(SHOWN.get(), now_s).map(|forecast| forecast.seconds),
                    "avoided_s": (path.avoided_until_s() - now_s).max(0.0).round(),
                })
            }).collect();
            json!({ "to": to, "routes": routes })
        }).collect();
        print_json(&json!({ "forecast_bytes": SHOWN.get(), "destinations": all }));
        return;
    }
    print_text(&status_text(&memory, now_s));
}

fn status_text(memory: &Memory, now_s: f64) -> String {
    if memory.destinations().next().is_none() {
        return "no transfer with --via auto yet\n".to_owned();
    }
    let mut table = TextTable::default();
    table.left("to", 20);
    table.left("route", 20);
    table.right("transfers", 9);
    table.right("64 MiB take", 11);
    table.right("last", 8);
    for to in memory.destinations() {
        for (key, path) in memory.paths(to) {
            let forecast =
                path.known(SHOWN.get(), now_s).map_or("-".to_owned(), |it| seconds(it.seconds));
            let ago_s = path.last_s().map_or(0.0, |last_s| (now_s - last_s).max(0.0));
            let avoided_s = path.avoided_until_s() - now_s;
            let remark = if avoided_s > 0.0 {
                format!("  left alone for {}: it has failed or was slow", seconds(avoided_s))
            } else {
                String::new()
            };
            table.row(
                vec![
                    to.to_owned(),
                    name(key),
                    path.transfers().to_string(),
                    forecast,
                    format!("{} ago", seconds(ago_s)),
                ],
                remark,
            );
        }
    }
    table.text()
}

fn name(key: &str) -> String {
    let (chain, send_options) = read_key(key);
    let chain = if chain.is_empty() { "direct" } else { chain };
    let how = if send_options.is_usual() { String::new() } else { format!(" ({send_options})") };
    format!("{chain}{how}")
}

fn depots(key: &str) -> Vec<&str> {
    read_key(key).0.split(',').filter(|depot| !depot.is_empty()).collect()
}

/// How it is sent, if not as usual.
fn sent(key: &str) -> Option<String> {
    let send_options = read_key(key).1;
    (!send_options.is_usual()).then(|| send_options.to_string())
}

fn assessed(of: &Assessed) -> Value {
    let forecast = &of.forecast;
    json!({
        "via": depots(&of.key), "send_options": sent(&of.key), "forecast_s": forecast.seconds, "low_s": forecast.low_s, "high_s": forecast.high_s,
        "seen": forecast.seen, "by": basis(forecast.basis), "claimed_s": of.claimed_s, "failed_lately": of.avoided_until_s.is_some(),
    })
}

fn basis(basis: Basis) -> String {
    match basis {
        Basis::ClosedForm => "closed form".to_owned(),
        Basis::OtherSizes(by) => format!("{} of other sizes", by.name()),
        Basis::Seen(by) => by.name().to_owned(),
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::OnlyOne => "it is the only one",
        Why::Best => "the best forecast",
        Why::Chance => "near the best, by chance, so that clients spread",
        Why::InUse => "in use, and no other is better beyond noise",
        Why::Tried => "tried: it may be better than its forecast",
        Why::AllFailed => "all have failed lately, this one the longest ago",
    }
}

/// A time with three digits.
fn seconds(seconds: f64) -> String {
    match seconds {
        0.0..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..10.0 => format!("{seconds:.2} s"),
        10.0..100.0 => format!("{seconds:.1} s"),
        100.0..7200.0 => format!("{seconds:.0} s"),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_urls_and_addresses() {
        let of = |text: &str| destination(text).map(|to| to.server().to_string());
        for (text, server) in [
            ("https://data.example.org/set.tar?x#y", "data.example.org:443"),
            ("http://u:p@h:81/f", "h:81"),
            ("data.example.org:3881", "data.example.org:3881"),
            ("http://[::1]/", "[::1]:80"),
        ] {
            assert_eq!(of(text).unwrap(), server, "{text}");
        }
        for text in ["ftp://h/f", "h", "", "http://", "h:port"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
