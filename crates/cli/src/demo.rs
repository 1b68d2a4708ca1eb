// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul demo`: compares downloads with and without depots over an emulated path, and writes a page.

use crate::{failure::Failure, print::print_json, results_table, runs};
use record::results::{DemoResults, FlowResult, flow_medians};
use scenario::Scenario;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Probability, Rate};

const SCENARIO: &str = include_str!("../../../scenarios/demo.toml");

const EXAMPLES: &str = "\
Examples:
  sudo longhaul demo
  sudo longhaul demo --size 20MB --rtt 150ms --loss 0.1% --repeat 5 --out out/demo-lossy";

/// Download files over an emulated long fat path, direct and through depots, and compare them. Needs root.
///
/// A real nginx serves random bytes of 1, 10 and 100 MB. Stock curl downloads them directly, with CUBIC and with BBR
/// at the server. It also downloads them through two depots with BBR between them, over new and over warm
/// connections, and from a site of the nearer depot. aria2 downloads them over 16 connections.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Size of the only file, instead of three files [default: 1MB, 10MB and 100MB].
    #[arg(long)]
    size: Option<Bytes>,
    /// Rate of every link, as in 500mbit [default: 1gbit].
    #[arg(long)]
    rate: Option<Rate>,
    /// Round trip from end to end, with 12 ms of it between the ends and their depots [default: 90ms].
    #[arg(long)]
    rtt: Option<Duration>,
    /// Packet loss on the long haul, in each direction [default: 0.02%].
    #[arg(long)]
    loss: Option<Probability>,
    /// One-way delay between an end and its depot [default: 3ms].
    #[arg(long)]
    access: Option<Duration>,
    /// Time limit of one download. One that reaches it is reported as cut off [default: 11s].
    #[arg(long)]
    timeout: Option<Duration>,
    /// Repeat each variant's downloads N times [default: 3].
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Client of all variants except aria2's: curl or wget [default: curl].
    #[arg(long)]
    client: Option<String>,
    /// Directory for the records and the page [default: out/demo-SECONDS, seconds since 1970].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let mut set = Vec::new();
    let mut change = |key: &str, value: Option<String>| {
        set.extend(value.map(|value| format!("{key}={value}")));
    };
    change("vars.size", args.size.map(|v| v.to_string()));
    change("vars.rate", args.rate.map(|v| v.to_string()));
    change("vars.rtt", args.rtt.map(|v| v.to_string()));
    change("vars.loss", args.loss.map(|v| v.to_string()));
    change("vars.access", args.access.map(|v| v.to_string()));
    change("timeout", args.timeout.map(|v| v.to_string()));
    change("repeat", args.repeat.map(|v| v.to_string()));
    change("vars.client", args.client.clone());
    let scenario = Scenario::parse(SCENARIO, "demo", &set).map_err(Failure::usage)?;
    let out = args.out.clone().unwrap_or_else(default_out);
    let records = runs::run_all(&scenario.runs, &runs::emulation()?, &runs::options(&out)?)?;
    let runs = FlowResult::of_all(&records);
    let medians = flow_medians(&runs, scenario.baseline.as_deref());
    let report = runs::write_report(&out)?;
    let link_bps = scenario.runs[0].links[0].forward.rate.map_or(0, Rate::bps);
    let results = DemoResults { runs, medians, link_bps, report };
    if args.json {
        print_json(&results);
    } else {
        results_table::print_flows(&results.medians);
        outln!("\nwhy: open {}", results.report.display());
    }
    let included = results.medians.iter().map(|cell| (cell.variant.as_deref(), cell.runs));
    runs::check(&results.runs, included)
}

fn default_out() -> PathBuf {
    let now = std::time::SystemTime::now();
    let seconds = now.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Path::new("out").join(format!("demo-{seconds}"))
}
