// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul doctor`: what in this host, a program or a path costs speed.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::doctor::{
    Target,
    diagnosis::{self, Diagnosis},
    facts::{
        Facts, Host,
        path::{self, PathError, Request},
        program::{self, Which},
    },
    journal::{Journal, JournalError, Undone},
    repair::{Attempt, RepairError, repair},
    report::{self, Document},
};
use serde::Serialize;
use std::net::{IpAddr, ToSocketAddrs};
use units::{ClassifyFailure, Duration, FailureClass, Probability, Rate};

const EXAMPLES: &str = "\
Examples:
  longhaul doctor --target 1gbit@90ms
  sudo longhaul doctor http://files.example.org/large.tar --target 1gbit@90ms --fix";

/// Find what keeps transfers below a target, with evidence, predicted gain, and the commands that fix it and undo that.
///
/// Looks at this host's settings, device and route; with a server, also at a download of at most 10 s and 1 GB from it.
/// Without a server, nothing is sent. Nothing is changed without `--fix`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub struct DoctorArgs {
    /// Server to measure the path from: the http URL of a large document, or a host.
    #[arg(value_name = "HOST|URL")]
    peer: Option<String>,
    /// Rate to reach, and round trip, as in 1gbit@90ms [default, with a server: this host's link, and the measured round
    /// trip].
    #[arg(long, value_name = "RATE@RTT", required_unless_present_any = ["peer", "undo"])]
    target: Option<Target>,
    /// Share of packets that the path loses, where it is not measured.
    #[arg(long, value_name = "SHARE", default_value = ::doctor::ASSUMED_LOSS)]
    loss: Probability,
    /// Also look at the connections of this process.
    #[arg(long, value_name = "PID", conflicts_with = "port")]
    pid: Option<u32>,
    /// Also look at connections from or to this port, and at their programs.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Apply the fixes for receiving one at a time, measure after each, and take back what did not help. Needs a server
    /// and root.
    #[arg(long, requires = "peer")]
    fix: bool,
    /// With --fix: print what would be done, and change nothing.
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Take back all that --fix has changed since this host started. Needs root.
    #[arg(long, conflicts_with_all = ["peer", "target", "fix", "pid", "port"])]
    undo: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    if args.undo {
        return undo(args.json);
    }
    let request = args.peer.as_deref().map(Request::parse).transpose().map_err(Failure::usage)?;
    let mut facts =
        Facts { host: Host::gather(request.as_ref().and_then(address)), ..Facts::default() };
    facts.sockets = sockets(args)?;
    if let Some(request) = &request {
        errln!("measuring the path from {} for at most 10 s", request.host);
        facts.path = Some(path::probe(request)?);
    }
    let target = target(args, &facts);
    let diagnosis = diagnosis::diagnose(&facts, &target);
    let pending = Journal::pending();
    if pending > 0 {
        errln!(
            "{pending} changes by --fix are in force. Take them back: sudo longhaul doctor --undo"
        );
    }
    match request {
        Some(request) if args.fix && !args.dry_run => fix(&diagnosis, &facts, &request, args.json),
        _ if args.dry_run => {
            print_plan(&diagnosis, args.json);
            Ok(())
        }
        _ if args.json => {
            print_json(&Document::of(&diagnosis, &facts));
            Ok(())
        }
        _ => {
            print_text(&report::text(&diagnosis));
            Ok(())
        }
    }
}

/// The server's address, for the route to it.
fn address(request: &Request) -> Option<IpAddr> {
    let mut found = (request.host.as_str(), request.port).to_socket_addrs().ok()?;
    found.next().map(|address| address.ip())
}

fn sockets(args: &DoctorArgs) -> Result<Vec<program::Socket>, Failure> {
    let which = match (args.pid, args.port) {
        (Some(pid), _) => Which::Process(pid),
        (_, Some(port)) => Which::Port(port),
        _ => return Ok(Vec::new()),
    };
    let failed =
        |error| Failure::failed(format!("cannot look at the program's connections: {error}"));
    let found = program::gather(which).map_err(failed)?;
    if found.is_empty() {
        errln!("the program has no TCP connection that this user may look at");
    }
    Ok(found)
}

