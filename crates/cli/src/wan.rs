// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul wan`.

#![expect(
    unsafe_code,
    reason = "only this program knows that it has no second thread before it forks"
)]

mod bridge;

use crate::{failure::Failure, print::print_json};
use ::wan::{
    Health, LinkStatus, Report,
    background::{self, NetworkName},
};
use experiment::ExperimentError;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use units::Rate;

const UP_EXAMPLES: &str = "\
Examples:
  sudo longhaul wan up scenarios/demo.toml --variant direct
  sudo longhaul wan up scenarios/demo.toml --set vars.rtt=20ms --name lab";
const EXEC_EXAMPLES: &str = "\
Examples:
  sudo longhaul wan exec client -- ping -c 3 server
  sudo longhaul wan exec --name lab client -- curl -O http://server/set.tar";
const STATUS_EXAMPLES: &str = "\
Examples:
  sudo longhaul wan status
  sudo longhaul wan status --name lab --json";
const DOWN_EXAMPLES: &str = "\
Examples:
  sudo longhaul wan down
  sudo longhaul wan down --name lab";
const CHECK_EXAMPLES: &str = "\
Examples:
  sudo longhaul wan check
  sudo longhaul wan check --json > wan-check.json";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Start the nodes and links of a scenario's first run, and leave them up. Needs root.
    #[command(after_help = UP_EXAMPLES)]
    Up {
        /// Scenario file (TOML).
        file: PathBuf,
        /// Use the first run of this variant [default: the first run].
        #[arg(long, value_name = "NAME")]
        variant: Option<String>,
        /// Change a key of the scenario, as in `--set vars.rtt=20ms`. May be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        #[command(flatten)]
        name: NetworkArg,
    },
    /// Run a command on a node. Needs root.
    #[command(after_help = EXEC_EXAMPLES)]
    Exec {
        #[command(flatten)]
        name: NetworkArg,
        /// Name of the node, as `wan status` prints it.
        node: String,
        /// Command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Show nodes, link counters and emulator health. Needs root.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        #[command(flatten)]
        name: NetworkArg,
        /// Print one JSON document instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Stop a network, and print its counters. Needs root.
    #[command(after_help = DOWN_EXAMPLES)]
    Down {
        #[command(flatten)]
        name: NetworkArg,
    },
    /// Connect two network cards by a scenario's path, so that real machines talk over it. Needs root.
    #[command(after_help = bridge::EXAMPLES)]
    Bridge(bridge::BridgeArgs),
    /// Measure the emulator's accuracy on this machine: rate, round trip, loss, queue limit. Needs root.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Print one JSON document instead of tables.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct NetworkArg {
    /// Name of the network, if several are up.
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: NetworkName,
}

impl std::fmt::Display for NetworkArg {
    /// The `--name` argument, or nothing for the default network.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_default = self.name.to_string() == "default";
        if is_default { Ok(()) } else { write!(f, " --name {}", self.name) }
    }
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up { file, variant, set, name } => up(&file, variant.as_deref(), &set, &name.name),
        Command::Exec { name, node, command } => {
            Err(background::exec(&name.name, &node, &command[0], &command[1..]).into())
        }
        Command::Status { name, json } => {
            let status = background::status_of(&name.name)?;
            if json {
                print_json(&status);
            } else {
                print_status(&status);
            }
            Ok(())
        }
        Command::Down { name } => {
            let status = background::down(&name.name)?;
            print_status(&status);
            Ok(())
        }
        Command::Bridge(args) => bridge::run(args),
        Command::Check { json } => check(json),
    }
}

/// The first run of a scenario, or of one of its variants.
fn first_run(file: &Path, variant: Option<&str>, set: &[String]) -> Result<scenario::Run, Failure> {
    let scenario = scenario::load(file, set).map_err(Failure::usage)?;
    let mut runs = scenario.runs.iter();
    let wanted = |run: &&scenario::Run| {
        variant
            .is_none_or(|variant| run.variant.as_ref().is_some_and(|of_run| of_run.name == variant))
    };
    let run = runs
        .find(wanted)
        .ok_or_else(|| Failure::usage(scenario.unknown_variant(variant.unwrap_or_default())))?;
    if scenario.runs.len() > 1 {
        errln!("using the first of {} runs: {}", scenario.runs.len(), run.id);
    }
    Ok(run.clone())
}

fn up(
    file: &Path,
    variant: Option<&str>,
    set: &[String],
    name: &NetworkName,
) -> Result<(), Failure> {
    let run = &first_run(file, variant, set)?;
    lab::check_emulated_network(run)?;
    // The background process inherits the handles that keep these loaded.
    let controls = lab::LoadedControls::provide(run).map_err(ExperimentError::from)?;
    controls.require_inherited().map_err(ExperimentError::from)?;
    // SAFETY: no thread that was started before this is left.
    unsafe { background::up(name, run) }?;
    for node in &run.nodes {
        outln!("{}", node.name);
    }
    let named = NetworkArg { name: name.clone() };
    errln!("the network is up. Try: longhaul wan exec{named} {} -- ip address", run.nodes[0].name);
    Ok(())
}

