// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul wan bridge`: the emulator between two cards, until it is stopped.

use crate::{failure::Failure, print::print_json, progress::line};
use ::wan::{
    LinkStatus,
    bridge::{Bridge, Options, Status},
};
use indicatif::MultiProgress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{os::unix::net::UnixStream, path::PathBuf, str::FromStr, time::Instant};
use units::Duration;

pub const EXAMPLES: &str = "\
Examples:
  sudo longhaul wan bridge eth1 eth2 --scenario path.toml
  sudo longhaul wan bridge eth1 eth2 --scenario scenarios/demo.toml --variant direct --duration 60s --json";

#[derive(clap::Args)]
pub struct BridgeArgs {
    /// Card at the path's first end, as `ip link` names it.
    first: String,
    /// Card at the path's other end.
    second: String,
    /// Scenario file (TOML) with the path.
    #[arg(long, value_name = "FILE")]
    scenario: PathBuf,
    /// Use the first run of this variant [default: the first run].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Change a key of the scenario, as in `--set vars.rtt=20ms`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Nodes of the scenario that the cards are at [default: the two nodes that a single link leads to].
    #[arg(long, value_name = "NODE,NODE")]
    between: Option<Ends>,
    /// End after this time [default: at Ctrl-C or SIGTERM].
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Use cards that this host has addresses on. It is cut off from them until the bridge ends.
    #[arg(long)]
    take_over: bool,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

/// The nodes at the two ends of the path.
#[derive(Debug, Clone)]
struct Ends([String; 2]);

impl FromStr for Ends {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nodes: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let nodes: Result<[String; 2], _> = nodes.try_into();
        let named = nodes.ok().filter(|nodes| nodes.iter().all(|name| !name.is_empty()));
        named.map(Self).ok_or_else(|| "two nodes are needed, as in client,server".to_owned())
    }
}

pub fn run(args: BridgeArgs) -> Result<(), Failure> {
    let stopped = host::stop_socket()
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let run = super::first_run(&args.scenario, args.variant.as_deref(), &args.set)?;
    let options = Options {
        cards: [args.first, args.second],
        between: args.between.map(|Ends(nodes)| nodes),
        take_over: args.take_over,
    };
    let bridge = Bridge::open(&run, &options)?;
    for notice in bridge.notices() {
        errln!("note: {notice}");
    }
    let ([first, second], [a, b]) = (&options.cards, bridge.ends());
    errln!(
        "the bridge is up: {first} is at {a}, {second} at {b}. This host is cut off from both. End it with Ctrl-C"
    );
    let status = watch(&bridge, &stopped, args.duration);
    drop(bridge);
    if args.json {
        print_json(&status);
    } else {
        print_status(&status);
    }
    if status.faults.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "what was measured over this bridge is not valid: {}",
        status.faults.join("; ")
    )))
}

/// Shows statistics once a second until a signal, the end of the time or the loss of a card; answers the last ones.
fn watch(bridge: &Bridge, stopped: &UnixStream, duration: Option<Duration>) -> Status {
    const INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);
    let started = Instant::now();
    let terminal = MultiProgress::new();
    let mut before = bridge.status();
    let lines: Vec<_> = before.links.iter().map(|_| terminal.add(line())).collect();
    loop {
        let left =
            duration.map(|all| std::time::Duration::from(all).saturating_sub(started.elapsed()));
        let wait = left.map_or(INTERVAL, |left| left.min(INTERVAL));
        let timeout = Timespec::try_from(wait).expect("a second at most");
        let mut sources = [PollFd::new(stopped, PollFlags::IN)];
        let signalled = poll(&mut sources, Some(&timeout)).is_ok_and(|ready| ready > 0);
        let status = bridge.status();
        let is_over = left.is_some_and(|left| left <= wait);
        if signalled || is_over || status.emulator.devices_lost > 0 {
            lines.iter().for_each(indicatif::ProgressBar::finish_and_clear);
            return status;
        }
        for (line, text) in lines.iter().zip(last_second(&before, &status)) {
            line.set_message(text);
        }
        before = status;
    }
}

/// The last second of each directed link: its rate, and the packets that it dropped or lost.
fn last_second(before: &Status, status: &Status) -> Vec<String> {
    let seconds = (status.up_s - before.up_s).max(f64::MIN_POSITIVE);
    let gone = |link: &LinkStatus| link.queue_drops + link.losses + link.too_long;
    let verdict = if status.faults.is_empty() { "" } else { ", INVALID" };
    let text = |(now, before): (&LinkStatus, &LinkStatus)| {
        let rate = (now.carried_bytes - before.carried_bytes) as f64 * 8.0 / seconds;
        let (rate, gone) = (::report::format::rate(rate), gone(now) - gone(before));
        format!("{:.0} s: {} {rate}, {gone} dropped or lost{verdict}", status.up_s, now.name)
    };
    status.links.iter().zip(&before.links).map(text).collect()
}

fn print_status(status: &Status) {
    outln!("{}, up {:.0} s", status.title, status.up_s);
    outln!("  {:<16} {:<12} {:>6} {:>10} {:>10}", "card", "node", "MTU", "too long", "dropped");
    for card in &status.cards {
        outln!(
            "  {:<16} {:<12} {:>6} {:>10} {:>10}",
            card.name,
            card.node,
            card.mtu,
            card.too_long,
            card.dropped
        );
    }
    super::print_links(&status.links);
    super::print_health(&status.emulator, &status.faults);
}