/// The target that was given, or else this host's link over the measured round trip.
fn target(args: &DoctorArgs, facts: &Facts) -> Target {
    /// The rate of a link that does not tell it.
    const USUAL_RATE: Rate = Rate::bits_per_second(1_000_000_000);
    let measured = || {
        let line = facts.host.device.as_ref().and_then(|device| device.line_rate_bps);
        let rtt_us = facts.path.as_ref().map_or(1, |path| path.handshake_rtt_us.max(1));
        Target {
            rate: line.map_or(USUAL_RATE, Rate::bits_per_second),
            round_trip: Duration::from_micros(rtt_us.into()),
            loss: args.loss,
        }
    };
    args.target.map_or_else(measured, |target| Target { loss: args.loss, ..target })
}

/// A remedy that `--fix` would try.
#[derive(Serialize)]
struct Planned {
    id: &'static str,
    commands: Vec<String>,
    undo: Vec<String>,
}

fn print_plan(diagnosis: &Diagnosis, json: bool) {
    let tried =
        diagnosis.findings.iter().filter(|ranked| ::doctor::repair::is_tried(&ranked.finding));
    let plan: Vec<Planned> = tried
        .map(|ranked| Planned {
            id: ranked.finding.id,
            commands: report::fix(ranked),
            undo: report::undo(ranked),
        })
        .collect();
    if json {
        print_json(&plan);
        return;
    }
    for planned in &plan {
        for command in &planned.commands {
            outln!("{}: {command}", planned.id);
        }
        for command in &planned.undo {
            outln!("  undo: {command}");
        }
    }
    if plan.is_empty() {
        outln!("nothing to fix for what this host receives");
    }
}

fn fix(diagnosis: &Diagnosis, facts: &Facts, request: &Request, json: bool) -> Result<(), Failure> {
    let stopped = host::stop_flag()
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let mut journal = Journal::open()?;
    let measure = || path::measure_rate(request).map_err(|error| error.to_string());
    let tell = |attempt: &Attempt| errln!("{}", attempt_line(attempt));
    let attempts = repair(diagnosis, facts, &mut journal, measure, &stopped, tell)?;
    if json {
        print_json(&attempts);
        return Ok(());
    }
    for attempt in attempts.iter().filter(|attempt| attempt.kept) {
        outln!("{}", attempt_line(attempt));
    }
    match attempts.iter().filter(|attempt| attempt.kept).count() {
        0 => outln!("nothing helped; this host is as before"),
        _ => outln!("take it back: sudo longhaul doctor --undo"),
    }
    Ok(())
}

fn attempt_line(attempt: &Attempt) -> String {
    let Attempt { id, commands, before_bps, after_bps, kept, error } = attempt;
    let commands = commands.join("; ");
    let megabits = |bps: u64| report::megabits(Rate::bits_per_second(bps));
    match (error, after_bps) {
        (Some(error), _) => format!("{id}: not tried: {error}"),
        (None, Some(after)) => {
            let what = if *kept { "kept" } else { "taken back" };
            format!("{id}: {} -> {}, {what}: {commands}", megabits(*before_bps), megabits(*after))
        }
        (None, None) => format!("{id}: not measured: {commands}"),
    }
}

/// A change that was taken back.
#[derive(Serialize)]
struct TakenBack {
    command: String,
    outcome: Undone,
}

fn undo(json: bool) -> Result<(), Failure> {
    let mut journal = Journal::open()?;
    let mut taken_back = Vec::new();
    while let Some((entry, outcome)) = journal.undo_last()? {
        taken_back.push(TakenBack { command: entry.undo.command(), outcome });
    }
    if json {
        print_json(&taken_back);
        return Ok(());
    }
    for TakenBack { command, outcome } in &taken_back {
        match outcome {
            Undone::Restored => outln!("{command}"),
            Undone::AsBefore => outln!("as before already: {command}"),
            Undone::ChangedSince => outln!("changed by somebody since, left as it is: {command}"),
        }
    }
    if taken_back.is_empty() {
        outln!("nothing to take back");
    }
    Ok(())
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::failed(error)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::new(error.failure_class(), error)
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Journal(error) => error.into(),
            error => Self::new(FailureClass::Failed, error),
        }
    }
}