fn print_status(status: &background::Status) {
    outln!("{} ({}), up {:.0} s, process {}", status.title, status.name, status.up_s, status.pid);
    for node in &status.nodes {
        outln!("  {:<12} {:<12} {}", node.name, node.ipv4, node.ipv6);
    }
    print_links(&status.links);
    print_health(&status.emulator, &status.faults);
}

fn print_links(links: &[LinkStatus]) {
    outln!(
        "  {:<28} {:>12} {:>12} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "link",
        "offered",
        "delivered",
        "drops",
        "early",
        "marks",
        "losses",
        "waiting B"
    );
    for link in links {
        outln!(
            "  {:<28} {:>12} {:>12} {:>8} {:>8} {:>8} {:>8} {:>12}",
            link.name,
            link.offered,
            link.delivered,
            link.queue_drops,
            link.early_drops,
            link.marks,
            link.losses,
            link.queue_bytes
        );
    }
}

fn print_health(health: &Health, faults: &[String]) {
    outln!(
        "  emulator: {} frames, late by {:.0} us (median), {:.0} us (99 %), {:.0} us (worst)",
        health.deliveries,
        health.lateness_p50_us,
        health.lateness_p99_us,
        health.lateness_max_us
    );
    for fault in faults {
        outln!("  INVALID: {fault}");
    }
}

fn check(json: bool) -> Result<(), Failure> {
    let report = ::wan::check(|what| errln!("measuring: {what}"))?;
    if json {
        print_json(&report);
    } else {
        print_check(&report);
    }
    if report.ok {
        Ok(())
    } else {
        Err(Failure::failed(
            "the emulator is not within all limits on this machine at present. End other programs and \
             repeat: longhaul wan check",
        ))
    }
}

fn print_check(report: &Report) {
    let verdict = |ok| if ok { "ok" } else { "NOT WITHIN LIMIT" };
    let mbps = |bps: f64| format!("{:.1} Mb/s", bps / 1e6);
    outln!("rate, by TCP at 1500 bytes\n  links  given     measured       error     limit");
    for row in &report.rate {
        outln!(
            "  {:<6} {:<9} {:<12} {:>7.2} %  {:>5} %  {}",
            row.links,
            Rate::bits_per_second(row.rate_bps).to_string(),
            mbps(row.measured_bps),
            row.error_percent,
            row.limit_percent,
            verdict(row.ok)
        );
        print_faults(&row.emulator);
    }
    outln!(
        "round trip over links of 10 ms each way, in us over the configured\n  \
         links  rate      load     median (limit)   99 % (limit)    worst  answered"
    );
    for row in &report.round_trip {
        outln!(
            "  {:<6} {:<9} {:>4.0} %  {:>7.0} ({:.0})  {:>7.0} ({:.0})  {:>7.0}  {:<10} {}",
            row.links,
            Rate::bits_per_second(row.rate_bps).to_string(),
            row.load_percent,
            row.median_over_us,
            row.median_limit_us,
            row.p99_over_us,
            row.p99_limit_us,
            row.max_over_us,
            format!("{}/{}", row.samples, row.probes),
            verdict(row.ok)
        );
        print_faults(&row.emulator);
    }
    outln!(
        "loss of single packets\n  \
         traffic       given     sent     lost   99.99 % interval   counted  seed"
    );
    for row in &report.loss {
        outln!(
            "  {:<13} {:<9} {:<8} {:<6} {:>6} to {:<6}   {:>7}  {:<17} {}",
            row.traffic,
            format!("{} %", row.probability * 100.0),
            row.sent,
            row.lost,
            row.interval[0],
            row.interval[1],
            row.counted,
            row.seed,
            verdict(row.ok)
        );
        print_faults(&row.emulator);
    }
    outln!("queue, a burst into 10 Mb/s\n  limit     sent   arrived  dropped  most waiting");
    for row in &report.queue {
        outln!(
            "  {:<9} {:<6} {:<8} {:<8} {:<12}  {}",
            row.limit,
            row.sent,
            row.arrived,
            row.dropped,
            row.most_waiting,
            verdict(row.ok)
        );
        print_faults(&row.emulator);
    }
    outln!("impairments\n  of a link                        measured  bounds");
    for row in &report.impairments {
        outln!(
            "  {:<32} {:>8.2}  {:<22} {:<10} {}",
            row.impairment,
            row.measured,
            format!("{:.2} to {:.2}", row.interval[0], row.interval[1]),
            row.unit,
            verdict(row.ok)
        );
        print_faults(&row.emulator);
    }
}

fn print_faults(emulator: &Health) {
    for fault in emulator.faults() {
        outln!("         {fault}");
    }
}
