// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul doctor`: what in this host, a program or a path costs speed.
//!
//! ```text
//! tls     TLS for https URLs
//! depots  depots that might help
//! ```

mod depots;
mod tls;

use crate::{
    failure::Failure,
    print::{print_json, print_text},
    via::OneChain,
};
use ::doctor::{
    Target,
    diagnosis::{self, Diagnosis},
    facts::{
        Facts, Host,
        path::{self, PathError, Prober, Request},
        program::{self, Which},
    },
    journal::{Journal, JournalError, Undone},
    repair::{Attempt, RepairError, repair},
    report::{self, Document},
    via::{self, Comparison},
};
use serde::Serialize;
use std::{
    net::{IpAddr, ToSocketAddrs},
    path::PathBuf,
};
use tls::Tls;
use units::{Bytes, ClassifyFailure, Duration, FailureClass, Probability, Rate};

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
    /// Server to measure the path from: the http or https URL of a large document, or a host.
    #[arg(value_name = "HOST|URL")]
    peer: Option<String>,
    /// Rate to reach, and round trip, as in 1gbit@90ms, or 1gbit/100mbit@90ms to receive and to send [default, with a
    /// server: this host's link, and the measured round trip].
    #[arg(long, value_name = "RATE[/RATE]@RTT", required_unless_present_any = ["peer", "undo"])]
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
    /// Also measure sending: PUT to this URL for at most 10 s, cut off before its end.
    #[arg(long, value_name = "URL", requires = "peer")]
    upload: Option<String>,
    /// Also predict the time of a file through these depots, the one nearest this machine first.
    #[arg(long, value_name = "[https:]HOST[:PORT],...", requires = "peer")]
    via: Option<OneChain>,
    /// With --via: size of that file.
    #[arg(long, value_name = "SIZE", default_value = "1GB", requires = "via")]
    size: Bytes,
    /// Also trust the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE", requires = "peer")]
    ca: Option<PathBuf>,
    /// Apply the fixes for receiving one at a time, measure after each, and take back what did not help. Needs a server
    /// and root.
    #[arg(long, requires = "peer")]
    fix: bool,
    /// With --fix: print what would be done, and change nothing.
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Take back all that --fix has changed since this host started. Needs root.
    #[arg(long, conflicts_with_all = ["peer", "target", "fix", "pid", "port", "via"])]
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
    let upload = args.upload.as_deref().map(Request::parse).transpose().map_err(Failure::usage)?;
    let tls = Tls::new(args.ca.clone());
    let prober = Prober::new(&tls);
    if let Some(request) = &request {
        errln!("measuring the path from {} for at most 10 s", request.host);
        facts.path = Some(prober.probe(request)?);
    }
    if let Some(request) = &upload {
        errln!("measuring the path to {} for at most 10 s", request.host);
        facts.sent = Some(path::upload(&prober, request)?);
    }
    let target = target(args, &facts);
    let diagnosis = diagnosis::diagnose(&facts, &target);
    let pending = Journal::pending();
    if pending > 0 {
        errln!(
            "{pending} changes by --fix are in force. Take them back: sudo longhaul doctor --undo"
        );
    }
    match &request {
        Some(request) if args.fix && !args.dry_run => {
            let rate = || prober.rate(request).map_err(|error| error.to_string());
            return fix(&diagnosis, &facts, rate, args.json);
        }
        _ if args.dry_run => print_plan(&diagnosis, args.json),
        _ => {
            let through = through_depots(args, request.as_ref(), &facts, &target)?;
            print_report(&diagnosis, &facts, through, args.json);
        }
    }
    Ok(())
}

/// What depots would gain, if some are named.
fn through_depots(
    args: &DoctorArgs,
    request: Option<&Request>,
    facts: &Facts,
    target: &Target,
) -> Result<Option<Comparison>, Failure> {
    let (Some(OneChain(chain)), Some(request)) = (&args.via, request) else { return Ok(None) };
    depots::compare(chain, request, (facts, target), args.size, args.ca.clone())
}

fn print_report(diagnosis: &Diagnosis, facts: &Facts, through: Option<Comparison>, json: bool) {
    if json {
        print_json(&Document::of(diagnosis, facts).with_via(through));
    } else {
        let through = through.as_ref().map(via::text).unwrap_or_default();
        print_text(&(report::text(diagnosis) + &through));
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
            loss: args.loss,
            ..Target::of(
                line.map_or(USUAL_RATE, Rate::bits_per_second),
                Duration::from_micros(rtt_us.into()),
            )
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

fn fix(
    diagnosis: &Diagnosis,
    facts: &Facts,
    rate: impl FnMut() -> Result<Rate, String>,
    json: bool,
) -> Result<(), Failure> {
    let stopped = host::stop_flag()
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let mut journal = Journal::open()?;
    let tell = |attempt: &Attempt| errln!("{}", attempt_line(attempt));
    let attempts = repair(diagnosis, facts, &mut journal, rate, &stopped, tell)?;
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
            Undone::ChangedSince => {
                outln!("has another value by now, left as it is; not run: {command}");
            }
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
